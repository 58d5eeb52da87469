"""The activity query's packing: rows of all inputs in one batch into bounded rows, for any content."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rebalance_contract import (
    MAX_ACTIVITY_BYTES,
    ClientActivity,
    CommitActivity,
    CoordinatorAct,
    CoordinatorActivity,
    CoordinatorEvent,
    CountActivity,
    OffsetActivity,
)
from rebalance_contract.activity import ProbeActivity
from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_devtools.bench import fill
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.config import BrokerLogTopic, MetricTopic, StreamConfig
from rebalance_streaming.engine.rows import Input, decode_input
from rebalance_streaming.spark.activity import ActivityPacker, pack_activity
from spark.packing import PACKER_SCHEMA

T0 = 1_000_000_000_000
OTHER = MetricTopic("metrics-of-others", "native", {"group_id": "from-topic"})
LOGS = BrokerLogTopic("logs-of-brokers", "Europe/Berlin")
CONFIG = StreamConfig(cluster="prod", metric_topics=(OTHER,), broker_log_topics=(LOGS,))
ERAS = {7: LogEra(100)}


def row(
    topic: str, offset: int, value: bytes | None, *, key: bytes | None = None, partition: int = 0
) -> dict[str, Any]:
    """Return a row as Spark passes it to the packer: a value that is too large is null, with its size beside it."""
    size = None if value is None else len(value)
    fits = size is None or size <= MAX_FOREIGN_BYTES
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": T0 + offset,
        "key": key,
        "value": value if fits else None,
        "size": size,
        "headers": None,
    }


def commit(group: str, partition: int, offset: int | None, at: int) -> dict[str, Any]:
    """Return an offset commit, or with a null offset its deletion, at a position of log partition 7."""
    value = None if offset is None else fill.commit_value(offset, T0 + at)
    return row(CONFIG.source_topic, at, value, key=fill.commit_key(group, "orders", partition), partition=7)


def probe(offset: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a probe's message."""
    reported = {"probed_at_ms": T0, "cluster": "prod", "group": "g", **changes}
    return row(CONFIG.probes_topic, offset, json.dumps(reported).encode(), key=b"g")


def report(offset: int = 0, topic: str = CONFIG.metrics_topic, **client: Any) -> dict[str, Any]:
    """Return a client's native report."""
    document = {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": T0,
        "client": {"client_id": "c", **client},
        "metrics": {"consumer-metrics": {"last-poll-seconds-ago": 2.0}},
    }
    return row(topic, offset, json.dumps(document).encode())


@dataclass
class Packed:
    """The packed rows as (key, row) except counts, and the counts by topic and outcome."""

    rows: list[tuple[str, Input]]
    counts: Counter[tuple[str, str]]
    arrived: list[CountActivity]
    sizes: list[int]

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the rows of a kind."""
        return [each for _, each in self.rows if isinstance(each, kind)]


def read(raw: list[tuple[bytes, bytes]]) -> Packed:
    """Read packed rows as the diagnosis does, and add up the counts."""
    rows = [(key.decode(), decode_input("activity", key, value)) for key, value in raw]
    arrived = [each for _, each in rows if isinstance(each, CountActivity)]
    counts = Counter({(each.topic, one[2]): 0 for each in arrived for one in each.counts})
    for each in arrived:
        for *_, outcome, count in each.counts:
            counts[each.topic, outcome] += count
    others = [(key, each) for key, each in rows if each is not None and not isinstance(each, CountActivity)]
    return Packed(others, counts, arrived, [len(value) for _, value in raw])


def pack(*rows: dict[str, Any], config: StreamConfig = CONFIG) -> Packed:
    """Pack rows as one batch of a task."""
    packer = ActivityPacker(config, ERAS)
    batch = pa.RecordBatch.from_pylist(list(rows), schema=PACKER_SCHEMA)
    return read([*packer.pack(batch), *packer.counts()])


def test_commits_of_a_group_become_one_row():
    """With the last offset of each partition, and its position in the log; deletions are null."""
    packed = pack(commit("g", 0, 5, 200), commit("g", 1, 7, 201), commit("g", 0, 6, 202), commit("g", 1, None, 203))
    ((key, found),) = packed.rows
    assert isinstance(found, CommitActivity)
    assert (key, found.group, found.first_log_offset, found.last_log_offset) == ("g", "g", 200, 203)
    topic = found.topics["orders"]
    assert (topic.partitions, topic.offsets, topic.commits) == ([0, 1], [6, None], [2, 2])
    assert packed.counts == {(CONFIG.source_topic, "decoded"): 3, (CONFIG.source_topic, "tombstone"): 1}


def test_commits_from_before_the_monitor_are_distinguished_from_those_since():
    """The era of the log partition has the first live position."""
    history, live = pack(commit("g", 0, 5, 99), commit("g", 0, 6, 100)).of(CommitActivity)
    assert (history.is_history, live.is_history) == (True, False)


def test_a_probe_is_taken_apart():
    """Offsets and group state are separate rows with the group's key; a probe without either gives no row."""
    ends = {"orders": {"1": 9, "0": None}}
    packed = pack(probe(0, end_offsets=ends, state="Stable"), probe(1))
    (offsets,), (reported,) = packed.of(OffsetActivity), packed.of(ProbeActivity)
    assert (offsets.ends["orders"].partitions, offsets.ends["orders"].offsets) == ([0, 1], [None, 9])
    assert reported.probe.state == "Stable"
    assert {key for key, _ in packed.rows} == {"g"}
    assert packed.counts == {(CONFIG.probes_topic, "decoded"): 2}


