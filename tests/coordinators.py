"""Reads and commits group offsets; a call of confluent-kafka 2.16 for this can crash the process."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka import KafkaAdminClient

from waiting import wait_for

#: Errors while a coordinator loads its partition, or the broker creates the offsets topic.
_NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group by topic and partition."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        found = admin.list_group_offsets({group: None})[group]
    return {(place.topic, place.partition): each.offset for place, each in found.items()}


def commit_offsets(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets for a group without members, by topic and partition, as soon as its coordinator accepts it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})

    def is_taken() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(*place, at) for place, at in offsets.items()], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET:
                raise
            return False
        return True

    wait_for(is_taken, "the coordinator to take a commit")
    consumer.close()
