"""Losses in other groups at the same time, and their hosts and coordinators."""

from __future__ import annotations

from detect.standing_histories import departed
from histories import MINUTE, SECOND, T0, member, rebalance, snapshot
from rebalance_contract import Member
from rebalance_streaming.detect.episode import OtherGroups
from rebalance_streaming.detect.shared_losses import SharedLosses
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED

A, B, C = member("a-1", [0], host="h1"), member("b-1", [0], host="h1"), member("c-1", [0], host="h2")
BROKERS = {"one": 1, "two": 2}
Lost = tuple[int, str] | None


def lost(
    of: SharedLosses, group: str, at_ms: int, who: Member, likely: str = SESSION_EXPIRED, *, before: Lost = None
) -> set[str]:
    """Let one member leave; `before`: the time and class that an earlier look found for it in the same rebalance."""
    known = [] if before is None else [departed(before[0], who, before[1], of="r1")]
    return of.take(group, "r1", [departed(at_ms, who, likely, of="r1")], known)


def test_groups_that_lose_members_at_the_same_time_shed_light_on_each_other():
    """Within seconds, not minutes, and only for expired sessions: a poll time-out concerns the member alone."""
    losses = SharedLosses(BROKERS.get)
    assert not losses
    assert lost(losses, "one", T0, A) == set()
    assert lost(losses, "two", T0, B, POLL_TIMEOUT) == set()
    assert lost(losses, "two", T0 + 4 * SECOND, B) == {"one"}
    assert lost(losses, "two", T0 + MINUTE, C) == set()
    assert (bool(losses), losses.latest_ms) == (True, T0 + MINUTE)


def test_a_host_on_which_another_group_lost_nobody_is_not_the_reason():
    """Until that group leaves the host."""
    losses, of, bystander = SharedLosses(BROKERS.get), rebalance(T0, [A], []), snapshot(T0, B)
    losses.take_group("bystander", None, bystander)
    lost(losses, "two", T0 + SECOND, B)
    assert losses.elsewhere("one", of) == OtherGroups(("two",), (), (2,))
    assert losses.elsewhere("two", of) == OtherGroups()
    losses.take_group("bystander", bystander, None)
    assert losses.elsewhere("one", of) == OtherGroups(("two",), ("h1",), (2,))


def test_it_returns_the_groups_whose_losses_a_rebalance_had():
    """Findings about the cluster have rebalances, and these have their groups."""
    losses = SharedLosses(BROKERS.get)
    losses.take("one", "r1", [departed(T0, A, SESSION_EXPIRED, of="r1")])
    losses.take("two", "r2", [departed(T0, B, SESSION_EXPIRED, of="r2")])
    assert losses.groups_of({"r2", "r3"}) == {"two"}
    assert losses.groups_of(()) == set()


def test_what_is_found_of_a_rebalance_later_counts_in_the_place_of_what_was_found_first():
    """A broker's line may clear a loss, or reveal one; groups with losses at that time are judged again, once."""
    losses = SharedLosses(BROKERS.get)
    assert lost(losses, "one", T0, A) == set()
    assert lost(losses, "two", T0, B) == {"one"}
    assert lost(losses, "two", T0, B, before=(T0, SESSION_EXPIRED)) == set()
    assert lost(losses, "two", T0, B, CLEAN, before=(T0, SESSION_EXPIRED)) == {"one"}
    assert losses.elsewhere("one", rebalance(T0, [A], [])) == OtherGroups()
    assert lost(losses, "two", T0, B, CLEAN, before=(T0, CLEAN)) == set()
    assert lost(losses, "two", T0 + SECOND, B, before=(T0, CLEAN)) == {"one"}
    # The time is known more precisely: other losses may be closer to it.
    assert lost(losses, "two", T0 + 2 * SECOND, B, before=(T0 + SECOND, SESSION_EXPIRED)) == {"one"}
    assert lost(losses, "one", T0, A, CLEAN, before=(T0, SESSION_EXPIRED)) == {"two"}
    assert lost(losses, "two", T0 + SECOND, B, CLEAN, before=(T0 + 2 * SECOND, SESSION_EXPIRED)) == set()
    assert not losses


def test_more_losses_at_one_moment_than_are_kept_are_news_once():
    """A loss above the bound is not new when it is found again, and does not replace another."""
    losses, groups = SharedLosses(BROKERS.get), [f"g{n:04}" for n in range(1_500)]
    found = [lost(losses, group, T0, A) for group in groups]
    assert [len(each) for each in found[:3]] == [0, 1, 2]
    seen = losses.elsewhere("other", rebalance(T0, [A], [])).groups
    assert len(seen) == 1_000
    again = [lost(losses, group, T0, A, before=(T0, SESSION_EXPIRED)) for group in groups]
    assert not any(again)
    # A group that is judged for the first time, or after it was forgotten, reports its loss, which is left out again.
    assert lost(losses, groups[0], T0, A) == set(seen)
    assert losses.elsewhere("other", rebalance(T0, [A], [])).groups == seen


def test_losses_are_counted_and_not_their_rebalances():
    """A rebalance that loses hundreds takes as much room; the latest are kept."""
    losses = SharedLosses(BROKERS.get)
    for n in range(10):
        members = [member(f"m-{n}-{each}", [0], host=f"h{each}") for each in range(200)]
        losses.take(f"g{n}", "r1", [departed(T0 + n * MINUTE, each, SESSION_EXPIRED, of="r1") for each in members])
    kept = [len(losses.elsewhere("other", rebalance(T0 + n * MINUTE, [A], [])).hosts) for n in range(10)]
    assert kept == [0] * 5 + [200] * 5


def test_losses_of_long_ago_are_forgotten():
    """A cluster with continuous losses uses no more memory than others."""
    losses = SharedLosses(BROKERS.get)
    for n in range(1_200):
        lost(losses, f"g{n}", T0 + n * MINUTE, A)
    assert losses.elsewhere("other", rebalance(T0, [A], [])) == OtherGroups()
    assert losses.elsewhere("other", rebalance(T0 + 1_199 * MINUTE, [A], [])).groups == ("g1199",)
