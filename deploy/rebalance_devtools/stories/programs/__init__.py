"""Consumer programs of stories, each run as a separate process: takes a spec as JSON, writes one JSON line per event.

They may run with another version of a client library than the monitor's, so they import only `event_log` from the
monitor (and the reporters, if `metrics_topic` is set).
"""
