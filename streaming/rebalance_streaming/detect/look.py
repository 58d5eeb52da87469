"""One group at the moment its standing conditions are judged: what rules of conditions and patterns receive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rebalance_streaming.detect.config import Thresholds
from rebalance_streaming.detect.episode import Past
from rebalance_streaming.detect.history import GroupHistory
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.groups.events import Member, Rebalance

DAY_MS = 24 * 3_600_000
#: After a rebalance whoever has work commits within this: three intervals of auto-commit.
_COMMIT_GAP_MS = 15_000


@dataclass(frozen=True, slots=True)
class Look:
    """A group's history and the present. `past` are its departures with their explanations, oldest first.

    `causes` gives the rule that was found to be each rebalance's primary cause. `probe_ms` is how often probes come.
    """

    history: GroupHistory
    thresholds: Thresholds
    now_ms: int
    past: tuple[Past, ...] = ()
    causes: dict[str, str] = field(default_factory=dict)
    probe_ms: int = 5_000

    @property
    def members(self) -> tuple[Member, ...]:
        """Who is in the group now."""
        return () if self.history.picture is None else self.history.picture.members

    @property
    def is_young(self) -> bool:
        """Whether the group is too new to be judged by how it stands."""
        first = self.history.first_ms
        return first is None or self.now_ms - first < self.thresholds.young_ms

    @property
    def is_settled(self) -> bool:
        """Whether the group was neither rebalancing nor empty when last seen."""
        picture = self.history.picture
        return picture is not None and picture.state == "Stable" and picture.rebalancing_since_ms is None

    def recent(self, window_ms: int) -> list[Rebalance]:
        """Return the rebalances that began within a window that ends now, oldest first."""
        return self.history.since_ms(self.now_ms - window_ms)

    def churn(self) -> float:
        """Return the share of the last day that partitions stood still for rebalances; 0 without members.

        A gap between commits counts up to a little after the rebalance: what comes later is an idle topic. It is a
        share of the whole day, so a lower bound for a group that was watched for less.
        """
        # A group that lost its last member is down; that is no rebalance's cost.
        of_day = [each for each in self.recent(DAY_MS) if each.members_before and each.members_after]
        assigned = (sum(map(len, (each.partitions or {}).values())) for each in self.members)
        # While members reconcile they own less than they will.
        partitions = max([sum(assigned), *(len(each.silences) for each in of_day)])
        return sum(map(_stood_still_ms, of_day)) / (partitions * DAY_MS) if partitions else 0.0

    def stable_since_ms(self) -> int | None:
        """Return since when members and assignment have been what they are; null while there is no picture."""
        picture = self.history.picture
        if picture is None:
            return None
        return picture.last_rebalance_ms or self.history.first_ms


def _stood_still_ms(rebalance: Rebalance) -> int:
    """Return for how long partitions stood still for a rebalance, all together."""
    began_ms, ended_ms = rebalance.started_before_ms, rebalance.completed_at_ms
    if ended_ms is None:
        return 0
    spans = (
        min(each.resumed_at_ms, ended_ms + _COMMIT_GAP_MS) - max(each.last_commit_ms, began_ms)
        for each in rebalance.silences
    )
    return sum(max(0, span) for span in spans)


#: Says what stands, of any number of subjects, as long as it stands.
ConditionRule = Callable[[Look], Iterable[Verdict]]
