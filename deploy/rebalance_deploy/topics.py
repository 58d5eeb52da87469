"""Topics of clusters that the demo, the stories, benchmarks and tests start for themselves."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_CREATED_SECONDS = 30


def create_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Create topics of one replica, given as name and number of partitions, and wait until all are there.

    Raises KafkaException for one that cannot be created.
    """
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
    for future in admin.create_topics(topics).values():
        future.result(_CREATED_SECONDS)
