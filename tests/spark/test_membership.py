"""The membership query without Spark: log rows addressed to groups, and folded into groups and rebalances."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from goldens import data_records, key_of, value_of
from rebalance_contract import (
    DecodeTotals,
    GroupSnapshot,
    Probe,
    ProbedMember,
    QuarantineTotals,
    Rebalance,
    decode,
    encode,
)
from rebalance_devtools.bench import fill
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts
from rebalance_streaming.groups.model import dump_state
from rebalance_streaming.groups.rebuilt import rebuild_state
from rebalance_streaming.spark import membership
from rebalance_streaming.spark.membership import BUCKETS, TOTALS, AddressedRow, PublishedRows
from spark.state import Output, Store

CONFIG = StreamConfig(cluster="prod")
DAY_MS = 86_400_000
GROUP = "v39-kp3-group-expiry"
NAMES = AddressedRow._fields
#: As in Spark's source.
SOURCE = pa.schema([membership.ARROW_SCHEMA.field(name) for name in membership.SOURCE_COLUMNS])

#: As in Spark's source: topic, partition, offset, timestamp, key, value.
LogRow = tuple[str, int, int, int, bytes | None, bytes | None]


def golden_rows(scenario: str = GROUP) -> list[LogRow]:
    """Return the rows of a golden scenario that are not offset commits."""
    return [
        (CONFIG.source_topic, line["partition"], line["offset"], line["timestamp_ms"], key_of(line), value_of(line))
        for line in data_records(scenario)
        if line["decoded"]["type"] > 1
    ]


def addressed(
    rows: Iterable[LogRow],
    eras: dict[int, LogEra] | None = None,
    config: StreamConfig = CONFIG,
    published: PublishedRows | None = None,
) -> list[dict[str, Any]]:
    """Address rows as a task does."""
    batch = pa.RecordBatch.from_pylist([dict(zip(SOURCE.names, row, strict=True)) for row in rows], SOURCE)
    parts = membership._make_addressing(config, eras or {}, published)(iter([batch]))
    return [row for part in parts for row in part.to_pylist()]


class Query:
    """The query with its state. Each call of `take` is a batch."""

    def __init__(
        self,
        eras: dict[int, LogEra] | None = None,
        config: StreamConfig = CONFIG,
        published: PublishedRows | None = None,
    ) -> None:
        self._eras, self._config, self._published = eras or {}, config, published
        self.store = Store(config, self._eras, published)
        self.outputs: list[Output] = []

    def take(self, rows: Iterable[LogRow]) -> list[Output]:
        """Process a batch; return its rows."""
        return self.fold(addressed(rows, self._eras, self._config, self._published))

    def fold(self, found: Iterable[dict[str, Any]]) -> list[Output]:
        """Fold addressed rows."""
        new = self.store.batch([tuple(each.values()) for each in found], NAMES)
        self.outputs += new
        return new

    def latest(self) -> dict[tuple[str, str], bytes | None]:
        """Return the latest value of each key of the topics of groups and rebalances."""
        shown = (CONFIG.groups_topic, CONFIG.rebalances_topic)
        return {(topic, key): value for topic, key, value in self.outputs if topic in shown}

    def group(self, name: str) -> GroupSnapshot:
        """Return a group's latest snapshot."""
        value = self.latest()[CONFIG.groups_topic, f"prod/{name}"]
        assert value is not None
        return decode(value, GroupSnapshot)

    def groups(self) -> set[str]:
        """Return the groups that have a snapshot."""
        return {key.partition("/")[2] for (topic, key), value in self.latest().items() if topic == CONFIG.groups_topic}

    def quarantined(self) -> dict[tuple[str, str], int]:
        """Return the quarantine counts, by stage and reason, over all buckets."""
        rows = {
            key: value for topic, key, value in self.outputs if topic == CONFIG.status_topic and "quarantine" in key
        }
        reported = [each for value in rows.values() for each in decode(value or b"", QuarantineTotals).quarantined]
        return {(each.stage, each.reason): each.count for each in reported}

    def last_rebalance(self, name: str) -> Rebalance | None:
        """Return the latest rebalance of a group, or null if there was none."""
        key = f"prod/{name}/{self.group(name).last_rebalance_id}"
        value = {each: value for _, each, value in self.outputs}.get(key)
        return None if value is None else decode(value, Rebalance)

    def records(self) -> DecodeTotals:
        """Return the latest totals of records."""
        rows = [value for topic, key, value in self.outputs if key == "prod/records/membership"]
        return decode(rows[-1] or b"", DecodeTotals)


