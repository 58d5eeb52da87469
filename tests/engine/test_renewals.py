"""Current rows are published again once a day, because topics drop rows that are not renewed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec

from engine.driving import config
from histories import CLUSTER, GROUP, HOUR, MINUTE, SECOND, T0, commits, member, pulse, rebalance, snapshot
from rebalance_contract import (
    Finding,
    FindingState,
    GroupImpact,
    GroupLag,
    GroupState,
    OffsetActivity,
    RebalanceImpact,
    TopicOffsets,
)
from rebalance_streaming.engine.engine import Engine
from rebalance_streaming.engine.rows import GroupGone, Output, RowGone, address

A, B = member("a-1", [0], session_timeout_ms=5_000), member("b-1", [1], session_timeout_ms=5_000)


def quiet() -> tuple[Engine, int]:
    """Return an engine with a group that rebalanced and has been quiet for hours, and the time."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    for row in (
        *pulse(T0 - MINUTE, T0, [0, 1]),
        snapshot(T0, A, B),
        rebalance(T0, [A], [A, B]),
        *pulse(T0 + 20 * SECOND, T0 + MINUTE, [0, 1]),
    ):
        engine.apply(row, T0)
    now_ms = T0
    while now_ms < T0 + 2 * HOUR:
        now_ms += MINUTE
        engine.advance(now_ms)
    return engine, now_ms


def kinds(rows: list[Output]) -> Counter[type]:
    return Counter(type(each) for each in rows if isinstance(each, GroupLag | GroupImpact | Finding))


def test_each_row_that_stands_comes_again_within_a_day_and_once():
    """Lag, totals and firing findings; the rows are unchanged."""
    engine, now_ms = quiet()
    published = [each for minute in range(1, 24 * 60 + 1) for each in engine.advance(now_ms + minute * MINUTE)]
    assert kinds(published) == {GroupLag: 1, GroupImpact: 1, Finding: 1}


def test_of_a_group_that_is_forgotten_nothing_stays():
    """Its rows get tombstones, once, but not those of another cluster; none of them is renewed."""
    engine, now_ms = quiet()
    engine.apply(GroupGone("another", GROUP), now_ms)
    engine.apply(GroupGone(CLUSTER, GROUP), now_ms)
    published = [each for minute in range(1, 24 * 60 + 1) for each in engine.advance(now_ms + minute * MINUTE)]
    gone = [address(each) for each in published if isinstance(each, RowGone)]
    assert sorted(gone) == [(topic, f"{CLUSTER}/{GROUP}", None) for topic in ("heartbeats", "impact", "lag")]
    assert [each.state for each in published if isinstance(each, Finding)] == [FindingState.RESOLVED]
    assert set(kinds(published)) == {Finding}


def test_of_a_forgotten_group_no_impact_follows_its_tombstone():
    """The impact of a rebalance that has not been published yet is dropped as well."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    for row in (
        *pulse(T0 - MINUTE, T0, [0, 1]),
        snapshot(T0, A, B),
        rebalance(T0, [A], [A, B]),
        *pulse(T0 + 20 * SECOND, T0 + MINUTE, [0, 1]),
    ):
        engine.apply(row, T0 + MINUTE)
    engine._take_gaps(T0 + MINUTE)
    assert engine._impact.totals(GROUP) is not None
    engine.apply(GroupGone(CLUSTER, GROUP), T0 + 24 * HOUR)
    published = engine.advance(T0 + 24 * HOUR)
    assert [each.topic.name for each in published if isinstance(each, RowGone)] == ["impact"]
    assert not any(isinstance(each, GroupImpact | RebalanceImpact) for each in published)


def test_a_group_that_comes_back_stands_after_the_tombstones():
    """It is deleted, forgotten and back before anything is published: its new rows are the last of their keys."""
    engine, now_ms = quiet()
    engine.apply(GroupGone(CLUSTER, GROUP), now_ms)
    engine.apply(snapshot(now_ms, A), now_ms)
    published = [address(each) for each in engine.advance(now_ms + MINUTE)]
    latest = {(topic, key): value for topic, key, value in published}
    assert latest["lag", f"{CLUSTER}/{GROUP}"] is not None
    assert latest["impact", f"{CLUSTER}/{GROUP}"] is None


def standing(engine: Engine, now_ms: int) -> dict[tuple[str, str], bytes | None]:
    """Return the last row under each key of those published for a group from a time on; null: a tombstone."""
    published = [address(each) for minute in range(1, 30) for each in engine.advance(now_ms + minute * MINUTE)]
    return {(topic, key): value for topic, key, value in published if key == f"{CLUSTER}/{GROUP}"}


def started_again() -> tuple[Engine, int, GroupLag, GroupImpact]:
    """Return an engine restored from an earlier run's last rows, their time, and the group's lag and totals."""
    before, now_ms = quiet()
    published = [each for minute in range(1, 24 * 60 + 1) for each in before.advance(now_ms + minute * MINUTE)]
    now_ms += 24 * HOUR
    lag = replace(next(each for each in published if isinstance(each, GroupLag)), at_ms=now_ms)
    totals = next(each for each in published if isinstance(each, GroupImpact))
    engine = Engine(replace(config(), cluster=CLUSTER))
    for row in (lag, totals, *(each for each in published if isinstance(each, Finding))):
        engine.restore(row)
    return engine, now_ms, lag, totals


def test_a_tombstone_from_before_the_group_came_back_takes_nothing():
    """At a start it is read after the restored rows of the group, and before the group's new row."""
    engine, now_ms, lag, totals = started_again()
    engine.apply(snapshot(T0 - HOUR, state=GroupState.DELETED), T0 - HOUR)
    engine.apply(GroupGone(CLUSTER, GROUP), T0 - MINUTE)
    engine.apply(snapshot(T0, A, B), T0)
    published = [each for minute in range(1, 30) for each in engine.advance(now_ms + minute * MINUTE)]
    assert not any(isinstance(each, RowGone) for each in published)
    last = next(each for each in engine.finish(now_ms + HOUR) if isinstance(each, GroupLag))
    assert (last.commits, last.topics) == (lag.commits, lag.topics)
    assert engine._impact.totals(GROUP) == totals
    # Including the finding, whose id is the same.
    assert not any(isinstance(each, Finding) and each.state == FindingState.RESOLVED for each in published)


