"""Real Kafka and ZooKeeper servers on this machine, for the demo, stories, benchmarks and tests."""

DEFAULT_VERSION = "4.3.1"
#: Of the brokers whose jars are pinned.
VERSIONS = (DEFAULT_VERSION, "3.9.2")
