"""Snapshots of the whole state at one moment: immutable, so that all of a response or rendering is consistent."""

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
    """The whole state at one moment.

    `lags` are as last published; `live_lag` returns what may be shown of them now. `caught_up_until` is, by cluster
    and query, the time up to which a query had read when it was first seen caught up. `late_events` are counts by
    cluster and kind, late or future.
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
        """Return a group's lag and windows, or null if they are unknown or the diagnosis has stopped reporting.

        A lag that is no longer measured must not be shown as the present one.
        """
        diagnosis = self.diagnoses.get(key[0])
        if diagnosis is None or abs(now_ms - diagnosis.updated_at_ms) > self.stale_after_ms:
            return None
        return self.lags.get(key)

    def document(self, kept: KeptRebalance) -> bytes:
        """Return a rebalance as the API shows it, with the deploys announced for its time."""
        ended_ms = kept.started_ms if kept.completed_ms is None else kept.completed_ms
        return kept.document(self.silences.deploys(kept.group, kept.started_ms, ended_ms))

    def cost(self, key: GroupKey) -> contract.CountedImpact:
        """Return the total cost of a group's rebalances, as far as the diagnosis has reported it."""
        return self.costs.get(key, _NO_COST)


class RebalanceHistory(NamedTuple):
    """Kept rebalances, in no particular order, each with its cause; `dropped_until_ms` as in PeriodReport."""

    rebalances: list[tuple[KeptRebalance, PrimaryCause | None]]
    dropped_until_ms: int | None


class Changes(NamedTuple):
    """The changes up to `version`, oldest first; `items` is null if the log no longer has all of them."""

    version: int
    items: list[tuple[int, ChangedItem]] | None