def test_a_tombstone_that_comes_after_newer_rows_of_the_group_takes_nothing():
    """Rows of several batches arrive only approximately in order."""
    engine, now_ms = quiet()
    engine.apply(GroupGone(CLUSTER, GROUP), T0 - MINUTE)
    assert GROUP in engine._groups
    assert not any(isinstance(each, RowGone) for each in engine.advance(now_ms + MINUTE))


def test_of_a_deleted_group_that_is_committed_to_lag_and_impact_stay():
    """Its members and its snapshot are gone; its lag continues, and is published again for the next start."""
    engine, now_ms = quiet()
    engine.apply(snapshot(now_ms, state=GroupState.DELETED), now_ms)
    for row in pulse(now_ms + HOUR, now_ms + HOUR + MINUTE, [0, 1], first=10_000):
        engine.apply(row, now_ms + HOUR)
    engine.advance(now_ms + 2 * HOUR)
    gone_ms = now_ms + 24 * HOUR
    engine.advance(gone_ms)
    engine.apply(GroupGone(CLUSTER, GROUP), gone_ms)
    assert GROUP not in engine._groups
    assert engine._impact.totals(GROUP) is not None
    rows = standing(engine, gone_ms)
    assert {topic: value is None for (topic, _), value in rows.items()} == {"heartbeats": True, "lag": False}
    lag = msgspec.json.decode(rows["lag", f"{CLUSTER}/{GROUP}"] or b"", type=GroupLag)
    assert lag.topics
    assert lag.at_ms > gone_ms
    again = Engine(replace(config(), cluster=CLUSTER))
    again.restore(lag)
    again.apply(GroupGone(CLUSTER, GROUP), gone_ms)
    assert not any(isinstance(each, RowGone) for each in again.advance(gone_ms + HOUR))


def test_a_group_whose_offsets_were_deleted_after_it_is_forgotten():
    """Deleting offsets is a commit, too, and may follow the group's own record."""
    engine, now_ms = quiet()
    engine.apply(snapshot(now_ms, state=GroupState.DELETED), now_ms)
    engine.apply(replace(commits(now_ms + SECOND, dict.fromkeys([0, 1])), last_log_offset=10**12), now_ms + SECOND)
    engine.advance(now_ms + HOUR)
    engine.apply(GroupGone(CLUSTER, GROUP), now_ms + 24 * HOUR)
    rows = standing(engine, now_ms + 24 * HOUR)
    assert {topic for topic, _ in rows} == {"heartbeats", "impact", "lag"}
    assert set(rows.values()) == {None}


