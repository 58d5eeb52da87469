"""Which member delayed a rebalance although all rejoined in the end, and which one delays it now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from histories import (
    MINUTE,
    SECOND,
    T0,
    TOPIC,
    Event,
    commits,
    history,
    joined,
    member,
    probe,
    report,
    silenced,
    snapshot,
)
from rebalance_contract import CommitGap, Generation, Member
from rebalance_contract.clients import ASSIGNED_LATENCY, POLL_AGE, REVOKED_LATENCY
from rebalance_streaming.detect.episode import EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.barrier import explain_barrier, explain_late_round, waiting_now
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.wire.metrics.report import ClientConfig

START_MS = T0 + 20 * MINUTE
WAIT_MS = 40 * SECOND
RELEASED_MS = START_MS + WAIT_MS
A, B, C, NEW = member("a-1", [0]), member("b-1", [1]), member("c-1", [2]), member("n-1", [3])


def explained(*events: Event, members: tuple[Member, ...] = (A, B, C), wait_ms: int = WAIT_MS) -> Verdict | None:
    """Let a member join a group whose members all rejoin, the last of them after a wait."""
    of = joined(RELEASED_MS - wait_ms, NEW, list(members), took_ms=wait_ms + 20)
    return explain_barrier(
        make_episode(history(*events, of), of, Thresholds(), JudgingTime(RELEASED_MS + 2 * MINUTE), EpisodeContext())
    )


def who(found: Verdict | None) -> list[str | None]:
    return [] if found is None else [each.client_id for each in found.subject.members]


def polling(of: Member, age_s: float | None = 0.5, **changes: Any) -> list[Event]:
    """Let a client report every five seconds until the release: polls of a fixed age, or none since the start."""
    times = range(START_MS - MINUTE, RELEASED_MS + 10_000, 5 * SECOND)
    ages = {at: age_s if age_s is not None else max(0.5, (min(at, RELEASED_MS) - START_MS) / 1000) for at in times}
    return [report(at, of, {POLL_AGE: ages[at]}, **changes) for at in times if at <= RELEASED_MS or age_s is not None]


def committed(last_ms: Mapping[int, int]) -> list[Event]:
    """Commit partitions on joining, each at its time."""
    return [commits(at, {p: 7}) for p, at in sorted(last_ms.items(), key=lambda each: each[1])]


def second_round(*events: Event, late_s: int, owned: Mapping[str, list[int]]) -> Verdict | None:
    """Let a newcomer get partitions in a second round after a delay; `owned` is the previous assignment by name."""
    assigned_ms = START_MS + 3_000
    before = [member(f"{name}-1", numbers) for name, numbers in owned.items()]
    after = [
        replace(each, partitions={TOPIC: [places[0]]}) for each, places in zip(before, owned.values(), strict=True)
    ]
    of = joined(START_MS, NEW, before)
    (first,) = of.generations
    second = Generation(3, "cooperative_followup", join_ended_at_ms=assigned_ms + late_s * SECOND)
    of = replace(of, generations=(first, second), members_after=(*after, NEW), protocol="cooperative-sticky")
    return explain_late_round(
        make_episode(history(*events, of), of, Thresholds(), JudgingTime(RELEASED_MS + 2 * MINUTE), EpisodeContext())
    )


@pytest.mark.parametrize(
    ("late_s", "owned", "expected"),
    [
        (15, {"a": [0, 3], "b": [1]}, (PLAUSIBLE, ["a"])),
        (15, {"a": [0, 3], "b": [1, 2]}, (PLAUSIBLE, [])),
        (15, {"a": [0], "b": [1]}, None),
        (9, {"a": [0, 3], "b": [1]}, None),
    ],
    ids=["one gave", "two gave", "nobody gave", "a heartbeat or two"],
)
def test_a_late_second_round_waited_for_who_gives_partitions_up(
    late_s: int, owned: dict[str, list[int]], expected: tuple[float, list[str]] | None
):
    """KIP-429: the second round begins when the revocation is done; the group is stable until then."""
    found = second_round(late_s=late_s, owned=owned)
    assert (None if found is None else (found.confidence, who(found))) == expected
    assert found is None or found.rule == "slow_rebalance_callback"


def test_of_those_that_gave_partitions_up_who_polled_was_not_late():
    """Polling stops during a callback."""
    found = second_round(*polling(B), late_s=20, owned={"a": [0, 3], "b": [1, 2]})
    assert who(found) == ["a"]


def test_a_callback_inside_poll_looks_like_polling():
    """A member that is in poll() at each report may be in a callback; one that returned from it meanwhile is not."""
    found = second_round(*polling(A, 0.0), *polling(B), late_s=20, owned={"a": [0, 3], "b": [1, 2]})
    assert who(found) == ["a"]
    assert who(second_round(*polling(A), late_s=20, owned={"a": [0, 3], "b": [1]})) == ["a"]
    eager = explained(*polling(A, 0.0), *polling(B), members=(A, B))
    assert eager is not None
    assert (eager.rule, eager.confidence, who(eager)) == ("slow_rebalance_callback", PLAUSIBLE, ["a"])
    several = explained(*polling(A, 0.0), *polling(B, 0.0), members=(A, B))
    assert several is not None
    assert (several.rule, several.confidence, who(several)) == ("slow_rebalance_callback", HINT, [])


def test_a_callback_that_is_reported_makes_a_late_round_certain():
    """By the client's own latency metric."""
    slow = report(START_MS + 25 * SECOND, A, {REVOKED_LATENCY: 18_000.0})
    found = second_round(slow, late_s=18, owned={"a": [0, 3], "b": [1]})
    assert found is not None
    assert (found.confidence, who(found)) == (CERTAIN, ["a"])