def group_row(group: str, generation: int, offset: int, *, partition: int = 7, members: int = 2) -> LogRow:
    """Return a record of a stable group, a second after the previous record."""
    value = fill.group_value(generation, members, 1_000_000 + offset * 1_000, 4)
    return CONFIG.source_topic, partition, offset, 1_000_000 + offset * 1_000, fill.group_key(group), value


def probe_row(group: str, state: str, *, offset: int = 0, at_ms: int = 2_000_000, **changes: Any) -> LogRow:
    """Return a probe's message."""
    text = encode(Probe(probed_at_ms=at_ms, cluster="prod", group=group, state=state, **changes))
    return CONFIG.probes_topic, 0, offset, at_ms, group.encode(), text


def neighbour_in(bucket: int) -> str:
    """Return the name of a group in a bucket."""
    return next(name for name in map(chr, range(33, 127)) if membership.bucket_of(name) == bucket)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The worker's clock, set by the test."""
    now = {"ms": golden_rows()[-1][3] + 100}
    monkeypatch.setattr(membership, "epoch_ms", lambda: now["ms"])
    return now


# --- Addressing ---


def test_records_are_addressed_to_their_groups_bucket():
    """Same group, same bucket, whatever the record; counts have a key of their own."""
    found = addressed([*golden_rows(), probe_row(GROUP, "Stable")])
    of_groups = [each for each in found if each["bucket"] != TOTALS]
    assert all(each["bucket"] == membership.bucket_of(each["name"]) for each in of_groups)
    assert all(0 <= each["bucket"] < BUCKETS for each in of_groups)
    assert {each["topic"] for each in of_groups} == {CONFIG.source_topic, CONFIG.probes_topic}
    assert [each["topic"] for each in found if each["bucket"] == TOTALS] == [CONFIG.source_topic]


def test_rows_stay_as_the_source_has_them():
    """A group's fold gets its records unchanged, byte for byte, after their address."""
    rows = golden_rows()
    of_groups = [each for each in addressed([*rows, (CONFIG.source_topic, 3, 9, 0, b"x", None)]) if each["bucket"] >= 0]
    assert [tuple(each[name] for name in SOURCE.names) for each in of_groups] == rows


def test_what_is_no_record_of_a_group_is_counted_and_goes_no_further():
    """Garbage, unknown types and unsupported versions each have their outcome."""
    key, value = fill.group_key("g"), fill.group_value(1, 1, 0)
    odd = [(None, None), (b"", b"x"), (b"\x00\x63", b"x"), (key, value[:7]), (key, b"\x7f\xff" + value[2:])]
    rows = [(CONFIG.source_topic, 3, i, 0, *each) for i, each in enumerate(odd)]
    query = Query()
    query.take(rows)
    assert query.latest() == {}
    assert sum(each.count for each in query.records().records) == len(odd)
    assert {each.outcome for each in query.records().records} == {"corrupt", "unsupported"}


def test_records_are_counted_once():
    """A repeated batch after a crash, and one that begins earlier, do not count records again."""
    rows, query = golden_rows(), Query()
    query.take(rows)
    once = query.records()
    query.take(rows)
    assert query.records() == once
    assert sum(each.count for each in once.records) == len(rows)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b'{"state":' + b"[" * 100_000,
        b'{"schema":"x","probed_at_ms":' + b"9" * 400 + b',"cluster":"prod","group":"g","state":"Stable"}',
        json.dumps({"probed_at_ms": 2**70, "cluster": "prod", "group": "g", "state": "Stable"}).encode(),
        json.dumps({"probed_at_ms": -(2**70), "cluster": "prod", "group": "g", "state": "Stable"}).encode(),
        json.dumps(
            {"probed_at_ms": 1, "cluster": "prod", "group": "g", "state": "x" * 10, "coordinator_id": 2**70}
        ).encode(),
        json.dumps({"probed_at_ms": 1, "cluster": "prod", "group": "\ud800", "state": "Stable"}).encode(),
        json.dumps({"probed_at_ms": 1, "cluster": "prod", "group": "g", "state": "A", "group_epoch": 2**65}).encode(),
        json.dumps({"probed_at_ms": 1, "cluster": "prod", "group": "g", "state": "A", "settled_at_ms": 2**65}).encode(),
    ],
)
def test_no_probe_ends_the_query(value: bytes | None):
    """For any content of the probes topic, the groups of the same and the next batch are folded."""
    query = Query()
    query.take([(CONFIG.probes_topic, 0, 5, 1_000, b"g", value), group_row("g", 1, 1), group_row("other", 1, 2)])
    query.take([group_row("g", 2, 3), group_row("other", 2, 4)])
    assert query.groups() >= {"g", "other"}
    assert [query.group(name).generation for name in ("g", "other")] == [2, 2]


