"""Intended rebalances, or those required by a topic, a subscription or a protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.departing import LOST_MS, A, B, episode, gone, losing, said, who
from detect.standing_histories import departed
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    joined,
    lost,
    member,
    probe,
    pulse,
    rebalance,
    silenced,
)
from rebalance_contract import CommitGap, Rebalance, Severity
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.rules.benign import BENIGN_RULES, FOLLOWS, aftermath, restart, scale_in
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED
from rebalance_streaming.observed.liveness import GONE, RESTARTED


def benign(
    of: Rebalance, *events: Event, after_s: int = 60, past: tuple[ExplainedDeparture, ...] = ()
) -> Verdict | None:
    """Return the verdict of the first benign rule that matches."""
    looked = episode(of, *events, now_ms=LOST_MS + after_s * SECOND, past=past)
    return next((found for rule in BENIGN_RULES if (found := rule(looked)) is not None), None)


def same(reason: str, **changes: Any) -> Rebalance:
    """Return a rebalance in which nobody joined or left."""
    return rebalance(LOST_MS, [A, B], [A, B], reason=reason, **changes)


@pytest.mark.parametrize(("after_s", "confidence"), [(60, PLAUSIBLE), (700, STRONG)])
def test_newcomers_that_stay_are_a_scale_out(after_s: int, confidence: float):
    """Only arrivals; certain once they have stayed for ten minutes."""
    found = benign(joined(LOST_MS, member("n-1"), [A]), after_s=after_s)
    assert said(found) == ("scale_out", confidence)
    assert found is not None
    assert (who(found), found.summary) == (["n-1"], "The group grew from 1 to 2 members.")


@pytest.mark.parametrize(
    ("gaps_s", "every_s", "confidence"),
    [
        ((20, 20), 5, HINT),
        ((20,), 5, PLAUSIBLE),
        ((20, 4), 5, PLAUSIBLE),
        ((12, 12), 5, PLAUSIBLE),
        ((20, 20), 12, PLAUSIBLE),
        ((4, 4, 20), 5, HINT),
    ],
    ids=["all for long", "not of all known", "one went on", "no longer than usual", "commits are rare", "of another"],
)
def test_newcomers_alone_hold_nobody_up_for_long(gaps_s: tuple[int, ...], every_s: int, confidence: float):
    """Without probes, a barrier shows only as commits that all stop at once."""
    of = joined(LOST_MS, member("n-1"), [A, member("c-1", [2])])
    beats = [
        commits(at, dict.fromkeys(range(3), at // 100))
        for at in range(LOST_MS - 5 * MINUTE, LOST_MS - 2 * SECOND, every_s * SECOND)
    ]
    gaps = (
        CommitGap("orders", place, LOST_MS - 2 * SECOND, LOST_MS + (s - 2) * SECOND) for place, s in enumerate(gaps_s)
    )
    assert said(benign(of, *beats, of, silenced(of, *gaps))) == ("scale_out", confidence)


@pytest.mark.parametrize(("after_s", "confidence"), [(60, PLAUSIBLE), (700, STRONG)])
def test_members_that_left_in_order_are_a_scale_in(after_s: int, confidence: float):
    """They committed until they left and were not replaced; more certain after ten minutes."""
    found = benign(lost(LOST_MS, B, [A, B]), *pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3]), after_s=after_s)
    assert said(found) == ("scale_in", confidence)
    assert found is not None
    assert who(found) == ["b-1"]


def test_a_loss_is_no_scale_in():
    """A member that was silent for its session time-out, or whose end is unknown, needs another explanation."""
    quiet = [*pulse(LOST_MS - MINUTE, LOST_MS - 12 * SECOND, [0, 1, 2, 3]), *pulse(LOST_MS - 11_000, LOST_MS, [0, 1])]
    assert benign(lost(LOST_MS, B, [A, B]), *quiet) is None
    assert benign(lost(LOST_MS, B, [A, B])) is None


def test_a_single_restart_in_order_may_be_part_of_a_deploy():
    """It left cleanly and the same client is back; both rebalances have this cause.

    The process may have kept running.
    """
    gone_then, again = lost(LOST_MS, B, [A, B]), joined(LOST_MS + 20_000, member("b-2", [2, 3]), [A])
    beats = pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3])
    found = benign(gone_then, *beats, again)
    assert said(found) == ("rolling_deploy", HINT)
    assert found is not None
    assert "back after 23.0 s" in found.evidence[0].value
    past = departed(LOST_MS, B, CLEAN, rule="rolling_deploy")
    back = benign(again, *beats, gone_then, past=(past,))
    assert said(back) == ("rolling_deploy", HINT)


@pytest.mark.parametrize(
    "past",
    [
        pytest.param((departed(LOST_MS, B, CLEAN, liveness=RESTARTED),), id="its reports come from another process"),
        pytest.param((departed(LOST_MS, B, CLEAN, liveness=GONE),), id="its reports ended"),
        pytest.param(
            (departed(LOST_MS - MINUTE, A, CLEAN), departed(LOST_MS, B, CLEAN)), id="another left in order before it"
        ),
    ],
)
def test_a_restart_is_surely_one_if_its_process_ended_or_others_left_in_turn(past: tuple[ExplainedDeparture, ...]):
    """A process that leaves and rejoins keeps reporting, and no other does the same within minutes."""
    gone_then, again = lost(LOST_MS, B, [A, B]), joined(LOST_MS + 20_000, member("b-2", [2, 3]), [A])
    back = benign(again, *pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3]), gone_then, past=past)
    assert said(back) == ("rolling_deploy", PLAUSIBLE)


def test_the_only_member_of_a_group_is_restarted_as_a_whole_group_is():
    """No other member could have been stopped with it."""
    gone_then, again = lost(LOST_MS, A, [A]), joined(LOST_MS + 20_000, member("a-2", [0, 1]), [])
    found = benign(gone_then, *pulse(LOST_MS - MINUTE, LOST_MS, [0, 1]), again)
    assert said(found) == ("rolling_deploy", PLAUSIBLE)


def test_who_left_in_order_and_is_back_was_restarted_although_another_is_not():
    """One of two that left together was not started again; without a clean leave it is not a deploy."""
    both = rebalance(LOST_MS, [A, B, member("c-1", [4])], [A])
    again = joined(LOST_MS + 20_000, member("b-2", [2, 3]), [A])
    beats = pulse(LOST_MS - MINUTE, LOST_MS, range(5))
    found = benign(both, *beats, again)
    assert found is not None
    assert (said(found), who(found)) == (("rolling_deploy", PLAUSIBLE), ["b-1"])
    silent = pulse(LOST_MS - 2 * MINUTE, LOST_MS - MINUTE, range(5))
    assert benign(both, *silent, again) is None


@pytest.mark.parametrize(
    ("came", "after_s", "later", "expected"),
    [
        ("ab", 60, "", ("initial_group_formation", CERTAIN, "The group formed with 2 members.")),
        (
            "abcd",
            60,
            "",
            ("scale_out", PLAUSIBLE, "The group was stopped in order and came back with 4 members instead of 2."),
        ),
        (
            "abc",
            900,
            "",
            ("scale_out", STRONG, "The group was stopped in order and came back with 3 members instead of 2."),
        ),
        ("a", 60, "", ("initial_group_formation", CERTAIN, "The group formed with 1 member.")),
        (
            "a",
            900,
            "",
            ("scale_in", STRONG, "The group was stopped in order and came back with 1 member instead of 2."),
        ),
        ("a", 900, "b", ("initial_group_formation", CERTAIN, "The group formed with 1 member.")),
        ("xyz", 900, "", ("initial_group_formation", CERTAIN, "The group formed with 3 members.")),
    ],
    ids=["the same", "more", "more, for long", "fewer so far", "fewer", "one is late", "of others"],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["in one rebalance", "in two"])
def test_a_group_that_was_stopped_comes_back_with_more_or_fewer(
    came: str, after_s: int, later: str, expected: tuple[str, float, str], *, at_once: bool
):
    """For example tasks of a connector that were increased, or instances after a deploy that stops all first."""
    back_ms = LOST_MS + 6_000
    new = [member(f"{name}-2", [place]) for place, name in enumerate(came)]
    late = [joined(back_ms + 60_000, member(f"{name}-2"), new) for name in later]
    beats = pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3])
    emptied, formed = rebalance(LOST_MS, [A, B], [], took_ms=10), rebalance(back_ms, [], new, reason="first_join")
    if at_once:
        both = (*emptied.generations, *formed.generations)
        whole = rebalance(LOST_MS, [A, B], new, reason="group_emptied", generations=both)
        found = benign(whole, *beats, *late, after_s=after_s)
        # A member that is back was restarted, unless another cause is found.
        is_restart = expected[0] == "initial_group_formation" and came in "ab"
        assert said(found) == (("rolling_deploy", PLAUSIBLE) if is_restart else expected[:2])
        return
    left = tuple(departed(LOST_MS, each, CLEAN, rule="rolling_deploy") for each in (A, B))
    found = benign(formed, *beats, emptied, *late, after_s=after_s, past=left)
    assert found is not None
    assert (*(said(found) or ()), found.summary) == expected


def test_a_group_that_shrank_long_before_it_was_stopped_has_lost_nobody():
    """The number of members when the group was stopped counts."""
    day_ms, back_ms = 24 * 60 * MINUTE, LOST_MS + 6_000
    shrank = rebalance(LOST_MS - day_ms, [A, B, member("c-1")], [A, B])
    emptied = rebalance(LOST_MS, [A, B], [], took_ms=10)
    formed = rebalance(back_ms, [], [member("a-2"), member("b-2")], reason="first_join")
    left = tuple(departed(LOST_MS, each, CLEAN, rule="rolling_deploy") for each in (A, B))
    assert said(benign(formed, shrank, emptied, after_s=900, past=left)) == ("initial_group_formation", CERTAIN)


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        ("n", "1 member left in order, and 1 other came in the same rebalance."),
        ("no", "1 member left in order, and 2 others came in the same rebalance."),
    ],
)
def test_who_left_in_order_while_no_fewer_came_was_replaced(came: str, expected: str):
    """For example a pod that is moved to another node: the group size is unchanged, and the move was intended."""
    of = rebalance(LOST_MS, [A, B], [A, *(member(f"{name}-1") for name in came)])
    found = benign(of, *pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3]))
    assert found is not None
    assert (said(found), who(found), found.summary) == (("rolling_deploy", PLAUSIBLE), ["b-1"], expected)
    silent = pulse(LOST_MS - 2 * MINUTE, LOST_MS - MINUTE, [0, 1, 2, 3])
    assert benign(of, *silent) is None


@pytest.mark.parametrize("came", ["ab", "abc"])
def test_a_group_that_was_empty_for_long_is_started(came: str):
    """It had no previous members to compare with."""
    back_ms = LOST_MS + 11 * MINUTE
    emptied = rebalance(LOST_MS, [A, B], [], took_ms=10)
    formed = rebalance(back_ms, [], [member(f"{name}-2") for name in came], reason="first_join")
    left = tuple(departed(LOST_MS, each, CLEAN, rule="scale_in") for each in (A, B))
    found = benign(formed, emptied, after_s=30 * 60, past=left)
    assert said(found) == ("initial_group_formation", CERTAIN)


@pytest.mark.parametrize(("after_min", "now"), [(5, 2), (15, 1)], ids=["while it comes back", "later"])
def test_who_is_added_long_after_a_restart_was_not_late(after_min: int, now: int):
    """The missing members are those missing within the time of a restart, whenever that is judged."""
    back_ms = LOST_MS + 6_000
    three = [A, B, member("c-1")]
    emptied = rebalance(LOST_MS, three, [], took_ms=10)
    formed = rebalance(back_ms, [], [member("a-2")], reason="first_join")
    second = joined(back_ms + after_min * MINUTE, member("b-2"), [member("a-2")])
    whole = joined(back_ms + 60 * MINUTE, member("c-2"), [member("a-2"), member("b-2")])
    left = tuple(departed(LOST_MS, each, CLEAN, rule="rolling_deploy") for each in three)
    found = [
        benign(formed, emptied, *later, after_s=after_s, past=left)
        for later, after_s in (((second,), 20 * 60), ((second, whole), 120 * 60))
    ]
    assert [said(each) for each in found] == [("scale_in", STRONG)] * 2
    assert {each.summary for each in found if each is not None} == {
        f"The group was stopped in order and came back with {now} member{'s' if now > 1 else ''} instead of 3."
    }


def test_a_group_of_which_some_were_lost_was_not_stopped_in_order():
    """One member left cleanly, the others died: more members afterwards are not the growth of a deploy."""
    both, back_ms = [A, B], LOST_MS + 6_000
    emptied = rebalance(LOST_MS, both, [], took_ms=10)
    formed = rebalance(back_ms, [], [member(f"{name}-2") for name in "abc"], reason="first_join")
    left = (
        departed(LOST_MS, A, CLEAN, rule="rolling_deploy"),
        departed(LOST_MS, B, SESSION_EXPIRED, rule="member_crash"),
    )
    assert said(benign(formed, emptied, past=left)) == ("initial_group_formation", CERTAIN)


def test_members_that_a_row_leaves_out_are_counted():
    """Both lists are cut at the same length: one member left and another moved up into the list."""
    of = lost(LOST_MS, B, [A, B], members_before_count=9_000, members_after_count=8_999)
    cut = replace(of, members_after=(A, member("c-1")), is_truncated=True)
    found = benign(cut, *pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2, 3]))
    assert found is not None
    assert found.summary == "The group shrank from 9000 to 8999 members; they left in order."


def test_clients_that_share_a_name_and_a_host_come_back_each_once():
    """A third newcomer after two departures is an additional member, not a restart."""
    left = tuple(
        departed(LOST_MS - at_ms, member(f"a-{at_ms}"), CLEAN, rule="rolling_deploy") for at_ms in (20_000, 10_000)
    )
    three = rebalance(LOST_MS, [B], [B, *(member(f"a-new{number}") for number in range(3))])
    found = episode(three, past=left)
    assert [each.returned_from for each in found.arrivals] == [left[1], left[0], None]
    known = replace(left[1], departure=replace(left[1].departure, back_as=member("a-other")))
    found = episode(three, past=(left[0], known))
    assert [each.returned_from for each in found.arrivals] == [left[0], None, None]


def test_clients_that_share_a_name_and_left_in_turn_come_back_in_turn():
    """Each departure is matched to the first newcomer: the next one is matched to the other departure."""
    left = [
        departed(LOST_MS - at_ms, member(f"a-{at_ms}"), CLEAN, back_as=member("a-8"), rule="rolling_deploy")
        for at_ms in (20_000, 10_000)
    ]
    first, second = joined(LOST_MS, member("a-8"), [B]), joined(LOST_MS + MINUTE, member("a-9"), [B, member("a-8")])
    found = [each.returned_from for of in (first, second) for each in episode(of, past=tuple(left)).arrivals]
    assert found == [left[1], left[0]]


def test_who_comes_back_by_its_own_id_is_itself():
    """Even if another member with its name and host left later (KIP-848)."""
    left = tuple(
        departed(LOST_MS - at_ms, member(name), CLEAN, rule="scale_in")
        for name, at_ms in (("a-1", 20_000), ("a-2", 10))
    )
    found = episode(joined(LOST_MS, member("a-1"), [B]), past=left)
    assert [each.returned_from for each in found.arrivals] == [left[0]]


def test_what_rests_on_an_orderly_leave_is_no_surer_than_that():
    """Its session may have expired instead: neither a smaller group nor a deploy is claimed."""
    unsure = gone(likely=CLEAN, classes=(CLEAN, SESSION_EXPIRED), confidence=HINT)
    assert said(scale_in(losing(unsure, after_s=20 * 60))) == ("scale_in", HINT)
    back = replace(unsure, back_as=replace(B, member_id="b-2"), back_ms=LOST_MS + 20 * SECOND)
    assert said(restart(losing(back, after_s=20 * 60))) == ("rolling_deploy", HINT)
    past = departed(LOST_MS, B, CLEAN, rule="rolling_deploy", confidence=HINT)
    again = benign(joined(LOST_MS + 20_000, member("b-2", [2, 3]), [A]), past=(past,))
    assert said(again) == ("rolling_deploy", HINT)


def test_a_return_has_the_cause_of_the_loss():
    """Its own rebalance has the cause of the loss, with less confidence; a newcomer beside it is growth."""
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
    """There were no members before: certain, with the members that joined."""
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
    """The assignor's name or the group type changed between two rebalances."""
    earlier = rebalance(LOST_MS - 10 * MINUTE, [A], [A, B], **before)
    found = benign(same("leader_rejoin", **now), earlier)
    assert said(found) == ("protocol_migration", CERTAIN)
    assert found is not None
    assert words in found.summary


