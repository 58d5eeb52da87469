"""What delayed a rebalance that began for a harmless reason: a member that took long to rejoin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from rebalance_contract import GroupState, Member, Rebalance, RebalanceReason, Severity
from rebalance_contract.clients import ASSIGNED_LATENCY, REVOKED_LATENCY
from rebalance_streaming.detect.episode import Episode, long_barrier_ms
from rebalance_streaming.detect.rules.member_settings import barrier_advice
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.partitions import places
from rebalance_streaming.observed.barriers import SAME_MS, preparing_since
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.evidence import seconds
from rebalance_streaming.observed.history import GroupHistory, is_cooperative

#: A member whose last poll is at least this old is not polling.
_POLLS_STOPPED_MS = 5_000
#: A member that commits on revocation joins within the first time after that; commits further apart than the second are
#: not simultaneous.
_JOINS_WITHIN_MS, _COMMITS_APART_MS = 2_000, 5_000
_WAITS_FOR_APPLICATION = ("wait-unassign-call", "wait-assign-call")


def explain_barrier(episode: Episode) -> Verdict | None:
    """Return why members waited long for each other, although all joined in the end; null if it was not long."""
    barrier = episode.longest_barrier
    if barrier is None or barrier.waited_ms < episode.long_barrier_ms:
        return None
    began, released, waited = barrier.from_ms, barrier.released_ms, barrier.waited_ms
    callback = _in_callback(episode, barrier.stayed, began, released)
    if callback is not None:
        return callback
    history, advice = episode.history, barrier_advice(episode.history, episode.rebalance)
    ages = _poll_ages(history, barrier.stayed, began, released)
    stayed = _not_polling(barrier.stayed, ages)
    inside = [] if stayed else _inside_poll(barrier.stayed, ages)
    late = _late_by_commits(episode, inside or stayed, began, released)
    if inside and late is None:
        several = len(inside) > 1
        return say(
            "slow_rebalance_callback.inside_poll",
            began,
            subject_of() if several else subject_of(*inside),
            confidence=HINT if several else PLAUSIBLE,
            members=inside,
            several=several,
            waited=waited,
        )
    culprit = _longest_without_poll(stayed, ages)
    if culprit is None and late is not None:
        subject = subject_of(late)
        return say("stalled_member_join_barrier.by_commits", began, subject, advice=advice, member=late, waited=waited)
    if culprit is None and len(stayed) != 1:
        # If all members polled the whole time, the cause is something else.
        sure = PLAUSIBLE if stayed else HINT
        return say("stalled_member_join_barrier.nobody_named", began, confidence=sure, advice=advice, waited=waited)
    member = culprit or stayed[0]
    return say(
        "stalled_member_join_barrier.rejoined",
        began,
        subject_of(member),
        advice=advice,
        member=member,
        waited=waited,
        reported=episode.has_reports,
    )


def explain_late_round(episode: Episode) -> Verdict | None:
    """Return why a cooperative assignor's second round came late; null if none did.

    The round begins when the members that give up partitions have done so and join again (KIP-429). Until then the
    group is stable and there is no barrier: partitions wait for the member that owns them.
    """
    rounds = pairwise(episode.rebalance.generations)
    due = [
        (first.assigned_at_ms, second.join_ended_at_ms)
        for first, second in rounds
        if second.reason == RebalanceReason.COOPERATIVE_FOLLOWUP
        if first.assigned_at_ms is not None and second.join_ended_at_ms is not None
    ]
    began, ended = max(due, key=lambda each: each[1] - each[0], default=(0, 0))
    if ended - began < episode.long_barrier_ms:
        return None
    giving = _giving_up(episode.rebalance)
    ages = _poll_ages(episode.history, giving, began, ended)
    giving = _not_polling(giving, ages) or _inside_poll(giving, ages) or giving
    called = _in_callback(episode, giving, began, ended)
    if called is not None or not giving:
        return called
    several = len(giving) > 1
    subject = subject_of() if several else subject_of(*giving)
    waited = ended - began
    return say("slow_rebalance_callback.late_round", began, subject, members=giving, several=several, waited=waited)


def _giving_up(rebalance: Rebalance) -> list[Member]:
    """Return the members that stayed and lost partitions."""
    after = {each.member_id: places(each.partitions) for each in rebalance.members_after}
    stayed = [each for each in rebalance.members_before if each.member_id in after]
    return [each for each in stayed if places(each.partitions) - after[each.member_id]]


def _in_callback(episode: Episode, members: Sequence[Member], from_ms: int, to_ms: int) -> Verdict | None:
    for member in members:
        client = episode.history.clients.of(member)
        text = None if client is None else _callback_text(client, from_ms, to_ms, episode.thresholds.callback_ms)
        if text is not None:
            return say("slow_rebalance_callback.reported", from_ms, subject_of(member), member=member, callback=text)
    return None


def _callback_text(client: ClientHistory, from_ms: int, to_ms: int, longest_ms: int) -> str | None:
    states = [s for s in client.reports if from_ms - 1_000 <= s.emitted_ms <= to_ms + 1_000]
    waiting = [s for s in states if s.join_state in _WAITS_FOR_APPLICATION]
    if len(waiting) > 1 and waiting[-1].emitted_ms - waiting[0].emitted_ms >= longest_ms:
        return f"join state {waiting[-1].join_state} for {seconds(waiting[-1].emitted_ms - waiting[0].emitted_ms)}"
    later = [s for s in client.reports if to_ms - 1_000 <= s.emitted_ms <= to_ms + 60_000]
    for name in (REVOKED_LATENCY, ASSIGNED_LATENCY):
        largest = max((s.values[name] for s in later if name in s.values), default=0.0)
        if largest >= longest_ms:
            return f"{name} {seconds(largest)}"
    return None


def _not_polling(members: Sequence[Member], ages: Mapping[str, float]) -> list[Member]:
    """Return the members that may have kept the others waiting: all but those that reported polls the whole time."""
    return [each for each in members if ages.get(each.member_id, _POLLS_STOPPED_MS) >= _POLLS_STOPPED_MS]


def _inside_poll(members: Sequence[Member], ages: Mapping[str, float]) -> list[Member]:
    """Return the members that were in poll() in every report: waiting for records, or in a callback called by it."""
    return [each for each in members if ages.get(each.member_id) == 0]


def _poll_ages(history: GroupHistory, members: Sequence[Member], from_ms: int, to_ms: int) -> dict[str, float]:
    """Return the age (ms) of each member's last poll at the latest report of a time span, if its client reports it."""
    ages: dict[str, float] = {}
    for member in members if history.clients.known else ():
        client = history.clients.of(member)
        seen = None if client is None else client.before(to_ms, max(1_000, to_ms - from_ms))
        if seen is not None and seen.poll_age_ms is not None:
            ages[member.member_id] = seen.poll_age_ms
    return ages