def test_a_group_of_which_only_a_row_is_left_is_not_renewed():
    """Its last offsets expired and it has no record: an earlier run's rows may expire in the topic."""
    engine, now_ms = quiet()
    lag = next(each for each in engine.finish(now_ms) if isinstance(each, GroupLag))
    again = Engine(replace(config(), cluster=CLUSTER))
    again.restore(lag)
    deleted = commits(now_ms, dict.fromkeys([0, 1]))
    again.apply(replace(deleted, last_log_offset=(lag.last_log_offset or 0) + 1), now_ms)
    published = [each for minute in range(1, 48 * 60 + 1) for each in again.advance(now_ms + minute * MINUTE)]
    lags = [each for each in published if isinstance(each, GroupLag)]
    assert not any(each.topics for each in lags)
    # While it leaves the windows.
    assert max(each.at_ms for each in lags) <= now_ms + 20 * MINUTE


def days(engine: Engine, now_ms: int, count: int) -> list[Output]:
    """Return what is published in this many days, evaluated each half hour."""
    return [each for half in range(1, count * 48 + 1) for each in engine.advance(now_ms + half * HOUR // 2)]


def ends(group: str) -> OffsetActivity:
    return OffsetActivity(CLUSTER, group, T0, {"orders": TopicOffsets([0], [5])})


def test_a_group_without_a_record_is_forgotten_when_its_offsets_are_gone():
    """A tool committed without being a member, under its own group id; no row says that the group is gone."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    for row in pulse(T0, T0 + MINUTE, [0, 1]):
        engine.apply(row, T0 + MINUTE)
    published = days(engine, T0 + MINUTE, 3)
    assert not any(isinstance(each, RowGone) for each in published)
    now_ms = T0 + 4 * 24 * HOUR
    engine.apply(replace(commits(now_ms, dict.fromkeys([0, 1])), last_log_offset=10**13), now_ms)
    published = days(engine, now_ms, 3)
    gone = [address(each) for each in published if isinstance(each, RowGone)]
    assert sorted(topic for topic, _, _ in gone) == ["heartbeats", "lag"]
    assert not engine._lag.groups()
    assert not engine._detector.groups()


def test_groups_that_only_probes_invent_are_forgotten():
    """A group that only appears in a probe of its topics' ends uses no memory after two days."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    for number in range(20):
        engine.apply(ends(f"invented-{number}"), T0)
    assert len(engine._lag.groups()) == 20
    days(engine, T0, 2)
    assert not engine._lag.groups()
    assert not engine._detector.groups()


def test_a_group_that_may_still_commit_is_kept():
    """It has a record, and no offsets: a member reads, and commits elsewhere."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    engine.apply(snapshot(T0, A), T0)
    engine.apply(ends(GROUP), T0)
    published = days(engine, T0, 3)
    assert not any(isinstance(each, RowGone) for each in published)
    assert engine._lag.groups() == engine._detector.groups() == [GROUP]


def test_topics_that_come_and_go_leave_nothing_in_a_group_that_stays():
    """It reads a new topic each day; two days after the topic is gone, nothing is kept of it."""
    engine, now_ms, size = Engine(replace(config(), cluster=CLUSTER)), T0, []
    engine.apply(snapshot(T0, A), T0)
    for day in range(7):
        topic = f"events-{day}"
        for hour in range(24):
            at_ms = now_ms + hour * HOUR
            offset = None if hour == 23 else hour
            engine.apply(commits(at_ms, {0: offset, 1: offset}, topic=topic), at_ms)
            ends = {topic: TopicOffsets([0, 1], [100 + hour] * 2)} if hour < 23 else {topic: TopicOffsets([], [])}
            engine.apply(OffsetActivity(CLUSTER, GROUP, at_ms, ends), at_ms)
            engine.advance(at_ms)
        now_ms += 24 * HOUR
        history = engine._detector._judged_groups[GROUP].history
        kept = (engine._lag.ends._topics, engine._lag._groups[GROUP].probed, engine._rhythms[GROUP]._topics)
        kept = (*kept, history.topic_counts, history.progress._probed, history.progress._topics)
        size.append(max(map(len, kept)))
    assert max(size) <= 4


def test_of_a_group_at_rest_rebalances_of_before_a_day_are_forgotten():
    """Including their findings; the latest are kept, because rules need the last one however long ago it was."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    before = [A]
    for number in range(60):
        at_ms, after = T0 + number * 10 * MINUTE, [A, B] if len(before) == 1 else [A]
        engine.apply(rebalance(at_ms, before, after), at_ms)
        engine.apply(snapshot(at_ms, *after), at_ms)
        engine.advance(at_ms + 5 * MINUTE)
        before = after
    (judged_group,) = engine._detector._judged_groups.values()
    assert len(judged_group.history.rebalances) == len(judged_group.judged) == 60
    days(engine, T0 + 10 * HOUR, 3)
    assert judged_group.history.rebalances.keys() == judged_group.judged.keys()
    assert len(judged_group.judged) == 30