# --- Folding ---


def test_where_batches_end_changes_nothing(clock: dict[str, int]):
    """One batch, one per record, and a repeated batch lead to the same rows."""
    rows = golden_rows("classic-rdk-range-join-leave")
    at_once, one_by_one, repeated = Query(), Query(), Query()
    at_once.take(rows)
    for row in rows:
        one_by_one.take([row])
    for part in (rows[:3], rows[:3], rows):
        repeated.take(part)
    rebalances = {key for topic, key in at_once.latest() if topic == CONFIG.rebalances_topic}
    assert rebalances
    assert at_once.latest() == one_by_one.latest() == repeated.latest()


def test_records_of_one_batch_are_folded_in_the_logs_order(clock: dict[str, int]):
    """Spark passes a key's rows in any order."""
    rows, in_order, shuffled = golden_rows("classic-rdk-range-join-leave"), Query(), Query()
    in_order.take(rows)
    shuffled.fold(reversed(addressed(rows)))
    assert in_order.latest() == shuffled.latest()


def test_a_probe_of_a_batch_counts_for_the_rebalance_during_which_it_was_made():
    """However many rebalances the batch has, as each narrows the bounds of its rebalance in a batch of its own."""
    probe = probe_row("g", "PreparingRebalance", at_ms=1_030_000)
    rows = [group_row("g", 1, 1), probe, group_row("g", 2, 31), group_row("g", 3, 200)]
    one_by_one, at_once = Query(), Query()
    for row in rows:
        one_by_one.take([row])
    at_once.take([*rows[2:], *rows[:2]])
    assert at_once.latest() == one_by_one.latest()
    found = [decode(value or b"", Rebalance) for (_, key), value in at_once.latest().items() if "/7-31" in key]
    assert [each.started_before_ms for each in found] == [1_030_000]


def test_a_log_whose_times_go_back_is_folded_in_its_order():
    """A probe does not change the order of the records around it."""
    _, partition, offset, _, key, value = group_row("g", 2, 2)
    back = (CONFIG.source_topic, partition, offset, 500_000, key, value)
    query = Query()
    query.take([back, probe_row("g", "Stable", at_ms=900_000), group_row("g", 1, 1), group_row("g", 3, 3)])
    assert (query.group("g").generation, query.group("g").log_offset) == (3, 3)


def test_groups_of_one_bucket_are_kept_apart():
    """Many more groups than buckets, in one batch and in the next: each has its own generation."""
    names = [f"group-{number}" for number in range(3 * BUCKETS)]
    query = Query()
    query.take(group_row(name, number + 1, number) for number, name in enumerate(names))
    assert len(query.store.buckets) <= BUCKETS + 1
    query.take(group_row(name, number + 100, 1_000 + number) for number, name in enumerate(names[:5]))
    assert [query.group(name).generation for name in names] == [
        number + (100 if number < 5 else 1) for number in range(len(names))
    ]


def test_a_probe_changes_what_the_log_cannot_show():
    """A group that prepares a rebalance shows it; a probe of an unknown group is kept too."""
    query = Query()
    query.take([group_row("g", 1, 1)])
    query.take([probe_row("g", "PreparingRebalance")])
    assert query.group("g").state == "PreparingRebalance"


def test_what_was_there_before_the_monitor_is_no_history():
    """Records below the era's first live position give a snapshot and no rebalance."""
    query = Query({7: LogEra(10)})
    query.take([group_row("g", 4, 3)])
    assert (query.group("g").generation, sum(query.group("g").counters.rebalances.values())) == (4, 0)
    query.take([group_row("g", 5, 11, members=3)])
    assert sum(query.group("g").counters.rebalances.values()) == 1


def test_rows_have_the_contracts_keys(clock: dict[str, int]):
    """A rebalance's key ends with its id; both topics' values have the configured cluster."""
    query = Query()
    query.take(golden_rows())
    for (topic, key), value in query.latest().items():
        assert value is not None
        row = decode(value, GroupSnapshot if topic == CONFIG.groups_topic else Rebalance)
        tail = f"/{row.rebalance_id}" if isinstance(row, Rebalance) else ""
        assert key == f"prod/{row.group}{tail}"