@pytest.mark.parametrize(("wait_s", "reported"), [(9, False), (10, True), (240, True)])
def test_ten_seconds_of_waiting_have_a_reason(wait_s: int, reported: bool):
    """An ordinary join takes at most a heartbeat interval."""
    found = explained(wait_ms=wait_s * SECOND)
    assert (found is not None) == reported
    if found is not None:
        assert found.started_at_ms == RELEASED_MS - wait_s * SECOND


def test_the_first_join_waits_by_design():
    """An empty group waits for more members (group.initial.rebalance.delay.ms)."""
    assert explained(members=()) is None


def test_a_wait_that_nobody_saw_is_not_reported():
    """Without probes only the release is known: no wait is invented."""
    of = joined(RELEASED_MS, NEW, [A, B], took_ms=20, started_after_ms=None)
    assert (
        explain_barrier(
            make_episode(history(of), of, Thresholds(), JudgingTime(RELEASED_MS + MINUTE), EpisodeContext())
        )
        is None
    )
    newer = joined(START_MS, NEW, [A, B], took_ms=WAIT_MS, join_ended_at_ms=None, type="consumer")
    assert (
        explain_barrier(
            make_episode(history(newer), newer, Thresholds(), JudgingTime(RELEASED_MS + MINUTE), EpisodeContext())
        )
        is None
    )


def test_the_one_that_did_not_poll_is_named():
    """All clients report: the two that kept polling waited for the one that did not."""
    found = explained(*polling(A), *polling(B, None), *polling(C))
    assert found is not None
    assert (found.rule, found.confidence, who(found)) == ("stalled_member_join_barrier", PLAUSIBLE, ["b"])
    assert "waited 40.0 s until b (/host-b) called poll() again" in found.summary
    assert found.missing == ()
    assert {each.parameter for each in found.advice} >= {"code", "max.poll.interval.ms"}


def test_who_polled_all_the_while_is_cleared():
    """Two of three report polls, so it was the third; if the only old member polled, it was none of the known ones."""
    assert who(explained(*polling(A), *polling(C))) == ["b"]
    alone = explained(*polling(A), members=(A,))
    assert alone is not None
    assert (who(alone), alone.confidence) == ([], HINT)
    assert who(explained(members=(A,))) == ["a"]


