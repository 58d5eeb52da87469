"""Partitions without progress or without a consumer, as seen in commits and end offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from detect.standing_histories import departed
from detect.views import view_of
from histories import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    history,
    member,
    probe,
    rebalance,
    rebalance_id,
    report,
    snapshot,
    take,
)
from rebalance_contract import Member, Probe, Severity
from rebalance_streaming.detect.answers import Clocks, hold
from rebalance_streaming.detect.group_view import ConditionRule
from rebalance_streaming.detect.rules.progress import (
    commit_failures_after_rebalance,
    partition_skew,
    slow_consumer_group,
    stalled_consumer,
    zombie_member,
)
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.detect.rules.unread import commit_only_group, empty_group_with_lag, orphan_partition
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG
from rebalance_streaming.observed.history import GroupHistory

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
BOTH = {"orders": [0, 1]}


_clocks: dict[tuple[int, ConditionRule], Clocks] = {}


def judge(rule: ConditionRule, known: GroupHistory, after_ms: int, **changes: object) -> list[Verdict]:
    seen = view_of(known, T0 + after_ms, **changes)
    said, running = hold(tuple(rule(seen)), _clocks.get((id(known), rule), {}), seen.time)
    _clocks[id(known), rule] = running
    return list(said)


# --- stalled_consumer ---


def stalled(
    *,
    advancing: Iterable[int] = (2, 3),
    minutes: int = 8,
    grows: bool = True,
    stable: int | None = None,
    owner: Sequence[Member] = (A, B),
) -> list[Event]:
    """Four partitions get ten records a minute; all are consumed for a minute, then only those `advancing`."""
    events: list[Event] = [snapshot(T0 - HOUR, *owner)]
    for at_ms in range(0, minutes * MINUTE, 30 * SECOND):
        ends = dict.fromkeys(range(4), 1_000 + (at_ms if grows else min(at_ms, 2 * MINUTE)) // 6_000)
        events.append(probe(T0 + at_ms, ends=ends, stable=None if stable is None else dict.fromkeys(range(4), stable)))
        moving = {p: ends[p] for p in (range(4) if at_ms <= MINUTE else advancing)}
        events += [commits(T0 + at_ms + extra, moving) for extra in range(100, 30 * SECOND, 5 * SECOND) if moving]
    return events


def test_a_member_that_commits_nothing_while_records_wait_is_named():
    """Five minutes and three commit intervals after its last commit, not before; its client's reports are missing."""
    known = history(*stalled())
    assert judge(stalled_consumer, known, 5 * MINUTE) == []
    (found,) = judge(stalled_consumer, known, 8 * MINUTE)
    assert (found.rule, found.confidence, found.severity) == ("stalled_consumer", STRONG, None)
    assert [each.member_id for each in found.subject.members] == ["a-1"]
    assert "orders-0, orders-1" in found.summary
    assert "a (/host-a)" in found.summary
    assert found.started_at_ms < T0 + 2 * MINUTE


def test_one_partition_beside_others_that_advance_is_the_subject():
    """Assigned, but not consumed: the member itself works."""
    (found,) = judge(stalled_consumer, history(*stalled(advancing=(1, 2, 3))), 8 * MINUTE)
    assert (found.subject.members, found.subject.partitions, found.variant) == ((), ("orders-0",), "partition")


def test_several_partitions_are_their_members_matter():
    """One finding per member, even if it still reads other partitions."""
    ten = member("a-1", range(10))
    known = history(
        snapshot(T0 - HOUR, ten),
        *(
            event
            for n in range(16)
            for event in (
                probe(T0 + n * 30 * SECOND, ends=dict.fromkeys(range(10), 1_000 + n)),
                commits(T0 + n * 30 * SECOND + 100, {p: 1_000 + n for p in range(10) if n < 3 or p > 4}),
            )
        ),
    )
    (found,) = judge(stalled_consumer, known, 8 * MINUTE)
    assert [each.member_id for each in found.subject.members] == ["a-1"]
    assert "orders-0, orders-1, orders-2, orders-3, orders-4 are not consumed by a" in found.summary


