"""Snapshots of the whole state at one moment: immutable, so that all of a response or rendering is consistent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import rebalance_contract as contract
from rebalance_contract.probes import PROBE_REPEAT_MS
from rebalance_exporters.state.causes import PrimaryCause
from rebalance_exporters.state.changes import ChangedItem
from rebalance_exporters.state.kept import Examples, GroupFindings, GroupKey, KeptRebalance
from rebalance_exporters.state.silences import Silences
from rebalance_exporters.state.state_times import StateTimes

_NO_COST: Final = contract.CountedImpact()
#: If the latest probe is older than this, no prober is running: a calm group is probed once per period, and that one
#: may come a period late.
_PROBED_WITHIN_MS: Final = 2 * PROBE_REPEAT_MS


def is_probed(diagnosis: contract.DiagnosisStatus, at_ms: int) -> bool:
    """Return whether a prober was running at a time, by the latest probe that the diagnosis has read."""
    return diagnosis.probed_at_ms is not None and at_ms - diagnosis.probed_at_ms <= _PROBED_WITHIN_MS


def _knows_ends(diagnosis: contract.DiagnosisStatus, now_ms: int) -> bool:
    """Return whether end offsets are reported, or may be: a diagnosis that is far behind cannot tell.

    After a restart it reads the recent past again, and knows no probe at first.
    """
    read_ms = min(diagnosis.read_until_ms, now_ms)
    may_come = diagnosis.probed_at_ms is None and now_ms - read_ms > _PROBED_WITHIN_MS
    return may_come or is_probed(diagnosis, read_ms)


class LagsWithoutEnds:
    """The lag rows of groups without what needs end offsets: each is made once, so that it is rendered once."""

    def __init__(self) -> None:
        self._made: dict[GroupKey, tuple[contract.GroupLag, contract.GroupLag]] = {}

    def of(self, key: GroupKey, lag: contract.GroupLag) -> contract.GroupLag:
        """Return a group's row with its commits alone."""
        known = self._made.get(key)
        if known is None or known[0] is not lag:
            windows = {name: replace(each, lag_max=None, lag_slope=None) for name, each in lag.windows.items()}
            known = lag, replace(lag, total=None, topics={}, oldest_unread_ms=None, windows=windows)
            self._made[key] = known
        return known[1]

    def forget(self, key: GroupKey) -> None:
        """Drop the row of a group that is gone, or whose end offsets are reported again."""
        self._made.pop(key, None)


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
    without_ends: LagsWithoutEnds = field(default_factory=LagsWithoutEnds)

    def live_lag(self, key: GroupKey, now_ms: int) -> contract.GroupLag | None:
        """Return a group's lag and windows, or null if they are unknown or the diagnosis has stopped reporting.

        A lag that is no longer measured must not be shown as the present one. While no prober reports end offsets, the
        row has no lag: commits go on, and the last known ends would make it fall.
        """
        diagnosis, lag = self._live_diagnosis(key[0], now_ms), self.lags.get(key)
        if diagnosis is None or lag is None:
            return None
        if _knows_ends(diagnosis, now_ms):
            self.without_ends.forget(key)
            return lag
        return self.without_ends.of(key, lag)

    def live_timings(self, now_ms: int) -> Mapping[GroupKey, contract.GroupTiming]:
        """Return the heartbeat timing of groups, without those of clusters whose diagnosis has stopped reporting."""
        clusters = {key[0] for key in self.timings}
        silent = {each for each in clusters if self._live_diagnosis(each, now_ms) is None}
        return {key: each for key, each in self.timings.items() if key[0] not in silent} if silent else self.timings

    def live_timing(self, key: GroupKey, now_ms: int) -> contract.GroupTiming | None:
        """Return a group's heartbeat timing; null if it is unknown or the diagnosis has stopped reporting."""
        return None if self._live_diagnosis(key[0], now_ms) is None else self.timings.get(key)

    def _live_diagnosis(self, cluster: str, now_ms: int) -> contract.DiagnosisStatus | None:
        """Return a cluster's diagnosis if it reported recently, else null."""
        diagnosis = self.diagnoses.get(cluster)
        stale = diagnosis is None or abs(now_ms - diagnosis.updated_at_ms) > self.stale_after_ms
        return None if stale else diagnosis

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
