"""The Kafka clients of the exporter: it reads the stream's topics and writes one of them, that of silences."""
