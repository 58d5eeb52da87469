"""The demo: a real Kafka, a real workload with healthy groups and a sick one, and the monitor."""
