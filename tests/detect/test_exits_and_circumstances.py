"""Members whose process ended without a word, and rebalances that somebody wanted (catalogue §4.1, §4.3, §4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.looks import asked
from detect.standing_histories import departed
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    history,
    joined,
    lost,
    member,
    probe,
    pulse,
    rebalance,
    rebalance_id,
    report,
)
from rebalance_contract import UNDETERMINED, Generation, Member, Rebalance, Severity
from rebalance_contract.clients import HEARTBEAT_AGE
from rebalance_streaming.detect.episode import Episode, EpisodeContext, ExplainedDeparture, look_at
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.benign import BENIGN_RULES, FOLLOWS, aftermath
from rebalance_streaming.detect.rules.circumstances import is_busy, missing_reports, same_slot, say_lost
from rebalance_streaming.detect.rules.ended_processes import crash, static_absence, static_ghost, ungraceful
from rebalance_streaming.detect.rules.heartbeats import frozen_or_starved, unknown_loss
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, FENCED, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN, Departure
from rebalance_streaming.observed.fingerprints import fingerprint
from rebalance_streaming.observed.liveness import GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.observed.progress import Rhythm

LOST_MS = T0 + 20 * MINUTE
A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
STATIC = replace(B, group_instance_id="i")


GUESSED = fingerprint(replace(B, rebalance_timeout_ms=10_000), None, "roundrobin")


def gone(who: Member = B, likely: str = SESSION_EXPIRED, **changes: Any) -> Departure:
    """Make how a member left; `back_s` is how many seconds later it was back."""
    back_s = changes.pop("back_s", None)
    if back_s is not None:
        changes |= {"back_as": replace(who, member_id="b-2"), "back_ms": LOST_MS + round(back_s * SECOND)}
    return departed(LOST_MS, who, likely, rule="member_crash", **changes).departure


def episode(of: Rebalance, *events: Event, now_ms: int = LOST_MS + MINUTE, **known: Any) -> Episode:
    return look_at(history(*events, of), of, Thresholds(), JudgingTime(now_ms), EpisodeContext(**known))


def losing(*departures: Departure, events: tuple[Event, ...] = (), after_s: int = 60, **known: Any) -> Episode:
    """Make a rebalance that lost these members, looked at some time later."""
    of = rebalance(LOST_MS, [A, *(each.member for each in departures)], [A])
    found = episode(of, *events, now_ms=LOST_MS + after_s * SECOND, **known)
    return replace(found, departures=departures)


def said(found: Verdict | None) -> tuple[str, float] | None:
    return None if found is None else (found.rule, found.confidence)


def who(found: Verdict) -> list[str | None]:
    return [each.member_id for each in found.subject.members]


# --- Static members ---


@pytest.mark.parametrize(
    ("silence_s", "back_s", "proposed"),
    [(12, 60, 108_000), (12, 5, 45_000), (12, 7_200, 1_800_000), (None, 60, 105_000), (13, 60.333, 110_000)],
    ids=["absence", "the default is enough", "what brokers allow", "no commit was due", "rounded up"],
)
def test_a_session_is_half_as_long_again_as_the_absence(silence_s: int | None, back_s: float, proposed: int):
    """max(45 s, ceil(1.5 x absence)): from its last sign, a session before where there was none, to its return."""
    silence = None if silence_s is None else silence_s * SECOND
    of = gone(STATIC, silence_ms=silence, back_s=back_s)
    found = asked(static_absence, losing(of), of)
    assert said(found) == ("static_session_too_short", STRONG)
    assert found is not None
    assert (found.advice[0].current, found.advice[0].proposed) == ("10000", str(proposed))
    assert who(found) == ["b-1"]


def test_an_idle_partitions_last_commit_does_not_date_an_absence():
    """Two hours without work before it went are no absence of two hours."""
    idle = Rhythm(LOST_MS - 120 * MINUTE, None, pulse=False, commits=3)
    of = gone(STATIC, silence_ms=None, rhythm=idle, back_s=60)
    found = asked(static_absence, losing(of), of)
    assert found is not None
    assert found.advice[0].proposed == "105000"
    assert "was away 70.0 s" in found.summary


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (gone(back_s=60), None),
        (gone(STATIC, POLL_TIMEOUT, back_s=60), None),
        (gone(STATIC), None),
        (gone(STATIC, liveness=HEALTHY, back_s=60), None),
    ],
    ids=["dynamic", "another time-out", "not back", "it ran all the while"],
)
def test_other_returns_prove_no_short_session(of: Departure, expected: None):
    """Only a static member whose session ran out and that came back."""
    assert asked(static_absence, losing(of), of) is expected


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (gone(STATIC), True),
        (gone(STATIC, liveness=GONE), True),
        (gone(STATIC, back_s=60), False),
        (gone(B), False),
        *((gone(STATIC, liveness=each), False) for each in (STARVED, PAUSED, UNREACHABLE, HEALTHY)),
    ],
)
def test_a_static_ghost_left_its_partitions_unread(of: Departure, told: bool):
    """Gone for good with its session; whatever reports that it lives is no ghost."""
    found = asked(static_ghost, losing(of), of)
    assert said(found) == (("static_member_ghost", PLAUSIBLE) if told else None)
    if found is not None:
        assert found.subject.partitions == ("orders-2", "orders-3")
        assert found.started_at_ms == LOST_MS - 10 * SECOND
        assert "group.instance.id" in {each.parameter for each in found.advice}


# --- Killed and replaced ---


def beside(joined_before_ms: int, *, name: str = "b-2", host: str = "/host-b") -> Event:
    """Let a member join while `b-1` is still listed."""
    return joined(LOST_MS - joined_before_ms, member(name, [2], host=host), [A, B])


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (beside(8_000), True),
        (beside(60_000), False),
        (beside(8_000, name="n-1", host="/host-n"), False),
        (beside(8_000, host="/elsewhere"), False),
    ],
    ids=["while it was silent", "long before", "another client", "another host"],
)
def test_a_successor_beside_the_ghost_tells_of_a_kill(event: Event, told: bool):
    """The same client came while the old one was silent and not yet removed."""
    of = gone(replace(B, client_id="b"))
    found = asked(ungraceful, losing(of, events=(event,)), of)
    assert said(found) == (("ungraceful_shutdown", HINT) if told else None)
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
    """So without reports the library decides how sure it is, and a process that lived was not killed."""
    old = replace(B, client_id=client_id)
    came = joined(LOST_MS - 8_000, replace(old, member_id="b-2"), [A, old])
    of = gone(old, **changes)
    found = asked(ungraceful, losing(of, events=(came,)), of)
    assert (None if found is None else found.confidence) == expected
    if found is not None:
        assert ("heartbeat_starvation" in {each.rule for each in found.alternatives}) == (not changes)


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
        (gone(likely=UNKNOWN), 600, None),
    ],
)
def test_how_sure_a_crash_is(of: Departure, after_s: int, expected: float | None):
    """Certain by its reports; else the longer it stays away the surer, and no claim where it may have starved.

    Nor where it is back, as who was cut off is, too; nor where its poll limit may have sent it away.
    """
    found = asked(crash, losing(of, after_s=after_s), of)
    assert said(found) == (None if expected is None else ("member_crash", expected))
    if found is not None:
        assert ("has not come back" in found.summary) == (of.back_ms is None)
        assert (found.missing == ()) == (of.liveness is not None or of.confidence >= STRONG)


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
    """One death that is claimed makes the next loss of the same client another, even where it is back at once."""
    who = replace(B, client_id="kgo")
    earlier = departed(LOST_MS - 5 * MINUTE, replace(who, member_id="b-0"), SESSION_EXPIRED, rule=rule, sure=sure)
    lost_now = gone(who, **of)
    assert said(asked(crash, losing(lost_now, past=[earlier], after_s=10), lost_now)) == expected


def test_a_group_that_is_lost_as_a_whole_shares_a_cause():
    """One client that stays away crashed; where all of a group's clients go at once, something else took them."""
    one, two = gone(replace(B, client_id="kgo")), gone(member("c-1", [4], client_id="kgo", host="/c"))
    spared, whole = losing(one, two), losing(one, two)
    whole = replace(whole, rebalance=replace(whole.rebalance, members_before=(one.member, two.member)))
    assert said(asked(crash, spared, one)) == ("member_crash", STRONG)
    assert said(asked(crash, whole, one)) == ("member_crash", HINT)


