"""One table of client properties for every Kafka client that the processes use: librdkafka, Java, kafka-python."""
