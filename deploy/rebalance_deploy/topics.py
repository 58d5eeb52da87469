"""Creates topics in clusters started by the demo, the stories, benchmarks and tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_ASK_AGAIN_SECONDS = 0.05
_CREATED_SECONDS = 120
#: Longer than brokers take to register again after their session.
_REGISTERED_SECONDS = 30


def create_topics(bootstrap: str, partitions: Mapping[str, int], *, replicas: int = 1, **settings: str) -> None:
    """Create topics, given as name and number of partitions, and wait until all of them can be written.

    `replicas` is the replication factor; `settings` are topic configurations under Kafka's names. A broker confirms a
    topic a moment before it lists it with its leaders, and a controller that was paused for longer than the brokers'
    sessions has no broker for a moment. Raises KafkaException for a topic that cannot be created, TimeoutError if the
    broker does not list all within two minutes.
    """
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [NewTopic(name, count, replicas, config=settings) for name, count in partitions.items()]
    ends, pause = time.monotonic() + _REGISTERED_SECONDS, threading.Event()
    while topics := _create(admin, topics, is_last=time.monotonic() > ends):
        pause.wait(_ASK_AGAIN_SECONDS)
    ends = time.monotonic() + _CREATED_SECONDS
    while not _are_led(admin, partitions):
        if time.monotonic() > ends:
            raise TimeoutError(f"{bootstrap} confirmed topics and does not list them: {', '.join(partitions)}")
        pause.wait(_ASK_AGAIN_SECONDS)


def _create(admin: AdminClient, topics: list[NewTopic], *, is_last: bool) -> list[NewTopic]:
    """Create topics; return those for which too few brokers were registered, or raise for them if it `is_last`."""
    refused = []
    for name, future in admin.create_topics(topics).items():
        try:
            future.result(_CREATED_SECONDS)
        except KafkaException as error:
            if is_last or error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            refused += [topic for topic in topics if topic.topic == name]
    return refused


def _are_led(admin: AdminClient, partitions: Mapping[str, int]) -> bool:
    """Return whether the broker lists all these topics with all their partitions, each with a leader."""
    known = admin.list_topics(timeout=_CREATED_SECONDS).topics
    return all(
        name in known and sum(each.leader >= 0 for each in known[name].partitions.values()) == count
        for name, count in partitions.items()
    )
