"""What rebalances cost their groups: gaps in commits, lag around them, members that timed out, and the totals.

Receives rebalances, gaps in commits, measurements of lag and judged departures in any order; returns the rows that
changed. A cost is computed afresh from what is known each time, never incremented, so that any row may be repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rebalance_contract import CommitGap, CountedImpact, GroupImpact, Rebalance, RebalanceImpact
from rebalance_streaming.engine.commit_gaps import KEPT_GAPS
from rebalance_streaming.engine.lag_around import LagAround, lag_around
from rebalance_streaming.engine.measured_lag import MeasuredLag
from rebalance_streaming.groups.episodes import begun_order
from rebalance_streaming.groups.partitions import Place
from rebalance_streaming.observed.coordinator_log import RebalanceStart

#: Rebalances of a group whose cost may still change, and those whose share of the totals may still change.
_KEPT_REBALANCES, _COUNTED = 30, 100
#: Gaps are kept until the row of their rebalance, which another query writes, has come: for as long as a start reads
#: back, and at most `KEPT_GAPS` per group. Gaps that belong to a rebalance stay with it for longer.
_GAPS_KEPT_MS = 3_600_000


@dataclass(slots=True)
class _RebalanceCost:
    """A rebalance with its cost; `gaps` and `lag` are the parts that depend on rows that are no longer kept.

    `gaps` were reported by an earlier run; `former`, by topic and partition, are older than gaps are kept.
    """

    rebalance: Rebalance
    impact: RebalanceImpact
    gaps: tuple[CommitGap, ...] = ()
    lag: LagAround | None = None
    former: dict[Place, CommitGap] = field(default_factory=dict)


@dataclass(slots=True)
class _GroupCosts:
    """Costs of one group; `restored` are impacts that an earlier run published."""

    totals: GroupImpact
    rebalances: dict[str, _RebalanceCost] = field(default_factory=dict)
    restored: dict[str, RebalanceImpact] = field(default_factory=dict)
    gaps: deque[CommitGap] = field(default_factory=deque)
    measured: MeasuredLag = field(default_factory=MeasuredLag)


class ImpactTracker:
    """The costs of all groups of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._groups: dict[str, _GroupCosts] = {}
        #: By group and rebalance; null: the group's totals.
        self._changed: dict[str, dict[str | None, RebalanceImpact | GroupImpact]] = {}

    def restore(self, row: RebalanceImpact | GroupImpact) -> None:
        """Restore what an earlier run published; of many rebalances, which come in no order, the latest are kept."""
        group = self._of(row.group)
        if isinstance(row, GroupImpact):
            group.totals = row
        else:
            group.restored[row.rebalance_id] = row
            if len(group.restored) > _KEPT_REBALANCES:
                del group.restored[min(group.restored, key=begun_order)]

    def take_rebalance(self, rebalance: Rebalance) -> None:
        """Process a version of a rebalance."""
        group, name = self._of(rebalance.group), rebalance.rebalance_id
        known = group.rebalances.get(name)
        if known is None:
            impact = group.restored.pop(name, RebalanceImpact(self._cluster, rebalance.group, name))
            group.rebalances[name] = _RebalanceCost(rebalance, impact, impact.silences, _lag_of(impact))
            self._drop_old(group)
        else:
            known.rebalance = rebalance
        self._attribute(group, _latest_first(group))
        for each in _at_or_before(group.rebalances.values(), rebalance.started_before_ms)[-2:]:
            self._hold_lag(group, each)

    def take_commit_gaps(self, group: str, gaps: Iterable[CommitGap]) -> None:
        """Process gaps between commits that have ended."""
        costs, new = self._of(group), list(gaps)
        if new:
            costs.gaps.extend(new)
            latest_first = _latest_first(costs)
            _drop_old_gaps(costs.gaps, latest_first)
            self._attribute(costs, latest_first)

    def take_lag(self, group: str, lag: int, at_ms: int) -> None:
        """Process a measurement of a group's lag; one that is older than the newest changes nothing."""
        costs = self._of(group)
        if not costs.measured.add(at_ms, lag):
            return
        if costs.measured.drop_old():
            for each in _at_or_before(costs.rebalances.values(), costs.measured.oldest_ms or 0):
                each.lag = _lag_of(each.impact)
        for each in _at_or_before(costs.rebalances.values(), at_ms)[-1:]:
            self._hold_lag(costs, each)

    def _hold_lag(self, costs: _GroupCosts, known: _RebalanceCost) -> None:
        """Compare the measurements with a rebalance, whichever came first."""
        started_ms = known.rebalance.started_before_ms
        later = (each.rebalance.started_before_ms for each in costs.rebalances.values())
        next_started_ms = min((at_ms for at_ms in later if at_ms > started_ms), default=None)
        earlier, measured = known.lag, list(costs.measured)
        if measured and measured[0][0] < started_ms:
            # The measurements reach back to before it began: nothing is needed from an earlier run.
            earlier = None
        around = lag_around(known.rebalance, measured, next_started_ms, earlier)
        updated = replace(
            known.impact,
            lag_before=None if around is None else around.before,
            lag_peak=None if around is None else around.peak,
            lag_recovered_at_ms=None if around is None else around.recovered_at_ms,
        )
        self._put(costs, known, updated)

    def take_timeouts(self, group: str, rebalance_id: str, expired: Iterable[str], poll_timeout: Iterable[str]) -> None:
        """Note which members a judged rebalance lost to their session timeout, or to their poll limit.

        A member counts as the one of the two that was reported first, also if an earlier run reported that.
        """
        costs = self._of(group)
        known = costs.rebalances.get(rebalance_id)
        if known is not None:
            impact = known.impact
            sessions, polls = set(impact.expired or ()), set(impact.poll_timeout or ())
            counted = sessions | polls
            sessions |= {*expired} - counted
            polls |= {*poll_timeout} - counted
            updated = replace(impact, expired=tuple(sorted(sessions)), poll_timeout=tuple(sorted(polls)))
            self._put(costs, known, updated)

    def take_start(self, group: str, rebalance_id: str, start: RebalanceStart) -> None:
        """Note when, and why, the coordinator began to prepare a rebalance."""
        costs = self._of(group)
        known = costs.rebalances.get(rebalance_id)
        if known is not None:
            updated = replace(
                known.impact,
                prepared_at_ms=start.at_ms,
                trigger=start.trigger,
                trigger_member=start.member_id,
                trigger_reason=start.reason,
            )
            self._put(costs, known, updated)

    def changed(self) -> list[RebalanceImpact | GroupImpact]:
        """Return, once, the rows that changed."""
        changed, self._changed = self._changed, {}
        return [row for rows in changed.values() for row in rows.values()]

    def totals(self, group: str) -> GroupImpact | None:
        """Return a group's totals; null if nothing was ever counted."""
        known = self._groups.get(group)
        return None if known is None or known.totals == GroupImpact(self._cluster, group) else known.totals

    def lost_ms(self, group: str, from_ms: int) -> int:
        """Return the partition-milliseconds lost after a moment."""
        costs = self._groups.get(group)
        if costs is None:
            return 0
        spans = (span for known in costs.rebalances.values() for span in _spans(known))
        return sum(max(0, end - max(begin, from_ms)) for begin, end in spans)

    def newest_loss_ms(self, group: str) -> int | None:
        """Return the end of the latest gap in commits that a rebalance caused; null when none is known."""
        costs = self._groups.get(group)
        spans = () if costs is None else (span for known in costs.rebalances.values() for span in _spans(known))
        return max((end for _, end in spans), default=None)

    def forget_group(self, group: str) -> None:
        """Drop a group that is gone, and its changes that were not returned yet."""
        self._groups.pop(group, None)
        self._changed.pop(group, None)

    def _of(self, group: str) -> _GroupCosts:
        costs = self._groups.get(group)
        if costs is None:
            costs = self._groups[group] = _GroupCosts(GroupImpact(self._cluster, group))
        return costs

    def _drop_old(self, group: _GroupCosts) -> None:
        while len(group.rebalances) > _KEPT_REBALANCES:
            oldest = min(group.rebalances, key=lambda name: group.rebalances[name].rebalance.started_before_ms)
            del group.rebalances[oldest]

    def _attribute(self, group: _GroupCosts, latest_first: Sequence[_RebalanceCost]) -> None:
        """Give each gap to the latest rebalance it overlaps; a partition has one per rebalance."""
        if not latest_first:
            return
        owned: dict[str, dict[Place, CommitGap]] = {name: {**each.former} for name, each in group.rebalances.items()}
        for gap in group.gaps:
            known = _latest_overlapping(latest_first, gap)
            if known is not None:
                owned[known.rebalance.rebalance_id].setdefault((gap.topic, gap.partition), gap)
        for name, gaps in owned.items():
            known = group.rebalances[name]
            for gap in known.gaps:
                gaps.setdefault((gap.topic, gap.partition), gap)
            ordered = tuple(gaps[place] for place in sorted(gaps))
            start_ms = known.rebalance.started_before_ms
            lost_ms = sum(each.resumed_at_ms - max(each.last_commit_ms, start_ms) for each in ordered)
            self._put(group, known, replace(known.impact, silences=ordered, lost_partition_ms=max(0, lost_ms)))

    def _put(self, group: _GroupCosts, known: _RebalanceCost, impact: RebalanceImpact) -> None:
        if impact == known.impact:
            return
        known.impact = impact
        changed = self._changed.setdefault(impact.group, {})
        changed[impact.rebalance_id] = impact
        totals = _counted(group.totals, known)
        if totals != group.totals:
            group.totals = totals
            changed[None] = totals


