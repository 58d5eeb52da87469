"""Topics on a real broker."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from waiting import wait_for


def create_topic(bootstrap: str, name: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic; the broker tells of it when this returns, which it does a moment after confirming it."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
    wait_for(lambda: name in admin.list_topics(timeout=30).topics, f"the broker to tell of {name}")
