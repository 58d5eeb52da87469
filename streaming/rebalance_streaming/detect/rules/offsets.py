"""Committed offsets that jump or vanish.

Receives a group's commits and end offsets. Jumps are judged from commits that are forgotten within a minute, so the
result is remembered for as long as findings last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from rebalance_contract import GroupState, Severity, Subject
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.groups.partitions import partition_name
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG
from rebalance_streaming.observed.history import GroupHistory, is_cooperative
from rebalance_streaming.observed.progress import Jump, Progress
from rebalance_streaming.observed.repeated_records import commit_steps

#: Jumps within this time belong to one request, or to one run of a tool.
_BURST_MS = 5_000
#: A seek or a stale commit within this time of a rebalance belongs to it.
_NEAR_MS = 15_000
#: Shares of the retention: what counts as all of it, when to warn, and when it is surely longer than configured.
_NEARLY, _WARN, _SURELY_LONGER = 0.95, 0.8, 1.1
_HOUR_MS = 3_600_000
_EXPIRY_STANDS_MS = 24 * _HOUR_MS
#: The first commit after a return may take a batch.
_COME_BACK_MS = 600_000

ADMINISTRATIVE, STALE_COMMIT, AFTER_EXPIRY = "administrative_reset", "stale_commit", "after_expiry"
#: Records were deleted, by retention or by hand, before the group read them.
RETENTION = "retention"


# --- Jumps ---


@condition(inputs.PROGRESS)
def offset_rewind(view: GroupView) -> Iterator[Verdict]:
    """Committed offsets went back: records are processed again."""
    yield from (_jump_verdict(view, burst, ahead=False) for burst in _bursts(view, ahead=False))


@condition(inputs.PROGRESS)
def offset_skip(view: GroupView) -> Iterator[Verdict]:
    """Committed offsets went further ahead than can have been processed: the group skipped records."""
    yield from (_jump_verdict(view, burst, ahead=True) for burst in _bursts(view, ahead=True))


def _bursts(view: GroupView, *, ahead: bool) -> list[list[Jump]]:
    """Return the remembered jumps in one direction, grouped by time."""
    found: list[list[Jump]] = []
    jumps = [each for each, is_one in view.memory.jumps.items() if is_one and (each.after > each.before) is ahead]
    for jump in sorted(jumps, key=lambda each: each.at_ms):
        if found and jump.at_ms - found[-1][0].at_ms <= _BURST_MS:
            found[-1].append(jump)
        else:
            found.append([jump])
    return found


def update_jumps(view: GroupView) -> Memory:
    """Return the memory with recent changes and whether each is a jump, decided while its commits are still known."""
    known, stands_ms = view.memory.jumps, view.thresholds.resolve_after_ms
    recent = [each for each in view.progress.jumps if view.time.is_within(each.at_ms, stands_ms)]
    return replace(view.memory, jumps={e: known[e] if e in known else _is_jump(view, e) for e in recent})


def _is_jump(view: GroupView, jump: Jump) -> bool:
    """Whether an offset moved further than its owner can have processed.

    A group with members that jumps ahead may just have caught up: only one that was working on a backlog before has
    shown its maximum speed.
    """
    place = (jump.topic, jump.partition)
    if jump.deleted_ms is not None:
        return _moved_by(view, jump) > 0
    # A member may commit late what it read before these records were deleted; one that was away cannot have read them.
    if jump.start is not None and _absence_before(view.history, jump.at_ms) > 0:
        return True
    steps = list(commit_steps(view.progress, place, jump.at_ms - 1))
    sizes, factor = [step for _, step, _ in steps if step > 0] or [1], view.thresholds.jump_factor
    # Ahead, it may move as fast as it once caught up; back, a late commit is behind by a usual step.
    most = max(*sizes, factor * median(sizes)) if jump.after < jump.before else factor * max(sizes)
    if abs(jump.after - jump.before) <= most:
        return False
    end = view.progress.position(*place).end
    if end is not None and end < jump.before:
        # The topic was deleted and recreated: its offsets start again.
        return False
    if jump.after < jump.before or _was_empty(view.history, jump.at_ms):
        return True
    # Whether, after some step, more records than those of the step were still waiting.
    ends = ((step, offset, view.progress.end_at(*place, at_ms)) for at_ms, step, offset in steps if step > 0)
    return any(end is not None and end - offset > step for step, offset, end in ends)


def _moved_by(view: GroupView, jump: Jump) -> int:
    """Return how many records a jump skips or repeats.

    After a deleted offset, skipped are the records that had arrived until the group's members were back.
    """
    if jump.deleted_ms is None or jump.after < jump.before:
        return abs(jump.after - jump.before)
    began = (each.started_before_ms for each in reversed(view.history.in_order()))
    back = (at_ms for at_ms in began if at_ms <= jump.at_ms)
    end = view.progress.estimated_end_at(jump.topic, jump.partition, next(back, jump.at_ms))
    return max(0, min(jump.after, jump.after if end is None else end) - jump.before)


def _deleted(jump: Jump) -> int:
    """Return how many records after the previous offset had been deleted."""
    return 0 if jump.start is None else jump.start - jump.before


def _was_empty(history: GroupHistory, at_ms: int) -> bool:
    """Whether the group had no members at a time: then only tools and simple consumers can commit."""
    before = [each for each in history.in_order() if each.started_before_ms <= at_ms]
    if before:
        latest = before[-1]
        return not latest.members_after and latest.completed_at_ms is not None and latest.completed_at_ms <= at_ms
    after = next(iter(history.in_order()), None)
    if after is not None:
        return not after.members_before
    snapshot = history.snapshot
    return snapshot is not None and snapshot.state == GroupState.EMPTY and not history.is_simple()


def _jump_verdict(view: GroupView, burst: Sequence[Jump], *, ahead: bool) -> Verdict:
    (variant, label, why), first = _mechanism(view, burst), burst[0]
    names = tuple(sorted({partition_name(each.topic, each.partition) for each in burst}))
    meant = variant == ADMINISTRATIVE
    return view.say(
        "offset_skip.jump" if ahead else "offset_rewind",
        first.at_ms,
        Subject(partitions=names),
        confidence=label,
        # Skipped records page, unless an administrator reset the offsets.
        severity=None if not meant else Severity.TICKET if ahead else Severity.INFO,
        variant=variant,
        partitions=names,
        records=sum(map(_deleted, burst) if variant == RETENTION else (_moved_by(view, each) for each in burst)),
        why=why,
        place=partition_name(first.topic, first.partition),
        jump=first,
        count=len(names),
        burst=_BURST_MS,
        meant=meant,
        after_expiry=variant == AFTER_EXPIRY,
        stale=variant == STALE_COMMIT,
        overtaken=variant == RETENTION,
        unexplained=variant is None,
    )


def _mechanism(view: GroupView, burst: Sequence[Jump]) -> tuple[str | None, float, str]:
    """Return (variant, confidence, probable cause) of simultaneous jumps."""
    history, at_ms = view.history, burst[0].at_ms
    if any(each.deleted_ms is not None for each in burst):
        return AFTER_EXPIRY, STRONG, "its offsets were deleted, or expired, so auto.offset.reset decided where it began"
    if _absence_before(history, at_ms) >= _NEARLY * view.thresholds.retention_ms:
        return AFTER_EXPIRY, PLAUSIBLE, "its offsets had expired, so auto.offset.reset decided where it began"
    if _was_empty(history, at_ms):
        label = STRONG if _are_all(history.progress, burst) else PLAUSIBLE
        return ADMINISTRATIVE, label, "the group had no members, so somebody reset it"
    if all(each.start is not None for each in burst):
        return RETENTION, STRONG, "they had been deleted, by retention or by hand, before the group read them"
    near = any(
        each.started_before_ms - _NEAR_MS <= at_ms <= each.last_known_ms + _NEAR_MS
        for each in history.rebalances.values()
    )
    if near and burst[0].after < burst[0].before and is_cooperative(history):
        return STALE_COMMIT, PLAUSIBLE, "a former owner committed after the partition had gone on"
    return None, PLAUSIBLE, "it followed a rebalance" if near else "the application seeks, or reset its position"


def _absence_before(history: GroupHistory, at_ms: int) -> int:
    """Return for how long (ms) the group had been empty if its members came back shortly before a time; else 0."""
    spells = (back - emptied for emptied, back in history.absences() if 0 <= at_ms - back <= _COME_BACK_MS)
    return next(spells, 0)


def _are_all(progress: Progress, burst: Sequence[Jump]) -> bool:
    topics = {each.topic for each in burst}
    return len(burst) >= sum(1 for each in progress.positions() if each.topic in topics)


# --- Expiry ---


@condition(inputs.COMMITS)
def offsets_expired(view: GroupView) -> Iterator[Verdict]:
    """A group was empty for so long that its offsets expired, or are about to (KIP-211: 7 days; 1 day before 2.0)."""
    since = _away_since(view)
    if since is not None:
        yield from _expires_soon(view, since)
    gone = [each for each in view.progress.deleted() if view.time.is_within(each[2], _EXPIRY_STANDS_MS)]
    if gone:
        yield from _expired(view, gone)


def _away_since(view: GroupView) -> int | None:
    """Return when the retention of the offsets began: when the group became empty, or last committed if it is simple.

    Null while it has members, or if that is not known.
    """
    history = view.history
    last_commit = history.progress.last_commit_ms
    if history.is_simple():
        return last_commit
    emptied = next(reversed(history.in_order()), None)
    snapshot = history.snapshot
    empty_ms = snapshot.last_rebalance_ms if snapshot is not None and snapshot.state == GroupState.EMPTY else None
    if emptied is None and empty_ms is not None:
        return max(empty_ms, last_commit or 0)
    if emptied is None or emptied.members_after or emptied.completed_at_ms is None or view.members:
        return None
    return max(emptied.completed_at_ms, last_commit or 0)


def _expires_soon(view: GroupView, since: int) -> Iterator[Verdict]:
    retention, away = view.thresholds.retention_ms, view.now_ms - since
    if not view.time.lasted(since, _WARN * retention) or not view.time.is_within(since, _SURELY_LONGER * retention):
        return
    held = sum(1 for _ in view.progress.positions())
    if held:
        yield view.say(
            "offsets_expired.soon",
            since,
            days=away / (24 * _HOUR_MS),
            held=held,
            left=max(0.0, (retention - away) / _HOUR_MS),
            away=away / _HOUR_MS,
            retention=retention / _HOUR_MS,
        )


def _expired(view: GroupView, gone: Sequence[tuple[str, int, int]]) -> Iterator[Verdict]:
    """Yield the deletions that were expiry: all offsets of an empty group, or those of unsubscribed topics.

    Offsets deleted soon after their last use were deleted by an administrator, or with the topic.
    """
    history = view.history
    wanted = {topic for member in view.members for topic in member.topics}
    if view.members:
        old = [each for each in gone if each[0] not in wanted and _was_old(view, each)]
        if wanted and old:
            yield _expiry_verdict(view, old, "unsubscribed")
    elif not any(True for _ in history.progress.positions()) and all(_was_old(view, each) for each in gone):
        yield _expiry_verdict(view, gone, None)


def _was_old(view: GroupView, gone: tuple[str, int, int]) -> bool:
    """Whether an offset had reached the retention when it was deleted; false if its age is not known."""
    topic, partition, deleted_ms = gone
    last = view.progress.committed_before((topic, partition), deleted_ms)
    since = None if last is None else last[0]
    if not view.members and not view.history.is_simple():
        # For a group with members the retention begins when the last one has left.
        empty = [each for each in view.history.in_order() if not each.members_after and each.completed_at_ms]
        since = None if not empty else max(empty[-1].completed_at_ms or 0, since or 0)
    return since is not None and deleted_ms - since >= _NEARLY * view.thresholds.retention_ms


def _expiry_verdict(view: GroupView, gone: Sequence[tuple[str, int, int]], variant: str | None) -> Verdict:
    names = tuple(partition_name(topic, partition) for topic, partition, _ in sorted(gone))
    retention = view.thresholds.retention_ms / _HOUR_MS
    return view.say(
        "offsets_expired.gone",
        min(each[2] for each in gone),
        Subject() if variant is None else Subject(partitions=names),
        severity=None if variant is None else Severity.INFO,
        variant=variant,
        unsubscribed=variant is not None,
        count=len(names),
        age=_NEARLY * retention,
        retention=retention,
    )