def test_the_last_to_commit_on_joining_held_the_others():
    """Eager clients commit when they revoke: two did at once, the third half a minute later."""
    late = {0: START_MS + SECOND, 1: RELEASED_MS - SECOND, 2: START_MS + 2 * SECOND}
    found = explained(*committed(late))
    assert (who(found), found.confidence if found else None) == (["b"], PLAUSIBLE)
    assert found is not None
    assert found.missing == ("client metrics: time in rebalance callbacks, age of the last poll",)


@pytest.mark.parametrize(
    "last_ms",
    [
        {},
        {0: START_MS + SECOND, 1: RELEASED_MS - SECOND},
        {0: START_MS + SECOND, 1: RELEASED_MS - SECOND, 2: RELEASED_MS - 4 * SECOND},
    ],
    ids=["no commits", "one never committed", "two came late"],
)
def test_nobody_is_accused_on_a_guess(last_ms: Mapping[int, int]):
    """It is certain that some member did not rejoin; if the member is unknown, nobody is named."""
    found = explained(*committed(last_ms))
    assert found is not None
    assert (found.rule, found.confidence, who(found)) == ("stalled_member_join_barrier", PLAUSIBLE, [])
    assert found.missing == ("client metrics: age of the last poll per member",)
    assert "which one is unknown" in found.summary


# --- Callbacks ---


@pytest.mark.parametrize(
    ("reports", "slow"),
    [
        ([report(RELEASED_MS + 5_000, B, {REVOKED_LATENCY: 38_000.0})], True),
        ([report(RELEASED_MS + 5_000, B, {ASSIGNED_LATENCY: 5_000.0})], True),
        ([report(RELEASED_MS + 5_000, B, {REVOKED_LATENCY: 4_900.0})], False),
        ([report(RELEASED_MS + 2 * MINUTE, B, {REVOKED_LATENCY: 38_000.0})], False),
        ([report(START_MS + at, B, join_state="wait-unassign-call") for at in (5_000, 20_000, 35_000)], True),
        ([report(START_MS + at, B, join_state="wait-assign-call") for at in (5_000, 10_000)], True),
        ([report(START_MS + 5_000, B, join_state="wait-unassign-call")], False),
        ([report(START_MS + at, B, join_state="wait-join") for at in (5_000, 35_000)], False),
    ],
    ids=["revoked", "assigned", "quick", "of another", "librdkafka", "five seconds", "once", "waits for others"],
)
def test_a_callback_of_five_seconds_is_certain(reports: list[Event], slow: bool):
    """The client's own metric of its rebalance callback decides, and names the member."""
    found = explained(*reports)
    assert found is not None
    assert (found.rule == "slow_rebalance_callback") == slow
    if slow:
        assert (found.confidence, who(found), found.started_at_ms) == (CERTAIN, ["b"], START_MS)
        assert {each.rule for each in found.alternatives} == {"stalled_member_join_barrier"}
        assert {each.parameter for each in found.advice} == {"code", "max.poll.interval.ms"}


# --- The late member, by commits ---


@pytest.mark.parametrize(
    ("last_ms", "expected"),
    [
        ({0: START_MS + 500, 1: RELEASED_MS - 100, 2: START_MS + 800}, ["b"]),
        ({0: START_MS - 9_000, 1: START_MS - 1_000, 2: START_MS - 8_000}, []),
        ({0: START_MS + 500, 1: START_MS + 20_000, 2: START_MS + 800}, []),
        ({0: RELEASED_MS - 3_000, 1: RELEASED_MS - 100, 2: START_MS + 800}, []),
        ({0: START_MS + 500, 1: RELEASED_MS - 100}, []),
    ],
    ids=["as it was released", "all before it", "long before its release", "two late", "one never commits"],
)
def test_the_last_to_commit_as_the_barrier_was_released_was_late(last_ms: dict[int, int], expected: list[str]):
    """Clients commit on revocation and then join; regular commits say nothing, whether or not clients polled."""
    assert who(explained(*committed(last_ms))) == expected
    found = explained(*committed(last_ms), *(row for each in (A, B, C) for row in polling(each, 0)))
    assert who(found) == expected
    assert found is not None
    assert (found.rule == "stalled_member_join_barrier") is bool(expected)