def test_a_probe_comes_between_the_commits_before_and_after_it():
    """Lag is measured when its row is read, whichever topic of a batch is read first."""
    commits = [commit("g", 0, 5, 200), commit("g", 0, 6, 202), commit("g", 0, 7, 204)]
    probes = [probe(at, probed_at_ms=T0 + at, end_offsets={"orders": {"0": 9}}) for at in (201, 203)]
    for rows in ([*commits, *probes], [*probes, *commits]):
        found = [row for _, row in pack(*rows).rows]
        assert [type(each) for each in found] == [CommitActivity, OffsetActivity] * 2 + [CommitActivity]
        assert [each.last_log_offset for each in found if isinstance(each, CommitActivity)] == [200, 202, 204]


def test_a_probe_from_the_future_is_of_now():
    """A clock that is ahead hides nothing: the probe is as old as its Kafka record."""
    (reported,) = pack(probe(5, probed_at_ms=2**62, state="Stable")).of(ProbeActivity)
    assert reported.probe.probed_at_ms == T0 + 5


def test_another_clusters_probe_is_none_of_ours():
    """It is counted and gives no row."""
    packed = pack(probe(cluster="dev", state="Stable"))
    assert (packed.rows, packed.counts[CONFIG.probes_topic, "decoded"]) == ([], 1)


def test_reports_become_rows_of_their_client():
    """From the monitor's own topic and an additional one, whose defaults fill in missing fields."""
    packed = pack(report(group_id="g"), report(topic=OTHER.name))
    assert {each.group_id for each in packed.of(ClientActivity)} == {"g", "from-topic"}
    assert {each.cluster for each in packed.of(ClientActivity)} == {"prod"}
    assert packed.counts == {(CONFIG.metrics_topic, "decoded"): 1, (OTHER.name, "decoded"): 1}


HOSTILE_PROBES = [
    b"",
    b"\x00" * 50,
    b"\xff\xfe",
    b"null",
    b"[" * 100_000,
    b'{"x":' * 100_000,
    b'{"cluster":' + b'"\\' * 1_000,
    *(
        json.dumps({"probed_at_ms": T0, "cluster": "prod", "group": "g", **odd}).encode()
        for odd in (
            {"end_offsets": {"orders": {"abc": 1}}},
            {"end_offsets": {"orders": {"-5": 1}}},
            {"end_offsets": {"orders": {str(2**31 - 1): 1}}},
            {"end_offsets": {"orders": {"9" * 5_000: 1}}},
            {"end_offsets": {"orders": {"٣": 1}}},
            {"end_offsets": {"orders": {"0": 2**70}}},
            {"end_offsets": {"orders": {"0": -1}}},
            {"end_offsets": {"x" * 100_000: {"0": 1}}},
            {"end_offsets": {"orders": [1]}},
            {"probed_at_ms": "now"},
            {"group": 5},
        )
    ),
]


