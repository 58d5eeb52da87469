"""The command line, settings, supervision of processes, the pinned jars, the embedded Kafka and the demo.

This package starts things; it knows nothing of the log format or of Prometheus.
"""

__version__ = "0.1.0"
