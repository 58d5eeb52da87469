"""Real Kafka and ZooKeeper servers on this machine, for the demo, stories, benchmarks and tests."""

DEFAULT_VERSION = "4.3.1"
#: Versions of Kafka whose jars are pinned.
VERSIONS = (DEFAULT_VERSION, "3.9.2")
