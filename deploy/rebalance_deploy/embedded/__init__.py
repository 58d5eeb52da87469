"""Real Kafka and ZooKeeper servers on this machine, for the demo, stories, benchmarks and tests."""
