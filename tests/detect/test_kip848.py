"""Groups of the newer protocol: members that keep partitions, missing targets, endless epochs, loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from detect.standing_histories import replayed
from detect.views import said_by, view_of
from histories import HOUR, MINUTE, SECOND, T0, Event, commits, history, member, probe, rebalance, report, snapshot
from rebalance_contract import (
    CoordinatorAct,
    CoordinatorEvent,
    EvidenceSource,
    Generation,
    GroupSnapshot,
    Member,
    Rebalance,
    Severity,
)
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.kip848 import assigning_stuck, epoch_churn, fenced, held_up, reconciliation_stuck
from rebalance_streaming.detect.rules.leader import cooperative_livelock
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.confidence import CERTAIN, STRONG
from rebalance_streaming.observed.departed_members import find_departures
from rebalance_streaming.observed.departures import FENCED

NOW = T0 + HOUR
NEW = {"session_timeout_ms": None, "epoch": 3}
RULES = (reconciliation_stuck, assigning_stuck, epoch_churn)


def holder(held_s: float, *, timeout_ms: int = 60_000) -> Member:
    """Return a member that has to give up partition 1 for some seconds."""
    since = NOW - round(held_s * SECOND)
    return member(
        "a-1",
        [0, 1],
        state="unrevoked",
        state_since_ms=since,
        pending_revocation={"orders": [1]},
        rebalance_timeout_ms=timeout_ms,
        **NEW,
    )


def victim() -> Member:
    return member("b-1", [], state="unreleased", state_since_ms=NOW - 50_000, target={"orders": [1]}, **NEW)


def stable(name: str, *numbers: int) -> Member:
    return member(name, numbers, state="stable", state_since_ms=T0, **NEW)


def group(*members: Member, **changes: Any) -> GroupSnapshot:
    described: dict[str, Any] = {"type": "consumer", "protocol_type": None, "protocol": None, "assignment_epoch": 1}
    return snapshot(NOW - MINUTE, *members, **{**described, **changes})


# --- Members that do not let go ---


@pytest.mark.parametrize(
    ("held_s", "severity"),
    [(4, None), (15, None), (16, Severity.INFO), (29, Severity.INFO), (31, Severity.TICKET), (59, Severity.TICKET)],
    ids=str,
)
def test_a_member_that_keeps_partitions_is_named(held_s: float, severity: str | None):
    """Informational after three heartbeats, a ticket after half its time-out: holder, partitions, waiting members."""
    known = history(group(holder(held_s), victim(), stable("c-1", 2)))
    found = list(reconciliation_stuck(view_of(known, NOW)))
    assert [(each.severity, each.confidence) for each in found] == ([] if severity is None else [(severity, CERTAIN)])
    if found:
        assert [each.member_id for each in found[0].subject.members] == ["a-1"]
        assert found[0].subject.partitions == ("orders-1",)
        assert "b (/host-b) waits for them" in found[0].summary


@pytest.mark.parametrize(
    ("timeout_s", "held_s", "fires"), [(20, 9, False), (20, 11, True), (6, 5, False), (6, 8, True)]
)
def test_a_short_timeout_shortens_the_patience(timeout_s: int, held_s: float, fires: bool):
    """A member is named before it is fenced, but never within a heartbeat and a half."""
    known = history(group(holder(held_s, timeout_ms=timeout_s * SECOND), victim()))
    assert bool(list(reconciliation_stuck(view_of(known, NOW)))) == fires


def test_who_waits_is_never_the_cause():
    """A member that waits for partitions without a known holder is not blamed."""
    known = history(group(stable("a-1", 0, 1), victim()))
    assert not list(reconciliation_stuck(view_of(known, NOW)))


def test_a_victim_of_another_holder_is_not_named():
    """Only those that are assigned the partitions of this member wait for it."""
    other = replace(victim(), target={"orders": [7]})
    (found,) = reconciliation_stuck(view_of(history(group(holder(40), other)), NOW))
    assert "wait" not in found.summary


def test_lag_on_kept_partitions_is_harm():
    """The partition has not been consumed for minutes while records arrive: a page."""
    events = [commits(NOW - 6 * MINUTE, {1: 5}), *(probe(NOW - at * MINUTE, ends={1: 90 - at}) for at in (5, 0))]
    known = history(group(holder(400, timeout_ms=600_000), victim()), *events)
    (found,) = reconciliation_stuck(view_of(known, NOW))
    assert found.severity == Severity.PAGE


def test_reports_say_whether_the_member_polls():
    """The client's own report is evidence; without it, it is listed as missing."""
    slow = holder(40)
    known = history(group(slow, victim()), report(NOW - SECOND, slow, {POLL_AGE: 39.0}))
    (found,) = reconciliation_stuck(view_of(known, NOW))
    assert ("last poll", "39.0 s ago") in [(each.field, each.value) for each in found.evidence]
    (blind,) = reconciliation_stuck(view_of(history(group(slow, victim())), NOW))
    assert (found.missing, bool(blind.missing)) == ((), True)


