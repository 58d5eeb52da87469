"""A real Kafka with a real workload, healthy groups and a sick one, and the monitor watching it."""