# --- Setting aside ---


def test_a_record_that_fails_is_set_aside(monkeypatch: pytest.MonkeyPatch):
    """The group's other records, and other groups, are folded; it is counted once per record."""
    fold = membership.fold

    def fold_or_fail(state: Any, record: Any) -> Any:
        if record.offset == 2:
            raise ZeroDivisionError
        return fold(state, record)

    monkeypatch.setattr(membership, "fold", fold_or_fail)
    query = Query()
    query.take([group_row("g", 1, 1), group_row("g", 2, 2), group_row("g", 3, 3), group_row("other", 1, 4)])
    assert (query.group("g").generation, query.group("other").generation) == (3, 1)
    assert query.quarantined() == {("record", "ZeroDivisionError"): 1}


def test_a_probe_that_fails_is_set_aside(monkeypatch: pytest.MonkeyPatch):
    """Like a record."""

    def fail(_state: Any, _probe: Any, *, reads_log: bool) -> Any:
        assert reads_log
        raise OverflowError

    monkeypatch.setattr(membership, "take_probe", fail)
    query = Query()
    query.take([group_row("g", 1, 1), probe_row("g", "Stable")])
    assert query.group("g").generation == 1
    assert query.quarantined() == {("probe", "OverflowError"): 1}


def test_a_group_whose_state_cannot_be_read_is_set_aside():
    """Its state is left unchanged for a version that can read it; its bucket continues, and counts are summed."""
    query = Query()
    bucket = membership.bucket_of("g")
    neighbour = neighbour_in(bucket)
    query.take([group_row("g", 1, 1), group_row(neighbour, 1, 2)])
    query.store.buckets[bucket].groups.values["g"] = (b"\xff\xff",)
    for number in (2, 3):
        query.take([group_row("g", number, 2 * number + 1), group_row(neighbour, number, 2 * number + 2)])
    assert query.group(neighbour).generation == 3
    assert query.store.buckets[bucket].groups.values["g"] == (b"\xff\xff",)
    assert sum(query.quarantined().values()) == 2
    assert {stage for stage, _ in query.quarantined()} == {"group"}


# --- Rebuilding ---


def test_a_new_state_goes_on_from_what_was_published_and_counts_no_record_twice(
    clock: dict[str, int],
):
    """Batches need not end where the lost state did; groups that are not in the log have a state, too."""
    clock["ms"] = 1_010_000
    eras, silent, deleted = {7: LogEra(0)}, "silent", "deleted"
    first = [group_row("g", 1, 1), group_row("g", 2, 2), group_row("h", 1, 3), group_row(silent, 1, 4)]
    later = [group_row("g", 3, 5), group_row("h", 2, 6), group_row("new", 1, 7)]
    gone = (CONFIG.source_topic, 7, 8, 1_008_000, fill.group_key(deleted), None)
    whole = Query(eras)
    whole.take([*first, group_row(deleted, 1, 4)])
    buckets: dict[int, membership.PublishedBucket] = {}
    for name in ("g", "h", silent, deleted):
        bucket = buckets.setdefault(membership.bucket_of(name), membership.PublishedBucket())
        bucket.groups.append((name, dump_state(rebuild_state(whole.group(name), whole.last_rebalance(name)))))
    totals = counts.restore(whole.records(), None, CONFIG.source_topic)
    packed = {number: membership.pack_bucket(each) for number, each in buckets.items()}
    published = PublishedRows(packed, 4, totals)
    query = Query({7: LogEra(5)}, published=published)
    query.take([first[0], *first[2:3], later[0]])
    kept = query.store.buckets[membership.bucket_of(silent)].groups.values
    assert silent in kept
    query.take([*later[1:], gone])
    whole.take([*later, gone])
    for name in ("g", "h", "new", deleted):
        assert query.group(name).counters == whole.group(name).counters
        assert query.group(name).state == whole.group(name).state
    assert query.records() == whole.records()


def published_groups(query: Query, *names: str) -> PublishedRows:
    """Return the published rows of groups in one bucket, without totals."""
    groups = [(name, dump_state(rebuild_state(query.group(name), query.last_rebalance(name)))) for name in names]
    (number,) = {membership.bucket_of(name) for name in names}
    return PublishedRows({number: membership.pack_bucket(membership.PublishedBucket(groups))}, len(groups))


