"""The past of a group as the estimates read it: its rebalances in order, and the absences of members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rebalance_contract import GroupType, Member
from rebalance_contract.api_reports import PeriodSums
from rebalance_contract.client_settings import is_connect
from rebalance_exporters.advice.absences import Absence, PastRebalance, find_absences

#: Rebalances this long before a period are needed to recognise members that came back in it.
CONTEXT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class LookBack:
    """The rebalances of one group in order of their start, with the absences.

    Those that start from `since_ms` to before `until_ms` count; earlier ones are context.
    """

    rebalances: tuple[PastRebalance, ...]
    absences: tuple[Absence, ...]
    since_ms: int
    until_ms: int

    def counted(self) -> Iterator[tuple[int, PastRebalance]]:
        """Yield the rebalances that began in the period, with their indexes."""
        for place, each in enumerate(self.rebalances):
            if self.since_ms <= each.rebalance.started_before_ms < self.until_ms:
                yield place, each

    def members(self) -> list[Member]:
        """Return the members present at the start of the period's rebalances, each once."""
        known = {one.member_id: one for _, each in self.counted() for one in each.rebalance.members_before}
        return list(known.values())

    @property
    def type(self) -> str:
        """The type of the group, by its latest rebalance."""
        return self.rebalances[-1].rebalance.type if self.rebalances else GroupType.CLASSIC

    @property
    def protocol(self) -> str | None:
        """The protocol that its members agreed on last, null if not known."""
        return self.rebalances[-1].rebalance.protocol if self.rebalances else None

    @property
    def is_connect(self) -> bool:
        """Whether its members are workers of Kafka Connect."""
        return self.type == GroupType.CLASSIC and is_connect(None, self.protocol)

    def in_period(self) -> list[Absence]:
        """Return the absences that began in the period."""
        places = {place for place, _ in self.counted()}
        return [each for each in self.absences if each.left_in in places]


def look_back(rebalances: Iterable[PastRebalance], since_ms: int, until_ms: int) -> LookBack:
    """Return the past of a group as `estimate` reads it."""
    ordered = sorted(rebalances, key=lambda each: (each.rebalance.started_before_ms, each.rebalance.rebalance_id))
    begun = tuple(each for each in ordered if each.rebalance.started_before_ms < until_ms)
    return LookBack(begun, tuple(find_absences(begun, until_ms)), since_ms, until_ms)


def add_up(past: LookBack) -> PeriodSums:
    """Return the totals of the period's rebalances."""
    rebalances = [each for _, each in past.counted()]
    impacts = [each.impact for each in rebalances if each.impact is not None]
    return PeriodSums(
        rebalances=len(rebalances),
        rebalancing_ms=sum(each.rebalance.duration_min_ms or 0 for each in rebalances),
        lost_partition_ms=sum(each.lost_partition_ms for each in impacts),
        uncosted=len(rebalances) - len(impacts),
    )
