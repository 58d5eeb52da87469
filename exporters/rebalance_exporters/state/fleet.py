"""What is known at one moment, as whoever answers or renders reads it: immutable, and the same for all of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import rebalance_contract as contract
from rebalance_exporters.state.causes import PrimaryCause
from rebalance_exporters.state.changes import ChangedItem
from rebalance_exporters.state.kept import Examples, GroupFindings, GroupKey, KeptRebalance
from rebalance_exporters.state.silences import Silences
from rebalance_exporters.state.state_times import StateTimes

_NO_COST: Final = contract.CountedImpact()


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All that is known at one moment.

    `lags` are as they were published last; what may be shown of them now is for `live_lag` to say. `caught_up_until`
    has, by cluster and query, up to where a query had read when it was first seen caught up. `late_events` are counted
    by cluster and kind, late or future.
    """

    groups: Mapping[GroupKey, contract.GroupSnapshot]
    states: Mapping[GroupKey, StateTimes]
    lags: Mapping[GroupKey, contract.GroupLag]
    costs: Mapping[GroupKey, contract.CountedImpact]
    findings: Mapping[GroupKey, GroupFindings]
    late_events: Mapping[tuple[str, str], int]
    timings: Mapping[GroupKey, contract.GroupTiming]
    examples: Mapping[GroupKey, Examples]
    reports: tuple[contract.ReportTotals, ...]
    records: tuple[contract.DecodeTotals, ...]
    logs: tuple[contract.LogTotals, ...]
    quarantines: tuple[contract.QuarantineTotals, ...]
    queries: tuple[contract.QueryStatus, ...]
    diagnoses: Mapping[str, contract.DiagnosisStatus]
    caught_up_until: Mapping[tuple[str, str], int]
    silences: Silences
    rows: Mapping[str, int]
    refused: Mapping[tuple[str, str], int]
    truncated: Mapping[str, int]
    stale_after_ms: int

    def live_lag(self, key: GroupKey, now_ms: int) -> contract.GroupLag | None:
        """Return a group's lag and windows; null when unknown, and while the diagnosis is silent.

        What nobody measures any more must not look as if it were so now.
        """
        diagnosis = self.diagnoses.get(key[0])
        if diagnosis is None or abs(now_ms - diagnosis.updated_at_ms) > self.stale_after_ms:
            return None
        return self.lags.get(key)

    def document(self, kept: KeptRebalance) -> bytes:
        """Return a rebalance as the API shows it, with the deploys that were announced for its time."""
        ended_ms = kept.started_ms if kept.completed_ms is None else kept.completed_ms
        return kept.document(self.silences.deploys(kept.group, kept.started_ms, ended_ms))

    def cost(self, key: GroupKey) -> contract.CountedImpact:
        """Return what rebalances cost a group in all, as far as the diagnosis has reported."""
        return self.costs.get(key, _NO_COST)


class RebalanceHistory(NamedTuple):
    """Rebalances that are kept, in no order, each with its cause; `dropped_until_ms` as in PeriodReport."""

    rebalances: list[tuple[KeptRebalance, PrimaryCause | None]]
    dropped_until_ms: int | None


class Changes(NamedTuple):
    """What changed up to `version`, oldest first; null when it is more than is remembered."""

    version: int
    items: list[tuple[int, ChangedItem]] | None
