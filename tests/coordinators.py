"""What coordinators hold, asked with kafka-python: the call of confluent-kafka 2.16 can end the test process."""

from __future__ import annotations

from kafka import KafkaAdminClient


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group by topic and partition."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        found = admin.list_group_offsets({group: None})[group]
    return {(place.topic, place.partition): each.offset for place, each in found.items()}
