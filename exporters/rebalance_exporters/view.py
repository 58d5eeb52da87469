"""The picture in memory: receives rows of the stream's topics, hands out immutable pictures of all groups.

It knows the output contract and nothing of Kafka clients, HTTP or the clock: `now` is an argument. What it holds
depends on the rows only, not on how they were batched, so two exporters that read the same topics show the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from rebalance_exporters.changes import ChangeLog, Kind, Thing
from rebalance_exporters.kept import (
    FIRING,
    RESOLVED,
    Examples,
    GroupFindings,
    GroupKey,
    KeptFindings,
    KeptRebalance,
    KeptRebalances,
    keep_rebalance,
)
from rebalance_exporters.state_times import StateTimes, fold_state
from rebalance_streaming.groups import events
from rebalance_streaming.groups.events import KEPT_PANES, PANE_MS
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

#: As many withdrawn findings are remembered; who has not asked by then learns from the group's row.
_KEPT_WITHDRAWN = 1_000


class Row(NamedTuple):
    """One record of an output topic; `topic` is a member of TOPICS, a null value is a tombstone.

    `at_ms` is when the record was written, by its own timestamp; null where it has none.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CommitProgress:
    """What the commit summaries of one group come to; `commits` counts since the exporter started to read."""

    last_commit_ms: int
    commits: int
    log_partition: int
    last_log_offset: int


@dataclass(frozen=True, slots=True)
class LagProgress:
    """Lag of one group as last probed, null while its ends are unknown, and its windows as last summed up.

    `by_topic` has (topic, lag in records) in order, and `total` their sum, null where `lag` is.
    """

    lag: GroupLag | None
    windows: Mapping[str, LagWindow]
    by_topic: tuple[tuple[str, int], ...]
    total: int | None

    @classmethod
    def about(cls, lag: GroupLag | None, windows: Mapping[str, LagWindow]) -> Self:
        """Sum up what is asked for at every scrape."""
        if lag is None:
            return cls(None, windows, (), None)
        by_topic = tuple(sorted((name, topic.total) for name, topic in lag.topics.items()))
        return cls(lag, windows, by_topic, sum(each for _, each in by_topic))


