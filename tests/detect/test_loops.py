"""Partitions that make their owners fail: a batch that none can finish, a record that crashes each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detect.standing_histories import departed
from detect.views import view_of
from histories import (
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
)
from rebalance_contract import Member, Severity
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.rules.loops import no_progress_loop, poison_record
from rebalance_streaming.detect.rules.patterns import crash_loop
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, SESSION_EXPIRED
from rebalance_streaming.observed.history import GroupHistory

CONSUMED = "fetch_manager_records_consumed_total"
#: Story C in minutes: rebalances and their members; the partitions move from member to member.
A1, B1 = member("a-1", [0, 1]), member("b-1", [2, 3])
A2, B2, A3 = member("a-2", [0, 1, 2, 3]), member("b-2", [0, 1, 2, 3]), member("a-3", [0, 1, 2, 3])
LOOP = ((5, [A1, B1], []), (12, [], [A2]), (17, [A2], [B2]), (22, [B2], [A3]))
LOST = ((5, A1), (6, B1), (17, A2), (22, B2))


def loop_events(*, ends: bool = True, committed: int | None = 100) -> list[Event]:
    """Let records wait in every partition; nothing is committed after the beginning."""
    events: list[Event] = [snapshot(T0, A1, B1)]
    if committed is not None:
        events.append(commits(T0, dict.fromkeys(range(4), committed)))
    for minute, before, after in LOOP:
        if ends:
            events.append(probe(T0 + minute * MINUTE - SECOND, ends=dict.fromkeys(range(4), 900 + minute)))
        events.append(rebalance(T0 + minute * MINUTE, before, after))
    return events


def lost(likely: str = "poll_timeout_leave") -> tuple[ExplainedDeparture, ...]:
    times = {id(B1): 5}
    return tuple(
        departed(T0 + minute * MINUTE, who, likely, of=rebalance_id(T0 + times.get(id(who), minute) * MINUTE))
        for minute, who in LOST
    )


def test_a_batch_that_every_owner_hands_on_is_a_loop():
    """Story C: partitions, rebalances and first aid are named; a page, because nothing is consumed."""
    (found,) = no_progress_loop(view_of(history(*loop_events()), T0 + 23 * MINUTE, past=lost()))
    assert (found.rule, found.confidence, found.severity, found.claims) == (
        "no_progress_loop",
        STRONG,
        Severity.PAGE,
        False,
    )
    assert found.subject.partitions == ("orders-0", "orders-1", "orders-2", "orders-3")
    assert found.rebalance_ids == tuple(rebalance_id(T0 + minute * MINUTE) for minute, _, _ in LOOP)
    assert found.advice[0].parameter == "max.poll.records"
    assert found.advice[0].proposed.startswith("1,")
    assert "orders-0 @ 100" in found.advice[-1].proposed


def test_clients_that_consume_meanwhile_make_it_certain():
    """Their totals grow while committed offsets do not advance."""
    reports = [report(T0 + minute * MINUTE, A2, {CONSUMED: 500.0 * minute}) for minute in (13, 15)]
    (found,) = no_progress_loop(view_of(history(*loop_events(), *reports), T0 + 23 * MINUTE, past=lost()))
    assert found.confidence == CERTAIN
    assert any(each.value == "1000" for each in found.evidence)


def test_a_group_that_never_committed_can_be_in_a_loop():
    """As recorded: every commit is rejected from the first batch on."""
    (found,) = no_progress_loop(view_of(history(*loop_events(committed=None)), T0 + 23 * MINUTE, past=lost()))
    assert "orders-0 @ its start" in found.advice[-1].proposed


def test_without_end_offsets_only_poll_timeouts_show_work():
    """Less confidence, no page; expired sessions of a group that may be idle are not evidence."""
    known = history(*loop_events(ends=False))
    (found,) = no_progress_loop(view_of(known, T0 + 23 * MINUTE, past=lost()))
    assert (found.confidence, found.severity, len(found.missing)) == (PLAUSIBLE, Severity.TICKET, 1)
    assert list(no_progress_loop(view_of(known, T0 + 23 * MINUTE, past=lost(SESSION_EXPIRED)))) == []


def idle_group() -> GroupHistory:
    """Let an idle group lose its members; at the end a record arrives."""
    events: list[Event] = [snapshot(T0, A1, B1), commits(T0, dict.fromkeys(range(4), 100))]
    for minute, before, after in LOOP:
        events.append(probe(T0 + minute * MINUTE - SECOND, ends=dict.fromkeys(range(4), 100)))
        events.append(rebalance(T0 + minute * MINUTE, before, after))
    return history(*events, probe(T0 + 23 * MINUTE, ends=dict.fromkeys(range(4), 103)))


@pytest.mark.parametrize(
    ("known", "departures", "minutes"),
    [
        (history(*loop_events(), commits(T0 + 18 * MINUTE, dict.fromkeys(range(4), 150))), lost(), 23),
        (idle_group(), lost(SESSION_EXPIRED), 23),
        (history(*loop_events()), lost(CLEAN), 23),
        (history(*loop_events()[:5]), lost()[:2], 13),
        (history(*loop_events()), lost(), 45),
        (history(*loop_events(committed=None)), lost(SESSION_EXPIRED), 23),
    ],
    ids=["it advanced", "idle", "a deploy", "only two rebalances", "over for long", "offsets kept elsewhere"],
)
def test_other_series_of_departures_are_no_loop(known, departures, minutes):
    """A member commits, no records wait, members leave cleanly, or it did not continue."""
    assert list(no_progress_loop(view_of(known, T0 + minutes * MINUTE, past=departures))) == []


# --- poison_record ---

P = [member("a-1", [0, 1]), member("b-1", [0, 2]), member("c-1", [0, 3])]


def poisoned(*, committed_again: bool = False, ends: int | None = 80, others_move: bool = True) -> GroupHistory:
    """Let three members each get partition 0 and die at its record 42, a minute apart."""
    events: list[Event] = [
        snapshot(T0, *P),
        commits(T0 - 5 * SECOND, {0: 42, 1: 10, 2: 10, 3: 10}),
    ]
    if ends is not None:
        events.append(probe(T0, ends={0: ends, 1: 90, 2: 90, 3: 90}))
    if others_move:
        events.append(commits(T0 + 30 * SECOND, {1: 50, 2: 50, 3: 50}))
    if committed_again:
        events.append(commits(T0 + 3 * MINUTE, {0: 43}))
    return history(*events)


def deaths(*who: Member, likely: str = SESSION_EXPIRED, rule: str = "member_crash") -> tuple[ExplainedDeparture, ...]:
    return tuple(departed(T0 + minute * MINUTE, each, likely, rule=rule) for minute, each in enumerate(who, 1))


def test_a_record_that_kills_each_owner_is_named():
    """By partition and offset; it claims the rebalances, because their own causes are only its effects."""
    (found,) = poison_record(view_of(poisoned(), T0 + 4 * MINUTE, past=deaths(*P)))
    assert (found.rule, found.confidence, found.severity, found.claims) == (
        "poison_record",
        STRONG,
        Severity.TICKET,
        True,
    )
    assert found.subject.partitions == ("orders-0",)
    assert "orders-0 @ 42" in found.summary
    assert found.rebalance_ids == tuple(rebalance_id(T0 + minute * MINUTE) for minute in (1, 2, 3))


def test_a_poisoned_partition_that_stands_still_for_long_is_a_page():
    """After five minutes without progress; half an hour after the deaths it is resolved."""
    known = poisoned()
    assert [each.severity for each in poison_record(view_of(known, T0 + 6 * MINUTE, past=deaths(*P)))] == [
        Severity.PAGE
    ]
    assert list(poison_record(view_of(known, T0 + 40 * MINUTE, past=deaths(*P)))) == []


def test_without_end_offsets_only_deaths_that_are_mostly_sure_show_a_record():
    """It is unknown whether records waited; members of an idle group with starved heartbeats are lost like this."""
    sure = deaths(*P)
    (found,) = poison_record(view_of(poisoned(ends=None), T0 + 4 * MINUTE, past=sure))
    assert (found.rule, found.confidence) == ("poison_record", PLAUSIBLE)
    one_open = (*sure[:2], replace(sure[2], confidence=HINT))
    assert len(list(poison_record(view_of(poisoned(ends=None), T0 + 4 * MINUTE, past=one_open)))) == 1
    hints = tuple(replace(each, confidence=HINT) for each in sure)
    assert list(poison_record(view_of(poisoned(ends=None), T0 + 4 * MINUTE, past=hints))) == []


def test_two_instances_in_turn_leave_a_doubt():
    """Two of three departures are of one client: partition and instance explain them equally well."""
    (found,) = poison_record(view_of(poisoned(), T0 + 4 * MINUTE, past=deaths(P[0], P[1], P[0])))
    assert found.confidence == PLAUSIBLE
    assert found.alternatives[0].rule == "crash_loop"


def test_clients_of_one_name_and_host_are_distinguished_by_living_together():
    """All may share a client id and a host; members of one generation are different clients."""
    same = [member(f"a-{n}", [0, n], host="/10.0.0.1") for n in (1, 2, 3)]
    known = poisoned()
    assert list(poison_record(view_of(known, T0 + 4 * MINUTE, past=deaths(*same)))) == []
    known.take_rebalance(rebalance(T0 + MINUTE, same, same[1:]))
    assert len(list(poison_record(view_of(known, T0 + 4 * MINUTE, past=deaths(*same))))) == 1


def dying_at_once(*, spared: bool = True) -> tuple[GroupHistory, tuple[ExplainedDeparture, ...]]:
    """Let two members die at record 42 before they commit anything else, each twice."""
    known = poisoned(others_move=False)
    lives = [member(f"{name}-{number}", [0, 1]) for number in (1, 2) for name in "ab"]
    found = []
    for minute, each in enumerate(lives, 1):
        other = member(f"{'ba'[minute % 2 == 0]}-9", [2, 3])
        began, gone = T0 + minute * MINUTE, T0 + minute * MINUTE + 20 * SECOND
        known.take_rebalance(rebalance(began, [other], [other, each]))
        known.take_rebalance(rebalance(gone, [each, other], [other] if spared else []))
        found.append(departed(gone, each, SESSION_EXPIRED, rule="member_crash", of=rebalance_id(gone)))
    return known, tuple(found)


def test_owners_that_die_at_once_are_recognised_by_those_that_live():
    """They commit nothing else either, but members without the partition stay alive."""
    known, gone = dying_at_once()
    (found,) = poison_record(view_of(known, T0 + 6 * MINUTE, past=gone))
    assert (found.confidence, found.subject.partitions) == (PLAUSIBLE, ("orders-0", "orders-1"))
    assert set(found.rebalance_ids) == {each.rebalance_id for each in known.in_order()[1:]}
    known, gone = dying_at_once(spared=False)
    assert list(poison_record(view_of(known, T0 + 6 * MINUTE, past=gone))) == []


def handing_on(*, turns: int = 5, others: int = 0) -> tuple[GroupHistory, tuple[ExplainedDeparture, ...]]:
    """Let owners of partition 0 make progress on their other partitions and leave cleanly, and `others` leave."""
    known = poisoned()
    found = []
    for minute in range(1, turns + others + 1):
        owner = member(f"{'ad'[minute % 2]}-{minute}", [0, 1])
        spare, stays = member(f"b-{minute}", [2]), member(f"c-{minute}", [3])
        leaves, at_ms = owner if minute <= turns else spare, T0 + minute * MINUTE
        known.take_rebalance(rebalance(at_ms, [owner, spare, stays], [m for m in (owner, spare, stays) if m != leaves]))
        known.progress.take_commits(commits(at_ms - 20 * SECOND, {1: 50 + minute, 2: 50 + minute, 3: 50 + minute}))
        joined_ms = at_ms - 40 * SECOND
        found.append(departed(at_ms, leaves, CLEAN, rule="rolling_deploy", joined_ms=joined_ms))
    return known, tuple(found)


def test_owners_that_leave_in_order_one_after_the_other_are_picked_by_a_record():
    """A caught error ends a consumer cleanly, with progress on its other partitions, as in kafkajs."""
    known, left = handing_on()
    (found,) = poison_record(view_of(known, T0 + 6 * MINUTE, past=left))
    assert (found.rule, found.confidence, found.subject.partitions) == ("poison_record", PLAUSIBLE, ("orders-0",))


@pytest.mark.parametrize("changes", [{"turns": 4}, {"turns": 5, "others": 1}], ids=["by chance", "another as well"])
def test_owners_that_leave_in_order_by_chance_are_no_victims(changes):
    """With one of three each time, four in a row have a probability of 1/81; a full stop stops the owner as well."""
    known, left = handing_on(**changes)
    assert list(poison_record(view_of(known, T0 + 7 * MINUTE, past=left))) == []


def test_an_instance_that_dies_of_a_record_is_in_no_loop_of_its_own():
    """The record explains its deaths and those of others."""
    one = [member(f"a-{number}", [0, 1]) for number in range(3)]
    gone = deaths(one[0], P[1], one[1], P[2], one[2])
    known = poisoned()
    for each in gone:
        known.take_rebalance(rebalance(each.left_ms - 30 * SECOND, [P[2]], [P[2], each.member]))
    seen = view_of(known, T0 + 6 * MINUTE, past=gone)
    assert [each.rule for each in poison_record(seen)] == ["poison_record"]
    assert list(crash_loop(seen)) == []
    known.progress.take_commits(commits(T0 + 6 * MINUTE, {0: 43}))
    assert [each.rule for each in crash_loop(view_of(known, T0 + 6 * MINUTE, past=gone))] == ["crash_loop"]


@pytest.mark.parametrize(
    ("known", "departures"),
    [
        (poisoned(committed_again=True), deaths(*P)),
        (poisoned(ends=42), deaths(*P)),
        (poisoned(others_move=False), deaths(*P)),
        (poisoned(), deaths(P[0], P[0], P[0])),
        (poisoned(), deaths(*P[:2])),
        (poisoned(), deaths(*P, likely=CLEAN, rule="rolling_deploy")),
        (poisoned(), deaths(member("a-1", [1]), member("b-1", [2]), member("c-1", [3]))),
    ],
    ids=["skipped", "nothing waits", "all stand still", "one instance", "only two", "a deploy", "other partitions"],
)
def test_other_deaths_are_not_the_record(known, departures):
    """The partition advances or is idle, or the deaths follow an instance or an order."""
    assert list(poison_record(view_of(known, T0 + 4 * MINUTE, past=departures))) == []


def test_a_group_that_loses_nobody_has_none_of_it():
    """Without departures neither rule reports anything."""
    assert [
        verdict for rule in (no_progress_loop, poison_record) for verdict in rule(view_of(poisoned(), T0 + 4 * MINUTE))
    ] == []