def _lag_of(impact: RebalanceImpact) -> LagAround | None:
    if impact.lag_before is None or impact.lag_peak is None:
        return None
    return LagAround(impact.lag_before, impact.lag_peak, impact.lag_recovered_at_ms)


def _at_or_before(rebalances: Iterable[_RebalanceCost], at_ms: int) -> list[_RebalanceCost]:
    """Return the rebalances that had begun at a moment, in the order they began."""
    begun = [each for each in rebalances if each.rebalance.started_before_ms <= at_ms]
    return sorted(begun, key=lambda each: each.rebalance.started_before_ms)


def _latest_first(group: _GroupCosts) -> list[_RebalanceCost]:
    return sorted(group.rebalances.values(), key=lambda each: each.rebalance.started_before_ms, reverse=True)


def _latest_overlapping(latest_first: Iterable[_RebalanceCost], gap: CommitGap) -> _RebalanceCost | None:
    """Return the latest rebalance that a gap overlaps; if several began together, the one that was reported first."""
    overlapping = (
        known
        for known in latest_first
        if gap.resumed_at_ms > known.rebalance.started_before_ms
        and (known.rebalance.completed_at_ms is None or gap.last_commit_ms <= known.rebalance.completed_at_ms)
    )
    return next(overlapping, None)


