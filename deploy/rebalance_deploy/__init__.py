"""The command line, the embedded broker, the pinned jars and the demo.

This package starts things; it knows nothing of the log format or of Prometheus.
"""

__version__ = "0.1.0"
