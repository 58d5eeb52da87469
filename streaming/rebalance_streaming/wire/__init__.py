"""Bytes to typed records: knows the formats of `__consumer_offsets`, nothing of groups, Kafka clients or Spark."""