@pytest.mark.parametrize(("liveness", "sure"), [(None, HINT), (GONE, CERTAIN)])
def test_who_came_back_before_may_come_back_again(liveness: str | None, sure: float):
    """It was lost and back earlier: that it is away now is no crash yet, reports or not, and later a guess without."""
    earlier = departed(LOST_MS - 5 * MINUTE, B, SESSION_EXPIRED, rule=UNDETERMINED, back_ms=LOST_MS - 4 * MINUTE)
    of = gone(liveness=liveness)
    assert asked(crash, losing(of, past=[earlier]), of) is None
    found = asked(crash, losing(of, after_s=120, past=[earlier]), of)
    assert said(found) == ("member_crash", sure)


# --- What nothing separates ---


def test_a_client_that_ran_and_beat_did_not_crash():
    """Its own reports say it was well to the end: undetermined, by what is still possible, never a crash."""
    of = gone(liveness=HEALTHY)
    found = asked(frozen_or_starved, losing(of, after_s=600), of)
    assert found is not None
    assert (found.rule, who(found)) == (UNDETERMINED, ["b-1"])
    assert {each.rule for each in found.alternatives} == {"scale_in", "network_partition"}
    back = gone(replace(B, client_id="kgo"), liveness=HEALTHY, back_s=1)
    found = asked(frozen_or_starved, losing(back), back)
    assert found is not None
    assert found.rule == UNDETERMINED


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (gone(replace(B, client_id="kgo"), back_s=2, silence_ms=40_000), ("process_pause", HINT)),
        (gone(replace(B, client_id="kafka-python-2.3.0"), back_s=2), (UNDETERMINED, 0.4)),
        (gone(back_s=2), (UNDETERMINED, 0.4)),
        (gone(), (UNDETERMINED, 0.4)),
        (gone(likely=CLEAN), None),
    ],
)
def test_what_came_back_at_once_stood_still_if_it_cannot_starve(of: Departure, expected: tuple[str, float] | None):
    """Of the rest three causes stay possible, and what would separate them is named.

    It may have been cut off as well, so that it is said as a hint.
    """
    found = asked(frozen_or_starved, losing(of), of)
    assert said(found) == expected
    if found is not None and found.rule == UNDETERMINED:
        assert {each.rule for each in found.alternatives} == {"heartbeat_starvation", "process_pause", "member_crash"}
        assert found.missing == ("client metrics of /host-b: reports on time, late or missing would separate these",)
    elif found is not None:
        assert found.advice[0].proposed == "83000"


