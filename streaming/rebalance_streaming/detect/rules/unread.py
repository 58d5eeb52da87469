"""Partitions without a reader: missing in every assignment, or of a group that lost all its members.

Receives a group's members, assignments and end offsets. Groups that never had members are reported separately, by
`commit_only_group`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import GroupState, Partitions, Severity, Subject
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.verdict import Verdict, name_of
from rebalance_streaming.groups.partitions import by_topic
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.evidence import seconds
from rebalance_streaming.observed.progress import Position

#: An absence is usual if it is at most this many times as long as earlier ones, and there were at least this many.
_LONGER, _ABSENCES = 1.5, 2
_REPLACING = with_trait("replaces")


@condition(inputs.PROGRESS)
def orphan_partition(view: GroupView) -> Iterator[Verdict]:
    """A partition of a subscribed topic is in no assignment (KAFKA-13435, KAFKA-12984, IBM/sarama#1462)."""
    snapshot, stable = view.history.snapshot, view.stable_since_ms()
    if snapshot is None or stable is None or not view.is_settled:
        return
    if not view.time.outlasted(stable, view.thresholds.orphan_ms):
        return
    if not view.is_consumer_group:
        return
    assigned = _assigned(view)
    counts = view.progress.partition_counts()
    if assigned is None or not assigned.keys() <= counts.keys():
        # Some assignments are not readable or name topics by id, so it is not known what is assigned.
        return
    for topic in sorted({topic for member in view.members for topic in member.topics} & counts.keys()):
        missing = sorted(set(range(counts[topic])) - set(assigned.get(topic, ())))
        orphans = [view.progress.position(topic, each) for each in missing] if missing else []
        known = [each for each in orphans if each.end is not None]
        if known and view.time.outlasted(_changed_ms(view, topic), _metadata_age_ms(view)):
            yield _orphan_verdict(view, topic, known, max(stable, _changed_ms(view, topic)))


def _assigned(view: GroupView) -> Partitions | None:
    """Return the partitions that members have or are about to get; null if some assignment is not readable."""
    found: Partitions = {}
    for member in view.members:
        if member.partitions is None:
            return None
        for each in (member.partitions, member.target or {}):
            for topic, numbers in each.items():
                found.setdefault(topic, []).extend(numbers)
    return found


def _changed_ms(view: GroupView, topic: str) -> int:
    """Return when a topic last got partitions, or else since when it has been probed (epoch ms)."""
    changes = [at_ms for at_ms, name, _, _ in view.history.topic_changes if name == topic]
    return changes[-1] if changes else view.progress.ends_since() or view.now_ms


def _metadata_age_ms(view: GroupView) -> int:
    ages = [each.config.metadata_max_age_ms for each in view.history.clients]
    return max((each for each in ages if each is not None), default=view.thresholds.metadata_ms)


def _orphan_verdict(view: GroupView, topic: str, orphans: list[Position], since_ms: int) -> Verdict:
    names = tuple(each.name for each in orphans)
    growing = any((view.end_growth(topic, each.partition, view.thresholds.slow_ms) or 0) > 0 for each in orphans)
    unread = growing or any(each.lag for each in orphans)
    added = any(name == topic for _, name, _, _ in view.history.topic_changes)
    return view.say(
        "orphan_partition",
        since_ms,
        Subject(partitions=names),
        severity=Severity.PAGE if unread else Severity.TICKET,
        variant="partitions_added" if added else None,
        partitions=names,
        count=len(names),
        subscribed=sum(1 for member in view.members if topic in member.topics),
        topic=topic,
        known=orphans[-1].partition + 1,
    )


@condition(inputs.PROGRESS, grown=True)
def empty_group_with_lag(view: GroupView) -> Iterator[Verdict]:
    """A group lost all its members, and records keep arriving."""
    since = _empty_since(view)
    if since is None or not view.time.lasted(since, _allowed_absence_ms(view, since)):
        return
    waiting = [each for each in view.progress.positions() if each.lag]
    growing = [each for each in waiting if _grows(view, each, since)]
    if not growing:
        return
    last, abandoned = view.history.latest(), view.history.had_members_ms is None
    yield view.say(
        "empty_group_with_lag",
        since,
        severity=Severity.TICKET if abandoned else None,
        lag=sum(each.lag or 0 for each in growing),
        partitions=len(growing),
        members=sorted({name_of(each) for each in (() if last is None else last.members_before)}),
        departure=next(reversed(view.past), None),
        abandoned=abandoned,
    )


def _empty_since(view: GroupView) -> int | None:
    """Return since when a group that had members has neither members nor commits (epoch ms); null if it has."""
    history, snapshot = view.history, view.history.snapshot
    if snapshot is None or snapshot.state != GroupState.EMPTY or history.is_simple() or history.ownership:
        return None
    if history.had_members_ms is None and not snapshot.generation:
        return None
    emptied = snapshot.last_rebalance_ms or snapshot.updated_at_ms
    return None if emptied is None else max(emptied, history.progress.last_commit_ms or 0)


def _allowed_absence_ms(view: GroupView, since_ms: int) -> int:
    """Return for how long (ms) the group may be empty: longer in a deploy, or if it often is (a scheduled job)."""
    in_order = view.history.in_order()
    spells = [back_ms - emptied_ms for emptied_ms, back_ms in view.history.absences() if emptied_ms < since_ms]
    usual = [each for each in spells if each >= view.thresholds.empty_ms]
    allowed = round(_LONGER * max(usual)) if len(usual) >= _ABSENCES else view.thresholds.empty_ms
    deploying = bool(in_order) and view.causes.get(in_order[-1].rebalance_id) in _REPLACING
    return max(allowed, view.thresholds.stay_ms) if deploying else allowed


def _grows(view: GroupView, position: Position, since_ms: int) -> bool:
    """Whether records arrived since a time, and recently."""
    window_ms = view.thresholds.slow_ms
    if since_ms < view.now_ms - window_ms:
        return (view.end_growth(position.topic, position.partition, window_ms) or 0) > 0
    view.time.note_due(since_ms + window_ms + 1)
    return view.grew_since(position, since_ms)


@condition(inputs.COMMITS, grown=True)
def commit_only_group(view: GroupView) -> Iterator[Verdict]:
    """Offsets are committed without membership: assign(), Flink's checkpoints, custom connectors."""
    if not view.history.is_simple() or view.history.ownership or view.progress.first_commit_ms is None:
        return
    partitions = by_topic((each.topic, each.partition) for each in view.progress.positions())
    if partitions:
        gap_ms = view.progress.rhythm(partitions, view.now_ms).gap_ms
        every = f"every {seconds(gap_ms)}" if gap_ms else "now and then"
        yield view.say("commit_only_group", view.progress.first_commit_ms, every=every)
