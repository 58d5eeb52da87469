"""What coordinators hold as committed: asked once per group at the start and now and then, for readers that came late.

A group that commits is followed by its commits; one that has not committed for long, the one worth looking at, is known
only to its coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from rebalance_exporters.prober.brokers import REQUEST_SECONDS
from rebalance_exporters.prober.publish import Offsets

#: A group is asked about again after this long: often enough for a reader that looks back a quarter of an hour.
AGAIN_SECONDS = 600.0
#: Groups asked about in one round, side by side.
_AT_ONCE = 200


@dataclass(slots=True)
class CommittedRound:
    """What one round found, by group; `errors` are sentences for people."""

    offsets: dict[str, Offsets] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class CommittedAsker:
    """Asks for the committed offsets of groups, a few in each round."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._asked: dict[str, float] = {}

    def ask(self, groups: Iterable[str], now: float) -> CommittedRound:
        """Ask about those of the groups whose turn it is; `now` in seconds of a steady clock."""
        present = set(groups)
        self._asked = {group: at for group, at in self._asked.items() if group in present}
        due = sorted(present, key=lambda group: self._asked.get(group, float("-inf")))[:_AT_ONCE]
        due = [group for group in due if now - self._asked.get(group, float("-inf")) >= AGAIN_SECONDS]
        found = CommittedRound()
        futures = {group: self._request(group) for group in due}
        for group, future in futures.items():
            self._asked[group] = now
            try:
                found.offsets[group] = _read(future.result())
            except KafkaException as error:
                found.errors.append(_sentence(group, error.args[0]))
        return found

    def _request(self, group: str) -> Future[Any]:
        # One request takes one group only; the client sends them side by side.
        asked = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin.list_consumer_group_offsets(asked, request_timeout=REQUEST_SECONDS).values()
        return future


def _read(answer: Any) -> Offsets:
    offsets: Offsets = {}
    for each in answer.topic_partitions or ():
        if each.error is None and each.offset >= 0:
            offsets.setdefault(each.topic, {})[str(each.partition)] = each.offset
    return offsets


def _sentence(group: str, error: KafkaError) -> str:
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return (
            f"committed offsets of group {group} may not be asked; grant it: "
            "kafka-acls --add --operation Describe --group '*' --allow-principal User:..."
        )
    return f"committed offsets of group {group} are unknown ({error.str()})"
