"""Partitions that do not advance, or not fast enough, and clients that go on without the group.

Receives a settled group; compares its committed offsets with the end offsets of its partitions. Without probed end
offsets there is no verdict, because it is not known whether records wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from rebalance_contract import Member, Rebalance, Subject
from rebalance_contract.clients import COMMIT_RATE, COMMIT_TOTAL, CONSUMED_RATE, CONSUMED_TOTAL
from rebalance_streaming.detect.advice import members_for
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.rules.member_settings import have_poll_records
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.groups.partitions import by_topic, places
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.clients import ClientHistory, ClientReport
from rebalance_streaming.observed.confidence import CERTAIN, STRONG
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.progress import Flow, Position
from rebalance_streaming.observed.topic_ends import END_SPACING_MS

#: A max.poll.interval of at least this length counts as unlimited.
_UNLIMITED_MS = 24 * 3_600_000
#: Minimum number of commits for a known rhythm (of a group without members, which may have ended on purpose).
_REGULAR = 5
#: Minimum time between commits for a rate; end offsets are kept every ten seconds.
_RATE_MS = 30_000
#: Lag of up to the records of this share of the window does not count.
_BEHIND = 1 / 15
_FRESH_MS = 60_000
#: Rates cover two windows of 30 s, so a rate reported within this time also covers the time before.
_RATE_WINDOW_MS = 60_000
#: Slack for clients that learn late that they were removed, and for clock differences.
_SLACK_MS = 5_000
_REPORTED_MS = 120_000


# --- Standing still ---
@condition(inputs.REPORTED, grown=True)
def stalled_consumer(view: GroupView) -> Iterator[Verdict]:
    """An active member commits nothing while records wait (IBM/sarama#2855; Cloudflare)."""
    if view.progress.ends_since() is None:
        return
    if view.history.is_simple():
        yield from _stopped_checkpoints(view)
        return
    stable = view.stable_since_ms()
    if not view.is_settled or stable is None or not view.time.lasted(stable, view.thresholds.stalled_ms):
        return
    for member, positions in _waiting(view):
        wait = _patience(view, member)
        if wait is None or not view.time.lasted(stable, wait):
            continue
        stuck = [each for each in positions if _waits_for(view, each, wait)]
        if stuck:
            yield _stalled_verdict(view, member, stuck, max(stable, *(each.advanced_ms or 0 for each in stuck)))


def update_waiting(view: GroupView) -> Memory:
    """Return the memory with the times since when records have been waiting in partitions that do not advance.

    A rebalance resets these times, because of the new owners.
    """
    if view.is_young() or view.progress.ends_since() is None:
        return replace(view.memory, waiting={})
    if view.history.is_simple():
        positions = [each for each in view.progress.lagging() if not _in_transaction(each)]
    else:
        positions = [each for _, several in _waiting(view) for each in several] if view.is_settled else []
    before, since = view.memory.waiting, view.stable_since_ms() or 0
    waiting = {}
    for each in positions:
        began = before.get(each.name, view.now_ms)
        waiting[each.name] = began if began >= since else view.now_ms
    return replace(view.memory, waiting=waiting)


def _waiting(view: GroupView) -> Iterator[tuple[Member, list[Position]]]:
    """Yield members with those of their partitions that have lag and did not advance for `stalled_ms`.

    Partitions that wait for an open transaction are left out: readers of committed records have to wait for it.
    """
    wait_ms = view.thresholds.stalled_ms
    _note_next_to_fall_behind(view)
    behind: dict[str, list[Position]] = {}
    for each in view.progress.falls_behind(view.now_ms - wait_ms):
        if not _in_transaction(each):
            behind.setdefault(each.topic, []).append(each)
    for member in view.members if behind else ():
        mine = member.partitions or {}
        positions = [each for topic in mine for each in behind.get(topic, ()) if each.partition in mine[topic]]
        if positions:
            yield member, positions


def _note_next_to_fall_behind(view: GroupView) -> None:
    wait_ms = view.thresholds.stalled_ms
    next_ms = view.progress.next_to_fall_behind(view.now_ms - wait_ms)
    if next_ms is not None:
        view.time.note_due(next_ms + wait_ms)


def _patience(view: GroupView, member: Member) -> int | None:
    """Return for how long (ms) a member may commit nothing; null if its commit rhythm is not known."""
    gap = view.progress.rhythm(member.partitions or {}, view.now_ms).gap_ms
    if gap is None:
        assigned = by_topic(place for each in view.members for place in places(each.partitions))
        gap = view.progress.rhythm(assigned, view.now_ms).gap_ms
    if gap is None:
        return None
    poll = member.rebalance_timeout_ms or 0
    enforced = poll if poll < _UNLIMITED_MS and make_fingerprint(member, view.client_of(member)).enforces_poll else 0
    return max(view.thresholds.stalled_ms, 3 * gap, enforced)


def _waits_for(view: GroupView, position: Position, wait_ms: int) -> bool:
    """Whether records have been waiting in a partition for at least `wait_ms`, and more have arrived since.

    How long records have waited is known from end offsets probed at that time, or from having observed the partition
    for that long. After a transaction, which may just have ended, its reader needs some time to go on.
    """
    if not view.end_growth(position.topic, position.partition, wait_ms):
        return False  # a probe with another end offset triggers the next evaluation
    since = view.now_ms - wait_ms
    began = view.memory.waiting.get(position.name, view.now_ms)
    before = view.progress.end_at(position.topic, position.partition, since)
    seen_then = before is not None and position.committed is not None and position.committed < before
    waits = seen_then or view.time.lasted(began, wait_ms)
    if not waits or not view.time.lasted(position.advanced_ms or since, wait_ms):
        # A remembered probe may decide this sooner than the end of `wait_ms`.
        view.time.note_due(view.now_ms + END_SPACING_MS)
        return False
    settle = 2 * view.probe_ms if position.stable_end is not None else 0
    return view.time.lasted(began, settle)


def _in_transaction(position: Position) -> bool:
    stable = position.stable_end
    return stable is not None and stable < (position.end or 0) and (position.committed or 0) >= stable


def _stalled_verdict(view: GroupView, member: Member, stuck: Sequence[Position], since_ms: int) -> Verdict:
    goes_on = any((each.advanced_ms or 0) > since_ms for each in view.positions_of(member.partitions))
    alone, names = goes_on and len(stuck) == 1, tuple(each.name for each in stuck)
    variant, poll_age, rate = _what_it_does(view, member)
    return view.say(
        "stalled_consumer.partition" if alone else "stalled_consumer.member",
        since_ms,
        Subject(partitions=names) if alone else subject_of(member),
        confidence=STRONG if variant is None else CERTAIN,
        variant=None if alone else variant,
        partitions=names,
        several=len(names) > 1,
        member=member,
        lag=sum(each.lag or 0 for each in stuck),
        stable_known=all(each.stable_end is not None for each in stuck),
        reported=variant is not None,
        poll_age=poll_age,
        fetches_nothing=rate == 0,
        rate=rate or None,
    )


def _what_it_does(view: GroupView, member: Member) -> tuple[str | None, float | None, float | None]:
    """Return (variant, age of the last poll in ms, records per second), as the member's client reports them.

    Null: the client does not report, or the value did not decide the variant.
    """
    client = view.client_of(member)
    latest = None if client is None else client.latest()
    if client is None or latest is None or not view.time.is_within(latest.emitted_ms, _FRESH_MS + client.interval_ms):
        return None, None, None
    if latest.poll_age_ms is not None and latest.poll_age_ms >= view.thresholds.stalled_ms:
        return "not_polling", latest.poll_age_ms, None
    consumed = latest.values.get(CONSUMED_RATE)
    variant = None if consumed is None else "not_committing" if consumed else "nothing_fetched"
    return variant, None, consumed


def _stopped_checkpoints(view: GroupView) -> Iterator[Verdict]:
    """Yield a verdict if a group without members stopped its regular commits; it may have ended on purpose."""
    last = view.progress.last_commit_ms
    if last is None or view.history.ownership or not view.time.lasted(last, view.thresholds.stalled_ms):
        return
    lagging = list(view.progress.lagging())
    rhythm = view.progress.rhythm(by_topic((each.topic, each.partition) for each in lagging), view.now_ms)
    if rhythm.gap_ms is None or rhythm.commits < _REGULAR or not view.time.lasted(last, 3 * rhythm.gap_ms):
        return
    wait = max(view.thresholds.stalled_ms, 3 * rhythm.gap_ms)
    stuck = [each for each in lagging if not _in_transaction(each) and _waits_for(view, each, wait)]
    if stuck:
        yield view.say(
            "stalled_consumer.checkpoints",
            last,
            interval=rhythm.gap_ms,
            lag=sum(each.lag or 0 for each in stuck),
            partitions=len(stuck),
        )


# --- Advancing, but too slowly ---
@condition(inputs.PROGRESS)
def slow_consumer_group(view: GroupView) -> Iterator[Verdict]:
    """All partitions advance, but more is produced than consumed: not caused by rebalances."""
    window, stable = view.thresholds.slow_ms, view.stable_since_ms()
    if not view.is_settled or stable is None or not view.members or not view.time.lasted(stable, window):
        return
    flow = _flow(view)
    if flow is None or flow.produced <= flow.consumed or flow.lag <= flow.produced * window / 1000 * _BEHIND:
        return
    working = sum(1 for member in view.members if any((member.partitions or {}).values())) or 1
    needed = members_for(flow, working)
    yield view.say(
        "slow_consumer_group",
        view.now_ms,
        lasting_ms=window,
        flow=flow,
        needed=needed if needed > len(view.members) else None,
    )


def _flow(view: GroupView) -> Flow | None:
    """Return the group's flow; null if a partition with lag does not advance, or commits or ends are not known."""
    wait_ms = view.thresholds.stalled_ms
    if not view.progress.total_lag() or any(view.progress.falls_behind(view.now_ms - wait_ms)):
        return None
    _note_next_to_fall_behind(view)
    flow = view.progress.flow(_RATE_MS)
    return flow if flow is not None and flow.consumed else None


@condition(inputs.PROGRESS, grown=True)
def partition_skew(view: GroupView) -> Iterator[Verdict]:
    """One partition gets most of the records, so additional members do not help."""
    total = (view.progress.total_lag() if view.is_settled else None) or 0
    for position in view.progress.lagging(view.thresholds.skew_share * total) if total else ():
        yield from _skew(view, position, total)


def _skew(view: GroupView, position: Position, total: int) -> Iterator[Verdict]:
    """Yield a verdict if a partition gets far more records than the topic's others; it counts once it has lasted."""
    window = view.thresholds.slow_ms
    count = view.progress.partition_count(position.topic) or 0
    grown = [view.end_growth(position.topic, p, window) for p in range(count)]
    known = [each for each in grown if each is not None]
    own = grown[position.partition] if position.partition < count else None
    usual, lag = median(known) if known else 0, position.lag or 0
    if own is None or len(known) < 2 or own <= view.thresholds.skew_factor * usual:
        return
    # Lag of about a minute's records may just have arrived.
    if lag > own * _BEHIND:
        yield view.say(
            "partition_skew",
            view.now_ms,
            Subject(partitions=(position.name,)),
            lasting_ms=window,
            partition=position.name,
            own=own,
            usual=usual,
            lag=lag,
            total=total,
            share=lag / total,
        )


# --- Clients that go on without the group, or whose commits fail ---


def _moved(reports: Sequence[ClientReport], total: str, rate: str | None, since_ms: int) -> bool | None:
    """Whether a counter grew in these reports, all after `since_ms`; null if they do not contain it."""
    counted = [each.values[total] for each in reports if total in each.values]
    if len(counted) > 1:
        return any(after > before for before, after in pairwise(counted))
    rates = [
        each.values[rate]
        for each in reports
        if rate is not None and rate in each.values and each.emitted_ms >= since_ms + _RATE_WINDOW_MS
    ]
    return rates[-1] > 0 if rates else None


# --- Zombies ---
@condition(inputs.CLIENTS)
def zombie_member(view: GroupView) -> Iterator[Verdict]:
    """A client that was removed from the group continues to consume."""
    snapshot = view.history.snapshot
    if snapshot is None or snapshot.rebalancing_since_ms is not None:
        return
    present = {each.member_id for each in view.members}
    for client in view.history.clients:
        latest = client.latest()
        if latest is None or latest.member_id is None or latest.member_id in present:
            continue
        gone_ms = _gone_ms(view, latest.member_id)
        if gone_ms is not None and view.time.is_within(latest.emitted_ms, _REPORTED_MS):
            yield from _zombie(view, client, latest.member_id, gone_ms)


def _gone_ms(view: GroupView, member_id: str) -> int | None:
    """Return when a member was removed from the group; null if it was never seen in it or is still in it."""
    for each in reversed(view.history.in_order()):
        if member_id in {m.member_id for m in each.members_before}:
            return None if member_id in {m.member_id for m in each.members_after} else each.completed_at_ms
    return None


def _zombie(view: GroupView, client: ClientHistory, member_id: str, gone_ms: int) -> Iterator[Verdict]:
    after = [s for s in client.reports if s.member_id == member_id and s.emitted_ms >= gone_ms + _SLACK_MS]
    member = view.history.members.get(member_id)
    if member is None or not _moved(after, CONSUMED_TOTAL, CONSUMED_RATE, gone_ms):
        return
    cause = next((each.rule for each in reversed(view.past) if each.member.member_id == member_id), None)
    lasted = after[-1].emitted_ms - gone_ms
    yield view.say("zombie_member", gone_ms, subject_of(member), member=member, lasted=lasted, cause=cause)


# --- Commits that fail ---
@condition(inputs.COMMITS | inputs.CLIENTS)
def commit_failures_after_rebalance(view: GroupView) -> Iterator[Verdict]:
    """Since a rebalance a member consumes, but none of its commits is stored: they are refused, or not sent."""
    latest = next(reversed(view.history.in_order()), None) if view.history.clients.known else None
    if latest is None or latest.completed_at_ms is None or not view.is_settled:
        return
    for member in view.members:
        client = view.history.clients.of(member)
        if client is not None and client.reports and member.partitions:
            yield from _failing(view, client, member, latest)


def _failing(view: GroupView, client: ClientHistory, member: Member, rebalance: Rebalance) -> Iterator[Verdict]:
    done_ms = rebalance.completed_at_ms or 0
    after = [s for s in client.reports if s.emitted_ms >= done_ms + _SLACK_MS]
    rhythm = view.progress.rhythm(member.partitions or {}, done_ms)
    quiet_ms = max(_RATE_WINDOW_MS, 3 * (rhythm.gap_ms or 0)) + _SLACK_MS
    if not after or rhythm.gap_ms is None or after[-1].emitted_ms - done_ms < quiet_ms:
        return
    fresh = view.time.is_within(after[-1].emitted_ms, _REPORTED_MS)
    if not fresh or not _moved(after, CONSUMED_TOTAL, CONSUMED_RATE, done_ms):
        return
    if view.progress.commits_between(member.partitions or {}, done_ms, view.now_ms):
        return
    tried = _moved(after, COMMIT_TOTAL, COMMIT_RATE, done_ms)
    yield view.say(
        "commit_failures_after_rebalance",
        done_ms,
        subject_of(member),
        confidence=STRONG if tried is None else CERTAIN,
        variant={True: "refused", False: "not_tried", None: None}[tried],
        rebalance_ids=(rebalance.rebalance_id,),
        member=member,
        requests={True: "go on, and none is stored", False: "stopped", None: "not reported"}[tried],
        known=tried is not None,
        batches=have_poll_records(view.history, [member]),
    )
