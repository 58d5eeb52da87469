"""Prometheus: the tables of metrics, and their rendering as the body of `/metrics`. Does not depend on HTTP."""