@pytest.mark.parametrize(
    ("values", "variant"),
    [
        ({"last_poll_seconds_ago": 400.0}, "not_polling"),
        ({"last_poll_seconds_ago": 0.1, "fetch_manager_records_consumed_rate": 0.0}, "nothing_fetched"),
        ({"fetch_manager_records_consumed_rate": 12.0}, "not_committing"),
    ],
)
def test_its_client_says_what_it_does_instead(values, variant):
    """Its own report makes it certain, and shows the mechanism."""
    (found,) = judge(stalled_consumer, history(*stalled(), report(T0 + 479 * SECOND, A, values)), 8 * MINUTE)
    assert (found.variant, found.confidence, found.missing) == (variant, CERTAIN, ("last stable offsets",))


LONG_BATCH = member("a-1", [0, 1], rebalance_timeout_ms=1_800_000)

NOT_STALLED = {
    "working": stalled(advancing=range(4)),
    "no new records": stalled(grows=False),
    "a transaction is open": stalled(stable=1_010),
    "a poll may take half an hour": stalled(owner=(LONG_BATCH, B)),
    "commits come every quarter of an hour": [
        snapshot(T0 - HOUR, A, B),
        *(commits(T0 - n * 15 * MINUTE, dict.fromkeys(range(4), 100 - n)) for n in (4, 3, 2, 1)),
        *(each for each in stalled()[1:] if not hasattr(each, "topics")),
    ],
    "rebalanced meanwhile": [*stalled(), snapshot(T0 + 6 * MINUTE, A, B)],
    "rebalancing": [*stalled(), snapshot(T0 + 6 * MINUTE, A, B, rebalancing_since_ms=T0 + 6 * MINUTE)],
    "offsets kept elsewhere": [each for each in stalled() if not hasattr(each, "topics")],
    "ends unknown": [each for each in stalled() if not hasattr(each, "end_offsets")],
    "a record every ten minutes": [
        *stalled(advancing=range(4), minutes=1),
        probe(T0 + 477 * SECOND, ends=dict.fromkeys(range(4), 1_009)),
        probe(T0 + 479 * SECOND, ends=dict.fromkeys(range(4), 1_010)),
    ],
}


@pytest.mark.parametrize("story", NOT_STALLED)
def test_patience_with_what_is_legal(story):
    """Long batches, rare commits, open transactions, idle topics, rebalances, and anything unknown."""
    known = history(*NOT_STALLED[story])
    assert judge(stalled_consumer, known, 8 * MINUTE) == []
    assert judge(stalled_consumer, known, 8 * MINUTE + 20 * SECOND) == []


def test_a_long_poll_interval_is_waited_for_and_not_longer():
    """Ends are kept for some minutes only; an observation of half an hour is sufficient."""
    known, first = history(), None
    for event in stalled(minutes=40, owner=(LONG_BATCH, B)):
        take(known, event)
        if isinstance(event, Probe) and judge(stalled_consumer, known, event.probed_at_ms - T0):
            first = first or event.probed_at_ms - T0
    assert first is not None
    assert 31 * MINUTE <= first <= 37 * MINUTE


def test_the_end_of_a_transaction_is_given_time():
    """After it ends, its reader has a commit interval to continue before it counts as stalled."""
    known = history(*stalled(stable=1_010))
    assert judge(stalled_consumer, known, 8 * MINUTE) == []
    take(known, probe(T0 + 8 * MINUTE, ends=dict.fromkeys(range(4), 1_090), stable=dict.fromkeys(range(4), 1_090)))
    assert judge(stalled_consumer, known, 8 * MINUTE) == []
    assert len(judge(stalled_consumer, known, 8 * MINUTE + 11 * SECOND)) == 1


def checkpoints(*, commits_until: int) -> list[Event]:
    """A group without members commits every minute."""
    events: list[Event] = [snapshot(T0 - HOUR, type="simple")]
    for minute in range(20):
        events.append(probe(T0 + minute * MINUTE, ends={0: 100 * minute + 1}))
        if minute <= commits_until:
            events.append(commits(T0 + minute * MINUTE + 100, {0: 100 * minute}))
    return events


