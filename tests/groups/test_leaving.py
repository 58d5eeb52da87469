"""How members left, in the totals of their group: each departure once."""

from __future__ import annotations

from dataclasses import replace

from groups.records import Log, member
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.leaving import TimedOut, note_timed_out
from rebalance_streaming.groups.model import GroupState, dump_state, load_state, new_state
from rebalance_streaming.groups.notices import Left, by_group, note


def lost() -> GroupState:
    """Return a group that lost two of its three members."""
    state = new_state("test", "g")
    for record in Log().write(1, member("a-1"), member("b-1"), member("c-1")).write(2, member("a-1")).records:
        state, _ = fold(state, record)
    return state


STATE = lost()
HOUR_MS = 3_600_000
LEFT = TimedOut("g", "7-1", 5 * HOUR_MS, expired=("b-1",), poll_timeout=("c-1",))


def counted(state: GroupState) -> tuple[int, int, int]:
    counters = state.picture.counters
    return counters.members_left, counters.members_expired, counters.members_poll_timeout


def test_departures_are_added_to_the_totals() -> None:
    """They are among those that left, and they are remembered with the state."""
    assert counted(STATE) == (2, 0, 0)
    after = note_timed_out(STATE, LEFT)
    assert counted(after) == (2, 1, 1)
    assert counted(STATE) == (2, 0, 0)
    assert load_state(dump_state(after)) == after


def test_no_departure_counts_twice() -> None:
    """The same notice again changes nothing, one with one member more counts that one only."""
    once = note_timed_out(STATE, LEFT)
    assert note_timed_out(once, LEFT) is once
    more = note_timed_out(once, replace(LEFT, expired=("b-1", "a-1")))
    assert counted(more) == (2, 2, 1)
    again = note_timed_out(more, replace(LEFT, rebalance_id="7-9"))
    assert counted(again) == (2, 3, 2)


def test_an_hour_told_twice_counts_once() -> None:
    """After a restart the diagnosis tells everything of its look-back again, however much that is."""
    told = [
        TimedOut("g", f"7-{n}", HOUR_MS + n * 12 * 60_000, expired=tuple(f"m-{each}" for each in range(300)))
        for n in range(5)
    ]
    state = STATE
    for each in (*told, *told):
        state = note_timed_out(state, each)
    assert counted(state)[1] == 1_500


def test_what_is_remembered_is_bounded_by_time() -> None:
    """A group that loses members all day does not grow, and what is older than all that is remembered was told."""
    state = STATE
    for minute in range(24 * 60):
        state = note_timed_out(state, TimedOut("g", f"7-{minute}", minute * 60_000, expired=("b-1",)))
    assert counted(state)[1] == 24 * 60
    assert len(state.timed_out) <= 121
    assert note_timed_out(state, TimedOut("g", "7-5", 5 * 60_000, expired=("b-1",))) is state


def test_a_group_deleted_at_once_still_counts() -> None:
    """Its last member died, an operator deleted the empty group before the diagnosis spoke."""
    state = new_state("test", "g")
    for record in Log().write(1, member("a-1")).write(2).delete().records:
        state, _ = fold(state, record)
    assert counted(note_timed_out(state, TimedOut("g", "7-2", 0, expired=("a-1",)))) == (1, 1, 0)


def test_a_forgotten_group_does_not_come_back() -> None:
    """Its totals are gone, and a late notice does not begin new ones."""
    unknown = new_state("test", "g")
    assert note_timed_out(unknown, LEFT) is unknown


def test_each_group_hears_of_its_own() -> None:
    """A notice is for several groups, and goes to each by its name."""
    other = replace(LEFT, group="h")
    parts = dict(by_group(Left((LEFT, other))))
    assert parts == {"g": Left((LEFT,)), "h": Left((other,))}
    state, told = note(STATE, parts["g"])
    assert (counted(state), told) == ((2, 1, 1), ())
