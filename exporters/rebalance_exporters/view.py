"""The picture in memory: receives rows of the stream's topics, hands out immutable pictures of all groups.

It knows the output contract and nothing of Kafka clients, HTTP or the clock: `now` is an argument.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from rebalance_streaming.groups import events
from rebalance_streaming.groups.lag import GroupLag, LagTable, LagWindow

GROUPS: Final = "groups"
REBALANCES: Final = "rebalances"
COMMITS: Final = "commits"
STATUS: Final = "status"
PROBES: Final = "probes"
FINDINGS: Final = "findings"
HEARTBEATS: Final = "heartbeats"

#: The topics read, without their prefix.
TOPICS: Final = (GROUPS, REBALANCES, COMMITS, STATUS, PROBES, FINDINGS, HEARTBEATS)
#: Those of which only the latest part is read at a start.
RECENT_TOPICS: Final = (COMMITS, PROBES)

DELETED: Final = "Deleted"
FIRING: Final = "firing"

GroupKey = tuple[str, str]


class Row(NamedTuple):
    """One record of an output topic; `topic` is a member of TOPICS, a null value is a tombstone."""

    topic: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class CommitProgress:
    """What the commit summaries of one group come to; `commits` counts since the exporter started to read."""

    last_commit_ms: int
    commits: int
    log_partition: int
    last_log_offset: int


@dataclass(frozen=True, slots=True)
class LagProgress:
    """Lag of one group as last probed, null while its ends are unknown, and its windows as last summed up."""

    lag: GroupLag | None
    windows: Mapping[str, LagWindow]


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Findings of one group, open ones and those resolved lately, and how often each (rule, severity) has fired."""

    findings: tuple[events.Finding, ...]
    fired: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class KeptRebalance:
    """A rebalance as the API shows it: the group it belongs to, its id, and the JSON text as it came."""

    group: GroupKey
    rebalance_id: str
    started_ms: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is known at one moment. `groups` is the same object for as long as no group changed."""

    groups: Mapping[GroupKey, events.GroupSnapshot]
    commits: Mapping[GroupKey, CommitProgress]
    lags: Mapping[GroupKey, LagProgress]
    findings: Mapping[GroupKey, GroupFindings]
    timings: Mapping[GroupKey, events.GroupTiming]
    reports: tuple[events.ReportTotals, ...]
    records: tuple[events.DecodeTotals, ...]
    queries: tuple[events.QueryStatus, ...]
    rows: Mapping[str, int]
    contract_errors: Mapping[str, int]


def fold_summary(progress: CommitProgress | None, summary: events.CommitSummary) -> CommitProgress:
    """Add one commit summary. A repeated one counts no commits; the time never goes back.

    A group lives in one partition of the log, so another `log_partition` means that the log was made anew.
    """
    topics = summary.topics.values()
    last_commit_ms = max((max(t.committed_at_ms, default=0) for t in topics), default=0) or summary.pane_start_ms
    commits = sum(sum(t.commits) for t in topics)
    if progress is None:
        return CommitProgress(last_commit_ms, commits, summary.log_partition, summary.last_log_offset)
    last_commit_ms = max(last_commit_ms, progress.last_commit_ms)
    same_log = summary.log_partition == progress.log_partition
    if same_log and summary.last_log_offset <= progress.last_log_offset:
        return CommitProgress(last_commit_ms, progress.commits, progress.log_partition, progress.last_log_offset)
    return CommitProgress(last_commit_ms, progress.commits + commits, summary.log_partition, summary.last_log_offset)


class View:
    """Written by the one thread that reads Kafka, read by every thread that serves HTTP."""

    def __init__(
        self,
        *,
        group_expiry_seconds: float,
        keep_rebalances: int,
        reads_committed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._expiry_ms = int(group_expiry_seconds * 1000)
        self._keep_rebalances = keep_rebalances
        self._lock = threading.Lock()
        self._groups: dict[GroupKey, events.GroupSnapshot] = {}
        self._frozen_groups: Mapping[GroupKey, events.GroupSnapshot] | None = None
        self._commits: dict[GroupKey, CommitProgress] = {}
        self._reads_committed = reads_committed
        self._tables: dict[str, LagTable] = {}
        self._lags: dict[GroupKey, LagProgress] = {}
        self._rebalances: dict[bytes, KeptRebalance] = {}
        self._status: dict[bytes, events.Status] = {}
        self._findings: dict[bytes, events.Finding] = {}
        self._group_findings: dict[GroupKey, GroupFindings] = {}
        self._timings: dict[GroupKey, events.GroupTiming] = {}
        self._rows = dict.fromkeys(TOPICS, 0)
        self._contract_errors = dict.fromkeys(TOPICS, 0)
        self._apply_to: Mapping[str, Callable[[bytes, bytes | None], None]] = {
            GROUPS: self._apply_group,
            REBALANCES: self._apply_rebalance,
            COMMITS: self._apply_commits,
            STATUS: self._apply_status,
            PROBES: self._apply_probe,
            FINDINGS: self._apply_finding,
            HEARTBEATS: self._apply_timing,
        }

    def apply(self, rows: Iterable[Row]) -> None:
        """Take over a batch of rows; a broken one is counted by topic and changes nothing else."""
        with self._lock:
            for row in rows:
                self._rows[row.topic] += 1
                if row.key is None:
                    # In the commits topic such rows are the stream's own; nowhere else may a key be missing.
                    self._contract_errors[row.topic] += row.topic != COMMITS
                    continue
                try:
                    self._apply_to[row.topic](row.key, row.value)
                except events.ContractError:
                    self._contract_errors[row.topic] += 1

    def forget_expired(self, now_ms: int) -> None:
        """Drop groups deleted longer ago than the expiry, and commits of unknown groups as old as that."""
        horizon_ms = now_ms - self._expiry_ms
        with self._lock:
            for key, group in list(self._groups.items()):
                if group.state == DELETED and (group.updated_at_ms or 0) <= horizon_ms:
                    self._forget_group(key)
            for key, progress in list(self._commits.items()):
                if key not in self._groups and progress.last_commit_ms <= horizon_ms:
                    self._forget_commits(key)
            for name, finding in list(self._findings.items()):
                if finding.resolved_at_ms is not None and finding.resolved_at_ms <= horizon_ms:
                    del self._findings[name]
                    self._group_anew((finding.cluster, finding.group))
            for identity, timing in list(self._timings.items()):
                if timing.at_ms <= horizon_ms:
                    del self._timings[identity]

    def slide_windows(self, now_ms: int) -> None:
        """Bring lag and windows of all groups up to now: what nobody reads grows older, and windows slide."""
        with self._lock:
            for cluster, table in self._tables.items():
                for group in table.groups():
                    known = self._lags.get((cluster, group))
                    lag = None if known is None else known.lag
                    if lag is not None and lag.total > 0:
                        lag = table.measure(group, now_ms)
                    self._lags[cluster, group] = LagProgress(lag, table.windows(group, now_ms))

    def picture(self) -> Picture:
        """Return what is known now; later rows do not change it."""
        with self._lock:
            if self._frozen_groups is None:
                self._frozen_groups = dict(self._groups)
            status = self._status.values()
            return Picture(
                groups=self._frozen_groups,
                commits=dict(self._commits),
                lags=dict(self._lags),
                findings=dict(self._group_findings),
                timings=dict(self._timings),
                reports=tuple(s for s in status if isinstance(s, events.ReportTotals)),
                records=tuple(s for s in status if isinstance(s, events.DecodeTotals)),
                queries=tuple(s for s in status if isinstance(s, events.QueryStatus)),
                rows=dict(self._rows),
                contract_errors=dict(self._contract_errors),
            )

    def rebalances(self, group: GroupKey) -> list[KeptRebalance]:
        """Return the kept rebalances of one group, newest first."""
        with self._lock:
            found = [kept for kept in self._rebalances.values() if kept.group == group]
        return sorted(found, key=lambda kept: kept.started_ms, reverse=True)

    def _apply_group(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            cluster, _, group = key.decode(errors="replace").partition("/")
            self._forget_group((cluster, group))
            return
        snapshot = events.decode(value, events.GroupSnapshot)
        _check_key(key, snapshot.cluster, snapshot.group)
        identity = (snapshot.cluster, snapshot.group)
        if self._groups.get(identity) == snapshot:
            return
        self._groups[identity] = snapshot
        self._frozen_groups = None
        if snapshot.state == DELETED:
            self._forget_commits(identity)

    def _forget_group(self, key: GroupKey) -> None:
        if self._groups.pop(key, None) is not None:
            self._frozen_groups = None
        self._forget_commits(key)
        self._timings.pop(key, None)

    def _forget_commits(self, key: GroupKey) -> None:
        self._commits.pop(key, None)
        self._lags.pop(key, None)
        if key[0] in self._tables:
            self._tables[key[0]].forget_group(key[1])

    def _apply_rebalance(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._rebalances.pop(key, None)
            return
        rebalance = events.decode(value, events.Rebalance)
        _check_key(key, rebalance.cluster, rebalance.group, rebalance.rebalance_id)
        identity = (rebalance.cluster, rebalance.group)
        self._rebalances[key] = KeptRebalance(identity, rebalance.rebalance_id, rebalance.started_before_ms, value)
        while len(self._rebalances) > self._keep_rebalances:
            del self._rebalances[next(iter(self._rebalances))]

    def _apply_commits(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            name = key.decode(errors="replace")
            for identity in [i for i in self._commits if i[1] == name]:
                self._forget_commits(identity)
            return
        summary = events.decode(value, events.CommitSummary)
        identity = (summary.cluster, summary.group)
        progress = self._commits[identity] = fold_summary(self._commits.get(identity), summary)
        table, known = self._table(summary.cluster), self._lags.get(identity)
        table.commit(summary)
        if known is not None:
            since_ms = 0 if known.lag is None else known.lag.at_ms
            lag = table.measure(summary.group, max(since_ms, progress.last_commit_ms))
            self._lags[identity] = LagProgress(lag, known.windows)

    def _apply_probe(self, _key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        probe = events.decode(value, events.Probe)
        table, identity = self._table(probe.cluster), (probe.cluster, probe.group)
        lag = table.probe(probe)
        if lag is not None:
            self._lags[identity] = LagProgress(lag, table.windows(probe.group, probe.probed_at_ms))

    def _apply_finding(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            gone = self._findings.pop(key, None)
            if gone is not None:
                self._group_anew((gone.cluster, gone.group))
            return
        finding = events.decode(value, events.Finding)
        if not key.startswith(f"{finding.cluster}/{finding.group}/{finding.rule}/".encode()):
            raise events.ContractError(f"the key {key!r} is not that of a {finding.rule} of group {finding.group!r}")
        known, identity = self._findings.get(key), (finding.cluster, finding.group)
        self._findings[key] = finding
        fires = finding.state == FIRING and (known is None or known.state != FIRING)
        self._group_anew(identity, (finding.rule, finding.severity) if fires else None)

    def _group_anew(self, identity: GroupKey, fired: tuple[str, str] | None = None) -> None:
        """Put a group's findings together after one of them changed; `fired` is what has begun to fire."""
        before = self._group_findings.get(identity)
        counts = dict(before.fired) if before else {}
        if fired is not None:
            counts[fired] = counts.get(fired, 0) + 1
        found = (each for each in self._findings.values() if (each.cluster, each.group) == identity)
        ordered = sorted(found, key=lambda each: (each.started_at_ms, each.finding_id))
        self._group_findings[identity] = GroupFindings(tuple(ordered), counts)

    def _apply_timing(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            cluster, _, group = key.decode(errors="replace").partition("/")
            self._timings.pop((cluster, group), None)
            return
        timing = events.decode(value, events.GroupTiming)
        _check_key(key, timing.cluster, timing.group)
        self._timings[timing.cluster, timing.group] = timing

    def _table(self, cluster: str) -> LagTable:
        return self._tables.setdefault(cluster, LagTable(self._reads_committed))

    def _apply_status(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._status.pop(key, None)
            return
        status = events.decode_status(value)
        if isinstance(status, events.DecodeTotals):
            _check_key(key, status.cluster, "records")
        elif isinstance(status, events.ReportTotals):
            _check_key(key, status.cluster, "client_metrics")
        else:
            _check_key(key, status.cluster, "query", status.query)
        self._status[key] = status


def _check_key(key: bytes, *parts: str) -> None:
    """Raise ContractError unless the key says what the value says: else one group could be stored twice."""
    expected = "/".join(parts).encode()
    if key != expected:
        raise events.ContractError(f"the key is {key!r} where the value says {expected!r}")