@pytest.mark.parametrize("likely", [POLL_TIMEOUT, SESSION_EXPIRED, FENCED, CLEAN])
def test_a_known_departure_is_not_unknown(likely: str):
    """The last rule speaks only where no class fits."""
    of = gone(likely=likely)
    assert asked(unknown_loss, losing(of), of) is None
    unknown = gone(likely=UNKNOWN)
    assert said(asked(unknown_loss, losing(unknown), unknown)) == (UNDETERMINED, 0.4)


# --- Circumstances ---


@pytest.mark.parametrize(("arriving", "busy"), [(None, False), (0, False), (1, True)])
def test_work_is_what_came_in(arriving: int | None, busy: bool):
    """Unknown is not busy: nobody is accused of work that nobody saw."""
    assert is_busy(gone(arriving=arriving)) == busy


def test_a_slot_survives_a_new_id():
    """Earlier departures of the same client on the same host, whatever its member id was."""
    past = [
        departed(LOST_MS - 5 * MINUTE, member("b-0"), SESSION_EXPIRED, rule="member_crash"),
        departed(LOST_MS - 4 * MINUTE, member("b-0", host="/elsewhere"), SESSION_EXPIRED, rule="member_crash"),
        departed(LOST_MS - 3 * MINUTE, member("c-0"), SESSION_EXPIRED, rule="member_crash"),
    ]
    of = gone()
    assert [each.to_ms for each in same_slot(losing(of, past=past), of)] == [LOST_MS - 5 * MINUTE]


