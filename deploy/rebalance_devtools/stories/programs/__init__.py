"""Consumers as stories run them, each a process of its own: a spec as JSON in, one JSON line per event out.

They are started with another client library on their path than the monitor's own, so they import nothing of the
monitor but the few lines of `event_log`.
"""
