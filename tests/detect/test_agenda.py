"""The agenda: which group is due, by changes and by time alone; independent of rules and findings."""

from __future__ import annotations

from typing import Any

import pytest

from histories import MINUTE, SECOND, T0
from rebalance_streaming.detect.agenda import Agenda, Timetable
from rebalance_streaming.observed import inputs

SWEEP_MS = 10 * MINUTE


def judged(agenda: Agenda, group: str = "g", at_ms: int = T0) -> Timetable:
    """Return the timetable of a group that has been judged and expects nothing but its sweep."""
    timetable = agenda.open(group, at_ms)
    timetable.sweep_ms = at_ms + SWEEP_MS
    agenda.take_due(at_ms + MINUTE)
    timetable.take_changed(at_ms)
    agenda.plan(timetable, timetable.next_ms(at_ms, None, is_joining=False))
    return timetable


def turns(agenda: Agenda, until_ms: int, from_ms: int = T0) -> list[int]:
    """Return when groups were due, in seconds after T0, checked each second."""
    return [(at_ms - T0) // SECOND for at_ms in range(from_ms, until_ms + 1, SECOND) if agenda.take_due(at_ms)]


def test_a_new_group_is_judged_within_half_a_minute():
    """With whatever is known at that time; its sweep may be sooner."""
    agenda = Agenda()
    timetable = agenda.open("g", T0)
    assert timetable.changed == inputs.EVERYTHING
    assert T0 <= timetable.sweep_ms < T0 + SWEEP_MS
    first = min(timetable.sweep_ms, T0 + 30 * SECOND)
    assert not agenda.take_due(first - 1)
    assert agenda.take_due(first) == {"g"}
    assert not agenda.take_due(first)


def test_sweeps_are_spread():
    """A thousand groups that are found at once are swept at different times."""
    agenda = Agenda()
    seconds = {agenda.open(f"group-{number}", T0).sweep_ms // SECOND for number in range(1_000)}
    assert len(seconds) > 400


@pytest.mark.parametrize(
    ("changed", "rests_on", "due_s"),
    [
        pytest.param(inputs.GROUP, inputs.NOTHING, 0, id="its members: at once"),
        pytest.param(inputs.STATES, inputs.NOTHING, 0, id="its state: at once"),
        pytest.param(inputs.COMMITS, inputs.NOTHING, 30, id="bulky rows: collected"),
        pytest.param(inputs.COMMITS, inputs.COMMITS, 5, id="bulky rows that a finding rests on: soon"),
        pytest.param(inputs.COMMITS, inputs.CLIENTS, 30, id="a finding rests on others"),
        pytest.param(inputs.COMMITS | inputs.GROUP, inputs.NOTHING, 0, id="both"),
    ],
)
def test_what_changed_says_how_soon(changed: int, rests_on: int, due_s: int):
    """Frequent rows are collected; all others make the group due at the next turn."""
    agenda = Agenda()
    timetable = judged(agenda)
    timetable.rests_on = rests_on
    agenda.touch(timetable, changed)
    assert turns(agenda, T0 + MINUTE) == [due_s]
    assert timetable.take_changed(T0 + due_s * SECOND) == changed


def test_the_earliest_reason_counts_and_later_entries_are_out_of_date():
    """A group that is planned for later and then for sooner has one turn."""
    agenda = Agenda()
    timetable = judged(agenda)
    for at_s in (50, 20, 40):
        agenda.plan(timetable, T0 + at_s * SECOND)
    assert turns(agenda, T0 + MINUTE) == [20]


def test_a_rebalance_waits_for_its_first_moment():
    """Rows about the rebalance that arrive meanwhile do not postpone its judgement."""
    agenda = Agenda()
    timetable = judged(agenda)
    agenda.plan_rebalance(timetable, "r1", T0 + 15 * SECOND)
    agenda.plan_rebalance(timetable, "r1", T0 + 25 * SECOND)
    assert turns(agenda, T0 + MINUTE) == [15]
    assert not timetable.take_rebalances(T0 + 14 * SECOND)
    assert timetable.take_rebalances(T0 + 15 * SECOND) == {"r1"}
    assert not timetable.take_rebalances(T0 + MINUTE)


def test_a_cause_is_found_anew_when_it_may_be_another():
    """At the planned time, until it was explained; never for forgotten rebalances."""
    timetable = Timetable("g", T0, T0 + SWEEP_MS, explain_ms={"r1": T0 + SECOND, "r2": T0 + SECOND})
    timetable.keep({"r1"})
    assert not timetable.take_rebalances(T0)
    assert timetable.take_rebalances(T0 + SECOND) == {"r1"}
    assert timetable.take_rebalances(T0 + 2 * SECOND) == {"r1"}


@pytest.mark.parametrize(
    ("changes", "answers_s", "joining", "due_s"),
    [
        pytest.param({}, None, False, 600, id="nothing but the sweep"),
        pytest.param({}, 90, False, 90, id="an answer"),
        pytest.param({}, -90, False, 0, id="an answer that is overdue"),
        pytest.param({"restate_ms": T0 + 70 * SECOND}, 90, False, 70, id="what was stated"),
        pytest.param({"waiting": {"r": T0 + 12 * SECOND}}, None, False, 12, id="a rebalance"),
        pytest.param({"explain_ms": {"r": T0 + 8 * SECOND, "q": T0}}, None, False, 8, id="a cause; one of now is done"),
        pytest.param({"changed": inputs.ENDS}, None, False, 30, id="bulky rows"),
        pytest.param({}, None, True, 5, id="its join phase"),
    ],
)
def test_the_next_turn_is_the_first_moment_that_may_matter(
    changes: dict[str, Any], answers_s: int | None, joining: bool, due_s: int
):
    """All times known in advance count except the present: overdue ones have their turn a millisecond later."""
    timetable = Timetable("g", T0, T0 + SWEEP_MS, **{"changed": inputs.NOTHING, **changes})
    answers_ms = None if answers_s is None else T0 + answers_s * SECOND
    assert timetable.next_ms(T0, answers_ms, is_joining=joining) == T0 + max(1, due_s * SECOND)


@pytest.mark.parametrize(("late_ms", "next_s"), [(0, 600), (SECOND, 600), (SWEEP_MS, 1_200), (SWEEP_MS + 1, 1_200)])
def test_a_sweep_asks_everything_and_keeps_its_beat(late_ms: int, next_s: int):
    """However late it is, the next one is at a multiple of its interval, and in the future."""
    timetable = Timetable("g", T0, T0, changed=inputs.NOTHING)
    assert timetable.take_changed(T0 - 1) == inputs.NOTHING
    assert timetable.take_changed(T0 + late_ms) == inputs.EVERYTHING
    assert timetable.sweep_ms == T0 + next_s * SECOND
    assert timetable.take_changed(T0 + late_ms) == inputs.NOTHING


def test_groups_that_are_gone_have_no_turn():
    """Neither by changes nor by earlier plans; a new group of the same name starts from scratch."""
    agenda = Agenda()
    gone, other = judged(agenda, "gone"), judged(agenda, "other")
    agenda.touch(gone, inputs.GROUP)
    agenda.forget("gone")
    agenda.plan_groups(["gone", "other", "never there"], inputs.LOSSES, T0 + SECOND)
    agenda.restate(["gone", "never there"], T0)
    assert not agenda.take_due(T0)
    assert agenda.take_due(T0 + SECOND) == {"other"}
    assert other.changed & inputs.LOSSES
    agenda.touch(other, inputs.GROUP)
    assert agenda.open("gone", T0 + SECOND).changed == inputs.EVERYTHING
    assert agenda.take_due(T0 + SECOND) == {"other"}


def test_a_rebalance_is_explained_at_the_earliest_of_its_times():
    """Whichever was planned first."""
    timetable = Timetable("g", T0, T0 + SWEEP_MS, changed=inputs.NOTHING)
    for at_s in (30, 20, 40):
        timetable.explain_by("r", T0 + at_s * SECOND)
    assert timetable.next_ms(T0, None, is_joining=False) == T0 + 20 * SECOND
    assert timetable.take_rebalances(T0 + 20 * SECOND - 1) == set()
    assert timetable.take_rebalances(T0 + 20 * SECOND) == {"r"}


def test_after_the_clock_was_set_back_all_groups_are_judged_soon():
    """Everything is evaluated, and no rebalance waits for its former time."""
    agenda = Agenda()
    timetable = judged(agenda, at_ms=T0 + 60 * MINUTE)
    agenda.plan_rebalance(timetable, "7-1", T0 + 60 * MINUTE)
    timetable.explain_by("7-0", T0 + 60 * MINUTE)
    agenda.turn_back(T0)
    assert turns(agenda, T0 + 30 * SECOND)
    assert timetable.take_changed(T0) == inputs.EVERYTHING
    assert timetable.take_rebalances(T0 + 30 * SECOND) == {"7-1", "7-0"}
    assert timetable.next_ms(T0, None, is_joining=False) <= T0 + SWEEP_MS