def test_a_version_with_a_known_fault_is_to_be_upgraded():
    """A client id that contains its version leads to the fix."""
    slow = holder(40)
    known = history(
        group(slow, victim()), report(NOW - SECOND, slow, library="apache-kafka-java", library_version="3.7.1")
    )
    (found,) = reconciliation_stuck(view_of(known, NOW))
    assert (found.advice[0].parameter, found.advice[0].current) == ("upgrade", "java 3.7.1")


def test_a_recorded_fencing_is_explained():
    """Recorded: a Java member keeps partitions beyond its time-out and is fenced; the two that waited are victims."""
    known = replayed("new-java-fenced-in-revocation")
    (change,) = [each for each in known.in_order() if any(g.fenced for g in each.generations)]
    departures = {each.member.member_id: each for each in find_departures(known, change, {}, NOW)}
    (name,) = [name for generation in change.generations for name in generation.fenced]
    assert departures[name].likely == FENCED
    episode = Episode(change, known, Thresholds(), JudgingTime(NOW), tuple(departures.values()), ())
    found = fenced(episode, departures[name])
    assert found is not None
    assert (found.rule, found.variant, found.confidence) == ("reconciliation_stuck", "fenced", CERTAIN)
    assert [each.member_id for each in found.subject.members] == [name]
    assert found.rebalance_ids == (change.rebalance_id,)
    epoch = change.generations[-1]
    assert found.started_at_ms == (epoch.started_at_ms or 0) - 10_000
    assert "now with b (127.0.0.1), c (127.0.0.1)" in [each.value for each in found.evidence]


@pytest.mark.parametrize(
    ("scenario", "after_s", "culprit"),
    [
        ("new-java-fenced-in-revocation", 20, None),
        ("new-java-fenced-in-revocation", 23, "a"),
        ("new-rdk-slow-revoke", 14, None),
    ],
    ids=["at first", "before it is fenced", "a callback of 10 s"],
)
def test_a_recorded_revocation_is_watched_while_it_lasts(scenario: str, after_s: int, culprit: str | None):
    """Recorded: one member is named before it is fenced after 10 s, another gives up its partitions in time."""
    start = next(each.started_before_ms for each in replayed(scenario).in_order() if each.reason == "join")
    at_ms = start + after_s * SECOND
    patient = replace(Thresholds(), young_ms=0)
    found = list(reconciliation_stuck(view_of(replayed(scenario, at_ms), at_ms, thresholds=patient)))
    assert [m.client_id for each in found for m in each.subject.members] == ([] if culprit is None else [culprit])
    assert all(each.subject.partitions == ("t-new-java-fenced-in-revocation-2",) for each in found)


# --- Targets that do not come ---