def test_checkpoints_that_stop_are_reported_with_a_doubt():
    """A job without members may have ended on purpose: a ticket."""
    assert judge(stalled_consumer, history(*checkpoints(commits_until=19)), 19 * MINUTE + SECOND) == []
    (found,) = judge(stalled_consumer, history(*checkpoints(commits_until=10)), 19 * MINUTE)
    assert (found.variant, found.severity, found.confidence) == ("checkpoints_stopped", Severity.TICKET, PLAUSIBLE)
    assert judge(stalled_consumer, history(*checkpoints(commits_until=2)), 19 * MINUTE) == []


# --- slow_consumer_group ---


def flowing(
    known: GroupHistory, rule: ConditionRule, *, produced: int, consumed: int, minutes: int, behind: int = 100
) -> list[Verdict]:
    """Let records arrive in four partitions (per 10 s each) and judge every half minute; return the last result."""
    found: list[Verdict] = []
    for turn in range(minutes * 6):
        at_ms = T0 + turn * 10 * SECOND
        take(known, probe(at_ms, ends=dict.fromkeys(range(4), 10_000 + turn * produced)))
        take(known, commits(at_ms + SECOND, dict.fromkeys(range(4), 10_000 - behind + turn * consumed)))
        if turn % 3 == 0:
            found = judge(rule, known, at_ms + 2 * SECOND - T0)
    return found


def test_a_group_that_falls_behind_without_rebalances_is_slow():
    """After a quarter of an hour, with the number of members: 1.3 x 40 at 20 per second with two members is six."""
    settled = snapshot(T0 - HOUR, A, B)
    assert flowing(history(settled), slow_consumer_group, produced=100, consumed=50, minutes=15) == []
    (found,) = flowing(history(settled), slow_consumer_group, produced=100, consumed=50, minutes=18)
    assert (found.rule, found.confidence, found.severity) == ("slow_consumer_group", CERTAIN, Severity.TICKET)
    assert "20.0 records/s of 40.0" in found.summary
    assert (found.advice[0].parameter, found.advice[0].proposed) == ("replicas", "4")


def test_members_are_not_added_beyond_the_partitions():
    """With one per partition, more of them would be idle."""
    four = [member(f"{letter}-1", [p]) for p, letter in enumerate("abcd")]
    settled = snapshot(T0 - HOUR, *four)
    (found,) = flowing(history(settled), slow_consumer_group, produced=100, consumed=50, minutes=18)
    assert found.advice[0].parameter == "code"


@pytest.mark.parametrize(
    ("changes", "flow"),
    [
        ({}, {"produced": 100, "consumed": 100}),
        ({}, {"produced": 100, "consumed": 100, "behind": 9_000}),
        ({}, {"produced": 0, "consumed": 0}),
        ({"last_rebalance_ms": T0 + 5 * MINUTE}, {"produced": 100, "consumed": 50}),
        ({"rebalancing_since_ms": T0}, {"produced": 100, "consumed": 50}),
    ],
    ids=["keeps up", "keeps its distance", "idle", "rebalanced", "rebalancing"],
)
def test_a_group_that_keeps_up_or_rebalances_is_not_slow(changes, flow):
    """Then there is no lag, or lag has another cause."""
    known = history(snapshot(T0 - HOUR, A, B, **changes))
    assert flowing(known, slow_consumer_group, minutes=18, **flow) == []


# --- partition_skew ---


def skewed(known: GroupHistory, *, hot: int, lag: float, minutes: int = 40) -> list[Verdict]:
    """Let partition 0 get `hot` records a minute, the others ten; it lags by `lag` minutes of its own records."""
    found: list[Verdict] = []
    for minute in range(minutes):
        at_ms = T0 + minute * MINUTE
        take(known, probe(at_ms, ends={0: 90_000 + minute * hot, **dict.fromkeys((1, 2, 3), 90000 + minute * 10)}))
        take(known, commits(at_ms + SECOND, {0: 90_000 + int((minute - lag) * hot), 1: 90_000 + minute * 10 - 1}))
        found = judge(partition_skew, known, at_ms + 2 * SECOND - T0)
    return found