@pytest.mark.parametrize(
    ("changes", "missing"),
    [({"confidence": 0.75}, True), ({"confidence": STRONG}, False), ({"confidence": HINT, "liveness": GONE}, False)],
)
def test_reports_are_missed_only_where_doubt_is_left(changes: dict[str, Any], missing: bool):
    """Where the source is there, or nothing is in doubt, none is asked for; else by host."""
    assert bool(missing_reports(gone(**changes))) == missing
    nameless = gone(replace(B, host=""), confidence=HINT)
    assert missing_reports(nameless)[0].startswith("client metrics of the member's host:")


def test_what_is_said_of_a_loss_tells_how_the_member_left():
    """It is about the member, began a session before it was gone, keeps what was seen and names what it misses."""
    of = gone(confidence=HINT)
    found = say_lost("undetermined.gone", of)
    assert (found.started_at_ms, who(found), found.evidence) == (of.to_ms - of.session_ms, ["b-1"], of.evidence)
    assert missing_reports(of)[0] in found.missing
    assert say_lost("undetermined.gone", of, LOST_MS, missing=()).started_at_ms == LOST_MS


# --- Rebalances that somebody wanted ---


def benign(
    of: Rebalance, *events: Event, after_s: int = 60, past: tuple[ExplainedDeparture, ...] = ()
) -> Verdict | None:
    """Return what the first benign rule says that speaks."""
    looked = episode(of, *events, now_ms=LOST_MS + after_s * SECOND, past=past)
    return next((found for rule in BENIGN_RULES if (found := asked(rule, looked)) is not None), None)


def same(reason: str, **changes: Any) -> Rebalance:
    """Make a rebalance in which nobody came or went."""
    return rebalance(LOST_MS, [A, B], [A, B], reason=reason, **changes)


@pytest.mark.parametrize(("after_s", "confidence"), [(60, PLAUSIBLE), (700, STRONG)])
def test_newcomers_that_stay_are_a_scale_out(after_s: int, confidence: float):
    """Only arrivals; sure once they have stayed for ten minutes."""
    found = benign(joined(LOST_MS, member("n-1"), [A]), after_s=after_s)
    assert said(found) == ("scale_out", confidence)
    assert found is not None
    assert (who(found), found.summary) == (["n-1"], "The group grew from 1 to 2 members.")


@pytest.mark.parametrize(("after_s", "confidence"), [(60, PLAUSIBLE), (700, STRONG)])
def test_members_that_left_in_order_are_a_scale_in(after_s: int, confidence: float):
    """It committed until it left and nobody came in its place; surer after ten minutes."""
    found = benign(lost(LOST_MS, B, [A, B]), *pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3]), after_s=after_s)
    assert said(found) == ("scale_in", confidence)
    assert found is not None
    assert who(found) == ["b-1"]


def test_a_loss_is_no_scale_in():
    """Silent for its session, or of unknown end: somebody else has to explain it."""
    quiet = [*pulse(LOST_MS - MINUTE, LOST_MS - 12 * SECOND, [0, 1, 2, 3]), *pulse(LOST_MS - 11_000, LOST_MS, [0, 1])]
    assert benign(lost(LOST_MS, B, [A, B]), *quiet) is None
    assert benign(lost(LOST_MS, B, [A, B])) is None


def test_a_restart_in_order_is_part_of_a_deploy():
    """It left in order and the same client is back; both rebalances say so."""
    gone_then, again = lost(LOST_MS, B, [A, B]), joined(LOST_MS + 20_000, member("b-2", [2, 3]), [A])
    beats = pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3])
    found = benign(gone_then, *beats, again)
    assert said(found) == ("rolling_deploy", PLAUSIBLE)
    assert found is not None
    assert "back after 23.0 s" in found.evidence[0].value
    past = departed(LOST_MS, B, CLEAN, rule="rolling_deploy")
    back = benign(again, *beats, gone_then, past=(past,))
    assert said(back) == ("rolling_deploy", PLAUSIBLE)