def raised(at_ms: int, *, assigned: bool = False) -> Rebalance:
    epochs = (
        Generation(4, "join", started_at_ms=at_ms - 30 * SECOND, assigned_at_ms=at_ms - 30 * SECOND),
        Generation(5, "departure", started_at_ms=at_ms, assigned_at_ms=at_ms if assigned else None),
    )
    return rebalance(
        at_ms - 30 * SECOND, [], [stable("a-1", 0)], type="consumer", generations=epochs, outcome="ongoing"
    )


@pytest.mark.parametrize(
    ("since_s", "changes", "fires"),
    [
        (14, {}, False),
        (20, {}, True),
        (20, {"assignment_epoch": 5}, False),
        (20, {"assignment_epoch": None}, True),
        (20, {"type": "classic", "assignment_epoch": None}, False),
    ],
    ids=["not yet", "20 s", "assigned", "never had one", "no epochs there"],
)
def test_a_target_that_does_not_come(since_s: int, changes: dict[str, Any], fires: bool):
    """Counted from the first epoch without a target, not from the rebalance that it belongs to."""
    at_ms = NOW - since_s * SECOND
    change = raised(at_ms)
    described: dict[str, Any] = {"generation": 5, "assignment_epoch": 4, "last_rebalance_id": change.rebalance_id}
    known = history(group(stable("a-1", 0), **{**described, **changes}), change)
    found = list(assigning_stuck(view_of(known, NOW)))
    assert [each.started_at_ms for each in found] == ([at_ms] if fires else [])


@pytest.mark.parametrize("epoch", [5, 4])
def test_a_coordinator_that_could_not_compute_the_target_says_so(epoch: int):
    """Its log line about this epoch excludes one of the two reasons; a line about an earlier epoch does not."""
    change = raised(NOW - 20 * SECOND)
    described: dict[str, Any] = {"generation": 5, "assignment_epoch": 4, "last_rebalance_id": change.rebalance_id}
    known = history(group(stable("a-1", 0), **described), change)
    line = CoordinatorEvent(NOW - 15 * SECOND, CoordinatorAct.UNASSIGNED, generation=epoch, reason="it broke")
    known.coordinator_log.take([line])
    (found,) = assigning_stuck(view_of(known, NOW))
    logged = [each.value for each in found.evidence if each.source == EvidenceSource.BROKER_LOG]
    assert (logged, "no member asks" in found.summary, bool(found.missing)) == (
        (["it broke"], False, False) if epoch == 5 else ([], True, True)
    )


def test_an_empty_group_needs_no_target():
    """It has no members to assign partitions to."""
    known = history(group(generation=5, assignment_epoch=4))
    assert not list(assigning_stuck(view_of(known, NOW)))


# --- Too many epochs ---


def epochs(*steps: tuple[str, str], every_ms: int = MINUTE, fenced: bool = False) -> list[Event]:
    """Let members join (`+`) and leave (`-`) one by one, each in a rebalance of its own."""
    members = [stable("z-1", 0)]
    events: list[Event] = []
    for i, (sign, name) in enumerate(steps):
        at_ms = NOW - (len(steps) - i) * every_ms
        before = list(members)
        members = [*members, stable(name)] if sign == "+" else [m for m in members if m.member_id != name]
        reason = {"+": "join", "-": "departure"}.get(sign, sign)
        left = (name,) if sign == "-" else ()
        epoch = Generation(
            i + 2, reason, 0, at_ms, None, at_ms, (name,) if sign == "+" else (), left, (), left if fenced else ()
        )
        events.append(rebalance(at_ms, before, members, type="consumer", generations=(epoch,), reason=reason))
    return [group(*members), *events]


FLAPPING = [("+", "a-1"), ("-", "a-1"), ("+", "a-2"), ("-", "a-2"), ("+", "a-3"), ("-", "a-3")]
DEPLOY = [(sign, f"{name}-{i}") for name in "abcd" for sign, i in (("+", 1), ("-", 1), ("+", 2))]


