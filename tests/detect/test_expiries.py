"""An expired session is stated as such where its cause is only guessed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from detect.departing import LOST_MS, STATIC, B, gone, who
from detect.turnover import Run
from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, joined, lost, member, rebalance, snapshot
from rebalance_contract import (
    UNDETERMINED,
    Advice,
    Alternative,
    CoordinatorAct,
    CoordinatorActivity,
    CoordinatorEvent,
    Evidence,
    EvidenceSource,
    Member,
    Severity,
)
from rebalance_streaming.detect.judged_group import JudgedRebalance
from rebalance_streaming.detect.rules.expiries import with_expiries
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.observed.confidence import CERTAIN, CLAIMED, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN, Departure
from rebalance_streaming.observed.liveness import ALIVE, GONE, HEALTHY, PAUSED

C = member("c-1", [4])


def verdict(rule: str, *members: Member, confidence: float = HINT, **changes: Any) -> Verdict:
    """Return a verdict about members."""
    fields: dict[str, Any] = {"summary": "", **changes}
    return Verdict(
        rule=rule,
        confidence=confidence,
        started_at_ms=LOST_MS - 10 * SECOND,
        subject=subject_of(*members),
        **fields,
    )


def expired(of: Member = B, **changes: Any) -> Departure:
    """Return how a member left whose session surely expired, of a client that cannot have left at its poll limit."""
    fields: dict[str, Any] = {"confidence": STRONG, "struck": ((POLL_TIMEOUT, "it was polling"),), **changes}
    return gone(of, **fields)


def stated(*verdicts: Verdict, of: tuple[Departure, ...] = ()) -> list[tuple[str, float]]:
    """Return what is stated, with the confidence; without `of`, of a rebalance whose only loss is B's session."""
    lost_by_id = {each.member.member_id: each for each in of or (expired(),)}
    return [(each.rule, each.confidence) for each in with_expiries(verdicts, lost_by_id, {})]


@pytest.mark.parametrize(
    "rule", ["process_pause", "network_partition", "heartbeat_starvation", "member_crash", UNDETERMINED]
)
def test_a_guess_is_stated_as_what_is_known(rule: str):
    """Its confidence is that of the departure's class."""
    assert stated(verdict(rule, B)) == [("session_expiry", STRONG)]


@pytest.mark.parametrize(
    ("rule", "confidence"),
    [("process_pause", CLAIMED), ("member_crash", PLAUSIBLE), ("poll_overrun", HINT), ("scale_in", HINT)],
)
def test_a_claim_stays_and_so_does_a_guess_at_anything_else(rule: str, confidence: float):
    """A cause that is more than a hint is stated, and a hint at what no expired session explains."""
    assert stated(verdict(rule, B, confidence=confidence)) == [(rule, confidence)]


@pytest.mark.parametrize(
    "departure",
    [
        gone(B, UNKNOWN),
        expired(classes=(CLEAN,)),
        gone(B, POLL_TIMEOUT, confidence=STRONG),
        expired(confidence=HINT),
        expired(classes=(SESSION_EXPIRED, POLL_TIMEOUT), struck=()),
        expired(liveness=HEALTHY),
        expired(liveness=ALIVE),
        expired(STATIC),
    ],
    ids=["unknown", "left", "overran", "unsure", "may have overrun", "healthy", "alive", "static"],
)
def test_a_guess_stays_one_if_the_session_may_not_have_expired(departure: Departure):
    """That of a static member also expires when it does not poll, as it sends no leave request."""
    assert stated(verdict("process_pause", departure.member), of=(departure,)) == [("process_pause", HINT)]


@pytest.mark.parametrize("liveness", [None, GONE, PAUSED])
def test_reports_that_stopped_do_not_say_why(liveness: str | None):
    """A host that is cut off sends no reports either."""
    assert stated(verdict("process_pause", B), of=(expired(liveness=liveness),)) == [("session_expiry", STRONG)]


def test_a_guess_about_nobody_known_stays_one():
    """A verdict on a whole rebalance, or on a member that did not leave in it, concerns no session."""
    assert stated(verdict("process_pause")) == [("process_pause", HINT)]
    assert stated(verdict("process_pause", C)) == [("process_pause", HINT)]


def test_guesses_about_several_members_are_one_verdict():
    """It names all of them; the least sure departure gives the confidence, and all else keeps its order."""
    surer = expired(C, confidence=CERTAIN)
    given = (verdict("process_pause", B), verdict("slow_rebalance_callback", C), verdict("member_crash", C))
    found = with_expiries(given, {"b-1": expired(), "c-1": surer}, {})
    assert [(each.rule, each.confidence) for each in found] == [
        ("session_expiry", STRONG),
        ("slow_rebalance_callback", HINT),
    ]
    assert who(found[0]) == ["b-1", "c-1"]
    assert {"process_pause", "member_crash"} <= {each.rule for each in found[0].alternatives}


