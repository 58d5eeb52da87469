"""A coordinator that stalls: all members give up, and join again once it responds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from histories import MINUTE, SECOND, T0, Event, history, member, probe, pulse, rebalance, report
from rebalance_contract import Generation, Member, Rebalance
from rebalance_streaming.detect.episode import Episode, EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.rules.coordinator import find_standstill
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG

BACK_MS = T0 + 10 * MINUTE
A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
NEW_A, NEW_B = replace(A, member_id="a-2"), replace(B, member_id="b-2")
GAVE_UP = "Consumer group session timed out (in join-state steady) after 10027 ms without a successful response"


def anew(**changes: Any) -> Rebalance:
    """Return the rebalance in which both members were replaced."""
    return rebalance(BACK_MS, [A, B], [NEW_A, NEW_B], **{"reason": "replacement", "took_ms": SECOND, **changes})


def running(old: Member, new: Member, *, reason: str | None = None, pids: tuple[int, int] = (7, 7)) -> list[Event]:
    """Return a client's reports without a gap: as one member until it gave up, then as another."""
    times = range(BACK_MS - MINUTE, BACK_MS + MINUTE, 5 * SECOND)
    gave_up_ms = BACK_MS - 5 * SECOND
    return [
        report(
            at,
            old if at < gave_up_ms else new,
            tick_late_ms=0,
            pid=pids[at > BACK_MS],
            process_start_ms=T0 + pids[at > BACK_MS] * MINUTE,
            reason=reason if at >= gave_up_ms else None,
        )
        for at in times
    ]


def both(**changes: Any) -> list[Event]:
    return [*running(A, NEW_A, **changes), *running(B, NEW_B, **changes)]


def silent(for_s: int = 20) -> list[Event]:
    """Let both commit until this long before."""
    last_ms = BACK_MS - for_s * SECOND
    return list(pulse(last_ms - MINUTE, last_ms + 1, [0, 1, 2, 3]))


def looked_at(of: Rebalance, *events: Event) -> Episode:
    return make_episode(history(*events, of), of, Thresholds(), JudgingTime(BACK_MS + 2 * MINUTE), EpisodeContext())


@pytest.mark.parametrize(
    ("events", "confidence"),
    [
        pytest.param([*silent(), *both(reason=GAVE_UP)], STRONG, id="all say that nobody answered"),
        pytest.param([*silent(2), *both(reason=GAVE_UP)], STRONG, id="a commit that waited was taken afterwards"),
        pytest.param([*silent(), *running(A, NEW_A, reason=GAVE_UP), *running(B, NEW_B)], PLAUSIBLE, id="one says so"),
        pytest.param([*silent(), *both()], PLAUSIBLE, id="nobody says why, commits stopped for a session"),
        pytest.param([*silent(2), *both()], None, id="nobody says why, commits went on"),
        pytest.param([*silent(), *both(reason=GAVE_UP, pids=(7, 9))], None, id="other processes"),
        pytest.param([*silent(), *running(A, NEW_A, reason=GAVE_UP)], None, id="one reports"),
        pytest.param(silent(), None, id="none reports"),
        pytest.param(
            [*silent(), *both(reason=GAVE_UP), probe(BACK_MS - 4 * SECOND, "Stable", [A, B])],
            None,
            id="it answered a probe meanwhile",
        ),
    ],
)
def test_a_coordinator_that_answers_nobody_is_recognised_by_clients_that_ran_on(
    events: list[Event], confidence: float | None
):
    """All are replaced in one generation by their own processes; more confident the more of them report the reason."""
    found = find_standstill(looked_at(anew(), *events))
    assert (None if found is None else found.confidence) == confidence
    if found is not None:
        assert [each.client_id for each in found.subject.members] == ["a", "b"]


def emptied_and_joined() -> Rebalance:
    """Return a rebalance of two generations: all were removed, then all joined."""
    gone, came = BACK_MS + 100, BACK_MS + 5 * SECOND
    steps = (
        Generation(2, "group_emptied", assigned_at_ms=gone, left=("a-1", "b-1")),
        Generation(3, "join", assigned_at_ms=came, joined=("a-2", "b-2")),
    )
    return anew(generations=steps)


def in_several_rounds() -> Rebalance:
    """Return a rebalance of two generations: all are replaced in the first, and a second one follows."""
    (first,) = anew().generations
    return anew(generations=(first, Generation(3, "other", assigned_at_ms=BACK_MS + 5 * SECOND)))


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(emptied_and_joined(), id="it removed them after their session"),
        pytest.param(anew(took_ms=MINUTE), id="they waited for each other"),
        pytest.param(in_several_rounds(), id="it took several rounds"),
        pytest.param(rebalance(BACK_MS, [A, B], [A, NEW_B], reason="replacement"), id="one stayed"),
        pytest.param(rebalance(BACK_MS, [A, B], [NEW_A]), id="one is not back"),
    ],
)
def test_a_coordinator_that_worked_did_not_stand_still(of: Rebalance):
    """It removes members that are silent for a session, and keeps the others."""
    assert find_standstill(looked_at(of, *silent(), *both(reason=GAVE_UP))) is None


def test_what_is_found_of_each_member_came_of_the_standstill():
    """The coordinator is the only cause."""
    found = explain(looked_at(anew(), *silent(), *both(reason=GAVE_UP)))
    assert found[0].rule == "coordinator_overload"
    assert "none of 2 members for a session of 10.0 s" in found[0].summary
    assert not {each.rule for each in found} & {"network_partition", "join_rejected", "undetermined"}
