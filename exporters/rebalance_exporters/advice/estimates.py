"""Common parts of all estimates: the settings, what counts as avoided, and how it is added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rebalance_contract import CommitGap, Member
from rebalance_contract.api_reports import Avoided, EstimateRange, SettingEstimate
from rebalance_exporters.advice.absences import PastRebalance


class Setting(StrEnum):
    """The settings that are estimated; those of equal worth are reported in this order."""

    MAX_POLL_RECORDS = "max.poll.records"
    MAX_POLL_INTERVAL = "max.poll.interval.ms"
    SESSION = "session.timeout.ms"
    STATIC = "group.instance.id"
    ASSIGNOR = "partition.assignment.strategy"
    PROTOCOL = "group.protocol"
    INITIAL_DELAY = "group.initial.rebalance.delay.ms"
    HEARTBEAT = "heartbeat.interval.ms"


#: A proposed value would have covered absences longer than those seen by this factor, and avoids at least this share of
#: the rebalances that any value would have avoided.
MARGIN, ENOUGH = 1.25, 0.8
#: Maximum number of rebalances that an estimate names.
NAMED_REBALANCES = 10


class Cover(NamedTuple):
    """Whether an absence or a rebalance would have been covered: certainly, and possibly."""

    certain: bool
    possible: bool


NOT, MAYBE = Cover(False, False), Cover(False, True)


@dataclass(slots=True)
class AvoidedRebalances:
    """Totals of the rebalances that would have been avoided. The times in milliseconds are lower and upper bounds."""

    certain: list[str] = field(default_factory=list)
    possible: list[str] = field(default_factory=list)
    rebalancing_ms: list[int] = field(default_factory=lambda: [0, 0])
    lost_ms: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, past: PastRebalance, cover: Cover, lost_ms: EstimateRange) -> None:
        """Add a rebalance that would have been avoided."""
        took_ms = past.rebalance.duration_min_ms or 0
        (self.certain if cover.certain else self.possible).append(past.rebalance.rebalance_id)
        self.rebalancing_ms[0] += took_ms if cover.certain else 0
        self.rebalancing_ms[1] += took_ms
        self.lost_ms[0] += lost_ms.low if cover.certain else 0
        self.lost_ms[1] += lost_ms.high

    @property
    def counts(self) -> EstimateRange:
        """How many would have been avoided, at least and at most."""
        return EstimateRange(len(self.certain), len(self.certain) + len(self.possible))

    @property
    def names(self) -> tuple[str, ...]:
        """Ids of the avoided rebalances, certain ones first, the latest first, up to NAMED_REBALANCES."""
        return (*reversed(self.certain), *reversed(self.possible))[:NAMED_REBALANCES]

    def avoided(self) -> Avoided:
        """Return the totals."""
        return Avoided(self.counts, EstimateRange(*self.rebalancing_ms), EstimateRange(*self.lost_ms))

    def estimate(
        self, setting: str, current: str | None, proposed: str, value: int | None, *, cost: str, basis: str
    ) -> SettingEstimate:
        """Return the estimate of a setting that would have avoided these; arguments are fields of SettingEstimate."""
        return SettingEstimate(setting, current, proposed, value, self.avoided(), cost, basis, self.names)


def write_ms(value: int | None) -> str | None:
    """Return milliseconds as the text of a setting; null stays null."""
    return None if value is None else str(value)


def length_of(gap: CommitGap, start_ms: int) -> int:
    """Return how many milliseconds of a gap in commits lie after the start of its rebalance."""
    return max(0, gap.resumed_at_ms - max(gap.last_commit_ms, start_ms))


def owners_of(members: Iterable[Member]) -> dict[tuple[str, int], str]:
    """Return the owner's member id for each (topic, partition); a member of unknown assignment owns nothing."""
    return {
        (topic, number): member.member_id
        for member in members
        for topic, numbers in (member.partitions or {}).items()
        for number in numbers
    }