def test_one_partition_with_most_of_records_and_lag_is_skewed():
    """More members would not help; after half an hour it is no burst."""
    (found,) = skewed(history(snapshot(T0 - HOUR, A, B)), hot=500, lag=10)
    assert (found.rule, found.severity, found.subject.partitions) == ("partition_skew", Severity.TICKET, ("orders-0",))
    assert skewed(history(snapshot(T0 - HOUR, A, B)), hot=500, lag=10, minutes=10) == []


@pytest.mark.parametrize(
    ("hot", "lag"), [(10, 10), (500, 0), (500, 0.5)], ids=["even", "hot but quick", "hot and half a minute behind"]
)
def test_even_or_quick_partitions_are_not_skewed(hot, lag):
    """A hot partition without lag does no harm."""
    assert skewed(history(snapshot(T0 - HOUR, A, B)), hot=hot, lag=lag) == []


# --- orphan_partition ---


def left_out(*members: Member, probes_from: int = -HOUR, **changes: Any) -> GroupHistory:
    """Five partitions are probed for an hour; members have had their assignment for an hour."""
    events: list[Event] = [snapshot(T0 - HOUR, *members, **changes)]
    events += [
        probe(T0 + at_ms, ends=dict.fromkeys(range(5), 100 + at_ms // MINUTE))
        for at_ms in range(probes_from, 1, MINUTE)
    ]
    return history(*events)


def test_a_partition_in_no_assignment_is_reported():
    """A page, because records arrive that no member reads."""
    (found,) = judge(orphan_partition, left_out(A, B), 0)
    assert (found.confidence, found.severity, found.subject.partitions) == (CERTAIN, Severity.PAGE, ("orders-4",))


def test_added_partitions_are_given_the_metadata_age():
    """Clients learn of them within five minutes, or within the reported setting."""
    known = left_out(A, B, member("c-1", [4]))
    take(known, probe(T0 + SECOND, ends={5: 0}))
    assert judge(orphan_partition, known, 4 * MINUTE) == []
    (found,) = judge(orphan_partition, known, 6 * MINUTE)
    assert (found.variant, found.severity, found.subject.partitions) == (
        "partitions_added",
        Severity.TICKET,
        ("orders-5",),
    )


@pytest.mark.parametrize(
    "known",
    [
        left_out(A, B, member("c-1", [4])),
        left_out(A, B, last_rebalance_ms=T0 - 50 * SECOND),
        left_out(A, B, rebalancing_since_ms=T0 - SECOND),
        left_out(A, B, probes_from=-MINUTE),
        left_out(A, B, type="simple"),
        left_out(A, B, protocol_type="connect"),
        left_out(A, replace(B, partitions=None)),
        left_out(A, member("b-1", {"cHn3HyNzTvyk8w_KSCSzLg": [2, 3, 4]})),
        left_out(A, member("b-1", [2, 3], target={"orders": [2, 3, 4]})),
        left_out(member("a-1", [0, 1], topics=("other",)), member("b-1", [2, 3], topics=("other",))),
        history(snapshot(T0 - HOUR, A, B)),
    ],
    ids=[
        "all assigned",
        "between two rounds",
        "rebalancing",
        "not watched for long",
        "no members",
        "connectors",
        "unreadable",
        "a topic by its id",
        "about to be taken over",
        "not subscribed",
        "not probed",
    ],
)
def test_what_is_assigned_or_not_known_is_no_orphan(known):
    """Assignments must be complete, readable and settled."""
    assert judge(orphan_partition, known, 0) == []


# --- empty_group_with_lag, commit_only_group ---


def abandoned(*events: Event, grows: bool = True, lag: int = 50) -> GroupHistory:
    """Two members leave at T0; records keep arriving."""
    before: list[Event] = [
        snapshot(T0 - HOUR, A, B),
        rebalance(T0 - HOUR, [], [A, B]),
        commits(T0 - MINUTE, dict.fromkeys(range(4), 1_000 - lag)),
        rebalance(T0, [A, B], []),
        snapshot(T0 + 3 * SECOND),
    ]
    ends = [
        probe(T0 + at_ms, ends=dict.fromkeys(range(4), 1_000 + at_ms // SECOND * grows))
        for at_ms in range(0, 10 * MINUTE, 30 * SECOND)
    ]
    return history(*before, *ends, *events)


def test_a_group_without_members_and_with_growing_lag_is_reported():
    """After five minutes; a page by the catalogue. Its last members and their departure are named."""
    known = abandoned()
    assert judge(empty_group_with_lag, known, 4 * MINUTE) == []
    (found,) = judge(empty_group_with_lag, known, 6 * MINUTE, past=(departed(T0, A, rule="member_crash"),))
    assert (found.rule, found.confidence, found.severity) == ("empty_group_with_lag", CERTAIN, Severity.PAGE)
    assert "a (/host-a), b (/host-b)" in found.summary
    assert any(each.value.startswith("member_crash") for each in found.evidence)


def test_a_group_seen_only_empty_is_no_page():
    """It may have been abandoned long ago, because it is unknown when its members left."""
    known = abandoned()
    fresh = GroupHistory("prod", "g", progress=known.progress, snapshot=snapshot(T0, generation=7), first_ms=T0 - HOUR)
    (found,) = judge(empty_group_with_lag, fresh, 6 * MINUTE)
    assert (found.severity, len(found.missing)) == (Severity.TICKET, 1)


@pytest.mark.parametrize(
    ("known", "changes"),
    [
        (abandoned(grows=False), {}),
        (abandoned(commits(T0 + 4 * MINUTE, dict.fromkeys(range(4), 1_200))), {}),
        (abandoned(snapshot(T0 + 5 * MINUTE, A, B)), {}),
        (abandoned(), {"causes": {rebalance_id(T0): "rolling_deploy"}}),
        (
            abandoned(
                *(
                    rebalance(T0 - hours * HOUR + minutes * MINUTE, *sides)
                    for hours in (4, 3, 2)
                    for minutes, sides in ((0, ([A, B], [])), (30, ([], [A, B])))
                )
            ),
            {},
        ),
    ],
    ids=["nothing comes", "somebody commits", "they are back", "a deploy", "a scheduled job"],
)
def test_an_absence_that_harms_nobody_or_is_usual_is_none(known, changes):
    """No records, another consumer, an ongoing deploy, or absences as long as earlier ones."""
    assert judge(empty_group_with_lag, known, 6 * MINUTE, **changes) == []


def test_groups_that_only_commit_are_recognised():
    """No membership, so no rule about members applies; ZooKeeper groups look alike but have members elsewhere."""
    known = history(*checkpoints(commits_until=19))
    (found,) = judge(commit_only_group, known, 19 * MINUTE)
    assert (found.severity, found.confidence) == (Severity.INFO, CERTAIN)
    assert "every 60.0 s" in found.summary
    assert judge(empty_group_with_lag, known, HOUR) == judge(orphan_partition, known, HOUR) == []
    take(known, probe(T0 + 19 * MINUTE, None, [], owners={0: "node:1"}))
    assert judge(commit_only_group, known, 19 * MINUTE) == []
    assert judge(commit_only_group, abandoned(), 6 * MINUTE) == []


# --- zombie_member, commit_failures_after_rebalance ---

TOTAL, RATE = "fetch_manager_records_consumed_total", "fetch_manager_records_consumed_rate"
COMMITTED = "coordinator_commit_total"


def evicted(*reports: Event) -> GroupHistory:
    """Member a is removed at T0, which its client learns late."""
    return history(
        snapshot(T0 - HOUR, A, B),
        rebalance(T0 - 3 * SECOND, [A, B], [B]),
        snapshot(T0, member("b-1", range(4))),
        *reports,
    )


def reported(who: Member, name: str, *values: float, every_s: int = 10, **more: float) -> list[Event]:
    return [report(T0 + (n + 1) * every_s * SECOND, who, {name: value, **more}) for n, value in enumerate(values)]


def test_a_client_that_goes_on_outside_the_group_is_a_zombie():
    """Its total grows; if only a rate is reported, it counts once its window lies after the departure."""
    (found,) = judge(zombie_member, evicted(*reported(A, TOTAL, 100, 150, 200)), 30 * SECOND)
    assert (found.rule, found.confidence) == ("zombie_member", CERTAIN)
    assert [each.member_id for each in found.subject.members] == ["a-1"]
    assert judge(zombie_member, evicted(*reported(A, RATE, 9.0, 8.0, 7.0)), 30 * SECOND) == []
    assert len(judge(zombie_member, evicted(*reported(A, RATE, 9.0, 9.0, every_s=40)), 80 * SECOND)) == 1


@pytest.mark.parametrize(
    "reports",
    [
        reported(A, TOTAL, 100, 100, 100),
        reported(A, RATE, 4.0, 0.0, every_s=40),
        reported(B, TOTAL, 100, 150, 200),
        reported(member("c-1"), TOTAL, 100, 150, 200),
        reported(member("a-2"), TOTAL, 100, 150, 200),
        reported(A, TOTAL, 100, 150, every_s=2),
    ],
    ids=["stopped", "rate fell to none", "a member", "never a member", "has a new id", "just removed"],
)
def test_clients_that_stop_or_belong_are_no_zombies(reports):
    """Clients that stopped, are members, or are not known to have been members."""
    assert judge(zombie_member, evicted(*reports), 80 * SECOND) == []


def uncommitted(*events: Event) -> GroupHistory:
    """Both members commit every 5 s until a rebalance at T0; after it only b does."""
    return history(
        snapshot(T0 - HOUR, A, B),
        *(commits(T0 - MINUTE + n * 5 * SECOND, dict.fromkeys(range(4), n)) for n in range(10)),
        rebalance(T0 - 3 * SECOND, [A, B], [A, B]),
        snapshot(T0, A, B),
        *(commits(T0 + n * 5 * SECOND, {2: 50 + n, 3: 50 + n}) for n in range(1, 10)),
        *events,
    )


@pytest.mark.parametrize(
    ("more", "variant", "confidence"),
    [({COMMITTED: 7.0}, "not_tried", CERTAIN), ({}, None, STRONG)],
    ids=["no longer tried", "commits not reported"],
)
def test_a_member_that_consumes_but_is_not_committed_since_a_rebalance(more, variant, confidence):
    """Nothing of its partitions is committed, although it usually commits."""
    early = uncommitted(*reported(A, TOTAL, *range(100, 105), **more))
    assert judge(commit_failures_after_rebalance, early, 50 * SECOND) == []
    known = uncommitted(*reported(A, TOTAL, *range(100, 108), **more))
    (found,) = judge(commit_failures_after_rebalance, known, 85 * SECOND)
    assert (found.variant, found.confidence) == (variant, confidence)
    assert [each.member_id for each in found.subject.members] == ["a-1"]
    assert found.rebalance_ids == (rebalance_id(T0 - 3 * SECOND),)


def test_commits_that_are_tried_and_not_stored_were_refused():
    """The client counts requests; the log has none of them."""
    reports = [report(T0 + n * 10 * SECOND, A, {TOTAL: 100.0 * n, COMMITTED: 7.0 + n}) for n in range(1, 9)]
    (found,) = judge(commit_failures_after_rebalance, uncommitted(*reports), 85 * SECOND)
    assert found.variant == "refused"


@pytest.mark.parametrize(
    "known",
    [
        uncommitted(*reported(A, TOTAL, *[100.0] * 8)),
        uncommitted(commits(T0 + 50 * SECOND, {0: 60, 1: 60}), *reported(A, TOTAL, *range(100, 108))),
        uncommitted(),
    ],
    ids=["nothing to do", "committed", "no reports"],
)
def test_members_that_commit_or_have_nothing_to_commit_are_well(known):
    """Without consumption there is nothing to commit, and without reports it is unknown."""
    assert judge(commit_failures_after_rebalance, known, 85 * SECOND) == []


def test_a_young_idle_group_has_none_of_it():
    """No rule reports anything in the first minutes of a group without records."""
    known = history(
        snapshot(T0, A, B, first_seen_ms=T0), probe(T0, ends=dict.fromkeys(range(4), 0)), commits(T0 + 1, {0: 0})
    )
    assert [verdict for rule in CONDITIONS for verdict in judge(rule, known, MINUTE)] == []
