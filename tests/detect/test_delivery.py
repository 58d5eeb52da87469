"""A detector that receives the rows of recorded stories: once, twice, in another order, as of any time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from accuracy.recordings import recordings
from detect.recorded_inputs import RecordedInputs, recorded_inputs
from detect.turnover import hear
from histories import HOUR, SECOND, Event
from rebalance_contract import ClientActivity, Finding, decode, encode
from rebalance_streaming.detect.detector import Detector

pytestmark = pytest.mark.recordings

#: Recordings of the founding stories and of look-alikes, and one with all sources.
TAPED = (
    "join_barrier-sick-1",
    "long_batches-sick-2",
    "idle_lock-sick-4",
    "held_interpreter-sick-2",
    "owner_lock-sick-1",
    "rolling_deploy-1",
    "crash_loop-1",
    "process_pause-1",
    "static_id_conflict-1",
)


@pytest.mark.parametrize("name", [each.name for each in recordings()])
def test_live_every_rebalance_has_one_primary_at_any_time(name: str):
    """Not only at the end: at no time does a rebalance have two causes."""
    detector = Detector("default")
    for at_ms, event in recorded_inputs(name):
        if event is not None:
            detector.now_ms = detector.now_ms or at_ms
            hear(detector, event)
            continue
        detector.advance(at_ms)
        firing = [each for each in detector.findings.all() if each.primary]
        assert max(Counter(each for of in firing for each in of.rebalance_ids).values(), default=1) == 1


def judged(inputs: RecordedInputs) -> list[Finding]:
    """Return the findings of a detector for these rows."""
    detector = Detector("default")
    for at_ms, event in inputs:
        detector.now_ms = detector.now_ms or at_ms
        if event is None:
            detector.advance(at_ms)
        else:
            hear(detector, event)
    detector.finish()
    return detector.findings.all()


@cache
def found(name: str) -> list[Finding]:
    return judged(recorded_inputs(name))


def each_second(
    inputs: RecordedInputs, change: Callable[[list[tuple[int, Event | None]]], Iterable[tuple[int, Event | None]]]
) -> RecordedInputs:
    """Change the order or the number of the events between two ticks of the clock."""
    changed: RecordedInputs = []
    second: RecordedInputs = []
    for row in inputs:
        if row[1] is None:
            changed += [*change(second), row]
            second = []
        else:
            second.append(row)
    return [*changed, *change(second)]


def mixed(rows: RecordedInputs, chance: random.Random) -> RecordedInputs:
    """Reorder rows across topics; rows of one key stay in order, as in Kafka."""
    lanes: dict[tuple[Any, ...], RecordedInputs] = {}
    for row in rows:
        lanes.setdefault(_lane(row[1]), []).append(row)
    turns = [_lane(row[1]) for row in rows]
    chance.shuffle(turns)
    return [lanes[turn].pop(0) for turn in turns]


def _lane(event: Event | None) -> tuple[Any, ...]:
    if isinstance(event, ClientActivity):
        return ("report", event.host, event.pid, event.client_id, event.member_id)
    assert event is not None
    return (type(event), event.group, getattr(event, "rebalance_id", None))


@given(name=st.sampled_from(TAPED), chance=st.randoms(use_true_random=False))
@limits(max_examples=25)
def test_the_order_of_arrival_within_a_second_does_not_matter(name: str, chance: random.Random):
    """Topics are read in parallel: the order of rows within a second does not change the findings."""
    assert judged(each_second(recorded_inputs(name), lambda rows: mixed(rows, chance))) == found(name)


@pytest.mark.parametrize("name", TAPED)
def test_rows_that_come_twice_change_nothing(name: str):
    """Delivery is at least once: each row twice, or each second twice."""
    inputs = recorded_inputs(name)
    assert judged(each_second(inputs, lambda rows: [row for row in rows for _ in range(2)])) == found(name)
    assert judged(each_second(inputs, lambda rows: [*rows, *rows])) == found(name)


@pytest.mark.parametrize("name", TAPED)
def test_a_whole_story_that_comes_again_changes_nothing(name: str):
    """Even rows that are out of date: each is recognised by its position or its time."""
    inputs = recorded_inputs(name)
    assert judged([*inputs, *(row for row in inputs if row[1] is not None)]) == found(name)


@pytest.mark.parametrize("name", TAPED)
def test_findings_are_the_same_after_the_contract(name: str):
    """Rows that the stream publishes and reads back give the same findings as those in a replay's memory."""
    read_back: RecordedInputs = [(at_ms, through_json(event)) for at_ms, event in recorded_inputs(name)]
    assert judged(read_back) == found(name)
    for each in found(name):
        assert decode(encode(each), Finding) == each


def through_json(event: Event | None) -> Event | None:
    return event if event is None else decode(encode(event), type(event))


@pytest.mark.parametrize("name", TAPED)
def test_a_longer_life_changes_nothing_but_the_end(name: str):
    """An hour without events resolves findings about rebalances and adds no cause."""
    inputs = recorded_inputs(name)
    last_ms = max(at_ms for at_ms, _ in inputs)
    quiet: RecordedInputs = [(last_ms + at, None) for at in range(10 * SECOND, HOUR, 10 * SECOND)]
    later = {(each.rule, each.finding_id): each for each in judged([*inputs, *quiet]) if each.primary}
    about_rebalances = {key: each for key, each in later.items() if each.rebalance_ids}
    assert {each.state for each in about_rebalances.values()} <= {"resolved"}
    assert (
        Counter(name for each in later.values() for name in each.rebalance_ids).keys()
        == Counter(name for each in found(name) if each.primary for name in each.rebalance_ids).keys()
    )
