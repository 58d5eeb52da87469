"""The monitor's topics, declared once: contents, writers, readers and broker settings.

All components take names, settings and limits from this table, and docs/data-flow.md is generated from it. Names here
are short; a deployment adds its prefix (`Topic.full_name`).

Enforcement of the maximum row size: a broker compares `max.message.bytes` with a batch as it is stored. With the
default `compression.type=producer` that is the compressed batch, so that one message of 64 MiB of zeros, 2 kB as zstd,
is accepted, and each reader has to allocate all of it (Spark's Java client on the heap of an executor). A topic with
writers other than the stream therefore has `compression.type=uncompressed`: the broker then decompresses every batch
and compares its uncompressed size (Kafka: UnifiedLog.append validates the sizes again after LogValidator has converted
the records). Tested with brokers 3.9.2 and 4.3.1 in `tests/contract/test_topics_broker.py`: 64 MiB of zeros in one
zstd, gzip or lz4 message is rejected with MESSAGE_TOO_LARGE (RecordTooLargeException in Java), and nothing is stored.
A codec that differs from the producer's does not help: the size is compared after the broker has recompressed the
batch, and 64 MiB of zeros are accepted. The cost is that these topics are stored and fetched uncompressed, and that a
producer's whole batch, not each of its rows, must fit uncompressed: clients measure a batch before compression
(librdkafka up to 1,000,000 bytes, Java 16 KiB), and stay below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_contract.activity import MAX_ACTIVITY_BYTES, CommitActivity, CountActivity, OffsetActivity, ProbeActivity
from rebalance_contract.bounds import MAX_FOREIGN_BYTES, MAX_ROW_BYTES
from rebalance_contract.clients import ClientActivity
from rebalance_contract.coordinator import CoordinatorActivity
from rebalance_contract.findings import Finding
from rebalance_contract.groups import GroupSnapshot
from rebalance_contract.impact import GroupImpact, RebalanceImpact
from rebalance_contract.lag import GroupLag
from rebalance_contract.probes import Probe
from rebalance_contract.rebalances import Rebalance
from rebalance_contract.sets import QUERIES, Participant
from rebalance_contract.silences import AlertSilence
from rebalance_contract.status import (
    DecodeTotals,
    DiagnosisStatus,
    LogTotals,
    QuarantineTotals,
    QueryStatus,
    ReportTotals,
)
from rebalance_contract.timing import GroupTiming

COMPACT, DELETE, COMPACT_DELETE = "compact", "delete", "compact,delete"

_DAY_MS = 86_400_000
#: Allowance for the rest of the batch that a broker measures: its header, the row's key and headers, and further small
#: rows. With it, a topic with rows of 900 kB accepts every batch of librdkafka (at most 1,000,000 bytes).
_HEAD_ROOM_BYTES = 131_072
#: A broker compacts only closed segments, and every start reads the uncompacted rows: with the default of 1 GiB that
#: could be a gigabyte of replaced rows.
_COMPACTED_SEGMENT_BYTES = 67_108_864


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic of the monitor.

    `content` describes a row, `key` the parts of its key, separated by `/`. `rows` are the row types, several being
    distinguished by their field `kind`; empty if the format is not the monitor's own. `retention_ms` is null for a
    topic that keeps its rows until they are replaced. `max_row_bytes` is the maximum size of a row's value; writers
    truncate larger rows and mark them. `foreign`: others than the stream write to it, so the broker has to measure the
    uncompressed size. `partitions` is the number of partitions that it is created with.
    """

    name: str
    content: str
    key: str
    writers: tuple[Participant, ...]
    readers: tuple[Participant, ...]
    cleanup_policy: str
    retention_ms: int | None = None
    max_row_bytes: int = MAX_ROW_BYTES
    rows: tuple[type[Any], ...] = ()
    foreign: bool = False
    partitions: int = 1

    def full_name(self, prefix: str) -> str:
        """Return the topic's name in a deployment, with its prefix."""
        return prefix + self.name

    @property
    def is_compacted(self) -> bool:
        """Whether the broker keeps the last row of each key."""
        return COMPACT in self.cleanup_policy.split(",")

    @property
    def max_message_bytes(self) -> int:
        """The largest batch that the broker accepts, in bytes."""
        return self.max_row_bytes + _HEAD_ROOM_BYTES

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings with which to create the topic."""
        settings = {"cleanup.policy": self.cleanup_policy, "max.message.bytes": str(self.max_message_bytes)}
        if self.retention_ms is not None:
            settings["retention.ms"] = str(self.retention_ms)
        if self.is_compacted:
            settings["segment.bytes"] = str(_COMPACTED_SEGMENT_BYTES)
        if self.foreign:
            settings["compression.type"] = "uncompressed"
        return settings

    def create_command(self, prefix: str) -> str:
        """Return the command that creates the topic manually."""
        options = " ".join(f"--config {name}={value}" for name, value in self.settings.items())
        return (
            f"kafka-topics --bootstrap-server HOST:PORT --create --topic {self.full_name(prefix)} "
            f"--partitions {self.partitions} {options}"
        )


GROUPS = Topic(
    name="groups",
    content="the latest snapshot of a group: members, totals, windows",
    key="cluster/group",
    writers=(Participant.MEMBERSHIP,),
    readers=(Participant.DIAGNOSIS, Participant.PROBER, Participant.EXPORTER, Participant.MEMBERSHIP),
    cleanup_policy=COMPACT,
    rows=(GroupSnapshot,),
)
REBALANCES = Topic(
    name="rebalances",
    content="the latest version of a rebalance, published from its first record on",
    key="cluster/group/rebalance_id",
    writers=(Participant.MEMBERSHIP,),
    readers=(Participant.DIAGNOSIS, Participant.EXPORTER, Participant.MEMBERSHIP),
    cleanup_policy=COMPACT_DELETE,
    retention_ms=30 * _DAY_MS,
    rows=(Rebalance,),
)
ACTIVITY = Topic(
    name="activity",
    content="offset commits, probes and reports of a group's clients and coordinator, summarized over one pane",
    key="group; client reports without a group: client id, or empty; counts: topic/partition",
    writers=(Participant.ACTIVITY,),
    readers=(Participant.DIAGNOSIS, Participant.PROBER),
    cleanup_policy=DELETE,
    retention_ms=_DAY_MS,
    max_row_bytes=MAX_ACTIVITY_BYTES,
    rows=(CommitActivity, OffsetActivity, ProbeActivity, CountActivity, ClientActivity, CoordinatorActivity),
)
PROBES = Topic(
    name="probes",
    content="answers of the brokers: group states, members, start and end offsets of partitions",
    key="group",
    writers=(Participant.PROBER,),
    readers=(Participant.MEMBERSHIP, Participant.ACTIVITY),
    cleanup_policy=DELETE,
    retention_ms=_DAY_MS,
    max_row_bytes=MAX_FOREIGN_BYTES,
    rows=(Probe,),
    foreign=True,
)
CLIENT_METRICS = Topic(
    name="client-metrics",
    content="a report of a client about itself, in any supported format",
    key="any",
    writers=(Participant.CLIENTS,),
    readers=(Participant.ACTIVITY,),
    cleanup_policy=DELETE,
    retention_ms=_DAY_MS,
    max_row_bytes=MAX_FOREIGN_BYTES,
    foreign=True,
)
BROKER_LOGS = Topic(
    name="broker-logs",
    content="lines of the brokers' log files, as text or in the envelope of a log shipper",
    key="any",
    writers=(Participant.BROKERS,),
    readers=(Participant.ACTIVITY,),
    cleanup_policy=DELETE,
    retention_ms=_DAY_MS,
    max_row_bytes=MAX_FOREIGN_BYTES,
    foreign=True,
)
FINDINGS = Topic(
    name="findings",
    content="a finding of the diagnosis, with its evidence",
    key="cluster/group/rule/subject",
    writers=(Participant.DIAGNOSIS,),
    readers=(Participant.EXPORTER, Participant.DIAGNOSIS),
    cleanup_policy=COMPACT_DELETE,
    retention_ms=30 * _DAY_MS,
    rows=(Finding,),
)
HEARTBEATS = Topic(
    name="heartbeats",
    content="heartbeat and poll timing of a group's members",
    key="cluster/group",
    writers=(Participant.DIAGNOSIS,),
    readers=(Participant.EXPORTER,),
    cleanup_policy=COMPACT_DELETE,
    retention_ms=_DAY_MS,
    rows=(GroupTiming,),
)
LAG = Topic(
    name="lag",
    content="the lag of a group in records and time, and its sliding windows",
    key="cluster/group",
    writers=(Participant.DIAGNOSIS,),
    readers=(Participant.PROBER, Participant.EXPORTER, Participant.DIAGNOSIS),
    cleanup_policy=COMPACT_DELETE,
    retention_ms=7 * _DAY_MS,
    rows=(GroupLag,),
)
IMPACT = Topic(
    name="impact",
    content="the cost of a rebalance (lag around it, gaps in commits, timed-out members), or the totals of a group",
    key="cluster/group/rebalance_id; totals: cluster/group",
    writers=(Participant.DIAGNOSIS,),
    readers=(Participant.EXPORTER, Participant.DIAGNOSIS),
    cleanup_policy=COMPACT_DELETE,
    retention_ms=30 * _DAY_MS,
    rows=(RebalanceImpact, GroupImpact),
)
STATUS = Topic(
    name="status",
    content="the health of the monitor itself; each query has its own keys",
    key="cluster/kind; queries: cluster/kind/query; quarantine: cluster/kind/query/part",
    writers=QUERIES,
    readers=(Participant.EXPORTER, *QUERIES),
    cleanup_policy=COMPACT,
    rows=(DecodeTotals, QueryStatus, ReportTotals, DiagnosisStatus, QuarantineTotals, LogTotals),
)

SILENCES = Topic(
    name="silences",
    content="a silence (groups, time, author, reason), or an announced deploy",
    key="cluster/silence_id",
    writers=(Participant.EXPORTER,),
    readers=(Participant.EXPORTER, Participant.DIAGNOSIS),
    cleanup_policy=COMPACT_DELETE,
    # 31 days until it may begin, 31 days that it may last, and a month for looking at its rebalances.
    retention_ms=93 * _DAY_MS,
    rows=(AlertSilence,),
    foreign=True,
)

#: Every topic of a deployment, in the order of the data flow.
TOPICS = (GROUPS, REBALANCES, ACTIVITY, PROBES, CLIENT_METRICS, FINDINGS, HEARTBEATS, LAG, IMPACT, STATUS, SILENCES)
#: Topics that a deployment has only if a setting names them (`stream.broker_log_topics`).
OPTIONAL_TOPICS = (BROKER_LOGS,)