def test_what_is_true_of_several_members_is_true_of_each():
    """The longest session and absence are told, evidence and advice of all are kept, and what fits one is no error."""
    clues = [Evidence(EvidenceSource.LOG, "silence", text, "longer than the session") for text in ("12 s", "15 s")]
    advice = Advice("session.timeout.ms", "10000", "45000", "outlasts it")
    impossible = Alternative("member_crash", "the same process came back", impossible=True)
    given = (
        verdict("process_pause", B, evidence=(clues[0],), alternatives=(impossible,), missing=("a",)),
        verdict("network_partition", C, evidence=(clues[1],), advice=(advice,), missing=("a", "b")),
    )
    long = expired(replace(C, session_timeout_ms=45_000), confidence=PLAUSIBLE, back_s=9)
    (found,) = with_expiries(given, {"b-1": expired(back_s=4), "c-1": long}, {})
    assert (found.confidence, found.evidence, found.advice) == (PLAUSIBLE, tuple(clues), (advice,))
    assert found.missing == ("a", "b")
    fitting = [each.rule for each in found.alternatives]
    assert fitting == ["process_pause", "network_partition", "member_crash"]
    assert not any(each.impossible for each in found.alternatives)
    assert "back after 9.0 s" in found.summary
    assert "45.0 s" in found.summary


def test_a_guess_about_a_member_whose_departure_is_not_known_stays_one():
    """It names two, and only of one it is known that its session expired."""
    guess = verdict("process_pause", B, C)
    assert with_expiries((guess,), {"b-1": expired()}, {}) == (guess,)
    assert with_expiries((guess,), {"b-1": expired(), "c-1": expired(C, confidence=HINT)}, {}) == (guess,)


def test_a_cause_that_is_known_stays_the_primary_one():
    """The session of another member that expired while the group waited is stated beside it."""
    known = verdict("poll_overrun", C, confidence=PLAUSIBLE)
    given = (known, verdict("process_pause", B))
    assert stated(*given, of=(gone(C, POLL_TIMEOUT), expired())) == [
        ("poll_overrun", PLAUSIBLE),
        ("session_expiry", STRONG),
    ]


def test_the_guess_is_the_first_alternative_and_its_advice_stays():
    """Evidence, missing sources and advice of the guess apply to what all causes have in common."""
    advice = Advice("session.timeout.ms", "10000", "45000", "outlasts it")
    evidence = Evidence(EvidenceSource.LOG, "silence", "12 s", "longer than the session")
    guess = verdict(
        "process_pause", B, advice=(advice,), evidence=(evidence,), missing=("metrics",), rebalance_ids=("r",)
    )
    (found,) = with_expiries((guess,), {"b-1": expired(back_s=4)}, {})
    assert [each.rule for each in found.alternatives] == ["process_pause", "network_partition", "member_crash"]
    assert (found.advice, found.evidence, found.missing) == ((advice,), (evidence,), ("metrics",))
    assert (found.rebalance_ids, found.started_at_ms) == (("r",), guess.started_at_ms)
    assert "back after 4.0 s" in found.summary
    (unknown,) = with_expiries((replace(guess, rule=UNDETERMINED),), {"b-1": expired()}, {})
    assert [each.rule for each in unknown.alternatives] == ["process_pause", "network_partition", "member_crash"]
    assert "back after" not in unknown.summary


@pytest.mark.parametrize(
    ("departure", "fitting"),
    [
        (expired(), ["process_pause", "heartbeat_starvation", "network_partition", "member_crash"]),
        (
            expired(client=replace(expired().client, may_starve=False)),
            ["process_pause", "network_partition", "member_crash"],
        ),
        (expired(back_as=B, back_ms=LOST_MS), ["process_pause", "heartbeat_starvation", "network_partition"]),
    ],
    ids=["any", "cannot starve", "survived"],
)
def test_only_causes_that_fit_are_alternatives(departure: Departure, fitting: list[str]):
    """What is impossible keeps its reason, and so does what is no cause of an expired session."""
    impossible = Alternative("poll_overrun", "it polled", impossible=True)
    given = (
        Alternative("heartbeat_starvation", "its reporting stood still"),
        Alternative("leader_rejoin_loop", "once"),
        impossible,
    )
    (found,) = with_expiries((verdict("process_pause", B, alternatives=given),), {"b-1": departure}, {})
    assert [each.rule for each in found.alternatives[:-2]] == fitting
    assert found.alternatives[-2:] == (given[1], impossible)