def test_a_return_has_the_cause_of_the_loss():
    """Its own rebalance is the second half of what threw it out, less surely; a newcomer beside it is growth."""
    past = departed(LOST_MS - 30_000, B, POLL_TIMEOUT, rule="poll_overrun")
    found = benign(joined(LOST_MS, member("b-2", [2]), [A]), past=(past,))
    assert said(found) == ("poll_overrun", PLAUSIBLE)
    assert found is not None
    assert (who(found), found.started_at_ms) == (["b-2"], LOST_MS - 30_000)
    assert "came back 30.0 s after it was lost" in found.summary
    both = rebalance(LOST_MS, [A], [A, member("b-2", [2]), member("n-1", [3])])
    mixed = benign(both, past=(past,))
    assert mixed is not None
    assert (mixed.rule, who(mixed)) == ("scale_out", ["n-1"])


def test_the_first_members_form_a_group():
    """Nobody was there before: certain, with who came."""
    found = benign(rebalance(LOST_MS, [], [A, B], reason="first_join"))
    assert said(found) == ("initial_group_formation", CERTAIN)
    assert found is not None
    assert (who(found), found.summary) == (["a-1", "b-1"], "The group formed with 2 members.")
    gone = benign(rebalance(LOST_MS, [], [], reason="first_join", passing=(A, B)))
    assert gone is not None
    assert (who(gone), gone.summary) == (["a-1", "b-1"], "The group formed with 2 members; all left at once.")


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"protocol": "range"}, {"protocol": "cooperative-sticky"}, "from range to cooperative-sticky"),
        ({"type": "classic"}, {"type": "consumer", "protocol": "uniform"}, "from classic to consumer"),
    ],
)
def test_another_protocol_is_a_migration(before: dict[str, Any], now: dict[str, Any], words: str):
    """The assignor's name or the kind of group changed between two rebalances."""
    earlier = rebalance(LOST_MS - 10 * MINUTE, [A], [A, B], **before)
    found = benign(same("leader_rejoin", **now), earlier)
    assert said(found) == ("protocol_migration", CERTAIN)
    assert found is not None
    assert words in found.summary


def test_the_member_that_subscribed_anew_is_named():
    """By what it gained and lost; all alike is a pattern that matched, which is the topics' doing."""
    other = replace(B, topics=("orders", "refunds"))
    found = benign(rebalance(LOST_MS, [A, B], [A, other], reason="subscription_change"))
    assert said(found) == ("subscription_change", CERTAIN)
    assert found is not None
    assert (who(found), found.evidence[0].value) == (["b-1"], "+refunds")
    both = [replace(each, topics=("orders", "refunds")) for each in (A, B)]
    grown = benign(rebalance(LOST_MS, [A, B], both, reason="subscription_change"))
    assert said(grown) == ("topic_metadata_change", STRONG)


def test_a_newer_members_subscription_is_its_records_word():
    """KIP-848: its record changed before the epoch rose; the one that set it off is named."""
    of = same("subscription_change", type="consumer", first_offender="b-1")
    found = benign(of)
    assert said(found) == ("subscription_change", STRONG)
    assert found is not None
    assert who(found) == ["b-1"]


@pytest.mark.parametrize(
    ("grown_ms", "reason", "expected"),
    [
        (LOST_MS - MINUTE, "leader_rejoin", CERTAIN),
        (LOST_MS - 6 * MINUTE, "leader_rejoin", None),
        (None, "leader_rejoin", None),
        (LOST_MS - MINUTE, "topic_metadata_change", CERTAIN),
        (None, "topic_metadata_change", STRONG),
    ],
)
def test_partitions_that_were_added_make_the_leader_rejoin(grown_ms: int | None, reason: str, expected: float | None):
    """Within metadata.max.age, as probes saw it; without probes only the assignment tells."""
    probes = [] if grown_ms is None else [probe(T0, ends={0: 1, 1: 1}), probe(grown_ms, ends={0: 1, 1: 1, 2: 0})]
    found = benign(same(reason), *probes)
    assert said(found) == (None if expected is None else ("topic_metadata_change", expected))
    if expected == CERTAIN:
        assert found is not None
        assert "orders has 3 partitions instead of 2" in found.summary