def _drop_old_gaps(gaps: deque[CommitGap], latest_first: Sequence[_RebalanceCost]) -> None:
    """Drop old gaps, but keep those that belong to a rebalance with it, so that its cost does not fall."""
    horizon_ms = gaps[-1].resumed_at_ms - _GAPS_KEPT_MS
    while len(gaps) > KEPT_GAPS or gaps[0].resumed_at_ms < horizon_ms:
        gone = gaps.popleft()
        owner = _latest_overlapping(latest_first, gone)
        if owner is not None:
            owner.former.setdefault((gone.topic, gone.partition), gone)


def _counted(totals: GroupImpact, known: _RebalanceCost) -> GroupImpact:
    """Return totals in which a rebalance's present share replaces its earlier one."""
    started_ms, impact = known.rebalance.started_before_ms, known.impact
    name = impact.rebalance_id
    if name not in totals.counted and started_ms <= totals.closed_until_ms:
        return totals
    share = CountedImpact(
        len(impact.expired or ()), len(impact.poll_timeout or ()), impact.lost_partition_ms, started_ms
    )
    former = totals.counted.get(name, CountedImpact())
    # Totals never decrease: members that were counted once stay counted, even if a later judgement differs.
    share = replace(
        share,
        members_expired=max(share.members_expired, former.members_expired),
        members_poll_timeout=max(share.members_poll_timeout, former.members_poll_timeout),
        lost_partition_ms=max(share.lost_partition_ms, former.lost_partition_ms),
    )
    counted = {**totals.counted, name: share}
    if len(counted) <= _COUNTED:
        return replace(totals, counted=counted)
    oldest = min(counted, key=lambda each: (counted[each].started_at_ms, each))
    closed = counted.pop(oldest)
    earlier = totals.earlier
    return replace(
        totals,
        counted=counted,
        closed_until_ms=max(totals.closed_until_ms, closed.started_at_ms),
        earlier=CountedImpact(
            earlier.members_expired + closed.members_expired,
            earlier.members_poll_timeout + closed.members_poll_timeout,
            earlier.lost_partition_ms + closed.lost_partition_ms,
        ),
    )


def _spans(known: _RebalanceCost) -> Iterator[tuple[int, int]]:
    """Yield the (begin, end) of the time lost in each gap."""
    start_ms = known.rebalance.started_before_ms
    for gap in known.impact.silences:
        begin, end = max(gap.last_commit_ms, start_ms), gap.resumed_at_ms
        if begin < end:
            yield begin, end