@pytest.mark.parametrize(
    ("events", "variant"),
    [
        pytest.param(epochs(*FLAPPING), "join", id="one member comes and goes"),
        pytest.param(epochs(*FLAPPING[:4]), None, id="twice"),
        pytest.param(epochs(*FLAPPING, every_ms=3 * MINUTE), None, id="within 18 min"),
        pytest.param(epochs(*[("+", f"{name}-1") for name in "abcdefg"]), None, id="scaled out"),
        pytest.param(epochs(*[("subscription_change", "z-1")] * 6), "subscription", id="topics come and go"),
        pytest.param(epochs(*[("topic_metadata_change", "z-1")] * 6), "topic", id="partitions change"),
        pytest.param(epochs(*FLAPPING[1:], *FLAPPING[1:2], fenced=True), "fenced", id="fenced again and again"),
    ],
)
def test_epochs_without_end_are_reported_by_what_raised_them(events: list[Event], variant: str | None):
    """Six in ten minutes that no single series of arrivals or departures explains."""
    found = list(epoch_churn(view_of(history(*events), NOW)))
    assert [each.variant for each in found] == ([] if variant is None else [variant])
    assert all("6 group epochs" in each.summary for each in found)


def test_a_deploy_makes_many_epochs_and_no_finding():
    """Each of four instances leaves once and joins once: twice as many epochs as members."""
    members = [stable(f"{name}-1", i) for i, name in enumerate("abcd")]
    events: list[Event] = []
    for i, old in enumerate(members):
        at_ms = NOW - (8 - 2 * i) * 30 * SECOND
        rest = [each for each in members if each is not old]
        new = replace(old, member_id=old.member_id.replace("-1", "-2"))
        for at, before, after, reason in (
            (at_ms, members, rest, "departure"),
            (at_ms + 20 * SECOND, rest, [*rest, new], "join"),
        ):
            epoch = Generation(
                2,
                reason,
                started_at_ms=at,
                joined=(new.member_id,) if reason == "join" else (),
                left=(old.member_id,) if reason == "departure" else (),
            )
            events.append(rebalance(at, before, after, type="consumer", generations=(epoch,)))
        members = [*rest, new]
    known = history(group(*members), *events)
    assert len(events) == 8
    assert not list(epoch_churn(view_of(known, NOW)))


def test_what_is_explained_as_benign_does_not_churn():
    """Rebalances with a benign cause do not count."""
    known = history(*epochs(*FLAPPING))
    causes = {each.rebalance_id: "scale_out" for each in known.in_order()}
    assert not list(epoch_churn(view_of(known, NOW, causes=causes)))


# --- Cooperative loops ---


def followed(
    count: int,
    *,
    every_s: int = 10,
    reason: str = "cooperative_followup",
    protocol: str = "cooperative-sticky",
    **step: Any,
) -> Rebalance:
    """Return one logical rebalance of a join and this many follow-ups."""
    at_ms = NOW - 5 * MINUTE
    members = [member("a-1", [0]), member("b-1", [1])]
    times = [at_ms + i * every_s * SECOND for i in range(count + 1)]
    first = Generation(2, "join", join_ended_at_ms=at_ms, assigned_at_ms=at_ms, joined=("b-1",))
    rest = [Generation(3 + i, reason, join_ended_at_ms=at, assigned_at_ms=at, **step) for i, at in enumerate(times[1:])]
    return rebalance(at_ms, members[:1], members, generations=(first, *rest), protocol=protocol)