def test_a_return_has_the_cause_of_the_loss():
    """The rebalance of a member that comes back was caused by its expired session, too."""
    guess = verdict("process_pause", replace(B, member_id="b-2"), summary="b came back")
    (found,) = with_expiries((guess,), {}, {"b-2": expired(back_s=4)})
    assert (found.rule, found.confidence, found.summary) == ("session_expiry", PLAUSIBLE, "b came back")
    assert [each.rule for each in found.alternatives] == ["process_pause", "network_partition", "member_crash"]
    assert with_expiries((guess,), {}, {"b-2": expired(confidence=HINT)}) == (guess,)


def test_a_member_that_is_lost_again_in_the_rebalance_of_its_return():
    """Members of KIP-848 keep their ids: what is stated is the loss."""
    guess = verdict("process_pause", B)
    (found,) = with_expiries((guess,), {"b-1": expired()}, {"b-1": expired(confidence=PLAUSIBLE)})
    assert (found.confidence, "sent no heartbeat" in found.summary) == (STRONG, True)


EARLIER = verdict("session_expiry", B, confidence=STRONG, summary="b sent no heartbeat")


def test_what_an_earlier_run_stated_stands_where_this_one_only_guesses():
    """After a restart commits that a departure was judged by may not be read again."""
    for rule in ("process_pause", UNDETERMINED):
        guess = verdict(rule, is_consequence=True)
        (found,) = with_expiries((guess,), {"b-1": gone(B, UNKNOWN)}, {}, EARLIER)
        assert found == replace(EARLIER, is_consequence=True)


@pytest.mark.parametrize(
    ("found", "departure"),
    [
        (verdict("process_pause", B, confidence=PLAUSIBLE), gone(B, UNKNOWN)),
        (verdict("poll_overrun", B), gone(B, UNKNOWN)),
        (verdict("process_pause", B), gone(B, CLEAN, confidence=STRONG)),
        (verdict("process_pause", B), expired(liveness=HEALTHY)),
    ],
    ids=["claim", "another cause", "left", "healthy"],
)
def test_what_an_earlier_run_stated_falls_if_something_else_is_known(found: Verdict, departure: Departure):
    """A cause, a departure in order, or a report that the client was well."""
    assert with_expiries((found,), {"b-1": departure}, {}, EARLIER) == (found,)


def test_rules_keep_working_with_the_guess():
    """Only what is stated changes: patterns over several losses rest on the causes of single ones."""
    of = lost(LOST_MS, B, [member("a-1", [0, 1]), B])
    judged = JudgedRebalance(of, (verdict("process_pause", B),), {"b-1": expired()}, LOST_MS)
    assert [(each.rule, each.primary) for each in judged.stated(LOST_MS)] == [("session_expiry", True)]
    assert [each.rule for each in judged.past()] == ["process_pause"]


# --- Through the judgement of a group ---


A = member("a-1", [0, 1])


def expires(run: Run, at_ms: int, who: Member, *, stay: tuple[Member, ...] = (A,)) -> Run:
    """Let the session of a member expire, as its coordinator logs."""
    run.live(at_ms + 9 * SECOND, lost(at_ms, who, [*stay, who]))
    line = CoordinatorEvent(at_ms - 100, CoordinatorAct.EXPIRED, member_id=who.member_id)
    run.detector.take_coordinator(CoordinatorActivity(CLUSTER, GROUP, at_ms - 5 * SECOND, (line,)))
    return run


def comes_back(run: Run, at_ms: int, who: Member) -> Run:
    """Let the lost member join with another id, and the members sync once more after its loss and after its return."""
    after = rebalance(at_ms + 8 * SECOND, [A], [A], reason="cooperative_followup")
    last = rebalance(at_ms + 28 * SECOND, [A, who], [A, who], reason="cooperative_followup")
    return run.live(at_ms + 40 * SECOND, after, joined(at_ms + 20 * SECOND, who, [A]), last)


@pytest.mark.parametrize(("times", "severity"), [(1, Severity.INFO), (2, Severity.INFO), (3, Severity.TICKET)])
def test_a_follow_up_and_a_return_belong_to_the_loss(times: int, severity: Severity):
    """They have one finding with its text, and are not counted as further incidents."""
    lives = [replace(B, member_id=f"b-{number}") for number in range(times + 1)]
    run = Run().live(T0 + SECOND, snapshot(T0, A, lives[0]))
    for number, (one, again) in enumerate(itertools.pairwise(lives)):
        at_ms = T0 + (5 + 10 * number) * MINUTE
        comes_back(expires(run, at_ms, one), at_ms, again).live(at_ms + 3 * MINUTE)
    found = run.finding("session_expiry")
    assert (found.rebalances, found.confidence, found.severity) == (4 * times, CERTAIN, severity)
    assert "sent no heartbeat" in found.summary
    assert run.rules() == {"session_expiry"}


