"""The command line, settings, process supervision, the pinned jars, the embedded Kafka and the demo.

This package starts the other components; it does not depend on the log format or on Prometheus.
"""

__version__ = "0.2.0"