@pytest.mark.parametrize(
    ("changes", "fires"),
    [
        pytest.param([followed(1)], False, id="one follow-up, as usual"),
        pytest.param([followed(3)], False, id="three"),
        pytest.param([followed(4)], True, id="four"),
        pytest.param([followed(4, every_s=61)], False, id="a minute apart"),
        pytest.param([followed(4, joined=("c-1",))], False, id="somebody came each time"),
        pytest.param([followed(5, reason="leader_rejoin")], False, id="nothing was revoked"),
        pytest.param([followed(4, reason="streams_internal", protocol="stream")], True, id="Streams within seconds"),
        pytest.param([followed(4, reason="streams_internal")], False, id="no Streams"),
    ],
)
def test_follow_ups_that_call_for_the_next_are_a_livelock(changes: Sequence[Event], fires: bool):
    """Four in a row with the same members, each within a minute; one logical rebalance is sufficient."""
    known = history(snapshot(NOW, member("a-1", [0]), member("b-1", [1]), protocol="cooperative-sticky"), *changes)
    found = list(cooperative_livelock(view_of(known, NOW + HOUR)))
    assert [(each.confidence, each.severity, each.claims) for each in found] == (
        [(STRONG, Severity.TICKET, True)] if fires else []
    )
    assert all(each.rebalance_ids == tuple(known.rebalances) for each in found)


def test_a_livelock_may_span_rebalances():
    """Follow-ups that are too far apart to be merged still count together."""
    members = [member("a-1", [0]), member("b-1", [1])]
    known = history(snapshot(NOW, *members))
    for i in range(4):
        at_ms = NOW - (4 - i) * 40 * SECOND
        step = Generation(2 + i, "cooperative_followup", join_ended_at_ms=at_ms, assigned_at_ms=at_ms)
        known.take_rebalance(rebalance(at_ms, members, members, generations=(step,), protocol="cooperative-sticky"))
    assert [len(each.rebalance_ids) for each in cooperative_livelock(view_of(known, NOW))] == [4]


@pytest.mark.parametrize("scenario", ["classic-java-coop-join-leave", "streams-classic-protocol"])
def test_recorded_cooperative_groups_do_not_loop(scenario: str):
    """Recorded: joins and departures of healthy cooperative groups, each with one follow-up at most."""
    known = replayed(scenario)
    assert any(g.reason == "cooperative_followup" for each in known.in_order() for g in each.generations)
    assert not list(cooperative_livelock(view_of(known, NOW)))


# --- Everywhere ---


@pytest.mark.parametrize(
    "scenario", ["new-java-uniform-join-leave", "new-rdk-range-join-leave", "new-rdk-four-at-once", "new-rdk-regex"]
)
def test_recorded_healthy_groups_have_no_finding(scenario: str):
    """Recorded: joins and departures under the newer protocol, evaluated after each rebalance."""
    known = replayed(scenario)
    for each in known.in_order():
        at_ms = (each.completed_at_ms or each.started_before_ms) + SECOND
        patient = replace(Thresholds(), young_ms=0)
        assert said_by(*RULES, of=view_of(known, at_ms, thresholds=patient)) == []


@pytest.mark.parametrize(("held_s", "reported"), [(16.1, True), (14.0, False)])
def test_what_was_over_between_two_looks_is_judged_afterwards(held_s: float, reported: bool):
    """The member kept its partitions for a second too long, and released them before the next look."""
    before, free = group(holder(held_s), victim()), member("a-1", [0], state="stable", state_since_ms=NOW, **NEW)
    after = replace(before, members=(free, victim()), updated_at_ms=NOW, log_offset=2)
    of = rebalance(NOW - 20 * SECOND, [member("a-1", [0, 1], **NEW)], [free], took_ms=20 * SECOND, type="consumer")
    known = history(before, after, of)
    found = list(held_up(view_of(known, NOW + 2 * SECOND), of))
    assert [each.subject.members[0].member_id for each in found] == (["a-1"] if reported else [])
    assert not list(reconciliation_stuck(view_of(known, NOW + 2 * SECOND)))
    later = replace(of, started_before_ms=NOW - SECOND)
    assert not list(held_up(view_of(known, NOW + 2 * SECOND), later))
