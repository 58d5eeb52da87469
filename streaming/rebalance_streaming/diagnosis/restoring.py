"""Reads back what an earlier run of the diagnosis published: open findings, lag, impact and totals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from rebalance_contract import (
    ContractError,
    DecodeTotals,
    Finding,
    FindingState,
    GroupImpact,
    GroupLag,
    RebalanceImpact,
    ReportTotals,
    decode,
    decode_status,
    topics,
)
from rebalance_streaming.cluster import REQUEST_SECONDS
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.engine.engine import ACTIVITY, Restored

_AT_ONCE, _POLL_SECONDS = 5_000, 0.1


def read_restored(config: StreamConfig, properties: Mapping[str, Any]) -> Iterator[Restored]:
    """Yield the latest version of every row that the diagnosis takes up again; odd rows are passed over."""
    wanted = (topics.FINDINGS, topics.LAG, topics.IMPACT, topics.STATUS)
    names = {each.full_name(config.topic_prefix): each.name for each in wanted}
    for (topic, _), value in read_latest(properties, list(names)).items():
        try:
            row = _decode(names[topic], value)
        except ContractError:
            continue
        if row is not None and row.cluster == config.cluster:
            yield row


def _decode(topic: str, value: bytes) -> Restored | None:
    if topic == topics.LAG.name:
        return decode(value, GroupLag)
    if topic == topics.IMPACT.name:
        return decode(value, GroupImpact) if b'"kind":"group_impact"' in value else decode(value, RebalanceImpact)
    if topic == topics.FINDINGS.name:
        finding = decode(value, Finding)
        return finding if finding.state == FindingState.FIRING else None
    status = decode_status(value)
    if isinstance(status, ReportTotals) or (isinstance(status, DecodeTotals) and status.query == ACTIVITY):
        return status
    return None


def read_latest(properties: Mapping[str, Any], names: list[str]) -> dict[tuple[str, bytes], bytes]:
    """Return the last value of each (topic, key) of compacted topics, those of tombstones left out."""
    latest: dict[tuple[str, bytes], bytes] = {}
    consumer = Consumer({**properties, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        known = consumer.list_topics(timeout=REQUEST_SECONDS).topics
        left = {(name, p) for name in names if name in known for p in known[name].partitions}
        consumer.assign([TopicPartition(name, p, 0) for name, p in left])
        heard = time.monotonic()
        while left and time.monotonic() - heard < REQUEST_SECONDS:
            # It returns when so many have come, or when the time is over: the ends of topics do not end it.
            messages = consumer.consume(_AT_ONCE, _POLL_SECONDS)
            if messages:
                heard = time.monotonic()
            for message in messages:
                place, error = (message.topic() or "", message.key() or b""), message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        left.discard((message.topic() or "", message.partition() or 0))
                    continue
                value = message.value()
                if value is None:
                    latest.pop(place, None)
                else:
                    latest[place] = value
    finally:
        consumer.close()
    return latest