def _longest_without_poll(members: Sequence[Member], ages: Mapping[str, float]) -> Member | None:
    """Return the member whose last poll is longest ago; null if not all of them report, or all polled recently."""
    if any(each.member_id not in ages for each in members):
        return None
    worst = max(members, key=lambda each: ages[each.member_id], default=None)
    return worst if worst is not None and ages[worst.member_id] >= _POLLS_STOPPED_MS else None


def _late_by_commits(episode: Episode, members: Sequence[Member], from_ms: int, released_ms: int) -> Member | None:
    """Return the one member that kept the others waiting until a barrier's release, as shown by commits; else null.

    Eager clients commit when they revoke, just before they join: the last one committed just before the barrier was
    released, or had nothing more to commit.
    """
    if is_cooperative(episode.history):
        return _silent(episode.history, members, from_ms, released_ms)
    last = {each.member_id: _last_commit(episode, each, released_ms) or 0 for each in members}
    if len(members) < 2 or not all(last.values()):
        return None
    latest, other = sorted(members, key=lambda each: -last[each.member_id])[:2]
    at_ms = last[latest.member_id]
    alone = at_ms - last[other.member_id] >= _COMMITS_APART_MS
    if alone and at_ms > from_ms and released_ms - at_ms <= _JOINS_WITHIN_MS:
        return latest
    quiet = [each for each in members if last[each.member_id] <= from_ms]
    joined_ms = min((t for t in last.values() if t > from_ms), default=None)
    alone = len(quiet) == 1 and joined_ms is not None
    return quiet[0] if alone and _had_to_commit(episode.history, quiet[0], joined_ms or from_ms) else None