def test_the_member_that_subscribed_anew_is_named():
    """With the added and removed topics; if all change alike, topics that match a pattern changed."""
    other = replace(B, topics=("orders", "refunds"))
    found = benign(rebalance(LOST_MS, [A, B], [A, other], reason="subscription_change"))
    assert said(found) == ("subscription_change", CERTAIN)
    assert found is not None
    assert (who(found), found.evidence[0].value) == (["b-1"], "+refunds")
    both = [replace(each, topics=("orders", "refunds")) for each in (A, B)]
    grown = benign(rebalance(LOST_MS, [A, B], both, reason="subscription_change"))
    assert said(grown) == ("topic_metadata_change", STRONG)


def test_a_newer_members_subscription_is_its_records_word():
    """KIP-848: its record changed before the epoch rose; the member that triggered it is named."""
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
    """Within metadata.max.age of the change seen by probes; without probes only the assignment shows it."""
    probes = [] if grown_ms is None else [probe(T0, ends={0: 1, 1: 1}), probe(grown_ms, ends={0: 1, 1: 1, 2: 0})]
    found = benign(same(reason), *probes)
    assert said(found) == (None if expected is None else ("topic_metadata_change", expected))
    if expected == CERTAIN:
        assert found is not None
        assert "orders has 3 partitions instead of 2" in found.summary


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [("eu-1a", "eu-1b", "eu-1a -> eu-1b"), (None, "eu-1b", "none -> eu-1b"), ("a", "a", None)],
)
def test_a_member_that_reports_another_rack_moved(was: str | None, now: str, expected: str | None):
    """The member, its old and its new rack; a rack reason without a changed rack is left to the other rules."""
    of = same("rack_change", members_before=(A, replace(B, rack_id=was)), members_after=(A, replace(B, rack_id=now)))
    found = benign(of)
    if expected is None:
        assert said(found) is None
    else:
        assert said(found) == ("rack_change", CERTAIN)
        assert found is not None
        assert (found.summary, len(found.subject.members)) == (f"b (/host-b) changed the rack: {expected}.", 1)


@pytest.mark.parametrize(("times", "severity"), [(3, Severity.INFO), (4, Severity.TICKET)])
def test_topics_that_change_all_day_are_a_ticket(times: int, severity: str | None):
    """Three changes a day may be intended; from the fourth on topics, or the clients' view of them, are unstable."""
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
    """A due follow-up round at any time, an unexplained rejoin within half a minute; neither if members change."""
    earlier = joined(LOST_MS - 3_000 - after_s * SECOND, B, [A])
    found = aftermath(episode(same(reason), earlier))
    assert said(found) == (None if confidence is None else (FOLLOWS, confidence))
    assert aftermath(episode(joined(LOST_MS, member("n-1"), [A], reason=reason), earlier)) is None
    assert aftermath(episode(same(reason))) is None
