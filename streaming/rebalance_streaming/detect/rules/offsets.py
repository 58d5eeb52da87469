"""Committed offsets that jump or vanish (catalogue §4.7).

Receives what commits and end offsets tell of a group. What was judged once, from commits that are forgotten within a
minute, is remembered for as long as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rebalance_contract import Advice, Alternative, Evidence, Subject
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.history import GroupHistory
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.progress import Jump, Place, Progress
from rebalance_streaming.detect.rules.duplicates import duplicate_processing, estimate_duplicates
from rebalance_streaming.detect.verdict import (
    CERTAIN,
    COMMITS,
    INFO,
    LOG,
    PAGE,
    PLAUSIBLE,
    STRONG,
    TICKET,
    Verdict,
    seconds,
)

__all__ = ["CONDITIONS", "estimate_duplicates", "offset_rewind", "offset_skip", "offsets_expired"]

_NAMED = 5
#: Jumps of one request, or of one tool's run, are this close together.
_BURST_MS = 5_000
#: A seek or a stale commit belongs to a rebalance this close to it.
_NEAR_MS = 15_000
#: How much of the retention counts as all of it, and from how much on is warned.
_NEARLY, _WARN, _SURELY_LONGER = 0.95, 0.8, 1.1
_TOLD_MS = 24 * 3_600_000
#: The first commit after a return may take a batch.
_COME_BACK_MS = 600_000

ADMINISTRATIVE, STALE_COMMIT, AFTER_EXPIRY = "administrative_reset", "stale_commit", "after_expiry"


# --- Jumps ---


def offset_rewind(look: Look) -> Iterator[Verdict]:
    """Committed offsets went back: their records are processed again."""
    for burst in _bursts(look, ahead=False):
        count = sum(each.before - each.after for each in burst)
        yield _jump_verdict(look, burst, "offset_rewind", f"went back by {count} records, which are processed again")


def offset_skip(look: Look) -> Iterator[Verdict]:
    """Committed offsets went ahead of what anybody can have processed: records were lost to the group."""
    for burst in _bursts(look, ahead=True):
        count = sum(each.after - each.before for each in burst)
        yield _jump_verdict(look, burst, "offset_skip", f"went ahead by {count} records, which nobody processed")


def _bursts(look: Look, *, ahead: bool) -> list[list[Jump]]:
    """Return the jumps in one direction that stand, those of one moment together."""
    found: list[list[Jump]] = []
    jumps = [each for each, is_one in look.memory.jumps.items() if is_one and (each.after > each.before) is ahead]
    for jump in sorted(jumps, key=lambda each: each.at_ms):
        if found and jump.at_ms - found[-1][0].at_ms <= _BURST_MS:
            found[-1].append(jump)
        else:
            found.append([jump])
    return found


def recollect_jumps(look: Look) -> Memory:
    """Remember of recent changes whether they were jumps, as found while the commits before them were still known."""
    known, stands_ms = look.memory.jumps, look.thresholds.resolve_after_ms
    recent = [each for each in look.history.progress.jumps if look.is_within(each.at_ms, stands_ms)]
    return replace(look.memory, jumps={e: known[e] if e in known else _is_jump(look, e) for e in recent})


def _is_jump(look: Look, jump: Jump) -> bool:
    """Whether an offset went further than its owner can have worked.

    Ahead, a group with members may just have caught up: only one that had been busy with a backlog has shown how fast
    it is.
    """
    steps = _steps(look.history.progress, (jump.topic, jump.partition), jump.at_ms)
    usual = max((offset for _, offset, _ in steps), default=1)
    if abs(jump.after - jump.before) <= look.thresholds.jump_factor * max(1, usual):
        return False
    end = look.history.progress.position(jump.topic, jump.partition).end
    if end is not None and end < jump.before:
        # The topic was deleted and made anew: its offsets begin again.
        return False
    if jump.after < jump.before or _was_empty(look.history, jump.at_ms):
        return True
    return any(busy for _, _, busy in steps)


def _steps(progress: Progress, place: Place, at_ms: int) -> list[tuple[int, int, bool]]:
    """Return the commits before a moment as (time, records since the one before, whether as many still waited)."""
    found = []
    after = progress.committed_before(place, at_ms - 1)
    while after is not None and (before := progress.committed_before(place, after[0] - 1)) is not None:
        step, end = after[1] - before[1], progress.end_at(*place, after[0])
        found.append((after[0], step, step > 0 and end is not None and end - after[1] > step))
        after = before
    return found


def _was_empty(history: GroupHistory, at_ms: int) -> bool:
    """Whether the group had no members at a moment: then only tools and simple consumers can commit."""
    before = [each for each in history.in_order() if each.started_before_ms <= at_ms]
    if before:
        latest = before[-1]
        return not latest.members_after and latest.completed_at_ms is not None and latest.completed_at_ms <= at_ms
    after = next(iter(history.in_order()), None)
    if after is not None:
        return not after.members_before
    picture = history.picture
    return picture is not None and picture.state == "Empty" and not history.is_simple()


def _jump_verdict(look: Look, burst: Sequence[Jump], rule: str, what: str) -> Verdict:
    variant, label, why = _mechanism(look, burst)
    names = tuple(sorted({f"{each.topic}-{each.partition}" for each in burst}))
    first = burst[0]
    return Verdict(
        rule=rule,
        confidence=label,
        summary=f"The committed offset of {_listed(names)} {what}: {why}.",
        started_at_ms=first.at_ms,
        subject=Subject(partitions=names),
        variant=variant,
        severity=_jump_severity(look, rule, variant),
        evidence=(
            Evidence(COMMITS, "offset", f"{first.topic}-{first.partition}: {first.before} -> {first.after}", "a jump"),
            Evidence(COMMITS, "partitions", f"{len(names)} within {seconds(_BURST_MS)}", why),
        ),
        alternatives=(
            Alternative("offsets_expired", "the offsets were committed shortly before")
            if variant != AFTER_EXPIRY
            else Alternative("duplicate_processing", "nobody else had processed them"),
        ),
        missing=() if variant is not None else ("the member's own log: seek() or a reset of offsets",),
        advice=_jump_advice(rule, variant),
    )


def _mechanism(look: Look, burst: Sequence[Jump]) -> tuple[str | None, float, str]:
    """Return (variant, confidence, what probably did it) of jumps of one moment."""
    history, at_ms = look.history, burst[0].at_ms
    if _absence_before(history, at_ms) >= _NEARLY * look.thresholds.retention_ms:
        return AFTER_EXPIRY, PLAUSIBLE, "its offsets had expired, so auto.offset.reset decided where it began"
    if _was_empty(history, at_ms):
        label = STRONG if _are_all(history.progress, burst) else PLAUSIBLE
        return ADMINISTRATIVE, label, "the group had no members, so somebody reset it"
    near = any(
        each.started_before_ms - _NEAR_MS <= at_ms <= (each.completed_at_ms or each.started_before_ms) + _NEAR_MS
        for each in history.rebalances.values()
    )
    if near and burst[0].after < burst[0].before and _is_cooperative(history):
        return STALE_COMMIT, PLAUSIBLE, "a former owner committed after the partition had gone on"
    return None, PLAUSIBLE, "it followed a rebalance" if near else "the application seeks, or reset its position"


def _absence_before(history: GroupHistory, at_ms: int) -> int:
    """Return for how long (ms) the group had been empty when its members came back shortly before a moment."""
    earlier = [each for each in history.in_order() if each.started_before_ms <= at_ms]
    for empty, back in pairwise(earlier):
        came_ms = back.started_before_ms
        if not empty.members_after and empty.completed_at_ms is not None and at_ms - came_ms <= _COME_BACK_MS:
            return came_ms - empty.completed_at_ms
    return 0


def _are_all(progress: Progress, burst: Sequence[Jump]) -> bool:
    topics = {each.topic for each in burst}
    return len(burst) >= sum(1 for each in progress.positions() if each.topic in topics)


def _is_cooperative(history: GroupHistory) -> bool:
    picture = history.picture
    return picture is not None and (picture.type == "consumer" or "cooperative" in (picture.protocol or ""))


def _jump_severity(look: Look, rule: str, variant: str | None) -> str | None:
    """Return a page for records that were lost to the group, unless somebody meant it."""
    if variant == ADMINISTRATIVE:
        return INFO if rule == "offset_rewind" else TICKET
    return PAGE if rule == "offset_skip" else None


def _jump_advice(rule: str, variant: str | None) -> tuple[Advice, ...]:
    if variant == ADMINISTRATIVE:
        return (Advice("operation", None, "none, if the reset was meant; else reset to the offset before", "-"),)
    if variant == AFTER_EXPIRY:
        return (
            Advice("auto.offset.reset", None, "none or earliest: a jump to the end loses records silently", "-"),
            Advice("offsets.retention.minutes", None, "longer than the group's longest absence", "-"),
        )
    if variant == STALE_COMMIT:
        return (Advice("upgrade", None, "Java 3.4.1 or later, librdkafka 2.10.0 or later", "KAFKA-14639, #4059"),)
    first = (
        "reset the group to the offset before, if the records matter" if rule == "offset_skip" else "find the seek()"
    )
    return (
        Advice("operation", None, first, "-"),
        Advice("auto.offset.reset", None, "none or earliest", "an offset out of range resets the position silently"),
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# --- Expiry ---


def offsets_expired(look: Look) -> Iterator[Verdict]:
    """A group was away for so long that its offsets expired, or are about to (KIP-211: 7 days; 1 day before 2.0)."""
    since = _away_since(look)
    if since is not None:
        yield from _expires_soon(look, since)
    gone = [each for each in look.history.progress.deleted() if look.is_within(each[2], _TOLD_MS)]
    if gone:
        yield from _expired(look, gone)


def _away_since(look: Look) -> int | None:
    """Return since when the offsets age: the group became empty, or was committed last if it never had members.

    Null while it has members, or when that is not known.
    """
    history = look.history
    last_commit = history.progress.last_commit_ms
    if history.is_simple():
        return last_commit
    emptied = next(reversed(history.in_order()), None)
    picture = history.picture
    if emptied is None and picture is not None and picture.state == "Empty" and picture.last_rebalance_ms is not None:
        return max(picture.last_rebalance_ms, last_commit or 0)
    if emptied is None or emptied.members_after or emptied.completed_at_ms is None or look.members:
        return None
    return max(emptied.completed_at_ms, last_commit or 0)


def _expires_soon(look: Look, since: int) -> Iterator[Verdict]:
    retention, away = look.thresholds.retention_ms, look.now_ms - since
    if not look.lasted(since, _WARN * retention) or not look.is_within(since, _SURELY_LONGER * retention):
        return
    held = sum(1 for _ in look.history.progress.positions())
    if not held:
        return
    left = max(0.0, (retention - away) / 3_600_000)
    yield Verdict(
        rule="offsets_expired",
        confidence=STRONG,
        summary=f"Nobody has used the group for {away / 86_400_000:.1f} days: its {held} committed offsets expire in "
        f"{left:.0f} h, and the next start will use auto.offset.reset.",
        started_at_ms=since,
        variant="expires_soon",
        severity=TICKET,
        evidence=(Evidence(LOG, "state", f"away for {away / 3_600_000:.0f} h", f"expires after {_hours(retention)}"),),
        missing=("offsets.retention.minutes of the brokers",),
        advice=(
            Advice("operation", None, "start a member, or delete the group if it is not needed any more", "-"),
            Advice("offsets.retention.minutes", _hours(retention), "longer than the longest absence", "-"),
        ),
    )


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / 3_600_000:.0f} h"


def _expired(look: Look, gone: Sequence[tuple[str, int, int]]) -> Iterator[Verdict]:
    """Yield what of the deletions was expiry: all offsets of an absent group, or those of topics no longer wanted.

    Deletions soon after use are somebody's doing, or the topic's end.
    """
    history = look.history
    wanted = {topic for member in look.members for topic in member.topics}
    if look.members:
        old = [each for each in gone if each[0] not in wanted and _was_old(look, each)]
        if wanted and old:
            yield _expiry_verdict(look, old, "unsubscribed")
    elif not any(True for _ in history.progress.positions()) and all(_was_old(look, each) for each in gone):
        yield _expiry_verdict(look, gone, None)


def _was_old(look: Look, gone: tuple[str, int, int]) -> bool:
    """Whether an offset was as old as it may get when it was deleted; not known counts as no."""
    topic, partition, deleted_ms = gone
    last = look.history.progress.committed_before((topic, partition), deleted_ms)
    since = None if last is None else last[0]
    if not look.members and not look.history.is_simple():
        # The clock of a group with members starts when the last one has left.
        empty = [each for each in look.history.in_order() if not each.members_after and each.completed_at_ms]
        since = None if not empty else max(empty[-1].completed_at_ms or 0, since or 0)
    return since is not None and deleted_ms - since >= _NEARLY * look.thresholds.retention_ms


def _expiry_verdict(look: Look, gone: Sequence[tuple[str, int, int]], variant: str | None) -> Verdict:
    names = tuple(f"{topic}-{partition}" for topic, partition, _ in sorted(gone))
    at_ms, retention = min(each[2] for each in gone), look.thresholds.retention_ms
    whose = "the group, which was away for that long" if variant is None else "topics it does not subscribe to any more"
    return Verdict(
        rule="offsets_expired",
        confidence=CERTAIN,
        summary=f"The {len(names)} committed offsets of {whose}, have expired: the next start uses auto.offset.reset.",
        started_at_ms=at_ms,
        subject=Subject() if variant is None else Subject(partitions=names),
        variant=variant,
        severity=TICKET if variant is None else INFO,
        evidence=(
            Evidence(
                COMMITS, "tombstones", f"{len(names)} offsets deleted", "by the coordinator, all of a kind at once"
            ),
            Evidence(
                LOG, "age", f"at least {_hours(int(_NEARLY * retention))}", f"offsets live for {_hours(retention)}"
            ),
        ),
        alternatives=(Alternative("offset_rewind", "the offsets were deleted, not set"),),
        advice=(
            Advice("auto.offset.reset", None, "decide it before the next start: earliest repeats, latest skips", "-"),
            Advice("offsets.retention.minutes", _hours(retention), "longer than the longest absence", "-"),
        ),
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(offset_rewind, inputs.COMMITS | inputs.ENDS),
    Condition(offset_skip, inputs.COMMITS | inputs.ENDS),
    Condition(offsets_expired, inputs.COMMITS),
    Condition(duplicate_processing, inputs.COMMITS | inputs.ENDS),
)
