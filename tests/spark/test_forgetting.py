"""Groups that were deleted are forgotten after a while: by the membership query, without Spark."""

from __future__ import annotations

import pytest

from rebalance_devtools.bench import fill
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.spark import membership
from spark.test_membership import (
    CONFIG,
    DAY_MS,
    Query,
    addressed,
    golden_rows,
    group_row,
    neighbour_in,
    probe_row,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The worker's clock, set by the test."""
    now = {"ms": golden_rows()[-1][3] + 100}
    monkeypatch.setattr(membership, "epoch_ms", lambda: now["ms"])
    return now


def test_a_group_that_is_gone_is_dropped_after_a_day(clock: dict[str, int]):
    """Its totals are kept for its return; then its state is dropped and its row deleted, once its bucket is touched."""
    query = Query()
    query.take(golden_rows())
    (name,) = query.groups()
    (bucket,) = (each["bucket"] for each in addressed(golden_rows())[:1])
    neighbour = neighbour_in(bucket)
    gone_ms = golden_rows()[-1][3]
    assert query.group(name).state == "Deleted"
    clock["ms"] = gone_ms + DAY_MS - 1
    query.take([group_row(neighbour, 1, 1)])
    assert query.latest()[CONFIG.groups_topic, f"prod/{name}"] is not None
    clock["ms"] = gone_ms + DAY_MS
    query.take([group_row(neighbour, 2, 2)])
    assert query.latest()[CONFIG.groups_topic, f"prod/{name}"] is None
    assert set(query.store.buckets[bucket].groups.values) == {neighbour}


def test_a_group_that_comes_back_within_the_day_stays(clock: dict[str, int]):
    """It was deleted, but exists again when the day is over."""
    query = Query()
    query.take(golden_rows())
    (name,) = query.groups()
    last = golden_rows()[-1]
    value = fill.group_value(1, 2, last[3] + 1_000, 4)
    query.take([(last[0], last[1], last[2] + 1, last[3] + 1_000, fill.group_key(name), value)])
    clock["ms"] = last[3] + 2 * DAY_MS
    query.take([(last[0], last[1], last[2] + 2, last[3] + 2_000, fill.group_key(name), value)])
    assert query.group(name).state == "Stable"


def deleted_in(query: Query, bucket: int) -> list[tuple[int, str]]:
    """Return the deleted groups that a bucket has stored."""
    stored = query.store.buckets[bucket].own.value
    assert stored is not None
    return membership._bucket_decoder.decode(stored[0]).deleted


def test_a_deleted_group_is_stored_once(clock: dict[str, int]):
    """With its latest time; values of earlier versions, which have it once per batch, become shorter."""
    clock["ms"] = 1_000_000
    query, bucket = Query({7: LogEra(0)}), membership.bucket_of("g")
    query.take([(CONFIG.source_topic, 7, 1, 999_000, fill.group_key("g"), fill.group_value(1, 2, 999_000, 4))])
    for number in range(5):
        query.take([(CONFIG.source_topic, 7, 2 + number, 1_000_000 + number, fill.group_key("g"), None)])
    assert deleted_in(query, bucket) == [(1_000_004, "g")]
    for number in range(5):
        query.take([probe_row("g", "Dead", offset=number, at_ms=1_001_000 + number)])
    assert deleted_in(query, bucket) == [(1_000_004, "g")]
    old = membership._Bucket([(1_000_000 + number, "g") for number in range(4)])
    query.store.buckets[bucket].own.value = (membership._encoder.encode(old),)
    query.take([group_row(neighbour_in(bucket), 1, 1)])
    assert deleted_in(query, bucket) == [(1_000_003, "g")]
    clock["ms"] = 1_000_004 + DAY_MS
    query.take([group_row(neighbour_in(bucket), 2, 2)])
    assert (deleted_in(query, bucket), query.latest()[CONFIG.groups_topic, "prod/g"]) == ([], None)


def test_a_deleted_group_whose_state_cannot_be_read_holds_up_no_other(clock: dict[str, int]):
    """It is quarantined once when it is due to be forgotten: otherwise its bucket would fail with each batch."""
    query = Query()
    query.take(golden_rows())
    (name,) = query.groups()
    bucket = membership.bucket_of(name)
    query.store.buckets[bucket].groups.values[name] = (b"\xff\xff",)
    neighbour = neighbour_in(bucket)
    clock["ms"] = golden_rows()[-1][3] + 2 * DAY_MS
    for number in (1, 2):
        query.take([group_row(neighbour, number, number)])
    assert query.group(neighbour).generation == 2
    assert query.quarantined() == {("group", "ValidationError"): 1}


def test_a_deleted_group_is_forgotten_once_its_state_can_be_read_again(clock: dict[str, int]):
    """By a later version, for which the state is left unchanged; it is tried once a day."""
    query = Query()
    query.take(golden_rows())
    (name,) = query.groups()
    bucket, last_ms = membership.bucket_of(name), golden_rows()[-1][3]
    groups, neighbour = query.store.buckets[bucket].groups.values, neighbour_in(membership.bucket_of(name))
    readable, groups[name] = groups[name], (b"\xff\xff",)
    for days in (1, 2):
        clock["ms"] = last_ms + days * DAY_MS
        query.take([group_row(neighbour, days, days)])
    assert query.quarantined() == {("group", "ValidationError"): 2}
    groups[name] = readable
    clock["ms"] = last_ms + 3 * DAY_MS
    query.take([group_row(neighbour, 3, 3)])
    assert query.latest()[CONFIG.groups_topic, f"prod/{name}"] is None
    assert set(groups) == {neighbour}
