"""Serve what the stream found: /metrics for Prometheus, health pages and, for people, the API."""
