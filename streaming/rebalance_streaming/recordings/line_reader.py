"""Decodes recorded lines into the rows that the stream would make of them, and the inputs of its folds.

Each line is decoded on its own; the replay orders, folds and judges the results. Topics that are neither the offsets
topic nor the monitor's own are read as broker log lines if they contain any, and otherwise as client metrics. Announced
deploys are in the topic of silences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

import rebalance_contract as contract
from rebalance_contract import QUERIES, topics
from rebalance_streaming.activity.broker_logs import LogPacking
from rebalance_streaming.activity.clients import MetricRecord, pack_messages
from rebalance_streaming.activity.commits import LogColumns, pack_commits
from rebalance_streaming.activity.probes import unpack_probe
from rebalance_streaming.engine.rows import Input, decode_silence
from rebalance_streaming.groups.fold import group_of
from rebalance_streaming.groups.model import GroupRecord
from rebalance_streaming.recordings.recording import RecordedLine
from rebalance_streaming.wire.broker_logs.decode import ToUtc, in_utc
from rebalance_streaming.wire.commits import KeyCache, decode_commits
from rebalance_streaming.wire.decode import decode_record
from rebalance_streaming.wire.records import OFFSETS_TOPIC

PROBES_SUFFIX, BROKER_LOGS_SUFFIX = topics.PROBES.name, topics.BROKER_LOGS.name
_SILENCES_SUFFIX = f".{topics.SILENCES.name}"
#: Suffixes of topics written by the stream, which a replay ignores because it computes these rows itself.
OWN_SUFFIXES = tuple(f".{each.name}" for each in topics.TOPICS if set(each.writers) <= set(QUERIES))

#: Text in any log line of a coordinator, in all envelopes of log shippers.
_LOG_MARKS = (b"[GroupCoordinator ", b"[GroupMetadataManager ")

_CACHED_KEYS = 1_000_000
#: Commits are packed as by a stream that reads them every second, its default trigger.
_BATCH_MS = 1_000


@dataclass(frozen=True, slots=True)
class FoldInput:
    """A record or probe to fold into a group's state."""

    group: str
    what: GroupRecord | contract.Probe


#: The contents of a line, in order: rows for the engine, and inputs of the folds; empty if the line is not needed.
Contents = tuple[FoldInput | Input, ...]


@dataclass(slots=True)
class LineReader:
    """Reads lines of a recording. `cluster` is the cluster name in rows, `pane_ms` the pane length of commit rows.

    `to_utc` converts local times in broker logs to UTC. `reads_log`: the offsets topic is read. `reads_clients`: client
    metrics are read. `skipped` counts lines that are not needed.
    """

    cluster: str
    pane_ms: int
    to_utc: ToUtc = in_utc
    reads_log: bool = True
    reads_clients: bool = True
    skipped: int = 0
    _keys: KeyCache = field(default_factory=lambda: KeyCache(_CACHED_KEYS))

    def readable(self, lines: Sequence[RecordedLine]) -> list[RecordedLine]:
        """Return the lines without those of the offsets topic if that is not read, which are skipped."""
        found = [line for line in lines if self.reads_log or line.topic != OFFSETS_TOPIC]
        self.skipped += len(lines) - len(found)
        return found

    def pack(
        self, lines: Sequence[RecordedLine], probed_ms: Mapping[str, Sequence[int]]
    ) -> Iterable[contract.CommitActivity]:
        """Return the packed rows of commit lines; commits of one group and second are merged, except across a probe.

        `probed_ms` has the times of probes of end offsets by group.
        """
        visible = [line for line in lines if line.read_committed and not line.control]
        self.skipped += len(lines) - len(visible)
        if not visible:
            return ()
        keys = pa.array([line.key for line in visible], type=pa.binary())
        values = pa.array([line.value for line in visible], type=pa.binary())
        log = LogColumns(
            np.array([line.partition for line in visible], dtype=np.int32),
            np.array([line.offset for line in visible], dtype=np.int64),
            np.array([line.timestamp_ms for line in visible], dtype=np.int64),
        )
        batch = decode_commits(keys, values, self._keys)
        return pack_commits(batch, log, self.cluster, self.pane_ms, probed_ms=probed_ms, batch_ms=_BATCH_MS)

    def log_rows(self, line: RecordedLine) -> list[contract.CoordinatorActivity] | None:
        """Return the rows of a line with broker log lines; null if it has none."""
        if line.topic == OFFSETS_TOPIC or line.topic.endswith((PROBES_SUFFIX, _SILENCES_SUFFIX, *OWN_SUFFIXES)):
            return None
        value = line.value
        if not line.topic.endswith(BROKER_LOGS_SUFFIX) and not any(mark in (value or b"") for mark in _LOG_MARKS):
            return None
        packing = LogPacking(self.cluster, self.pane_ms)
        packing.take(value, line.timestamp_ms, self.to_utc)
        rows = list(packing.rows())
        self.skipped += not rows
        return rows

    def read(self, line: RecordedLine) -> Contents:
        """Return the contents of a line that has neither commits nor broker log lines."""
        contents = tuple(self._read(line))
        self.skipped += not contents
        return contents

    def _read(self, line: RecordedLine) -> Iterable[FoldInput | Input]:
        if line.topic == OFFSETS_TOPIC:
            return self._record(line)
        if line.topic.endswith(PROBES_SUFFIX):
            return self._probe(line)
        if line.topic.endswith(_SILENCES_SUFFIX):
            return self._silence(line)
        if self.reads_clients and not line.topic.endswith(OWN_SUFFIXES):
            return self._report(line)
        return ()

    def _report(self, line: RecordedLine) -> Iterable[Input]:
        message = MetricRecord(line.topic, line.value, line.timestamp_ms, line.named_headers())
        packed = pack_messages([message], {}, cluster=self.cluster, pane_ms=self.pane_ms, seconds=None)
        return (row for _, row in packed.rows)

    def _record(self, line: RecordedLine) -> Iterable[FoldInput]:
        record = decode_record(line.key, line.value)
        group = group_of(record)
        if group is None:
            return ()
        assert record.record_type is not None  # it has a group
        at = GroupRecord(
            partition=line.partition,
            offset=line.offset,
            timestamp_ms=line.timestamp_ms,
            live=True,
            value=record.value,
            record_type=record.record_type,
            member_id=getattr(record.key, "member_id", None),
            received_at_ms=line.received_at_ms,
        )
        return (FoldInput(group, at),)

    def _probe(self, line: RecordedLine) -> Iterable[FoldInput | Input]:
        try:
            probe = contract.decode(line.value or b"", contract.Probe)
            rows = list(unpack_probe(line.value or b"", probe.cluster, line.timestamp_ms, line.timestamp_ms))
        except contract.ContractError:
            return ()
        return self._of_probe(rows)

    def _of_probe(
        self, rows: Iterable[tuple[str, contract.ProbeActivity | contract.OffsetActivity]]
    ) -> Iterator[FoldInput | Input]:
        for group, row in rows:
            # The cluster may have another name in the recording.
            if isinstance(row, contract.ProbeActivity):
                yield FoldInput(group, row.probe)
                yield replace(row, probe=replace(row.probe, cluster=self.cluster))
            else:
                yield replace(row, cluster=self.cluster)

    def _silence(self, line: RecordedLine) -> Iterable[Input]:
        try:
            row = decode_silence(line.value or b"")
        except contract.ContractError:
            return ()
        return (replace(row, cluster=self.cluster),)