@dataclass(frozen=True, slots=True)
class ProbeTotals:
    """Probes read of one cluster: the newest one's time, and how many complained of something."""

    last_ms: int
    errors: int


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is known at one moment. `groups` is the same object for as long as no group changed."""

    groups: Mapping[GroupKey, events.GroupSnapshot]
    states: Mapping[GroupKey, StateTimes]
    commits: Mapping[GroupKey, CommitProgress]
    lags: Mapping[GroupKey, LagProgress]
    findings: Mapping[GroupKey, GroupFindings]
    timings: Mapping[GroupKey, events.GroupTiming]
    examples: Mapping[GroupKey, Examples]
    probes: Mapping[str, ProbeTotals]
    reports: tuple[events.ReportTotals, ...]
    records: tuple[events.DecodeTotals, ...]
    queries: tuple[events.QueryStatus, ...]
    rows: Mapping[str, int]
    contract_errors: Mapping[str, int]


class Changes(NamedTuple):
    """What changed up to `version`, oldest first; null when it is more than is remembered."""

    version: int
    things: list[tuple[int, Thing]] | None


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
        self._lock = threading.Lock()
        self._groups: dict[GroupKey, events.GroupSnapshot] = {}
        self._frozen_groups: Mapping[GroupKey, events.GroupSnapshot] | None = None
        self._states: dict[GroupKey, StateTimes] = {}
        self._commits: dict[GroupKey, CommitProgress] = {}
        self._reads_committed = reads_committed
        self._tables: dict[str, LagTable] = {}
        self._lags: dict[GroupKey, LagProgress] = {}
        self._probes: dict[str, ProbeTotals] = {}
        self._rebalances = KeptRebalances(keep_rebalances)
        self._findings = KeptFindings()
        self._status: dict[bytes, events.Status] = {}
        self._timings: dict[GroupKey, events.GroupTiming] = {}
        self._changes = ChangeLog()
        #: Findings that were withdrawn, for whoever has been told of them.
        self._withdrawn: dict[Thing, events.Finding] = {}
        self._rows = dict.fromkeys(TOPICS, 0)
        self._contract_errors = dict.fromkeys(TOPICS, 0)
        self._apply_to: Mapping[str, Callable[[bytes, bytes | None], None]] = {
            REBALANCES: self._apply_rebalance,
            COMMITS: self._apply_commits,
            STATUS: self._apply_status,
            PROBES: self._apply_probe,
            FINDINGS: self._apply_finding,
            HEARTBEATS: self._apply_timing,
        }

    # --- What is read ---

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
                    self._apply(row, row.key)
                except (events.ContractError, UnicodeDecodeError):
                    self._contract_errors[row.topic] += 1

    def _apply(self, row: Row, key: bytes) -> None:
        if row.value is not None:
            # The decoder skips fields it does not know, so it does not notice what would break the API's JSON there.
            row.value.decode()
        if row.topic == GROUPS:
            self._apply_group(key, row.value, row.at_ms)
        else:
            self._apply_to[row.topic](key, row.value)

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
            for name in self._findings.resolved_before(horizon_ms):
                self._findings.drop(name)
            for key, of_group in list(self._findings.by_group.items()):
                if key[1] and key not in self._groups and not of_group.findings:
                    self._findings.forget_group(key)
            for key, timing in list(self._timings.items()):
                if timing.at_ms <= horizon_ms:
                    del self._timings[key]

    def slide_windows(self, now_ms: int) -> None:
        """Bring lag and windows of all groups up to now: what nobody reads grows older, and windows slide."""
        with self._lock:
            for cluster, table in self._tables.items():
                for group in table.groups():
                    self._slide_lag((cluster, group), table, now_ms)
            for key, snapshot in self._groups.items():
                panes = snapshot.windows.panes
                if panes and panes[-1].start_ms > now_ms - (KEPT_PANES + 2) * PANE_MS:
                    self._note("group", key)

    def _slide_lag(self, key: GroupKey, table: LagTable, now_ms: int) -> None:
        known = self._lags.get(key)
        lag = None if known is None else known.lag
        if lag is not None and known is not None and known.total:
            lag = table.measure(key[1], now_ms)
        progress = LagProgress.about(lag, table.windows(key[1], now_ms))
        # What is equal stays the same object, which is how others know that it need not be written again.
        if progress != known:
            self._lags[key] = progress
            self._note("group", key)

    # --- What is known ---

    def picture(self) -> Picture:
        """Return what is known now; later rows do not change it."""
        with self._lock:
            if self._frozen_groups is None:
                self._frozen_groups = dict(self._groups)
            status = [self._status[key] for key in sorted(self._status)]
            return Picture(
                groups=self._frozen_groups,
                states=dict(self._states),
                commits=dict(self._commits),
                lags=dict(self._lags),
                findings=dict(self._findings.by_group),
                timings=dict(self._timings),
                examples=dict(self._rebalances.examples),
                probes=dict(self._probes),
                reports=tuple(s for s in status if isinstance(s, events.ReportTotals)),
                records=tuple(s for s in status if isinstance(s, events.DecodeTotals)),
                queries=tuple(s for s in status if isinstance(s, events.QueryStatus)),
                rows=dict(self._rows),
                contract_errors=dict(self._contract_errors),
            )

    def rebalances(self, group: GroupKey) -> list[KeptRebalance]:
        """Return the kept rebalances of one group, newest first."""
        with self._lock:
            return self._rebalances.of_group(group)

    def rebalance(self, group: GroupKey, rebalance_id: str) -> KeptRebalance | None:
        """Return one rebalance, null when it is not kept."""
        with self._lock:
            return self._rebalances.get(group, rebalance_id)

    def lost_ms(self, group: GroupKey, oldest_ms: int) -> int | None:
        """Return the partition-milliseconds a group lost since a time; null when not all of that is kept."""
        with self._lock:
            return self._rebalances.lost_ms(group, oldest_ms)

    def finding(self, thing: Thing) -> events.Finding | None:
        """Return a finding that changed. One that was withdrawn comes resolved, at a time that nobody told."""
        with self._lock:
            return self._findings.get((thing.cluster, thing.group), thing.name) or self._withdrawn.get(thing)

    @property
    def version(self) -> int:
        """The number of the latest change."""
        return self._changes.version

    def changes(self, since: int) -> Changes:
        """Return what changed after a version."""
        with self._lock:
            return Changes(self._changes.version, self._changes.since(since))

    def _note(self, kind: Kind, group: GroupKey, name: str = "") -> None:
        self._changes.note(Thing(kind, *group, name))

    # --- Row by row ---

    def _apply_group(self, key: bytes, value: bytes | None, at_ms: int | None) -> None:
        if value is None:
            cluster, _, group = key.decode(errors="replace").partition("/")
            self._forget_group((cluster, group))
            return
        snapshot = events.decode(value, events.GroupSnapshot)
        _check_key(key, snapshot.cluster, snapshot.group)
        identity = (snapshot.cluster, snapshot.group)
        if self._groups.get(identity) == snapshot:
            return
        told_ms = at_ms if at_ms is not None else max(snapshot.updated_at_ms or 0, snapshot.rebalancing_since_ms or 0)
        self._states[identity] = fold_state(self._states.get(identity), snapshot.state, told_ms)
        self._groups[identity] = snapshot
        self._frozen_groups = None
        self._note("group", identity)
        if snapshot.state == DELETED:
            self._forget_commits(identity)

    def _forget_group(self, key: GroupKey) -> None:
        if self._groups.pop(key, None) is not None:
            self._frozen_groups = None
            self._note("group", key)
        self._states.pop(key, None)
        self._rebalances.forget_group(key)
        self._forget_commits(key)
        self._timings.pop(key, None)

    def _forget_commits(self, key: GroupKey) -> None:
        self._commits.pop(key, None)
        self._lags.pop(key, None)
        if key[0] in self._tables:
            self._tables[key[0]].forget_group(key[1])

    def _apply_rebalance(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._forget_rebalance(key.decode(errors="replace"))
            return
        rebalance = events.decode(value, events.Rebalance)
        _check_key(key, rebalance.cluster, rebalance.group, rebalance.rebalance_id)
        kept = keep_rebalance(rebalance, value)
        known = self._rebalances.get(kept.group, kept.rebalance_id)
        self._rebalances.put(kept)
        if known is None or known.text != value:
            self._note("rebalance", kept.group, kept.rebalance_id)
            self._note("group", kept.group)

    def _forget_rebalance(self, key: str) -> None:
        path, _, rebalance_id = key.rpartition("/")
        cluster, _, group = path.partition("/")
        self._rebalances.drop((cluster, group), rebalance_id)

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
            self._lags[identity] = LagProgress.about(lag, known.windows)
        self._note("group", identity)

    def _apply_probe(self, _key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        probe = events.decode(value, events.Probe)
        table, identity = self._table(probe.cluster), (probe.cluster, probe.group)
        totals = self._probes.get(probe.cluster, ProbeTotals(0, 0))
        errors = probe.errors if isinstance(probe.errors, tuple) else ()
        self._probes[probe.cluster] = ProbeTotals(max(probe.probed_at_ms, totals.last_ms), totals.errors + len(errors))
        lag = table.probe(probe)
        if lag is not None:
            self._lags[identity] = LagProgress.about(lag, table.windows(probe.group, probe.probed_at_ms))
            self._note("group", identity)

    def _apply_finding(self, key: bytes, value: bytes | None) -> None:
        name = key.decode(errors="backslashreplace")
        if value is None:
            gone = self._findings.drop(name)
            if gone is not None:
                self._note_withdrawal(name, gone)
            return
        finding = events.decode(value, events.Finding)
        if not key.startswith(f"{finding.cluster}/{finding.group}/{finding.rule}/".encode()):
            raise events.ContractError(f"the key {key!r} is not that of a {finding.rule} of group {finding.group!r}")
        identity = (finding.cluster, finding.group)
        known = self._findings.get(identity, name)
        self._findings.put(name, finding)
        self._withdrawn.pop(Thing("finding", *identity, name), None)
        if finding != known:
            self._note("finding", identity, name)
            self._note("group", identity)

    def _note_withdrawal(self, name: str, gone: events.Finding) -> None:
        identity = (gone.cluster, gone.group)
        if gone.state == FIRING:
            self._withdrawn[Thing("finding", *identity, name)] = replace(gone, state=RESOLVED)
            while len(self._withdrawn) > _KEPT_WITHDRAWN:
                del self._withdrawn[next(iter(self._withdrawn))]
            self._note("finding", identity, name)
        self._note("group", identity)

    def _apply_timing(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            cluster, _, group = key.decode(errors="replace").partition("/")
            self._timings.pop((cluster, group), None)
            return
        timing = events.decode(value, events.GroupTiming)
        _check_key(key, timing.cluster, timing.group)
        identity = (timing.cluster, timing.group)
        if self._timings.get(identity) != timing:
            self._timings[identity] = timing
            self._note("group", identity)

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
