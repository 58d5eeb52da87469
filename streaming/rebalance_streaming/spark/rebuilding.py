"""Reads the rows published by the membership query, so that a new checkpoint continues from them.

Rows are sent to the executors packed by bucket. A bucket loads its rows when it is first touched, which is in the first
batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from rebalance_contract import (
    DecodeTotals,
    GroupSnapshot,
    Participant,
    QuarantineTotals,
    Rebalance,
    ReportTotals,
    Status,
    decode,
    rebalance_key,
)
from rebalance_kafka.follower import Record, keep_latest
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.brokers.own_topics import decode_rows, latest_of, read_rows
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts
from rebalance_streaming.groups.model import dump_state
from rebalance_streaming.groups.rebuilt import rebuild_state
from rebalance_streaming.spark.membership import PublishedBucket, PublishedRows, bucket_of, pack_bucket

#: Callback with the number of positions of the published topics read so far, and their total number.
OnRead = Callable[[int, int], None]


def has_rows(config: StreamConfig) -> bool:
    """Return whether groups of this cluster were published. Raises StreamError if the topic cannot be read."""
    prefix = f"{config.cluster}/".encode()
    return any(
        record.value is not None and (record.key or b"").startswith(prefix)
        for record in read_rows(config, [config.groups_topic], name="look")
    )


def read_published(
    config: StreamConfig,
    cluster: Cluster,
    statuses: Iterable[Status],
    warn: Callable[[str], None],
    on_read: OnRead = lambda *_: None,
) -> PublishedRows:
    """Return published groups, rebalances and totals, read to the end of their topics.

    `statuses` are the last ones of this cluster; `warn` is told of unreadable rows. Raises
    StreamError if the end of a topic cannot be reached.
    """
    reading = _Reading(config, cluster, on_read)
    snapshots = _read_snapshots(config, reading.rows_of(config.groups_topic), warn)
    latest = _read_latest_rebalances(config, snapshots, reading.rows_of(config.rebalances_topic), warn)
    buckets: dict[int, PublishedBucket] = defaultdict(PublishedBucket)
    for group, snapshot in snapshots.items():
        buckets[bucket_of(group)].groups.append((group, dump_state(rebuild_state(snapshot, latest.get(group)))))
    totals: dict[str, DecodeTotals] = {}
    reports: ReportTotals | None = None
    for row in statuses:
        if isinstance(row, DecodeTotals):
            totals[row.query] = row
        if isinstance(row, ReportTotals):
            reports = row
        if isinstance(row, QuarantineTotals) and row.query == Participant.MEMBERSHIP:
            set_aside = {f"{each.stage}/{each.reason}": each.count for each in row.quarantined}
            buckets[row.part].quarantined.update(set_aside)
    return PublishedRows(
        {number: pack_bucket(each) for number, each in buckets.items()},
        len(snapshots),
        counts.restore(totals.get(Participant.MEMBERSHIP), None, config.source_topic),
        counts.restore(totals.get(Participant.ACTIVITY), reports, config.source_topic).positions,
    )


def first_live(found: Mapping[int, int], published: PublishedRows, topic: str) -> dict[int, int]:
    """Return, per partition, the first position that the lost state had not read; that of `found` if it read none."""
    known = published.totals.positions
    return {
        partition: min(end, known[place][1] + 1) if (place := f"{topic}/{partition}") in known else end
        for partition, end in found.items()
    }


class _Reading:
    """Reads the published topics, and reports its progress."""

    def __init__(self, config: StreamConfig, cluster: Cluster, on_read: OnRead) -> None:
        self._config, self._on_read = config, on_read
        topics = (config.groups_topic, config.rebalances_topic)
        self._ends = {topic: cluster.log_ends(topic) for topic in topics}
        self._wanted = sum(
            end - ends.earliest[place] for ends in self._ends.values() for place, end in ends.visible.items()
        )
        self._read = 0

    def rows_of(self, topic: str) -> Iterator[Record]:
        """Yield the records of a topic up to its end."""
        read_to = dict(self._ends[topic].earliest)
        for record in read_rows(self._config, [topic], name="rebuild"):
            # Compaction leaves gaps between positions.
            self._read += record.offset + 1 - read_to.get(record.partition, record.offset)
            read_to[record.partition] = record.offset + 1
            self._on_read(self._read, self._wanted)
            yield record


def _read_snapshots(
    config: StreamConfig, records: Iterable[Record], warn: Callable[[str], None]
) -> dict[str, GroupSnapshot]:
    latest = latest_of(config.cluster, records)
    rows = decode_rows(config.groups_topic, latest.values(), partial(decode, kind=GroupSnapshot), warn)
    return {each.group: each for each in rows if each.cluster == config.cluster}


def _read_latest_rebalances(
    config: StreamConfig,
    snapshots: Mapping[str, GroupSnapshot],
    records: Iterable[Record],
    warn: Callable[[str], None],
) -> dict[str, Rebalance]:
    """Return by group the rebalance that its snapshot names; other rebalances of the topic are not decoded."""
    wanted = {
        rebalance_key(config.cluster, group, each.last_rebalance_id).encode()
        for group, each in snapshots.items()
        if each.last_rebalance_id is not None
    }
    latest = keep_latest(each for each in records if each.key in wanted)
    rows = decode_rows(config.rebalances_topic, latest.values(), partial(decode, kind=Rebalance), warn)
    keys = ((rebalance_key(each.cluster, each.group, each.rebalance_id).encode(), each) for each in rows)
    return {each.group: each for key, each in keys if key in wanted}
