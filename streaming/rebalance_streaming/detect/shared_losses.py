"""Expired sessions of all groups: losses that several groups have at the same time have a cause outside of them.

Receives the departures of each group and the hosts of its members; returns which other groups lost members at the same
time, and the disturbances of the whole cluster.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import NamedTuple

from rebalance_contract import GroupSnapshot, Rebalance
from rebalance_streaming.detect.episode import ExplainedDeparture, OtherGroups
from rebalance_streaming.detect.judged_group import SAME_TIME_MS
from rebalance_streaming.detect.rules.coordinator import cluster_wide
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.departures import SESSION_EXPIRED

#: Number of latest losses that are kept; ties are broken by group name, so that the order of calls does not matter.
_KEPT = 1_000


class _Loss(NamedTuple):
    """One loss. Sorted by time; unique by group, member and rebalance."""

    left_ms: int
    group: str
    member_id: str
    rebalance_id: str
    past: ExplainedDeparture


_left_ms = attrgetter("left_ms")


class SharedLosses:
    """The latest losses of one cluster. `coordinator_of` returns the broker of a group, or null if it is not known."""

    def __init__(self, coordinator_of: Callable[[str], int | None]) -> None:
        self._coordinator_of = coordinator_of
        self._losses: list[_Loss] = []
        #: Groups by the hosts on which they have members now.
        self._on_host: dict[str, set[str]] = {}
        self.latest_ms = 0

    def __bool__(self) -> bool:
        """Whether any group lost a member."""
        return bool(self._losses)

    def take_group(self, group: str, before: GroupSnapshot | None, after: GroupSnapshot | None) -> None:
        """Update the index of groups by host from a group's snapshots; null: not known, or gone."""
        left, there = ({each.host for each in snapshot.members} if snapshot else set() for snapshot in (before, after))
        for host in left - there:
            self._on_host[host].discard(group)
            if not self._on_host[host]:
                del self._on_host[host]
        for host in there - left:
            self._on_host.setdefault(host, set()).add(group)

    def take(
        self,
        group: str,
        rebalance_id: str,
        left: Iterable[ExplainedDeparture],
        before: Iterable[ExplainedDeparture] = (),
    ) -> set[str]:
        """Take up a group's departures in a rebalance, replacing `before`, the departures found previously.

        Return the other groups that lost members at the same time as losses that are new or no longer found. `left` is
        compared with `before`, not with the kept losses: those dropped by the bound would be new each time.
        """
        now, former = _lost(left), _lost(before)
        news = now.keys() ^ former.keys()
        if not news:
            return set()
        if former:
            self._losses = [each for each in self._losses if (each.group, each.rebalance_id) != (group, rebalance_id)]
        for (left_ms, member_id), past in now.items():
            insort(self._losses, _Loss(left_ms, group, member_id, rebalance_id, past))
        del self._losses[:-_KEPT]
        self.latest_ms = max([self.latest_ms, *(left_ms for left_ms, _ in now)])
        return self._groups_near(left_ms for left_ms, _ in news) - {group}

    def elsewhere(self, group: str, rebalance: Rebalance) -> OtherGroups:
        """Return the other groups that lost members when a rebalance began, with their hosts and coordinators."""
        near = [each for each in self._losses[slice(*self._near(rebalance.started_before_ms))] if each.group != group]
        names = {each.group for each in near}
        together = {group, *names}
        # A host is not the reason if a group that has members on it lost none.
        hosts = {
            host for host in {each.past.member.host for each in near} if self._on_host.get(host, set()) <= together
        }
        coordinators = {broker for name in names if (broker := self._coordinator_of(name)) is not None}
        return OtherGroups(tuple(sorted(names)), tuple(sorted(hosts)), tuple(sorted(coordinators)))

    def disturbances(self, thresholds: Thresholds, now_ms: int) -> list[Verdict]:
        """Return verdicts on losses that groups on several hosts and coordinators had at the same time."""
        return list(
            cluster_wide(((each.group, each.past) for each in self._losses), self._coordinator_of, thresholds, now_ms)
        )

    def groups_of(self, rebalance_ids: Collection[str]) -> set[str]:
        """Return the groups that lost members in these rebalances."""
        return {each.group for each in self._losses if each.rebalance_id in rebalance_ids}

    def _groups_near(self, times: Iterable[int]) -> set[str]:
        found, seen = set[str](), 0
        for at_ms in sorted(set(times)):
            first, end = self._near(at_ms)
            found.update(each.group for each in self._losses[max(first, seen) : end])
            seen = end
        return found

    def _near(self, at_ms: int) -> tuple[int, int]:
        """Return the slice (start, end) of the losses at about a time."""
        first = bisect_left(self._losses, at_ms - SAME_TIME_MS, key=_left_ms)
        return first, bisect_right(self._losses, at_ms + SAME_TIME_MS, lo=first, key=_left_ms)


def _lost(left: Iterable[ExplainedDeparture]) -> dict[tuple[int, str], ExplainedDeparture]:
    """Return the departures by session expiry, by (time, member id)."""
    return {(each.left_ms, each.member.member_id): each for each in left if each.departure.likely == SESSION_EXPIRED}
