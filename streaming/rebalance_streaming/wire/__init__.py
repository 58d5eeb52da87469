"""Decodes bytes to typed records of `__consumer_offsets`; independent of groups, Kafka clients and Spark."""
