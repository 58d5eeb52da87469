"""Reads the rows published by an earlier run of the diagnosis: firing findings, lag, impact and totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rebalance_contract import (
    DecodeTotals,
    Finding,
    FindingState,
    GroupLag,
    Participant,
    ReportTotals,
    StatusKind,
    decode,
    decode_impact,
    decode_status,
    split_key,
    topics,
)
from rebalance_streaming.brokers.own_topics import decode_each, read_latest_rows
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.engine.engine import Restored

#: The statuses that have totals.
_STATUSES = (StatusKind.RECORDS, StatusKind.CLIENT_METRICS)


def read_restored(config: StreamConfig, on_unreadable: Callable[[str], None]) -> Iterator[Restored]:
    """Yield the latest version of every row that the diagnosis restores.

    `on_unreadable` is called for each row that cannot be decoded, with its topic and the reason. Raises
    StreamError if a topic cannot be read to its end.
    """
    wanted = (topics.FINDINGS, topics.LAG, topics.IMPACT, topics.STATUS)
    names = {each.full_name(config.topic_prefix): each.name for each in wanted}
    values: dict[str, list[bytes]] = {topic: [] for topic in names}
    for (topic, key), value in read_latest_rows(config, names, name="restore").items():
        if names[topic] != topics.STATUS.name or split_key(key)[1].partition("/")[0] in _STATUSES:
            values[topic].append(value)
    for topic, name in names.items():

        def note(reason: str, topic: str = topic) -> None:
            on_unreadable(f"{topic}: {reason}")

        for row in decode_each(values[topic], partial(decode_restored, name), note):
            if row is not None and row.cluster == config.cluster:
                yield row


def decode_restored(topic: str, value: bytes) -> Restored | None:
    """Return a published row of a topic, by its short name; null if it is not restored. Raises ContractError."""
    if topic == topics.LAG.name:
        return decode(value, GroupLag)
    if topic == topics.IMPACT.name:
        return decode_impact(value)
    if topic == topics.FINDINGS.name:
        finding = decode(value, Finding)
        return finding if finding.state == FindingState.FIRING else None
    status = decode_status(value)
    if isinstance(status, ReportTotals) or (isinstance(status, DecodeTotals) and status.query == Participant.ACTIVITY):
        return status
    return None
