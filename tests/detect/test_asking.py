"""Rules are evaluated only when their result may have changed, with the same results as if evaluated all the time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from accuracy.recordings import recordings
from detect.recorded_inputs import RecordedInputs, recorded_inputs
from detect.turnover import hear
from histories import HOUR, MINUTE, SECOND, T0, Event, commits, member, probe, rebalance, report, snapshot
from rebalance_contract import Member
from rebalance_contract.clients import CONSUMED_RATE, HEARTBEAT_AGE, POLL_AGE, POLL_GAP_MAX, RESPONSE_MAX
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.observed import inputs

#: Bulky rows count half a minute after they arrived; the clock of the generated lives ticks every ten seconds.
_LATE_MS = 40 * SECOND


class EvaluatesEverything(Detector):
    """Evaluates every rule for every group at every turn."""

    def _due(self) -> list[str]:
        super()._due()
        for judged_group in self._judged_groups.values():
            judged_group.timetable.changed, judged_group.timetable.restate_ms = inputs.EVERYTHING, self.now_ms
        return sorted(self._judged_groups)


def standing(detector: Detector) -> set[tuple[str, ...]]:
    """Return the firing findings, without texts that contain the elapsed time."""
    firing = [each for each in detector.findings.all() if each.state == "firing"]
    return {(each.group, each.rule, each.severity, each.variant or "") for each in firing}


def differences(inputs: RecordedInputs) -> list[tuple[int, tuple[str, ...]]]:
    """Return for how long (ms) each finding was open in only one of the two detectors."""
    eager, restless = Detector("default"), EvaluatesEverything("default")
    since: dict[tuple[str, ...], int] = {}
    found, at_ms = [], 0
    for at_ms, event in inputs:
        for each in (eager, restless):
            each.now_ms = each.now_ms or at_ms
            if event is None:
                each.advance(at_ms)
            else:
                hear(each, event)
        if event is None:
            differs = standing(eager) ^ standing(restless)
            found += [(at_ms - since.pop(name), name) for name in since.keys() - differs]
            since = {name: since.get(name, at_ms) for name in differs}
    assert not eager.quarantined
    return [*found, *((at_ms - began, name) for name, began in since.items())]


@pytest.mark.recordings
@pytest.mark.parametrize("name", [each.name for each in recordings()])
def test_recordings_are_judged_as_if_all_rules_were_asked_each_second(name: str):
    """The findings are the same at all times, except for the half minute for which bulky rows are collected.

    So they are in the quarter of an hour after it, in which nothing arrives.
    """
    known = recorded_inputs(name)
    after: RecordedInputs = [(known[-1][0] + late_ms, None) for late_ms in range(0, 15 * MINUTE, 10 * SECOND)]
    assert max((late for late, _ in differences([*known, *after])), default=0) <= _LATE_MS


def life(seed: int) -> Iterator[tuple[int, Event]]:
    """Generate most of an hour of a group: phases in which events of any kind continue, stop, or are faulty."""
    dice = random.Random(seed)
    names = [f"{letter}-1" for letter in "abc"[: dice.randint(0, 3)]]
    static = dice.random() < 0.3
    members = [_made(name, at, len(names), static, dice) for at, name in enumerate(names)]
    yield T0, snapshot(T0, *members, first_seen_ms=T0 - dice.choice([0, HOUR]))
    cuts = sorted({0, 2_700, *(dice.randrange(2_700) for _ in range(5))})
    committed, end = [1_000] * 6, [1_000] * 6
    for begin, finish in pairwise(cuts):
        pace, works, stuck = dice.choice([0, 5, 50]), dice.random() < 0.6, dice.choice([None, None, 0, 4])
        reports, probed = dice.random() < 0.5, dice.random() < 0.8
        if members and dice.random() < 0.6:
            yield from _shaken(T0 + begin * SECOND + 500, members, dice)
        for second in range(begin - begin % 10 + 10, finish, 10):
            at_ms = T0 + second * SECOND
            end = [each + pace * (8 if p == 0 and seed % 3 == 0 else 1) for p, each in enumerate(end)]
            if works:
                before = zip(committed, end, strict=True)
                committed = [c if p == stuck else min(e, c + 40) for p, (c, e) in enumerate(before)]
                yield at_ms, commits(at_ms, dict(enumerate(committed)))
            if probed:
                state = "Stable" if members else "Empty"
                ends = dict(enumerate(end))
                yield at_ms + 1, probe(at_ms + 1, state, ends=ends, coordinator_id=begin % 2)
            for each in members if reports else ():
                yield at_ms + 2, report(at_ms + 2, each, _values(dice), interval_ms=10_000)


def _made(name: str, at: int, count: int, static: bool, dice: random.Random) -> Member:
    share = range(at * 6 // count, (at + 1) * 6 // count - dice.choice([0, 0, 1]))
    instance = f"instance-{name}" if static else None
    return member(
        name, list(share), group_instance_id=instance, session_timeout_ms=dice.choice([6_000, 10_000, 45_000])
    )


def _shaken(at_ms: int, members: list[Member], dice: random.Random) -> Iterator[tuple[int, Event]]:
    """One member leaves and returns, or the group stays empty for a while."""
    gone = dice.choice(members)
    rest = [each for each in members if each is not gone]
    back_ms = at_ms + dice.choice([5, 60, 400]) * SECOND
    yield at_ms + 3 * SECOND, rebalance(at_ms, members, rest)
    yield at_ms + 3 * SECOND, snapshot(at_ms + 3 * SECOND, *rest)
    yield back_ms + 3 * SECOND, rebalance(back_ms, rest, members)
    yield back_ms + 3 * SECOND, snapshot(back_ms + 3 * SECOND, *members)


def _values(dice: random.Random) -> dict[str, float | None]:
    slow = dice.random() < 0.02
    return {
        CONSUMED_RATE: 1.0,
        HEARTBEAT_AGE: 1.0,
        POLL_AGE: 200.0 if slow else 0.5,
        POLL_GAP_MAX: 200_000.0 if slow else 400.0,
        RESPONSE_MAX: 3_000.0 if slow else 5.0,
    }


def ticking(events: list[tuple[int, Event]]) -> RecordedInputs:
    """Add ticks of the clock to events, in order of time, until a while after the last of them."""
    ticks: RecordedInputs = [
        (at_ms, None) for at_ms in range(T0, max(at for at, _ in events) + 15 * MINUTE, 10 * SECOND)
    ]
    return sorted([*events, *ticks], key=lambda each: each[0])


@pytest.mark.generated
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 24))])
def test_lives_are_judged_as_if_all_rules_were_asked_each_second(seed: int):
    """In hours of commits, probes and reports that continue, stop and fail, rules with a deadline miss none."""
    late = differences(ticking(sorted(life(seed), key=lambda each: each[0])))
    assert [each for each in late if each[0] > _LATE_MS] == []