@pytest.mark.parametrize(
    ("last_ms", "ends", "expected"),
    [
        ({0: START_MS + 500, 1: START_MS - 2_000, 2: START_MS + 800}, 20, ["b"]),
        ({0: START_MS + 500, 1: START_MS - 2_000, 2: START_MS + 800}, 7, []),
        ({0: START_MS + 500, 1: START_MS - 2_000, 2: START_MS - 3_000}, 20, []),
    ],
    ids=["records waited", "it had committed all", "two that did not"],
)
def test_who_does_not_commit_as_the_others_join_was_late(last_ms: dict[int, int], ends: int, expected: list[str]):
    """Records had arrived since its last commit, so it would have committed on revocation, as the others did."""
    probes = [probe(START_MS + at, ends=dict.fromkeys((0, 1, 2), ends)) for at in (-3 * SECOND, 0)]
    assert who(explained(*committed(last_ms), *probes)) == expected


def test_a_gap_in_commits_shows_who_was_late_when_commits_are_forgotten():
    """A dozen commits are kept; with one per second they have been replaced by the time a rebalance is judged."""
    of = joined(START_MS, NEW, [A, B], took_ms=WAIT_MS + 20)
    after = [commits(RELEASED_MS + n * SECOND, {0: 8 + n, 1: 8 + n}) for n in range(1, 20)]
    ends = (
        CommitGap(TOPIC, 0, START_MS, RELEASED_MS + SECOND),
        CommitGap(TOPIC, 1, START_MS - SECOND, RELEASED_MS - 100),
    )
    for gaps, expected in ((ends, ["b"]), ((), [])):
        known = history(of, *after, silenced(of, *gaps))
        found = explain_barrier(
            make_episode(known, of, Thresholds(), JudgingTime(RELEASED_MS + MINUTE), EpisodeContext())
        )
        assert who(found) == expected


@pytest.mark.parametrize(
    ("busy", "before", "expected"),
    [([0, 2], [0, 1, 2], ["b"]), ([0], [0, 1, 2], []), ([0, 2], [0, 2], []), ([0, 1, 2], [0, 1, 2], [])],
    ids=["one is silent", "two are", "of one nothing is known", "nobody is"],
)
def test_with_a_cooperative_assignor_who_joined_goes_on(busy: list[int], before: list[int], expected: list[str]):
    """Members keep their partitions while they wait, so only a member that has not joined stops committing."""
    events = [
        snapshot(T0, A, B, C, protocol="cooperative-sticky"),
        commits(START_MS - SECOND, dict.fromkeys(before, 1)),
        *(commits(START_MS + at * SECOND, dict.fromkeys(busy, at)) for at in range(5, 40, 5)),
    ]
    assert who(explained(*events)) == expected


# --- Live ---


def now(
    seconds: int, *events: Event, members: tuple[Member, ...] = (A, B), logged_ms: int = T0, lag: bool = False
) -> Verdict | None:
    """Return the verdict on a group some seconds after probes first saw it prepare."""
    known = history(snapshot(T0, *members, last_rebalance_ms=logged_ms), *events)
    return waiting_now(known, START_MS + seconds * SECOND, 10_000, MINUTE, lag_grows=lag)


def preparing(to_s: int, *listed: Member) -> list[Event]:
    return [probe(START_MS + at * SECOND, "PreparingRebalance", listed or None) for at in range(0, to_s + 1, 5)]


def test_the_one_old_member_is_awaited():
    """Story B live: the newcomer is there, the old member is awaited; released after the rest of the 300 s."""
    found = now(20, *preparing(20, B, NEW))
    assert found is not None
    assert (found.rule, found.confidence, who(found)) == ("stalled_member_join_barrier", STRONG, ["b"])
    assert found.summary == ("The group has been waiting 20.0 s for b (/host-b); it is released after at most 280 s.")
    assert (found.started_at_ms, found.missing) == (START_MS, ())


