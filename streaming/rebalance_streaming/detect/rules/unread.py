"""Partitions that nobody reads: left out of every assignment, or of a group that lost all its members.

Receives a group's members, assignments and end offsets. Groups that never had members are told apart first.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import GroupState, Partitions, Severity, Subject
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.group_view import Condition, GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.standing import grew_since, is_consumer_group
from rebalance_streaming.detect.verdict import Verdict, name_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.evidence import seconds
from rebalance_streaming.observed.history import by_topic
from rebalance_streaming.observed.progress import Position

#: An absence is like earlier ones up to this factor, if there were so many.
_LONGER, _ABSENCES = 1.5, 2
_REPLACING = with_trait("replaces")


def orphan_partition(look: GroupView, time: JudgingTime) -> Iterator[Verdict]:
    """A partition of a subscribed topic is in no assignment (KAFKA-13435, KAFKA-12984, IBM/sarama#1462)."""
    picture, stable = look.history.picture, look.stable_since_ms()
    if picture is None or stable is None or not look.is_settled:
        return
    if not time.outlasted(stable, look.thresholds.orphan_ms):
        return
    if not is_consumer_group(look):
        return
    assigned = _assigned(look)
    counts = look.history.progress.partition_counts()
    if assigned is None or not assigned.keys() <= counts.keys():
        # Assignments that are not readable, or that name topics by ids, hide what is assigned.
        return
    for topic in sorted({topic for member in look.members for topic in member.topics} & counts.keys()):
        missing = sorted(set(range(counts[topic])) - set(assigned.get(topic, ())))
        orphans = [look.history.progress.position(topic, each) for each in missing] if missing else []
        known = [each for each in orphans if each.end is not None]
        if known and time.outlasted(_changed_ms(look, topic), _metadata_age_ms(look)):
            yield _orphan_verdict(look, time, topic, known, max(stable, _changed_ms(look, topic)))


def _assigned(look: GroupView) -> Partitions | None:
    """Return what members have or are about to get; null when some assignment is not in a known form."""
    found: Partitions = {}
    for member in look.members:
        if member.partitions is None:
            return None
        for each in (member.partitions, member.target or {}):
            for topic, numbers in each.items():
                found.setdefault(topic, []).extend(numbers)
    return found


def _changed_ms(look: GroupView, topic: str) -> int:
    """Return when a topic last got partitions, or else since when it has been watched."""
    changes = [at_ms for at_ms, name, _, _ in look.history.topic_changes if name == topic]
    return changes[-1] if changes else look.history.progress.ends_since() or look.now_ms


def _metadata_age_ms(look: GroupView) -> int:
    told = [each.config.metadata_max_age_ms for each in look.history.clients]
    return max((each for each in told if each is not None), default=look.thresholds.metadata_ms)


def _orphan_verdict(look: GroupView, time: JudgingTime, topic: str, orphans: list[Position], since_ms: int) -> Verdict:
    names = tuple(each.name for each in orphans)
    growing = any((look.end_growth(topic, each.partition, look.thresholds.slow_ms, time) or 0) > 0 for each in orphans)
    unread = growing or any(each.lag for each in orphans)
    added = any(name == topic for _, name, _, _ in look.history.topic_changes)
    return say(
        "orphan_partition",
        since_ms,
        Subject(partitions=names),
        severity=Severity.PAGE if unread else Severity.TICKET,
        variant="partitions_added" if added else None,
        partitions=names,
        count=len(names),
        lasted=look.now_ms - since_ms,
        subscribed=sum(1 for member in look.members if topic in member.topics),
        members=len(look.members),
        topic=topic,
        known=orphans[-1].partition + 1,
    )


def empty_group_with_lag(look: GroupView, time: JudgingTime) -> Iterator[Verdict]:
    """A group lost all its members, and records keep coming."""
    since = _empty_since(look)
    if since is None or not time.lasted(since, _allowed_absence_ms(look, since)):
        return
    waiting = [each for each in look.history.progress.positions() if each.lag]
    growing = [each for each in waiting if _grows(look, time, each, since)]
    if growing:
        yield _empty_verdict(look, growing, since)


def _empty_since(look: GroupView) -> int | None:
    """Return since when a group that had members has none and nobody commits for it; null if it is otherwise."""
    history, picture = look.history, look.history.picture
    if picture is None or picture.state != GroupState.EMPTY or history.is_simple() or history.ownership:
        return None
    if history.had_members_ms is None and not picture.generation:
        return None
    emptied = picture.last_rebalance_ms or picture.updated_at_ms
    return None if emptied is None else max(emptied, history.progress.last_commit_ms or 0)


def _allowed_absence_ms(look: GroupView, since_ms: int) -> int:
    """Return for how long (ms) the group may be away: longer during a deploy, or if it often is (a scheduled job)."""
    in_order = look.history.in_order()
    spells = [back_ms - emptied_ms for emptied_ms, back_ms in look.history.absences() if emptied_ms < since_ms]
    usual = [each for each in spells if each >= look.thresholds.empty_ms]
    allowed = round(_LONGER * max(usual)) if len(usual) >= _ABSENCES else look.thresholds.empty_ms
    deploying = bool(in_order) and look.causes.get(in_order[-1].rebalance_id) in _REPLACING
    return max(allowed, look.thresholds.stay_ms) if deploying else allowed


def _grows(look: GroupView, time: JudgingTime, position: Position, since_ms: int) -> bool:
    """Whether records came since a moment, and lately."""
    window_ms = look.thresholds.slow_ms
    if since_ms < look.now_ms - window_ms:
        return (look.end_growth(position.topic, position.partition, window_ms, time) or 0) > 0
    time.note_due(since_ms + window_ms + 1)
    return grew_since(look, position, since_ms)


def _empty_verdict(look: GroupView, growing: list[Position], since_ms: int) -> Verdict:
    last, abandoned = look.history.latest(), look.history.had_members_ms is None
    return say(
        "empty_group_with_lag",
        since_ms,
        severity=Severity.TICKET if abandoned else None,
        lasted=look.now_ms - since_ms,
        lag=sum(each.lag or 0 for each in growing),
        partitions=len(growing),
        members=sorted({name_of(each) for each in (() if last is None else last.members_before)}),
        departure=next(reversed(look.past), None),
        abandoned=abandoned,
    )


def commit_only_group(look: GroupView, _time: JudgingTime) -> Iterator[Verdict]:
    """Offsets are committed without membership: assign(), Flink's checkpoints, connectors of their own making."""
    progress = look.history.progress
    if not look.history.is_simple() or look.history.ownership or progress.first_commit_ms is None:
        return
    partitions = by_topic((each.topic, each.partition) for each in progress.positions())
    if partitions:
        gap_ms = progress.rhythm(partitions, look.now_ms).gap_ms
        every = f"every {seconds(gap_ms)}" if gap_ms else "now and then"
        yield say("commit_only_group", progress.first_commit_ms, every=every)


CONDITIONS: tuple[Condition, ...] = (
    Condition(orphan_partition, inputs.COMMITS | inputs.ENDS),
    Condition(empty_group_with_lag, inputs.COMMITS | inputs.ENDS, grown=True),
    Condition(commit_only_group, inputs.COMMITS, grown=True),
)
