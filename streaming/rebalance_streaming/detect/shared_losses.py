"""Members of all groups whose sessions ended, side by side: what groups lose together has a cause outside of them.

Receives how members left, group by group, and on which hosts groups have members; tells who else lost some at the same
time, and what the whole cluster suffered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from rebalance_contract import GroupSnapshot, Rebalance
from rebalance_streaming.detect.episode import ExplainedDeparture, OtherGroups
from rebalance_streaming.detect.judged_group import SAME_TIME_MS
from rebalance_streaming.detect.rules.coordinator import cluster_wide
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.departures import SESSION_EXPIRED

#: Rebalances whose losses are kept.
_KEPT = 1_000


class SharedLosses:
    """The latest losses of one cluster. `coordinator_of` returns the broker of a group, null where it is not known."""

    def __init__(self, coordinator_of: Callable[[str], int | None]) -> None:
        self._coordinator_of = coordinator_of
        #: By group and rebalance, in the order in which they were taken up first.
        self._losses: dict[tuple[str, str], tuple[ExplainedDeparture, ...]] = {}
        #: Groups by the hosts on which they have members now.
        self._on_host: dict[str, set[str]] = {}
        self.latest_ms = 0

    def __bool__(self) -> bool:
        """Whether any group lost a member."""
        return bool(self._losses)

    def take_group(self, group: str, before: GroupSnapshot | None, after: GroupSnapshot | None) -> None:
        """Keep the index of groups by host up to date with a group's picture; null: it is not known, or gone."""
        left, there = ({each.host for each in picture.members} if picture else set() for picture in (before, after))
        for host in left - there:
            self._on_host[host].discard(group)
            if not self._on_host[host]:
                del self._on_host[host]
        for host in there - left:
            self._on_host.setdefault(host, set()).add(group)

    def take(self, group: str, rebalance_id: str, left: Iterable[ExplainedDeparture]) -> set[str]:
        """Take up how members of a group left in a rebalance, in the place of what was found of it before.

        Returns the other groups that lost some at the same time, if that is news to them.
        """
        key, lost = (group, rebalance_id), tuple(each for each in left if each.departure.likely == SESSION_EXPIRED)
        before = self._losses.get(key, ())
        if lost:
            self._losses[key] = lost
        elif before:
            del self._losses[key]
        while len(self._losses) > _KEPT:
            del self._losses[next(iter(self._losses))]
        self.latest_ms = max([self.latest_ms, *(each.left_ms for each in lost)])
        news = {_of_whom(each): each for each in (*before, *lost)}
        for same in {*map(_of_whom, before)} & {*map(_of_whom, lost)}:
            del news[same]
        return {name for each in news.values() for name, _ in self._near(each.left_ms)} - {group}

    def elsewhere(self, group: str, rebalance: Rebalance) -> OtherGroups:
        """Return what other groups lost when a rebalance began, and which hosts and coordinators they share."""
        near = [(name, past) for name, past in self._near(rebalance.started_before_ms) if name != group]
        together = {group, *(name for name, _ in near)}
        # A host on which some other group lost nobody is not the reason.
        hosts = {past.member.host for _, past in near if self._on_host.get(past.member.host, set()) <= together}
        coordinators = {broker for name, _ in near if (broker := self._coordinator_of(name)) is not None}
        return OtherGroups(
            tuple(sorted({name for name, _ in near})),
            tuple(sorted(hosts)),
            tuple(sorted(coordinators)),
        )

    def disturbances(self, thresholds: Thresholds, now_ms: int) -> list[Verdict]:
        """Return what groups on several hosts and coordinators suffered together."""
        return list(cluster_wide(self._all(), self._coordinator_of, thresholds, now_ms))

    def groups_of(self, rebalance_ids: Collection[str]) -> set[str]:
        """Return the groups that lost members in these rebalances."""
        return {group for group, rebalance_id in self._losses if rebalance_id in rebalance_ids}

    def _near(self, at_ms: int) -> list[tuple[str, ExplainedDeparture]]:
        return [each for each in self._all() if abs(each[1].left_ms - at_ms) <= SAME_TIME_MS]

    def _all(self) -> Iterator[tuple[str, ExplainedDeparture]]:
        return ((group, each) for (group, _), several in self._losses.items() for each in several)


def _of_whom(past: ExplainedDeparture) -> tuple[str, int]:
    return past.member.member_id, past.left_ms