def _had_to_commit(history: GroupHistory, member: Member, until_ms: int) -> bool:
    """Whether each partition of a member got records after its last commit, so that revoking would commit them."""
    progress, owned = history.progress, places(member.partitions)
    last = [(each, progress.committed_before(each, until_ms)) for each in owned]
    ends = [(known, progress.estimated_end_at(*each, until_ms)) for each, known in last]
    return bool(ends) and all(known is not None and end is not None and end > known[1] for known, end in ends)


def _last_commit(episode: Episode, member: Member, before_ms: int) -> int | None:
    """Return when a member last committed before a time, or None. Gaps are remembered longer than single commits."""
    owned, gaps = places(member.partitions), episode.history.commit_gaps_of(episode.rebalance)
    ends = [
        t for each in gaps if (each.topic, each.partition) in owned for t in (each.last_commit_ms, each.resumed_at_ms)
    ]
    last_ms = episode.history.progress.rhythm(member.partitions or {}, before_ms).last_ms
    return max((t for t in (*ends, last_ms) if t is not None and t <= before_ms), default=None)


def _silent(history: GroupHistory, members: Sequence[Member], from_ms: int, to_ms: int) -> Member | None:
    """Return the only member that does not commit in the second half of a barrier; null if there is not exactly one.

    With a cooperative assignor, members that have joined keep their partitions and go on.
    """
    half_ms, progress = (from_ms + to_ms) // 2, history.progress
    silent = [m for m in members if not progress.commits_between(m.partitions or {}, half_ms, to_ms - _JOINS_WITHIN_MS)]
    if len(silent) != 1 or len(members) < 2:
        return None
    # Earlier commits must still be known; otherwise later ones may be forgotten, too.
    return silent[0] if progress.rhythm(silent[0].partitions or {}, half_ms).last_ms is not None else None


def waiting_now(
    history: GroupHistory, now_ms: int, barrier_ms: int, page_ms: int, *, lag_grows: bool
) -> Verdict | None:
    """Return a verdict on what keeps a group in its join phase now; null if it is not in it, or not for long.

    Only probes see this: the log has no record before the barrier's release.
    """
    seen, snapshot = list(history.sightings), history.snapshot
    if snapshot is None or not snapshot.members or not seen or seen[-1].state != GroupState.PREPARING_REBALANCE:
        return None
    logged_ms, seen_ms = snapshot.last_rebalance_ms, seen[-1].at_ms
    if logged_ms is not None and logged_ms >= seen_ms - SAME_MS:
        return None  # the log shows that the barrier has been released since
    # Sightings before the log's last release belong to another wait; the time since the last probe is not known.
    since = preparing_since(history, logged_ms or 0, seen_ms) or seen_ms
    waited = seen_ms - since
    if waited < long_barrier_ms(history, snapshot.members, barrier_ms) or now_ms - seen_ms > 90_000:
        return None
    listed = next((each.members for each in reversed(seen) if each.members is not None), None)
    ids = None if listed is None else {member.member_id for member in listed}
    old = [m for m in snapshot.members if ids is None or m.member_id in ids]
    ages = _poll_ages(history, old, since, now_ms)
    old = _not_polling(old, ages)
    culprit = old[0] if len(old) == 1 else _longest_without_poll(old, ages)
    if culprit is None and is_cooperative(history):
        culprit = _silent(history, old, since, now_ms)
    bound = max((m.rebalance_timeout_ms or 0 for m in snapshot.members), default=0)
    return say(
        "stalled_member_join_barrier.now",
        since,
        subject_of(*([] if culprit is None else [culprit])),
        confidence=PLAUSIBLE if culprit is None else STRONG,
        severity=Severity.PAGE if waited > page_ms and lag_grows else None,
        advice=barrier_advice(history),
        waited=waited,
        left=max(0, bound - waited) if bound else None,
        who=culprit or "a member that has not rejoined",
        named=culprit is not None,
    )
