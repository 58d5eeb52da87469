"""The cost of rebalances as the diagnosis determines it: gaps in commits, lag, members that timed out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rebalance_contract.codec import SCHEMA_VERSION, decode_tagged
from rebalance_contract.sets import AnyTrigger


@dataclass(frozen=True, slots=True)
class CommitGap:
    """An unusual gap between two commits of a partition, of at least 7.5 s, by the coordinator's clock."""

    topic: str
    partition: int
    last_commit_ms: int
    resumed_at_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceImpact:
    """The cost of one rebalance: topic `…impact`, key `cluster/group/rebalance_id`, rewritten as more is known.

    `silences` are the gaps in commits that overlap it (not silences of alerts), published when they end, seconds later.
    `lost_partition_ms` is the sum of their durations after its start: an upper bound of the time without progress, too
    high by up to one commit interval per partition. `lag_before` is the group's lag in records when last probed before
    it, `lag_peak` the maximum since, and `lag_recovered_at_ms` when lag was back to `lag_before`: null if the next
    rebalance came first, or if it took more than 15 minutes. All three are null without probes of end offsets.
    `expired` and `poll_timeout` are the ids of members that left because their session, or their poll interval,
    expired; null while the rebalance has not been judged. `prepared_at_ms` is when the coordinator began to prepare it,
    according to its broker's log, `trigger` why, `trigger_member` the member that the line names and `trigger_reason`
    the reason given by that client; null without that log, and for groups whose coordinator assigns. `is_truncated`:
    gaps or members were left out so that the row fits; `lost_partition_ms` includes them.
    """

    cluster: str
    group: str
    rebalance_id: str
    silences: tuple[CommitGap, ...] = ()
    lost_partition_ms: int = 0
    lag_before: int | None = None
    lag_peak: int | None = None
    lag_recovered_at_ms: int | None = None
    expired: tuple[str, ...] | None = None
    poll_timeout: tuple[str, ...] | None = None
    prepared_at_ms: int | None = None
    trigger: AnyTrigger | None = None
    trigger_member: str | None = None
    trigger_reason: str | None = None
    is_truncated: bool = False
    kind: Literal["rebalance_impact"] = "rebalance_impact"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CountedImpact:
    """The contribution of one rebalance to its group's totals; `started_at_ms` orders rebalances."""

    members_expired: int = 0
    members_poll_timeout: int = 0
    lost_partition_ms: int = 0
    started_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupImpact:
    """Totals of one group since the monitor first saw it: topic `…impact`, key `cluster/group`; they never decrease.

    `counted` has the latest rebalances by id, so that a rebalance that is judged again replaces its earlier
    contribution, without lowering it. `earlier` is the sum over rebalances that began at or before `closed_until_ms`,
    which are final.
    """

    cluster: str
    group: str
    earlier: CountedImpact = field(default_factory=CountedImpact)
    counted: dict[str, CountedImpact] = field(default_factory=dict)
    closed_until_ms: int = -1
    kind: Literal["group_impact"] = "group_impact"
    schema_version: int = SCHEMA_VERSION

    def totals(self) -> CountedImpact:
        """Return the sum over all rebalances."""
        each = (self.earlier, *self.counted.values())
        return CountedImpact(
            sum(one.members_expired for one in each),
            sum(one.members_poll_timeout for one in each),
            sum(one.lost_partition_ms for one in each),
        )


_ROWS: Mapping[str, type[RebalanceImpact | GroupImpact]] = {
    "rebalance_impact": RebalanceImpact,
    "group_impact": GroupImpact,
}


def decode_impact(text: bytes) -> RebalanceImpact | GroupImpact:
    """Return the row in a value of the impact topic. Raises ContractError if it is not valid."""
    return decode_tagged(text, _ROWS, "impact")
