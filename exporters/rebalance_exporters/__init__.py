"""Serves the results of the stream: /metrics for Prometheus, health pages, the API and a live page."""
