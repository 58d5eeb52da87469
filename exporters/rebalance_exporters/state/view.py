"""All groups in memory: receives rows of the stream's topics and returns immutable snapshots of the fleet.

It depends on the output contract, but not on Kafka clients, HTTP or the clock: `now` is an argument. Its content
depends only on the rows, not on how they were batched, so two exporters that read the same topics show the same. Only
what it counts itself, such as the time in states, starts anew in each exporter: rows that were present before add
nothing. Anyone with write access to the topics may write anything, so no row raises an exception out of `View.apply`,
and the amount kept of each kind is bounded.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import rebalance_contract as contract
from rebalance_contract.epochs import Fence, RowWriter
from rebalance_exporters.state.ages import Ages
from rebalance_exporters.state.causes import Causes
from rebalance_exporters.state.changes import ChangedItem, ChangeLog, Kind
from rebalance_exporters.state.fleet import Changes, FleetSnapshot, LagsWithoutEnds, RebalanceHistory
from rebalance_exporters.state.kept import (
    GroupKey,
    KeptFindings,
    KeptRebalance,
    KeptRebalances,
    keep_impact,
    keep_rebalance,
    room_beside,
)
from rebalance_exporters.state.late_events import LateEvents
from rebalance_exporters.state.past_findings import PastFindings
from rebalance_exporters.state.rows import (
    REFUSALS,
    KeptBytes,
    RefusedError,
    check_key,
    check_size,
    expect_room,
    read_impact,
    read_row,
    reason_of,
)
from rebalance_exporters.state.silences import KeptSilences, covered
from rebalance_exporters.state.state_times import StateTimes, fold_state

GROUPS: Final = contract.topics.GROUPS.name
REBALANCES: Final = contract.topics.REBALANCES.name
STATUS: Final = contract.topics.STATUS.name
FINDINGS: Final = contract.topics.FINDINGS.name
HEARTBEATS: Final = contract.topics.HEARTBEATS.name
LAG: Final = contract.topics.LAG.name
IMPACT: Final = contract.topics.IMPACT.name
SILENCES: Final = contract.topics.SILENCES.name

#: The topics read, without their prefix.
TOPICS: Final = (GROUPS, REBALANCES, STATUS, FINDINGS, HEARTBEATS, LAG, IMPACT, SILENCES)
#: Topics whose rows may have been truncated to fit.
CUT_TOPICS: Final = (GROUPS, REBALANCES, LAG, IMPACT, FINDINGS, HEARTBEATS)

#: Maximum number of remembered groups that are gone.
_KEPT_GONE = 10_000
#: Maximum number of kept withdrawn findings; a follower that misses one learns of it from the group's row.
_KEPT_WITHDRAWN = 1_000
#: Maximum number of kept status rows, more than all clusters of one exporter have.
_MAX_STATUS = 1_000
#: Maximum number of kept groups, exported or not.
_MAX_GROUPS = 100_000
#: Maximum bytes of text of groups, lag, heartbeats, findings and silences: several times what 10,000 groups of 100
#: partitions take.
_MAX_BYTES = 512 * 1024 * 1024

_log = logging.getLogger(__name__)


class Row(NamedTuple):
    """One record of an output topic; `topic` is a member of TOPICS, a null value is a tombstone.

    `at_ms` is the record's timestamp, null if it has none. `writer` is the query that wrote it, null if the record does
    not name one. `read_since_ms` is when reading of the topics began, null if not known. `was_there` is true if the
    record was already in its topic then.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    at_ms: int | None = None
    writer: RowWriter | None = None
    read_since_ms: int | None = None
    was_there: bool = False