def test_the_longest_time_out_of_all_bounds_the_wait():
    """The group's rebalance time-out is the largest of its members."""
    patient = replace(A, rebalance_timeout_ms=600_000)
    found = now(20, *preparing(20, patient, B), members=(patient, B))
    assert found is not None
    assert "at most 580 s" in found.summary


@pytest.mark.parametrize(
    ("seconds", "events", "logged_ms"),
    [
        (9, preparing(5, B, NEW), T0),
        (20, [probe(START_MS, "Stable"), probe(START_MS + 20_000, "Stable")], T0),
        (20, [*preparing(15, B), probe(START_MS + 18_000, "CompletingRebalance")], T0),
        (20, [], T0),
        (120, preparing(20, B, NEW), T0),
        (25, preparing(20, B, NEW), START_MS + 22_000),
        (40, preparing(0, B, NEW), T0),
        (40, [*preparing(0, B), probe(START_MS + 39_000, "PreparingRebalance")], START_MS + 10_000),
    ],
    ids=[
        *("not for long", "stable", "released", "no probes", "nobody looked since", "the log knows better"),
        *("seen once", "two waits, and the log has the end of the first"),
    ],
)
def test_what_does_not_wait_now_is_not_reported(seconds: int, events: list[Event], logged_ms: int):
    """Only if a fresh probe still sees it prepare, ten seconds after the first since the last release in the log."""
    assert now(seconds, *events, logged_ms=logged_ms) is None


def test_a_spell_begins_with_its_first_probe():
    """An earlier preparation that ended is separate."""
    earlier = [probe(START_MS - 30_000, "PreparingRebalance"), probe(START_MS - 5_000, "Stable")]
    found = now(15, *earlier, *preparing(15, B))
    assert found is not None
    assert found.started_at_ms == START_MS


def test_several_that_may_be_awaited_are_a_doubt():
    """The confidence is lower, and the missing source is named; reports point to the member that did not poll."""
    found = now(20, *preparing(20, A, B, NEW))
    assert found is not None
    assert (found.confidence, found.missing) == (PLAUSIBLE, ("client metrics: age of the last poll per member",))
    assert "a member that has not rejoined" in found.summary
    polls = [report(START_MS + at * SECOND, A, {POLL_AGE: 0.5}) for at in range(-60, 21, 5)]
    narrowed = now(20, *polls, *preparing(20, A, B, NEW))
    assert (who(narrowed), narrowed.confidence if narrowed else None) == (["b"], STRONG)


def test_a_member_that_polls_is_not_awaited():
    """The only old member reports polls: another, unknown member is awaited."""
    polls = [report(START_MS + at * SECOND, B, {POLL_AGE: 0.5}) for at in range(-60, 21, 5)]
    found = now(20, *polls, *preparing(20, B, NEW))
    assert found is not None
    assert (who(found), found.confidence) == ([], PLAUSIBLE)


@pytest.mark.parametrize(("seconds", "lag", "severity"), [(70, True, "page"), (70, False, None), (50, True, None)])
def test_a_minute_of_waiting_with_growing_lag_pages(seconds: int, lag: bool, severity: str | None):
    """A shorter wait, or one without impact, has the severity of the catalogue."""
    found = now(seconds, *preparing(seconds, B, NEW), lag=lag)
    assert found is not None
    assert found.severity == severity


def test_a_slow_heart_is_waited_for():
    """A member with a heartbeat interval of ten seconds learns of it late: 25 s are usual, 31 s are not."""
    polls = report(START_MS - MINUTE, B, config=ClientConfig(heartbeat_interval_ms=10_000))
    assert now(25, polls, *preparing(25, B, NEW)) is None
    assert now(31, polls, *preparing(30, B, NEW)) is not None