def test_members_that_expire_once_each_are_no_storm_that_notifies():
    """As in a deploy that kills: whether they were killed is not known, but none left twice."""
    run, left = Run(), [member(f"{name}-1", [number]) for number, name in enumerate("bcd", start=2)]
    run.live(T0 + SECOND, snapshot(T0, A, *left))
    for number, one in enumerate(left):
        at_ms = T0 + (5 + number) * MINUTE
        comes_back(expires(run, at_ms, one), at_ms, replace(one, member_id=f"{one.client_id}-2"))
    run.live(T0 + 8 * MINUTE + 30 * SECOND)
    storm = run.finding("rebalance_storm")
    assert (storm.variant, storm.severity) == ("session_expiry", Severity.INFO)


def test_a_restart_keeps_what_was_stated():
    """The coordinator's lines are not read again."""
    at_ms = T0 + 5 * MINUTE
    again = replace(B, member_id="b-2")
    before = comes_back(expires(Run().live(T0 + SECOND, snapshot(T0, A, B)), at_ms, B), at_ms, again)
    stated = before.live(at_ms + 3 * MINUTE).finding("session_expiry")
    after = Run()
    after.detector.findings.restore(stated)
    comes_back(after.live(at_ms + 9 * SECOND, snapshot(T0, A, B), lost(at_ms, B, [A, B])), at_ms, again)
    after.live(at_ms + 4 * MINUTE)
    assert after.causes() == dict.fromkeys(stated.rebalance_ids, "session_expiry")
    assert after.withdrawn == []


def test_a_restart_takes_no_expired_sessions_for_an_unsure_deploy():
    """Without the coordinator's lines two members that were replaced in turn may have been deployed."""
    b_again, c_again = (replace(each, member_id=f"{each.client_id}-2") for each in (B, C))

    def played(run: Run, *, lines: bool) -> Run:
        run.live(T0 + SECOND, snapshot(T0, A, B, C))
        losses = ((T0 + 5 * MINUTE, B, b_again, [A, C]), (T0 + 7 * MINUTE, C, c_again, [A, b_again]))
        for at_ms, each, again, stays in losses:
            run.live(at_ms + 9 * SECOND, lost(at_ms, each, [*stays, each]))
            if lines:
                event = CoordinatorEvent(at_ms - 100, CoordinatorAct.EXPIRED, member_id=each.member_id)
                run.detector.take_coordinator(CoordinatorActivity(CLUSTER, GROUP, at_ms - 5 * SECOND, (event,)))
            run.live(at_ms + 40 * SECOND, joined(at_ms + 20 * SECOND, again, stays))
        return run.live(T0 + 11 * MINUTE)

    before, after = played(Run(), lines=True), Run()
    assert set(before.causes().values()) == {"session_expiry"}
    for finding in before.detector.findings.all():
        after.detector.findings.restore(finding)
    played(after, lines=False)
    assert after.causes() == before.causes()
    assert after.withdrawn == []


@pytest.mark.parametrize(("liveness", "kept"), [(HEALTHY, False), (GONE, True)])
def test_a_restored_expiry_of_a_return_ends_if_the_member_was_well(liveness: str, kept: bool):
    """Late client metrics show how the member that came back was before."""
    again = replace(B, member_id="b-2")
    before = verdict("session_expiry", B, again, confidence=STRONG)
    (now,) = with_expiries((verdict("process_pause", again),), {}, {"b-2": gone(B, liveness=liveness)}, before)
    assert (now.rule == "session_expiry") == kept


def test_a_hint_at_a_pattern_takes_over_no_expired_session():
    """Three within a quarter of an hour look like flapping; it is certain that the sessions expired."""
    lives = [replace(B, member_id=f"b-{number}") for number in range(4)]
    run = Run().live(T0 + SECOND, snapshot(T0, A, lives[0]))
    for number, (one, following) in enumerate(itertools.pairwise(lives)):
        at_ms = T0 + (5 + 7 * number) * MINUTE
        expires(run, at_ms, one).live(at_ms + 40 * SECOND, joined(at_ms + 20 * SECOND, following, [A]))
    assert run.live(T0 + 23 * MINUTE).finding("session_expiry").severity == Severity.TICKET
    assert "member_flapping" not in run.causes().values()


def test_a_member_that_is_lost_hides_none_that_returns_with_it():
    """One rebalance has an expired session and the return from an earlier one: no hint at either is left."""
    again = replace(B, member_id="b-2")
    hints = (verdict(UNDETERMINED, C), verdict("process_pause", again))
    found = with_expiries(hints, {"c-1": expired(C)}, {"b-2": expired()})
    assert {each.rule for each in found} == {"session_expiry"}


def test_all_members_of_a_large_loss_are_named():
    """The rebalance that follows it names as many, so that both have one finding."""
    many = [member(f"m-{number:02}", [number]) for number in range(25)]
    hint = verdict(UNDETERMINED, *many)
    (found,) = with_expiries((hint,), {each.member_id: expired(each) for each in many}, {})
    assert len(found.subject.members) == len(many)
