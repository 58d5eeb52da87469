"""The stream's topics as the exporter reads them, and the one that it writes: what needs a Kafka client is here."""
