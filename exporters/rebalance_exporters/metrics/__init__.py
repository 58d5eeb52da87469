"""Prometheus: the tables of series, and their exposition as bytes of `/metrics`. Nothing here knows HTTP."""