@pytest.mark.parametrize("value", HOSTILE_PROBES, ids=lambda value: repr(value[:60]))
def test_a_hostile_probe_is_counted_and_stops_nothing(value: bytes):
    """Everything else in its batch is packed."""
    packed = pack(row(CONFIG.probes_topic, 0, value, key=b"\xff"), probe(1, state="Stable"), commit("g", 0, 5, 200))
    assert len(packed.of(ProbeActivity)) == len(packed.of(CommitActivity)) == 1
    assert packed.counts[CONFIG.probes_topic, "corrupt"] == 1


@pytest.mark.parametrize("value", [*HOSTILE_PROBES, None, b"\x0a" + b"\xff" * 40, b"(" * 5_000])
@pytest.mark.parametrize("topic", [CONFIG.metrics_topic, OTHER.name])
def test_a_hostile_report_is_counted_and_stops_nothing(topic: str, value: bytes | None):
    """For any content of a client, in any topic."""
    packed = pack(row(topic, 0, value), report(1, topic, group_id="g"), commit("g", 0, 5, 200))
    assert len(packed.of(CommitActivity)) == 1
    assert packed.of(ClientActivity)
    assert sum(count for (name, _), count in packed.counts.items() if name == topic) == 2


@pytest.mark.parametrize("text", ["\ud800", "\x00", "x" * 100_000, "\u202e", "a/b"])
def test_hostile_names_are_packed_or_counted(text: str):
    """Names that are not text, or far too long, break neither the batch nor the reader of the packed rows."""
    reports = [report(0, group_id=text), report(1, client_id=text), report(2, group_id="g")]
    packed = pack(*reports, probe(0, group=text, state="Stable"), commit("g", 0, 5, 200))
    assert len(packed.of(CommitActivity)) == 1
    assert max(packed.sizes) <= MAX_ACTIVITY_BYTES


def test_a_message_that_is_too_large_is_counted_and_not_looked_at():
    """Probes and reports; a tombstone is not such a message, and nothing that was decoded either."""
    large = b"x" * (MAX_FOREIGN_BYTES + 1)
    packed = pack(
        *(
            row(topic, i, each)
            for topic in (CONFIG.probes_topic, CONFIG.metrics_topic)
            for i, each in enumerate((large, None))
        )
    )
    assert packed.rows == []
    topics = (CONFIG.probes_topic, CONFIG.metrics_topic)
    assert packed.counts == {(topic, outcome): 1 for topic in topics for outcome in ("too_large", "empty")}


def test_rows_are_bounded():
    """A group that commits to 10,000 partitions, and a probe of as many, are several rows that each fit."""
    commits = [commit("g", partition, 1, 200 + partition) for partition in range(10_000)]
    ends = {f"t{i}": {str(p): 10**15 for p in range(1_000)} for i in range(10)}
    packed = pack(*commits, probe(end_offsets=ends))
    assert max(packed.sizes) <= MAX_ACTIVITY_BYTES
    assert sum(len(each.topics["orders"].partitions) for each in packed.of(CommitActivity)) == 10_000
    assert sum(len(topic.partitions) for each in packed.of(OffsetActivity) for topic in each.ends.values()) == 10_000


LINE = (
    "[2001-09-09 03:46:40,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=12] Group g with "
    "generation 6 is now empty. (org.apache.kafka.coordinator.group.GroupMetadataManager)"
)


