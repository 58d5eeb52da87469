"""Members whose process ended without a leave: killed, crashed, replaced, or static and away for too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.departing import LOST_MS, STATIC, A, B, episode, gone, losing, said, who
from detect.standing_histories import departed
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    joined,
    lost,
    member,
    pulse,
    rebalance,
    rebalance_id,
    report,
)
from rebalance_contract import UNDETERMINED, CoordinatorAct, Generation, Member
from rebalance_contract.clients import HEARTBEAT_AGE
from rebalance_streaming.detect.rules.ended_processes import crash, static_absence, static_ghost, ungraceful
from rebalance_streaming.detect.rules.heartbeats import frozen_or_starved
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.coordinator_log import LoggedExit
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN, Departure
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.liveness import GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.observed.progress import Rhythm

GUESSED = make_fingerprint(replace(B, rebalance_timeout_ms=10_000), None, "roundrobin")


# --- Static members ---


@pytest.mark.parametrize(
    ("silence_s", "back_s", "proposed"),
    [(12, 60, 108_000), (12, 5, 45_000), (12, 1_500, 1_800_000), (None, 60, 105_000), (13, 60.333, 110_000)],
    ids=["absence", "the default is enough", "what brokers allow", "no commit was due", "rounded up"],
)
def test_a_session_is_half_as_long_again_as_the_absence(silence_s: int | None, back_s: float, proposed: int):
    """max(45 s, ceil(1.5 x absence)), from its last sign of life, or a session before removal, to its return."""
    silence = None if silence_s is None else silence_s * SECOND
    of = gone(STATIC, silence_ms=silence, back_s=back_s)
    found = static_absence(losing(of), of)
    assert said(found) == ("static_session_too_short", STRONG)
    assert found is not None
    assert (found.advice[0].current, found.advice[0].proposed) == ("10000", str(proposed))
    assert who(found) == ["b-1"]


def test_no_session_outlasts_an_absence_of_hours():
    """Brokers allow half an hour: a session that would not have helped is not proposed."""
    of = gone(STATIC, silence_ms=12 * SECOND, back_s=7_200)
    found = static_absence(losing(of), of)
    assert said(found) == ("static_session_too_short", STRONG)
    assert found is not None
    assert "session.timeout.ms" not in {each.parameter for each in found.advice}


def test_an_idle_partitions_last_commit_does_not_date_an_absence():
    """Two hours without records before it left are not an absence of two hours."""
    idle = Rhythm(LOST_MS - 120 * MINUTE, None, pulse=False, commits=3)
    of = gone(STATIC, silence_ms=None, rhythm=idle, back_s=60)
    found = static_absence(losing(of), of)
    assert found is not None
    assert found.advice[0].proposed == "105000"
    assert "was away 70.0 s" in found.summary


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (gone(back_s=60), None),
        (gone(STATIC), None),
        (gone(STATIC, liveness=HEALTHY, back_s=60), None),
    ],
    ids=["dynamic", "not back", "it ran all the while"],
)
def test_other_returns_prove_no_short_session(of: Departure, expected: None):
    """Only a static member whose session expired and that returned."""
    assert static_absence(losing(of), of) is expected


@pytest.mark.parametrize(
    ("of", "reported"),
    [
        (gone(STATIC), True),
        (gone(STATIC, liveness=GONE), True),
        (gone(STATIC, back_s=60), False),
        (gone(B), False),
        *((gone(STATIC, liveness=each), False) for each in (STARVED, PAUSED, UNREACHABLE, HEALTHY)),
    ],
)
def test_a_static_ghost_left_its_partitions_unread(of: Departure, reported: bool):
    """It is gone with its session and does not return; a member whose reports show that it lives is no ghost."""
    found = static_ghost(losing(of), of)
    assert said(found) == (("static_member_ghost", PLAUSIBLE) if reported else None)
    if found is not None:
        assert found.subject.partitions == ("orders-2", "orders-3")
        assert found.started_at_ms == LOST_MS - 10 * SECOND
        assert "group.instance.id" in {each.parameter for each in found.advice}


# --- Killed and replaced ---


def beside(joined_before_ms: int, *, name: str = "b-2", host: str = "/host-b") -> Event:
    """Return the event of a member that joins while `b-1` is still listed."""
    return joined(LOST_MS - joined_before_ms, member(name, [2], host=host), [A, B])


@pytest.mark.parametrize(("session_ms", "expected"), [(10_000, False), (None, False), (600_000, True)])
def test_only_for_a_ghost_with_a_long_session_a_shorter_one_is_advised(session_ms: int | None, expected: bool):
    """The default is short enough; KIP-848 clients reject the setting, and brokers allow no lower value."""
    of = gone(replace(STATIC, session_timeout_ms=session_ms), silence_ms=12_000)
    found = static_ghost(losing(of), of)
    assert found is not None
    assert ("session.timeout.ms" in {each.parameter for each in found.advice}) == expected


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        (beside(8_000), True),
        (beside(60_000), False),
        (beside(8_000, name="n-1", host="/host-n"), False),
        (beside(8_000, host="/elsewhere"), False),
    ],
    ids=["while it was silent", "long before", "another client", "another host"],
)
def test_a_successor_beside_the_ghost_shows_a_kill(event: Event, reported: bool):
    """The same client joined while the old member was silent and not yet removed."""
    of = gone(replace(B, client_id="b"))
    found = ungraceful(losing(of, events=(event,)), of)
    assert said(found) == (("ungraceful_shutdown", HINT) if reported else None)
    if found is not None:
        assert who(found) == ["b-1"]
        assert found.evidence[-1].value == "b-2 of the same client joined before it was removed"


@pytest.mark.parametrize(
    ("changes", "client_id", "expected"),
    [
        ({"liveness": GONE}, "b", STRONG),
        ({"liveness": RESTARTED}, "b", STRONG),
        ({}, "rdkafka", PLAUSIBLE),
        ({}, "kafka-python-1.4.6", HINT),
        ({"liveness": STARVED}, "b", None),
        ({"liveness": HEALTHY}, "b", None),
    ],
)
def test_a_starved_client_joins_beside_its_old_id_as_well(
    changes: dict[str, Any], client_id: str, expected: float | None
):
    """Without reports the confidence depends on the library, and a process that lived was not killed."""
    old = replace(B, client_id=client_id)
    came = joined(LOST_MS - 8_000, replace(old, member_id="b-2"), [A, old])
    of = gone(old, **changes)
    found = ungraceful(losing(of, events=(came,)), of)
    assert (None if found is None else found.confidence) == expected
    if found is not None:
        assert ("heartbeat_starvation" in {each.rule for each in found.alternatives}) == (not changes)


@pytest.mark.parametrize(("liveness", "expected"), [(None, HINT), (GONE, STRONG)])
def test_a_ghost_of_unknown_end_is_a_hint_unless_its_reports_ended(liveness: str | None, expected: float):
    """librdkafka also joins under a new id when its coordinator was away for longer than its session."""
    old = replace(B, client_id="rdkafka")
    came = joined(LOST_MS - 8_000, replace(old, member_id="b-2"), [A, old])
    of = gone(old, UNKNOWN, in_barrier=True, liveness=liveness)
    assert said(ungraceful(losing(of, events=(came,)), of)) == ("ungraceful_shutdown", expected)


# --- Crashes ---


@pytest.mark.parametrize(
    ("of", "after_s", "expected"),
    [
        (gone(liveness=GONE), 60, CERTAIN),
        (gone(liveness=RESTARTED, back_s=2), 60, CERTAIN),
        (gone(), 29, HINT),
        (gone(), 30, PLAUSIBLE),
        (gone(replace(B, session_timeout_ms=45_000)), 134, HINT),
        (gone(replace(B, session_timeout_ms=45_000)), 135, PLAUSIBLE),
        (gone(classes=(SESSION_EXPIRED, POLL_TIMEOUT)), 30, HINT),
        (gone(replace(B, client_id="rdkafka"), classes=(SESSION_EXPIRED, POLL_TIMEOUT)), 30, HINT),
        (gone(replace(B, client_id="rdkafka"), classes=(SESSION_EXPIRED, CLEAN)), 30, PLAUSIBLE),
        (gone(client=GUESSED, classes=(SESSION_EXPIRED, POLL_TIMEOUT)), 30, PLAUSIBLE),
        (gone(replace(B, client_id="kgo")), 20, PLAUSIBLE),
        (gone(replace(B, client_id="kgo")), 30, STRONG),
        (gone(replace(B, client_id="kgo"), back_s=30), 60, HINT),
        (gone(replace(B, client_id="kgo"), back_s=5), 60, None),
        (gone(back_s=30), 60, None),
        (gone(back_s=30, arriving=100), 60, HINT),
        *((gone(liveness=each), 600, None) for each in (STARVED, PAUSED, UNREACHABLE, HEALTHY)),
    ],
)
def test_how_sure_a_crash_is(of: Departure, after_s: int, expected: float | None):
    """Certain by its reports, otherwise surer the longer it stays away; not claimed if it may have been starved.

    Nor is it claimed if the member is back, as after a network cut, or if it may have exceeded its poll limit.
    """
    found = crash(losing(of, after_s=after_s), of)
    assert said(found) == (None if expected is None else ("member_crash", expected))
    if found is not None:
        assert ("has not come back" in found.summary) == (of.back_ms is None)
        assert (found.missing == ()) == (of.liveness is not None or of.confidence >= STRONG)


@pytest.mark.parametrize(
    ("changes", "library", "expected"),
    [
        ({"life_s": 10}, "rdkafka", PLAUSIBLE),
        ({"life_s": 10, "back_s": 2}, "kgo", PLAUSIBLE),
        ({"life_s": 11, "back_s": 2}, "rdkafka", None),
        ({"life_s": 10, "back_s": 2}, "kafka-python-1.4.6", None),
        ({"life_s": 10, "back_s": 2, "member": replace(B, partitions=None)}, "rdkafka", None),
        ({"life_s": 10, "back_s": 2, "member": replace(B, rebalance_timeout_ms=11_000)}, "rdkafka", None),
    ],
    ids=[
        "at once",
        "and back at once",
        "a heartbeat later",
        "it may have starved",
        "it has no records",
        "at its limit",
    ],
)
def test_who_sends_no_heartbeat_with_its_partitions_died_of_its_first_records(
    changes: dict[str, Any], library: str, expected: float | None
):
    """A client with a heartbeat thread is removed a session after its join only if its process ended in between."""
    member_, life_s = changes.pop("member", B), changes.pop("life_s")
    of = gone(replace(member_, client_id=library), joined_ms=LOST_MS - life_s * SECOND, silence_ms=None, **changes)
    found = crash(losing(of, after_s=20), of)
    assert said(found) == (None if expected is None else ("member_crash", expected))


@pytest.mark.parametrize(("in_barrier", "expected"), [(True, ("ungraceful_shutdown", PLAUSIBLE)), (False, None)])
def test_a_ghost_is_awaited_as_its_coordinator_writes(in_barrier: bool, expected: tuple[str, float] | None):
    """If no rebalance was being prepared when its session expired, no successor had joined beside it."""
    old = replace(B, client_id="rdkafka")
    came = joined(LOST_MS - 8_000, replace(old, member_id="b-2"), [A, old])
    of = gone(old, in_barrier=in_barrier, logged=LoggedExit(LOST_MS, CoordinatorAct.EXPIRED, None, in_barrier))
    assert said(ungraceful(losing(of, events=(came,)), of)) == expected


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        ([("c-1", 60)], PLAUSIBLE),
        ([("c-1", 60), ("d-1", 120)], PLAUSIBLE),
        ([], HINT),
        ([("b-0", 60)], HINT),
        ([("c-1", 60), ("c-2", 120)], HINT),
        ([("c-1", 60), ("d-1", 60)], HINT),
        ([("c-1", 7_200)], HINT),
    ],
    ids=["another", "two others", "the first", "itself", "one twice", "two at once", "long ago"],
)
def test_ghosts_in_turn_are_those_of_a_deploy_that_kills(earlier: list[tuple[str, int]], expected: float):
    """Starvation affects the same clients again, or several at once; a deploy replaces each client once."""
    old = replace(B, client_id="kafka-python-1.4.6")
    came = joined(LOST_MS - 8_000, replace(old, member_id="b-2"), [A, old])
    past = tuple(
        departed(LOST_MS - ago_s * SECOND, replace(member(name), client_id=f"kafka-python-1.4.6-{name[0]}"))
        if name[0] != "b"
        else departed(LOST_MS - ago_s * SECOND, replace(old, member_id=name))
        for name, ago_s in earlier
    )
    past = tuple(replace(each, departure=replace(each.departure, classes=(SESSION_EXPIRED,))) for each in past)
    of = gone(old)
    looked = losing(of, events=(came,), past=past)
    # A member that was replaced earlier is in the group under another id.
    others = [
        replace(each.member, member_id=f"{each.member.member_id}0") for each in past if each.member.host != B.host
    ]
    whole = replace(looked.rebalance, members_after=(*looked.rebalance.members_after, *others))
    found = ungraceful(replace(looked, rebalance=whole), of)
    assert said(found) == ("ungraceful_shutdown", expected)
    assert found is not None
    assert ("replaced in turn, as in a deploy" in {each.rule for each in found.evidence}) == (expected == PLAUSIBLE)
    # A member that did not return was not replaced.
    assert said(ungraceful(looked, of)) == ("ungraceful_shutdown", HINT)


@pytest.mark.parametrize(("others", "expected"), [((), HINT), ((replace(A, member_id="a-2"),), PLAUSIBLE)])
def test_where_nobody_was_spared_a_kill_is_a_hint(others: tuple[Member, ...], expected: float):
    """If all members of a group were replaced beside their ghosts, the coordinator may be the cause."""
    both = [replace(each, client_id=name) for each, name in ((A, "rdkafka"), (B, "kgo"))]
    came = joined(LOST_MS - 8_000, replace(both[1], member_id="b-2"), [*both, *others])
    of = rebalance(LOST_MS, [*both, *others], others)
    departures = tuple(gone(each) for each in both)
    found = ungraceful(replace(episode(of, came), departures=departures), departures[1])
    assert said(found) == ("ungraceful_shutdown", expected)


@pytest.mark.parametrize(
    ("rule", "sure", "of", "expected"),
    [
        ("ungraceful_shutdown", PLAUSIBLE, {"back_s": 2}, ("member_crash", PLAUSIBLE)),
        ("ungraceful_shutdown", PLAUSIBLE, {}, ("member_crash", PLAUSIBLE)),
        ("ungraceful_shutdown", HINT, {"back_s": 2}, None),
        (UNDETERMINED, PLAUSIBLE, {"back_s": 2}, None),
    ],
    ids=["back", "away", "a hint", "not a death"],
)
def test_who_died_before_dies_again(rule: str, sure: float, of: dict[str, Any], expected: tuple[str, float] | None):
    """After one claimed death the next loss of the same client is another one, even if it returns at once."""
    who = replace(B, client_id="kgo")
    earlier = departed(LOST_MS - 5 * MINUTE, replace(who, member_id="b-0"), SESSION_EXPIRED, rule=rule, sure=sure)
    lost_now = gone(who, **of)
    assert said(crash(losing(lost_now, past=[earlier], after_s=10), lost_now)) == expected


def test_a_group_that_is_lost_as_a_whole_shares_a_cause():
    """A single client that stays away crashed; if all clients of a group are lost at once, they share another cause."""
    one, two = gone(replace(B, client_id="kgo")), gone(member("c-1", [4], client_id="kgo", host="/c"))
    spared, whole = losing(one, two), losing(one, two)
    whole = replace(whole, rebalance=replace(whole.rebalance, members_before=(one.member, two.member)))
    assert said(crash(spared, one)) == ("member_crash", STRONG)
    assert said(crash(whole, one)) == ("member_crash", HINT)


@pytest.mark.parametrize(("liveness", "sure"), [(None, HINT), (GONE, CERTAIN)])
def test_who_came_back_before_may_come_back_again(liveness: str | None, sure: float):
    """A member that returned before has not crashed yet, even with reports; later it is a hint without them."""
    earlier = departed(LOST_MS - 5 * MINUTE, B, SESSION_EXPIRED, rule=UNDETERMINED, back_ms=LOST_MS - 4 * MINUTE)
    of = gone(liveness=liveness)
    assert crash(losing(of, past=[earlier]), of) is None
    found = crash(losing(of, after_s=120, past=[earlier]), of)
    assert said(found) == ("member_crash", sure)


def test_a_client_that_ran_and_beat_did_not_crash():
    """Its own reports show that it was healthy to the end: undetermined, with the possible causes, never a crash."""
    of = gone(liveness=HEALTHY)
    found = frozen_or_starved(losing(of, after_s=600), of)
    assert found is not None
    assert (found.rule, who(found)) == (UNDETERMINED, ["b-1"])
    assert {each.rule for each in found.alternatives} == {"scale_in", "network_partition"}
    back = gone(replace(B, client_id="kgo"), liveness=HEALTHY, back_s=1)
    found = frozen_or_starved(losing(back), back)
    assert found is not None
    assert found.rule == UNDETERMINED


def test_reports_to_the_end_keep_a_member_from_having_crashed():
    """From the rows: silent for 12 s with commits due, heartbeats and reports in time before and after."""
    quiet = [*pulse(LOST_MS - MINUTE, LOST_MS - 12 * SECOND, [0, 1, 2, 3]), *pulse(LOST_MS - 11_000, LOST_MS, [0, 1])]
    beats = [report(at, B, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0) for at in range(T0, LOST_MS + MINUTE, 5_000)]
    of = episode(lost(LOST_MS, B, [A, B]), *quiet, *beats, now_ms=LOST_MS + 10 * MINUTE)
    (departure,) = of.departures
    assert (departure.likely, departure.liveness) == (SESSION_EXPIRED, HEALTHY)
    assert crash(of, departure) is None
    assert said(frozen_or_starved(of, departure)) == (UNDETERMINED, 0.4)


def test_generations_within_a_rebalance_show_a_successor():
    """The newcomer joins first, then the ghost is removed, within one logical rebalance."""
    came = member("b-2", [2, 3])
    first = Generation(2, "join", joined=("b-2",), join_ended_at_ms=LOST_MS - 8_000, assigned_at_ms=LOST_MS - 8_000)
    then = Generation(3, "departure", left=("b-1",), join_ended_at_ms=LOST_MS, assigned_at_ms=LOST_MS)
    of = rebalance(LOST_MS - 8_000, [A, B], [A, came], took_ms=8_000, generations=(first, then))
    looked = episode(of)
    found = ungraceful(looked, gone())
    assert said(found) == ("ungraceful_shutdown", HINT)
    assert of.rebalance_id == rebalance_id(LOST_MS - 8_000)