def test_what_was_published_is_taken_up_once(clock: dict[str, int]):
    """Including groups that only probes have reported: later batches continue from the folded state."""
    clock["ms"] = 1_010_000
    before = Query({7: LogEra(0)})
    before.take([probe_row("probed", "Empty", at_ms=900_000, coordinator_id=1)])
    query = Query({7: LogEra(0)}, published=published_groups(before, "probed"))
    query.take([group_row("probed", 1, 1)])
    query.take([group_row("probed", 2, 2)])
    assert query.group("probed").counters.generations_completed == 2


def test_totals_are_kept_though_nothing_new_was_read(clock: dict[str, int]):
    """The first batch may have only counted records: a later start continues from its totals nevertheless."""
    clock["ms"] = 1_010_000
    whole, eras = Query({7: LogEra(0)}), {7: LogEra(0)}
    whole.take([group_row("g", 1, 1)])
    totals = counts.restore(whole.records(), None, CONFIG.source_topic)
    query = Query(eras, published=PublishedRows(totals=totals))
    query.take([group_row("g", 1, 1)])
    assert query.records() == whole.records()
    assert query.store.buckets[membership.TOTALS].own.value is not None


def test_records_are_counted_once_though_a_rebuild_is_restarted():
    """Before it has read again what its totals count: the positions of these are known from the checkpoint."""
    eras, rows = {7: LogEra(0)}, [group_row("g", each, each) for each in range(1, 13)]
    before = Query(eras)
    before.take(rows[:10])
    totals = counts.restore(before.records(), None, CONFIG.source_topic)
    rebuilt = Query(eras, published=PublishedRows(totals=totals))
    rebuilt.take(rows[:4])
    restarted = Query(eras, published=PublishedRows(counted=totals.positions))
    restarted.store.buckets = rebuilt.store.buckets
    for part in (rows[4:7], rows[7:], rows[7:]):
        restarted.take(part)
    assert sum(each.count for each in restarted.records().records) == 12


def test_every_bucket_takes_its_own_up_in_the_first_batch(monkeypatch: pytest.MonkeyPatch):
    """Whatever the batch contains: a later start does not get the published rows.

    Later batches touch only their own.
    """
    published = PublishedRows({3: b"", 9: b""}, totals=counts.CountTotals({"__consumer_offsets/7": (0, 5)}))
    batch_id = "0"
    monkeypatch.setattr(
        membership.TaskContext, "get", lambda: SimpleNamespace(getLocalProperty={membership._BATCH_ID: batch_id}.get)
    )
    assert [row["bucket"] for row in addressed([], published=published)] == [3, 9, membership.TOTALS]
    batch_id = "1"
    assert addressed([], published=published) == []
    batch_id = "0"
    assert addressed([]) == []


def test_workers_get_no_credentials():
    """Spark sends no client properties to executors."""
    assert StreamConfig(kafka={"sasl.password": "secret"}).without_secrets().kafka == {}


# --- Without the log ---


def test_probes_alone_make_groups_and_rebalances():
    """With `sources.log = false` there are no other inputs; published rows name their source."""
    query = Query(config=StreamConfig(cluster="prod", reads_log=False))
    members = tuple(ProbedMember(name, name, "h", partitions={"t": [place]}) for place, name in enumerate("ab"))
    query.take([probe_row("g", "Stable", offset=0, at_ms=2_000_000, type="classic", members=members)])
    query.take([probe_row("g", "PreparingRebalance", offset=1, at_ms=2_002_000, type="classic", members=members[:1])])
    query.take([probe_row("g", "Stable", offset=2, at_ms=2_008_000, type="classic", members=members[:1])])
    group = query.group("g")
    assert (group.counted_from, group.state, group.counters.rebalances["departure"]) == ("probes", "Stable", 1)
    (text,) = [value for (topic, _), value in query.latest().items() if topic == CONFIG.rebalances_topic]
    rebalance = decode(text or b"", Rebalance)
    assert (rebalance.counted_from, rebalance.generation_to, rebalance.left) == ("probes", None, ("b",))
    assert (rebalance.started_after_ms, rebalance.completed_at_ms) == (2_000_000, 2_008_000)


def test_a_batch_of_probes_that_comes_again_counts_nothing_twice():
    """Spark repeats a batch after a crash, with the state before or after it."""
    query = Query(config=StreamConfig(cluster="prod", reads_log=False))
    rows = [
        probe_row("g", state, offset=place, at_ms=2_000_000 + 10_000 * place, type="classic", members=())
        for place, state in enumerate(("Empty", "PreparingRebalance", "Empty"))
    ]
    query.take(rows)
    assert query.take(rows) == []
    assert sum(query.group("g").counters.rebalances.values()) == 1