def test_lines_of_brokers_logs_become_rows_of_their_groups():
    """In UTC, whatever time zone the brokers use; each line is counted with its outcome."""
    values = [
        LINE.encode(),
        json.dumps({"log": LINE}).encode(),
        b"[2001-09-09 03:46:40,200] INFO started (kafka.Kafka)",
    ]
    rows = [row(LOGS.name, 400 + n, value, partition=n) for n, value in enumerate(values)]
    large = row(LOGS.name, 500, b"x" * (MAX_FOREIGN_BYTES + 1))
    packed = pack(*rows, row(LOGS.name, 501, None), large)
    ((key, reported),) = packed.rows
    assert (key, type(reported)) == ("g", CoordinatorActivity)
    assert reported == CoordinatorActivity(
        "prod", "g", T0, (CoordinatorEvent(T0 + 123, CoordinatorAct.EMPTIED, generation=6, broker=1),)
    )
    outcomes = {outcome: count for (topic, outcome), count in packed.counts.items() if topic == LOGS.name}
    assert outcomes == {"decoded": 2, "other": 1, "empty": 1, "too_large": 1}


def test_a_row_of_a_coordinator_is_never_too_large():
    """A restart of thousands of members within a pane is reported in several rows."""
    member = "m" * 200
    lines = "\n".join(
        LINE.replace(
            "Group g with generation 6 is now empty.", f"[GroupId g] Member {member}{n} left the consumer group."
        )
        for n in range(2_000)
    )
    packed = pack(row(LOGS.name, 0, lines.encode()))
    assert len(packed.rows) > 1
    assert max(packed.sizes) <= 64_000
    assert sum(len(each.events) for each in packed.of(CoordinatorActivity)) == 2_000


def test_counts_say_up_to_where_they_hold():
    """Per partition of each topic, with the era of the log; so a repeated batch adds nothing."""
    packed = pack(commit("g", 0, 5, 200), commit("h", 0, 5, 230), probe(4), probe(9), report(2))
    found = {(each.topic, each.partition): (each.last_offset, each.cluster) for each in packed.arrived}
    assert found == {
        (CONFIG.source_topic, 7): (230, "prod"),
        (CONFIG.probes_topic, 0): (9, "prod"),
        (CONFIG.metrics_topic, 0): (2, "prod"),
    }


def test_garbage_under_a_commits_key_is_counted_by_what_is_wrong():
    """As the membership query counts its own records."""
    key = fill.commit_key("g", "orders", 0)
    odd = [(key, b"\x00"), (key[:5], fill.commit_value(1, T0)), (key, b"\x7f\xff" + b"x" * 30)]
    rows = [row(CONFIG.source_topic, 200 + i, value, key=k, partition=7) for i, (k, value) in enumerate(odd)]
    packed = pack(*rows, commit("g", 0, 5, 300))
    assert len(packed.of(CommitActivity)) == 1
    assert sum(packed.counts.values()) == 4
    assert packed.counts[CONFIG.source_topic, "decoded"] == 1


def test_nothing_is_packed_from_nothing():
    """A task may get no rows."""
    assert pack().rows == []


@pytest.mark.spark
def test_spark_runs_the_packer(spark: SparkSession):
    """With the query's own selection: group records are left to the other query, large values stay in the JVM."""
    large = report(3)
    large["value"] = b"x" * (MAX_FOREIGN_BYTES + 1)
    group = row(CONFIG.source_topic, 1, fill.group_value(1, 1, T0), key=fill.group_key("g"), partition=7)
    rows = [commit("g", 0, 5, 200), probe(end_offsets={"orders": {"0": 9}}), report(group_id="g"), large, group]
    schema = (
        "topic string, partition int, offset long, timestamp_ms long, key binary, value binary, size int,"
        " headers array<struct<key: string, value: binary>>"
    )
    frame = spark.createDataFrame([tuple(each.values()) for each in rows], schema)
    log = frame.selectExpr(
        "topic", "partition", "offset", "timestamp_millis(timestamp_ms) timestamp", "key", "value", "headers"
    )
    packed = read([(bytes(each["key"]), bytes(each["value"])) for each in pack_activity(log, CONFIG, ERAS).collect()])
    assert [type(each).__name__ for _, each in sorted(packed.rows, key=lambda each: type(each[1]).__name__)] == [
        "ClientActivity",
        "CommitActivity",
        "OffsetActivity",
    ]
    assert packed.counts[CONFIG.metrics_topic, "too_large"] == 1
    assert packed.counts[CONFIG.source_topic, "decoded"] == 1
