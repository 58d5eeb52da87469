"""Brokers that temporarily reject all rows: the rows published until then arrive eventually."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorized import AUTHORIZED
from making_topics import create_topic
from rebalance_kafka.follower import read_to_end
from rebalance_streaming.brokers.cluster import QUIET
from rebalance_streaming.brokers.publisher import Publisher
from waiting import wait_for

pytestmark = pytest.mark.broker

TOPIC, CLUSTER = (ResourceType.TOPIC, "*"), (ResourceType.BROKER, "kafka-cluster")
PLACES, LITERAL, DENY = (TOPIC, CLUSTER), ResourcePatternType.LITERAL, AclPermissionType.DENY


class Permissions:
    """The permissions of clients on topics and cluster: everything except what was taken."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        for place in PLACES:
            self._set(place, AclOperation.ALL, AclPermissionType.ALLOW)

    def take(self, place: tuple[ResourceType, str], operation: AclOperation) -> None:
        """Deny an operation."""
        self._set(place, operation, DENY)

    def give_back(self) -> None:
        """Remove all denials."""
        denials = (AclBindingFilter(kind, name, LITERAL, None, None, AclOperation.ANY, DENY) for kind, name in PLACES)
        for future in self._admin.delete_acls(list(denials)).values():
            future.result(60)

    def _set(self, place: tuple[ResourceType, str], operation: AclOperation, permission: AclPermissionType) -> None:
        binding = AclBinding(*place, LITERAL, "User:ANONYMOUS", "*", operation, permission)
        for future in self._admin.create_acls([binding]).values():
            future.result(60)


def test_rows_arrive_once_they_may_be_written(make_broker):
    """Without any write permission a client is in a fatal state; without that of a topic, its rows are rejected."""
    broker = make_broker(**AUTHORIZED)
    kafka, said = {"bootstrap.servers": broker.bootstrap}, list[str]()
    permissions = Permissions(broker.bootstrap)
    permissions.take(TOPIC, AclOperation.WRITE)
    permissions.take(CLUSTER, AclOperation.IDEMPOTENT_WRITE)
    # Brokers learn of it after the denials, which are enforced by then.
    create_topic(broker.bootstrap, "a")
    publisher = Publisher({**kafka, **QUIET}, said.append)

    def fails(key: str, sentence: str) -> bool:
        publisher.put("a", key, b"1")
        publisher.flush(1)
        return any(sentence in line for line in said)

    def arrived() -> set[bytes | None]:
        permissions.give_back()
        wait_for(lambda: publisher.flush(1) == 0, lambda: said)
        return {each.key for each in read_to_end(kafka, ["a"], name="test")}

    wait_for(lambda: fails("k", "cannot go on, and another is made"), lambda: said)
    assert arrived() == {b"k"}
    permissions.take(TOPIC, AclOperation.WRITE)
    wait_for(lambda: fails("l", "rows of a are refused, and sent again later"), lambda: said)
    assert arrived() == {b"k", b"l"}