class View:
    """The state of all groups, written by the threads that read Kafka and read by those that serve HTTP."""

    def __init__(
        self,
        *,
        group_expiry_seconds: float,
        keep_rebalances: int,
        stale_after_seconds: float = 30.0,
        max_groups: int = _MAX_GROUPS,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self._expiry_ms = int(group_expiry_seconds * 1000)
        self._stale_after_ms = int(stale_after_seconds * 1000)
        self._max_groups = max_groups
        self._kept_bytes = KeptBytes(max_bytes)
        self._lock = threading.Lock()
        self._snapshots: dict[GroupKey, contract.GroupSnapshot] = {}
        #: Groups as shown: those with a snapshot, and those known from commits alone.
        self._groups: dict[GroupKey, contract.GroupSnapshot] = {}
        #: The current snapshot, valid until rows are read or expired; null: not made yet.
        self._fleet: FleetSnapshot | None = None
        self._states: dict[GroupKey, StateTimes] = {}
        self._lags: dict[GroupKey, contract.GroupLag] = {}
        self._without_ends = LagsWithoutEnds()
        self._costs: dict[GroupKey, contract.CountedImpact] = {}
        self._rebalances = KeptRebalances(keep_rebalances)
        self._causes = Causes(room_beside(keep_rebalances))
        self._findings = KeptFindings()
        self._past_findings = PastFindings()
        self._late_events = LateEvents()
        self._status: dict[bytes, contract.Status] = {}
        self._caught_up_until: dict[tuple[str, str], tuple[int, int]] = {}
        self._timings: dict[GroupKey, contract.GroupTiming] = {}
        self._silences = KeptSilences(self._kept_bytes)
        self._ages = Ages()
        self._changes = ChangeLog()
        #: Groups that were shown and are gone, for followers that have received them.
        self._gone: dict[GroupKey, None] = {}
        #: Withdrawn findings, for followers that have received them.
        self._withdrawn: dict[ChangedItem, contract.Finding] = {}
        self._fence = Fence()
        self._rows = dict.fromkeys(TOPICS, 0)
        self._refused = Counter({(topic, reason): 0 for topic in TOPICS for reason in REFUSALS})
        self._truncated = dict.fromkeys(CUT_TOPICS, 0)
        self._apply_to: Mapping[str, Callable[[bytes, bytes | None], None]] = {
            REBALANCES: self._apply_rebalance,
            STATUS: self._apply_status,
            HEARTBEATS: self._apply_timing,
            LAG: self._apply_lag,
            IMPACT: self._apply_impact,
            SILENCES: self._apply_silence,
        }

    # --- What is read ---

    def apply(self, rows: Iterable[Row]) -> None:
        """Apply a batch of rows; a refused row is counted by topic and reason and changes nothing else."""
        with self._lock:
            self._fleet = None
            for row in rows:
                self._rows[row.topic] += 1
                # Catch everything here: an error affects only this row.
                try:
                    self._apply(row)
                except Exception as error:
                    self._refuse(row.topic, error)

    def _apply(self, row: Row) -> None:
        if row.key is None:
            raise RefusedError("key", "the row has no key")
        check_size(row.key, row.value)
        if row.writer is not None and not self._fence.admits(row.topic, row.key, row.writer, row.at_ms or 0):
            raise RefusedError("superseded", f"another stream took over from the one that wrote {row.key[:200]!r}")
        if row.value is not None:
            # The decoder skips unknown fields, so it would miss invalid UTF-8 in them, which breaks the API's JSON.
            row.value.decode()
        if row.topic == GROUPS:
            self._apply_group(row.key, row)
        elif row.topic == FINDINGS:
            self._apply_finding(row.key, row.value, is_new=not row.was_there)
        else:
            self._apply_to[row.topic](row.key, row.value)

    def _refuse(self, topic: str, error: Exception) -> None:
        reason = reason_of(error)
        if not self._refused[topic, reason]:
            # Log only the first; a metric counts all.
            text = " ".join(str(error).split())[:300]
            _log.warning("a row of topic %s was left out (%s): %s", topic, reason, text)
        self._refused[topic, reason] += 1

    def forget_expired(self, now_ms: int) -> None:
        """Drop groups deleted, findings resolved and heartbeats reported before the expiry; note changed silences.

        A time in the future counts from when it was first read, so that nothing is kept forever.
        """
        horizon_ms = now_ms - self._expiry_ms
        with self._lock, self._ages.looking(now_ms) as age:
            self._fleet = None
            for key, group in list(self._groups.items()):
                if (
                    group.state == contract.GroupState.DELETED
                    and age(("group", key), group.updated_at_ms or 0) <= horizon_ms
                ):
                    self._forget_group(key)
            for name, resolved_ms in self._findings.resolved():
                if age(("finding", name), resolved_ms) <= horizon_ms:
                    self._expire_finding(name)
            for key, of_group in list(self._findings.by_group.items()):
                if key[1] and key not in self._groups and not of_group.findings:
                    self._findings.forget_group(key)
            for key, timing in list(self._timings.items()):
                if age(("timing", key), timing.at_ms) <= horizon_ms:
                    self._forget_timing(key)
            self._rebalances.forget_examples(self._groups.keys())
            for silence in self._silences.turned(now_ms):
                self._note_silenced(silence)

    def _expire_finding(self, name: str) -> None:
        expired = self._findings.drop(name)
        self._kept_bytes.drop((FINDINGS, name))
        if expired is not None:
            self._past_findings.put(name, expired)

    # --- What is known ---

    def fleet(self) -> FleetSnapshot:
        """Return the present state: the same object until rows are read or expired; later rows do not change it."""
        with self._lock:
            if self._fleet is None:
                self._fleet = self._take_snapshot()
            return self._fleet

    def _take_snapshot(self) -> FleetSnapshot:
        status = [self._status[key] for key in sorted(self._status)]
        return FleetSnapshot(
            groups=dict(self._groups),
            states=dict(self._states),
            lags=dict(self._lags),
            costs=dict(self._costs),
            findings=dict(self._findings.by_group),
            late_events=dict(self._late_events.totals),
            timings=dict(self._timings),
            examples=dict(self._rebalances.examples),
            reports=tuple(s for s in status if isinstance(s, contract.ReportTotals)),
            records=tuple(s for s in status if isinstance(s, contract.DecodeTotals)),
            logs=tuple(s for s in status if isinstance(s, contract.LogTotals)),
            quarantines=tuple(s for s in status if isinstance(s, contract.QuarantineTotals)),
            queries=tuple(s for s in status if isinstance(s, contract.QueryStatus)),
            diagnoses={s.cluster: s for s in status if isinstance(s, contract.DiagnosisStatus)},
            caught_up_until={query: until for query, (_, until) in self._caught_up_until.items()},
            silences=self._silences.now,
            rows=dict(self._rows),
            refused=dict(self._refused),
            truncated=dict(self._truncated),
            stale_after_ms=self._stale_after_ms,
            without_ends=self._without_ends,
        )

    def rebalances(self, group: GroupKey) -> list[KeptRebalance]:
        """Return the kept rebalances of one group, newest first."""
        with self._lock:
            return self._rebalances.of_group(group)

    def rebalanced_groups(self) -> list[GroupKey]:
        """Return the groups that have kept rebalances, also those that are gone."""
        with self._lock:
            return self._rebalances.groups()

    def rebalance(self, group: GroupKey, rebalance_id: str) -> KeptRebalance | None:
        """Return one rebalance, or null if it is not kept."""
        with self._lock:
            return self._rebalances.get(group, rebalance_id)

    def past(self, group: GroupKey | None = None) -> RebalanceHistory:
        """Return the kept rebalances with their causes, of one group or of all."""
        with self._lock:
            chosen = self._rebalances.all() if group is None else self._rebalances.of_group(group)
            kept = [(each, self._causes.of(each.group, each.rebalance_id)) for each in chosen]
            return RebalanceHistory(kept, self._rebalances.dropped_until_ms)

    def past_findings(self, group: GroupKey) -> list[contract.Finding]:
        """Return the findings of one group that resolved so long ago that a snapshot no longer has them."""
        with self._lock:
            return self._past_findings.of(group)

    def finding(self, item: ChangedItem) -> contract.Finding | None:
        """Return a changed finding, or null if it is not kept; a withdrawn one is resolved without `resolved_at_ms`."""
        with self._lock:
            return self._findings.get((item.cluster, item.group), item.name) or self._withdrawn.get(item)

    def is_gone(self, group: GroupKey) -> bool:
        """Return whether a group was shown before, and is no longer."""
        with self._lock:
            return group in self._gone

    @property
    def version(self) -> int:
        """The number of the latest change."""
        return self._changes.version

    def changes(self, since: int) -> Changes:
        """Return the changes after a version."""
        with self._lock:
            return Changes(self._changes.version, self._changes.since(since))

    def _note(self, kind: Kind, group: GroupKey, name: str = "") -> None:
        self._changes.note(ChangedItem(kind, *group, name))

    # --- Row by row ---

    def _apply_group(self, key: bytes, row: Row) -> None:
        if row.value is None:
            self._forget_group(contract.split_key(key))
            return
        snapshot = read_row(row.value, contract.GroupSnapshot)
        check_key(key, contract.group_key(snapshot.cluster, snapshot.group))
        identity = (snapshot.cluster, snapshot.group)
        self._truncated[GROUPS] += snapshot.is_truncated
        known = self._snapshots.get(identity)
        if known == snapshot:
            return
        expect_room(self._snapshots, identity, self._max_groups)
        self._kept_bytes.put((GROUPS, identity), len(row.value))
        self._states[identity] = fold_state(self._states.get(identity), snapshot.state, _state_at_ms(row, snapshot))
        self._late_events.note(known, snapshot, is_new=not row.was_there)
        self._snapshots[identity] = snapshot
        self._show(identity)
        self._note("group", identity)

    def _show(self, key: GroupKey) -> None:
        """Combine a group's snapshot and lag anew: a group that commits without members is known from its lag alone."""
        snapshot, lag = self._snapshots.get(key), self._lags.get(key)
        shown = snapshot if lag is None else contract.with_commits(snapshot, lag)
        if shown is None or (snapshot is None and shown.type is None):
            self._hide(key)
        else:
            self._groups[key] = shown
            self._gone.pop(key, None)

    def _hide(self, key: GroupKey) -> None:
        """Remove a group from those shown, if it is one."""
        if self._groups.pop(key, None) is not None:
            self._gone[key] = None
            while len(self._gone) > _KEPT_GONE:
                del self._gone[next(iter(self._gone))]
            self._note("group", key)

    def _forget_group(self, key: GroupKey) -> None:
        self._hide(key)
        # Costs stay until the stream drops them: it goes on counting from them if the group comes back.
        for of_group in (self._snapshots, self._states):
            of_group.pop(key, None)
        self._kept_bytes.drop((GROUPS, key))
        self._forget_lag(key)
        self._forget_timing(key)
        self._rebalances.forget_group(key)

    def _forget_lag(self, key: GroupKey) -> bool:
        self._kept_bytes.drop((LAG, key))
        self._without_ends.forget(key)
        return self._lags.pop(key, None) is not None

    def _forget_timing(self, key: GroupKey) -> None:
        self._kept_bytes.drop((HEARTBEATS, key))
        self._timings.pop(key, None)

    def _apply_rebalance(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._rebalances.drop(*contract.split_rebalance_key(key))
            return
        rebalance = read_row(value, contract.Rebalance)
        check_key(key, contract.rebalance_key(rebalance.cluster, rebalance.group, rebalance.rebalance_id))
        self._truncated[REBALANCES] += rebalance.is_truncated
        kept = keep_rebalance(rebalance, value)
        known = self._rebalances.get(kept.group, kept.rebalance_id)
        self._rebalances.put(kept)
        if known is None or known.text != kept.text:
            self._note("rebalance", kept.group, kept.rebalance_id)
            self._note("group", kept.group)

    def _apply_lag(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            identity = contract.split_key(key)
            if self._forget_lag(identity):
                self._show(identity)
                self._note("group", identity)
            return
        lag = read_row(value, contract.GroupLag)
        check_key(key, contract.group_key(lag.cluster, lag.group))
        identity = (lag.cluster, lag.group)
        for topic in lag.topics.values():
            self._truncated[LAG] += topic.is_truncated
            if not len(topic.partitions) == len(topic.lags) == len(topic.committed):
                raise RefusedError("contract", "the lists of a topic's lag are of different lengths")
        expect_room(self._lags, identity, self._max_groups)
        known = self._lags.get(identity)
        if known is not None and replace(known, at_ms=lag.at_ms) == lag:
            # Only the time changed, as in the daily repetition for each group: it need not be rendered again.
            return
        self._kept_bytes.put((LAG, identity), len(value))
        self._lags[identity] = lag
        self._show(identity)
        self._note("group", identity)

    def _apply_impact(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            # If names contain slashes, the key of a group's totals may look like that of a rebalance.
            self._costs.pop(contract.split_key(key), None)
            self._rebalances.drop_impact(*contract.split_rebalance_key(key))
            return
        impact = read_impact(value)
        identity = (impact.cluster, impact.group)
        if isinstance(impact, contract.GroupImpact):
            check_key(key, contract.group_key(*identity))
            expect_room(self._costs, identity, self._max_groups)
            totals = impact.totals()
            if totals != self._costs.get(identity):
                self._costs[identity] = totals
                self._note("group", identity)
            return
        check_key(key, contract.rebalance_key(*identity, impact.rebalance_id))
        self._truncated[IMPACT] += impact.is_truncated
        if self._rebalances.put_impact(identity, impact.rebalance_id, keep_impact(impact, value)):
            self._note("rebalance", identity, impact.rebalance_id)

    def _apply_finding(self, key: bytes, value: bytes | None, *, is_new: bool) -> None:
        name = key.decode(errors="backslashreplace")
        if value is None:
            gone = self._findings.drop(name)
            self._kept_bytes.drop((FINDINGS, name))
            self._past_findings.drop(name)
            if gone is not None:
                self._causes.withdraw(gone)
                self._note_withdrawal(name, gone)
            return
        finding = read_row(value, contract.Finding)
        if not key.startswith(f"{finding.cluster}/{finding.group}/{finding.rule}/".encode()):
            raise RefusedError("key", f"the key {key!r} is not that of a {finding.rule} of group {finding.group!r}")
        self._truncated[FINDINGS] += finding.is_truncated
        identity = (finding.cluster, finding.group)
        known = self._findings.get(identity, name)
        self._findings.expect_room(name, identity)
        self._kept_bytes.put((FINDINGS, name), len(value))
        self._findings.put(name, finding, is_new=is_new)
        self._past_findings.drop(name)
        self._causes.note(finding)
        self._withdrawn.pop(ChangedItem("finding", *identity, name), None)
        if finding != known:
            self._note("finding", identity, name)
            self._note("group", identity)

    def _note_withdrawal(self, name: str, gone: contract.Finding) -> None:
        identity = (gone.cluster, gone.group)
        if gone.state == contract.FindingState.FIRING:
            self._withdrawn[ChangedItem("finding", *identity, name)] = replace(
                gone, state=contract.FindingState.RESOLVED
            )
            while len(self._withdrawn) > _KEPT_WITHDRAWN:
                del self._withdrawn[next(iter(self._withdrawn))]
            self._note("finding", identity, name)
        self._note("group", identity)

    def _apply_timing(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._forget_timing(contract.split_key(key))
            return
        timing = read_row(value, contract.GroupTiming)
        check_key(key, contract.group_key(timing.cluster, timing.group))
        identity = (timing.cluster, timing.group)
        self._truncated[HEARTBEATS] += timing.is_truncated
        if self._timings.get(identity) != timing:
            expect_room(self._timings, identity, self._max_groups)
            self._kept_bytes.put((HEARTBEATS, identity), len(value))
            self._timings[identity] = timing
            self._note("group", identity)

    def _apply_silence(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            cluster, silence_id = contract.split_key(key)
            gone = self._silences.drop(cluster, silence_id)
            if gone is not None:
                self._note_silenced(gone)
            return
        silence = read_row(value, contract.AlertSilence)
        check_key(key, contract.silence_key(silence.cluster, silence.silence_id))
        known = self._silences.put(silence, len(value))
        if silence != known:
            self._note_silenced(silence)
            if known is not None and known.groups != silence.groups:
                self._note_silenced(known)

    def _note_silenced(self, silence: contract.AlertSilence) -> None:
        for key in set(covered(silence, self._groups)):
            self._note("group", key)

    def _apply_status(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            gone = self._status.pop(key, None)
            if isinstance(gone, contract.QueryStatus):
                self._caught_up_until.pop((gone.cluster, gone.query), None)
            return
        # A kind that only a newer stream writes raises ContractError and is counted like any other invalid row.
        status = read_row(value, contract.Status)
        check_key(key, contract.status_key(status))
        expect_room(self._status, key, _MAX_STATUS)
        if isinstance(status, contract.QueryStatus):
            self._note_caught_up(status)
        self._status[key] = status

    def _note_caught_up(self, status: contract.QueryStatus) -> None:
        query = (status.cluster, status.query)
        if not status.caught_up:
            self._caught_up_until.pop(query, None)
        elif self._caught_up_until.get(query, (None, 0))[0] != status.started_at_ms:
            self._caught_up_until[query] = (status.started_at_ms, status.read_until_ms)


def _state_at_ms(row: Row, snapshot: contract.GroupSnapshot) -> int:
    """Return the time from which a group's state counts, not before reading began."""
    known_ms = row.at_ms
    if known_ms is None:
        known_ms = max(snapshot.updated_at_ms or 0, snapshot.rebalancing_since_ms or 0)
    return max(known_ms, row.read_since_ms or 0)
