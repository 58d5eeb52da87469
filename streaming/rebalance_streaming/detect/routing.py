"""Which group a client's report belongs to (client-metrics §1.3): by what it says, else by who is in which group."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rebalance_streaming.groups.events import Member
from rebalance_streaming.wire.metrics.identity import group_candidates
from rebalance_streaming.wire.metrics.report import Report

_KEPT = 2_000


@dataclass(slots=True)
class Routing:
    """Who is in which group, and reports whose group is not known yet."""

    by_member: dict[str, str] = field(default_factory=dict)
    by_client: dict[str, set[str]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    unknown: deque[Report] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def note_members(self, group: str, members: Iterable[Member]) -> bool:
        """Learn who is in a group; returns whether anything of it was new."""
        new = group not in self.groups
        self.groups.add(group)
        for member in members:
            new = new or self.by_member.get(member.member_id) != group
            self.by_member[member.member_id] = group
            self.by_client.setdefault(member.client_id, set()).add(group)
        return new

    def route(self, report: Report) -> Iterator[tuple[str, Report]]:
        """Yield the report with its group; nothing while that is not known, and then it is kept."""
        group = self._group_of(report)
        if group is None:
            self.unknown.append(report)
        else:
            yield group, replace(report, group_id=group)

    def waiting_for(self, group: str) -> list[Report]:
        """Return kept reports that turn out to be of a group."""
        found = [each for each in self.unknown if self._group_of(each) == group]
        if found:
            self.unknown = deque((each for each in self.unknown if each not in found), maxlen=_KEPT)
        return found

    def _group_of(self, report: Report) -> str | None:
        if report.group_id:
            return report.group_id
        if report.member_id in self.by_member:
            return self.by_member[report.member_id]
        if report.client_id is None:
            return None
        groups = self.by_client.get(report.client_id, set())
        if len(groups) == 1:
            return next(iter(groups))
        named = group_candidates(report.client_id)
        return named if named in self.groups else None
