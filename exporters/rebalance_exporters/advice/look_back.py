"""The past of a group as advice reads it: its rebalances in their order, and who was away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rebalance_contract import GroupType, Member
from rebalance_contract.api_reports import PeriodSums
from rebalance_contract.client_settings import is_connect
from rebalance_exporters.advice.absences import Absence, Seen, find_absences

#: The rebalances before a period that are needed to find who came back in it.
CONTEXT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class LookBack:
    """The rebalances of one group in the order of their start, with who was away; `since_ms`: those that count."""

    seen: tuple[Seen, ...]
    absences: tuple[Absence, ...]
    since_ms: int
    until_ms: int

    def counted(self) -> Iterator[tuple[int, Seen]]:
        """Yield those that began in the period, with their places."""
        for place, each in enumerate(self.seen):
            if self.since_ms <= each.rebalance.started_before_ms < self.until_ms:
                yield place, each

    def members(self) -> list[Member]:
        """Return the members that rebalances of the period began with, each once."""
        known = {one.member_id: one for _, each in self.counted() for one in each.rebalance.members_before}
        return list(known.values())

    @property
    def type(self) -> str:
        """What kind of group it is, by its latest rebalance."""
        return self.seen[-1].rebalance.type if self.seen else GroupType.CLASSIC

    @property
    def protocol(self) -> str | None:
        """What its members agreed on last."""
        return self.seen[-1].rebalance.protocol if self.seen else None

    @property
    def is_connect(self) -> bool:
        """Whether its members are workers of Kafka Connect."""
        return self.type == GroupType.CLASSIC and is_connect(None, self.protocol)

    def in_period(self) -> list[Absence]:
        """Return the absences that began in the period."""
        places = {place for place, _ in self.counted()}
        return [each for each in self.absences if each.left_in in places]


def look_back(seen: Iterable[Seen], since_ms: int, until_ms: int) -> LookBack:
    """Return the past of a group as `estimate` reads it."""
    ordered = sorted(seen, key=lambda each: (each.rebalance.started_before_ms, each.rebalance.rebalance_id))
    begun = tuple(each for each in ordered if each.rebalance.started_before_ms < until_ms)
    return LookBack(begun, tuple(find_absences(begun, until_ms)), since_ms, until_ms)


def add_up(past: LookBack) -> PeriodSums:
    """Return what the rebalances of the period come to."""
    seen = [each for _, each in past.counted()]
    impacts = [each.impact for each in seen if each.impact is not None]
    return PeriodSums(
        rebalances=len(seen),
        rebalancing_ms=sum(each.rebalance.duration_min_ms or 0 for each in seen),
        lost_partition_ms=sum(each.lost_partition_ms for each in impacts),
        uncosted=len(seen) - len(impacts),
    )
