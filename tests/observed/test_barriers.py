"""How long members waited for each other, in each generation of a rebalance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from histories import MINUTE, SECOND, T0, history, member, probe, rebalance, report, snapshot
from rebalance_contract import Generation, Member, Probe, Rebalance
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.detect.episode import EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.barriers import Barrier, barriers, longest_barrier

FORMED_MS = T0 + MINUTE
PREPARES = "PreparingRebalance"
#: The second joins within the six seconds that merge rebalances, and gets in when the first has exceeded its limit.
HELD_MS, LET_IN_MS = FORMED_MS + 5 * SECOND, FORMED_MS + 25 * SECOND
FIRST = member("a-1", [0, 1, 2, 3], rebalance_timeout_ms=25_000, session_timeout_ms=45_000)
NEW = member("n-1", [0, 1, 2, 3])


def forming_and_held(before: tuple[Member, ...] = (), **changes: object) -> Rebalance:
    """The first member forms the group; the second joins at once and waits until the first is out: one rebalance."""
    rounds = (
        Generation(1, "first_join", join_ended_at_ms=FORMED_MS - 20, assigned_at_ms=FORMED_MS, joined=("a-1",)),
        Generation(
            2,
            "members_replaced",
            join_ended_at_ms=LET_IN_MS,
            assigned_at_ms=LET_IN_MS + 20,
            joined=("n-1",),
            left=("a-1",),
        ),
    )
    fields = {"generations": rounds, "passing": (FIRST,), "join_ended_at_ms": FORMED_MS - 20, **changes}
    return rebalance(FORMED_MS - 3 * SECOND, before, [NEW], took_ms=LET_IN_MS - FORMED_MS + 3_020, **fields)


def waits(of: Rebalance, *probes: Probe) -> list[int]:
    """Return how long members waited in each barrier, in milliseconds."""
    return [each.waited_ms for each in barriers(history(*probes, of), of)]


PREPARING = [probe(at, "PreparingRebalance", [FIRST, NEW]) for at in range(HELD_MS, LET_IN_MS, 5 * SECOND)]


def test_every_generation_has_a_barrier_of_its_own():
    """The first join of an empty group waits by design; later waits are measured from the first probe of them."""
    of = forming_and_held()
    (held,) = barriers(history(*PREPARING, of), of)
    assert (held.from_ms, held.released_ms, held.left, held.stayed) == (HELD_MS, LET_IN_MS, {"a-1"}, ())
    assert longest_barrier(history(*PREPARING, of), of) == held
    assert held.waited_ms == 20 * SECOND


def test_a_wait_that_nobody_saw_is_not_made_up():
    """Without probes only the release of a later generation is known; other protocols have no barrier."""
    of = forming_and_held()
    assert waits(of) == [0]
    newer = forming_and_held(generations=(Generation(2, "join"),))
    assert barriers(history(*PREPARING, newer), newer) == ()
    assert longest_barrier(history(*PREPARING, newer), newer) is None


def test_a_start_in_the_log_needs_no_probe():
    """The log has the time at which the first member of a group new to its coordinator joined."""
    of = forming_and_held()
    first, second = of.generations
    held = forming_and_held(generations=(first, replace(second, started_at_ms=HELD_MS - SECOND)))
    assert waits(held) == [21 * SECOND]


def test_those_who_stayed_are_those_who_were_there():
    """A member that joined with the generation itself did not delay the others."""
    old = member("o-1", [4])
    of = forming_and_held(before=(old,), members_after=(old, NEW))
    first, second = barriers(history(*PREPARING, of), of)
    assert (first.waited_ms, first.stayed) == (3 * SECOND - 20, (old,))
    assert (second.waited_ms, second.stayed) == (20 * SECOND, (old,))


def test_a_round_that_failed_is_not_part_of_the_wait():
    """The group prepared, its leader did not send the assignment, it prepared again: only the latter is the barrier."""
    first, second = forming_and_held().generations
    of = forming_and_held(generations=(first, replace(second, aborted_before=1)))
    states = {HELD_MS: "PreparingRebalance", HELD_MS + 2_000: "CompletingRebalance", LET_IN_MS - 1_000: PREPARES}
    assert waits(of, *(probe(at, state) for at, state in states.items())) == [1_000]
    alone = rebalance(HELD_MS, [FIRST], [FIRST, NEW], took_ms=20_020, generations=(replace(second, aborted_before=1),))
    assert waits(alone, *(probe(at, state) for at, state in states.items())) == [1_000]


def test_a_probe_dated_late_belongs_to_the_barrier_before():
    """Its time is that of the last response: a moment after the assignment it may still have the earlier state."""
    late = [probe(FORMED_MS + 300, PREPARES, [FIRST]), probe(FORMED_MS + 2_300, "Stable")]
    assert waits(forming_and_held(), *late) == [0]
    assert waits(forming_and_held(), *late, *PREPARING) == [20 * SECOND]


def test_a_member_that_left_later_was_there_before():
    """A member that leaves in the next generation was among those that the others may have waited for."""
    one, two = member("o-1", [4]), member("o-2", [5])
    rounds = (
        Generation(2, "join", join_ended_at_ms=HELD_MS + 40_000, assigned_at_ms=HELD_MS + 40_020, joined=("n-1",)),
        Generation(3, "departure", join_ended_at_ms=HELD_MS + 44_000, assigned_at_ms=HELD_MS + 44_020, left=("o-1",)),
    )
    of = rebalance(HELD_MS, [one, two], [two, NEW], took_ms=44_020, generations=rounds)
    longest = longest_barrier(history(of), of)
    assert longest == Barrier(HELD_MS, HELD_MS + 40_000, (one, two), frozenset())
    primary, *_ = explain(
        make_episode(history(of), of, Thresholds(), JudgingTime(HELD_MS + 2 * MINUTE), EpisodeContext())
    )
    assert [each.member_id for each in primary.subject.members] != ["o-2"]


@pytest.mark.parametrize("reports", [True, False])
def test_a_member_that_stops_polling_right_after_the_group_formed_holds_the_newcomer(reports: bool):
    """Both are one rebalance, and its cause is the wait in its second generation."""
    of = forming_and_held()
    polls = [report(at, FIRST, {POLL_AGE: (at - FORMED_MS) / 1000}) for at in range(FORMED_MS, LET_IN_MS, 5 * SECOND)]
    known = history(snapshot(T0, FIRST), *(polls if reports else ()), *PREPARING, of)
    primary, *_ = explain(make_episode(known, of, Thresholds(), JudgingTime(LET_IN_MS + MINUTE), EpisodeContext()))
    assert primary.rule == "stalled_member_join_barrier"
    assert [each.member_id for each in primary.subject.members] == ["a-1"]
    assert primary.started_at_ms == HELD_MS
    assert "20.0 s" in primary.summary