@pytest.mark.parametrize(
    ("was", "now", "told"), [("eu-1a", "eu-1b", "eu-1a -> eu-1b"), (None, "eu-1b", "none -> eu-1b"), ("a", "a", None)]
)
def test_a_member_that_tells_another_rack_moved(was: str | None, now: str, told: str | None):
    """Who moved, from where and to where; a reason without a rack that differs is left to the other rules."""
    of = same("rack_change", members_before=(A, replace(B, rack_id=was)), members_after=(A, replace(B, rack_id=now)))
    found = benign(of)
    if told is None:
        assert said(found) is None
    else:
        assert said(found) == ("rack_change", CERTAIN)
        assert found is not None
        assert (found.summary, len(found.subject.members)) == (f"b (/host-b) changed the rack: {told}.", 1)


@pytest.mark.parametrize(("times", "severity"), [(3, Severity.INFO), (4, Severity.TICKET)])
def test_topics_that_change_all_day_are_a_ticket(times: int, severity: str | None):
    """Three changes a day may be meant; from the fourth on the topics, or the clients' view of them, flap."""
    yesterday_ms = LOST_MS - 24 * 60 * MINUTE
    before = [probe(yesterday_ms - MINUTE, ends={0: 1}), probe(yesterday_ms - 1, ends={0: 1, 1: 1})]
    grown = [probe(LOST_MS - (times - n) * MINUTE, ends=dict.fromkeys(range(n + 3), 1)) for n in range(times)]
    found = benign(same("leader_rejoin"), *before, *grown)
    assert found is not None
    assert (found.rule, found.severity) == ("topic_metadata_change", severity)


@pytest.mark.parametrize(
    ("reason", "after_s", "confidence"),
    [
        ("cooperative_followup", 20, STRONG),
        ("cooperative_followup", 300, STRONG),
        ("leader_rejoin", 20, PLAUSIBLE),
        ("leader_rejoin", 40, None),
        ("subscription_change", 20, None),
    ],
)
def test_a_further_round_belongs_to_the_one_before(reason: str, after_s: int, confidence: float | None):
    """A due follow-up at any time, an unexplained rejoin within half a minute; with members that change it is none."""
    earlier = joined(LOST_MS - 3_000 - after_s * SECOND, B, [A])
    found = asked(aftermath, episode(same(reason), earlier))
    assert said(found) == (None if confidence is None else (FOLLOWS, confidence))
    assert asked(aftermath, episode(joined(LOST_MS, member("n-1"), [A], reason=reason), earlier)) is None
    assert asked(aftermath, episode(same(reason))) is None


def test_reports_to_the_end_keep_a_member_from_having_crashed():
    """From the rows: silent for 12 s with commits due, heartbeats and reports on time before and after."""
    quiet = [*pulse(LOST_MS - MINUTE, LOST_MS - 12 * SECOND, [0, 1, 2, 3]), *pulse(LOST_MS - 11_000, LOST_MS, [0, 1])]
    beats = [report(at, B, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0) for at in range(T0, LOST_MS + MINUTE, 5_000)]
    of = episode(lost(LOST_MS, B, [A, B]), *quiet, *beats, now_ms=LOST_MS + 10 * MINUTE)
    (departure,) = of.departures
    assert (departure.likely, departure.liveness) == (SESSION_EXPIRED, HEALTHY)
    assert asked(crash, of, departure) is None
    assert said(asked(frozen_or_starved, of, departure)) == (UNDETERMINED, 0.4)


def test_generations_within_a_rebalance_show_a_successor():
    """Newcomer first, then the ghost, in one logical rebalance."""
    came = member("b-2", [2, 3])
    first = Generation(2, "join", joined=("b-2",), join_ended_at_ms=LOST_MS - 8_000, assigned_at_ms=LOST_MS - 8_000)
    then = Generation(3, "departure", left=("b-1",), join_ended_at_ms=LOST_MS, assigned_at_ms=LOST_MS)
    of = rebalance(LOST_MS - 8_000, [A, B], [A, came], took_ms=8_000, generations=(first, then))
    looked = episode(of)
    found = asked(ungraceful, looked, gone())
    assert said(found) == ("ungraceful_shutdown", HINT)
    assert of.rebalance_id == rebalance_id(LOST_MS - 8_000)
