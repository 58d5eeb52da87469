"""The engine of the diagnosis: `apply(row)`, `advance(now) -> rows`. Spark and the replay only drive it.

A driver restores what an earlier run published (`restore`), passes rows in (`apply`), and calls `advance` with the
time, which returns what changed; when no more rows will come, `finish` returns everything. Rows are groups, rebalances
and activity roughly in the order of their times; a row may be repeated, which changes nothing. The time is an argument:
the clock when live, the records' own time in a replay. A row or a group that fails is quarantined and counted; the
others are processed normally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from rebalance_contract import (
    PANE_MS,
    WINDOWS_MS,
    AlertSilence,
    ClientActivity,
    CommitActivity,
    CoordinatorActivity,
    CountActivity,
    DecodeTotals,
    DiagnosisStatus,
    Finding,
    GroupImpact,
    GroupLag,
    GroupSnapshot,
    GroupState,
    GroupWindow,
    OffsetActivity,
    Participant,
    ProbeActivity,
    QuarantineCount,
    Rebalance,
    RebalanceImpact,
    ReportTotals,
    SilenceKind,
    topics,
)
from rebalance_contract.turns import next_turn
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.findings import topic_key
from rebalance_streaming.detect.judgement import Judgement
from rebalance_streaming.engine.commit_gaps import CommitRhythm, EndedGaps
from rebalance_streaming.engine.impact import ImpactTracker
from rebalance_streaming.engine.lag import LagTable, LagWindow
from rebalance_streaming.engine.rows import DIAGNOSED, GroupGone, Input, Output, RowGone
from rebalance_streaming.engine.windows import Schedule
from rebalance_streaming.groups import counts
from rebalance_streaming.groups.windows import Window, windows_at
from rebalance_streaming.observed.plausible import check, check_restored

#: Quarantine reason of rows that cannot be decoded.
NOT_UNDERSTOOD = "not understood"
#: Stage of rows that an earlier run published.
RESTORED_ROW = "restored row"
_FIRST_KINDS = tuple((topic.name, NOT_UNDERSTOOD) for topic in DIAGNOSED)
#: Reports of groups that neither the log nor a probe contains.
DROPPED_REPORT = ("client report", "group not known")
_TIMING_MS, _STATUS_MS = 10_000, 2_000
#: Current rows are published again once a day, one group at a time: topics drop rows that are not renewed for a week.
_RENEWAL_MS, _RENEWALS_EVERY_MS = 86_400_000, 60_000
#: Age at which history is forgotten: rules look back for a day, and a start reads as much.
_GONE_MS = _RENEWAL_MS + 3_600_000
#: The driver's clock was set back if it is behind its latest time by more than this; a smaller step is waited out.
_SET_BACK_MS = 1_000
#: Maximum number of errors logged per stage and reason; further ones are only counted.
_LOGGED = 3

#: All fields but the time: a row of lag that differs from the previous one only in its time is not published again.
_APART_FROM_TIME = attrgetter(*(each.name for each in fields(GroupLag) if each.name != "at_ms"))

OnQuarantine = Callable[[str], None]
Restored = GroupLag | RebalanceImpact | GroupImpact | Finding | DecodeTotals | ReportTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of an engine. Rebalances that ended before `judge_from_ms` serve as history only."""

    cluster: str
    source_topic: str
    detect: DetectConfig
    judge_from_ms: int = 0
    reads_committed: Callable[[str], bool] = lambda _: False


class Engine:
    """All that is known of one cluster, and the results computed from it."""

    def __init__(
        self,
        config: EngineConfig,
        on_quarantine: OnQuarantine = lambda _: None,
        make_detector: Callable[..., Detector] = Detector,
    ) -> None:
        """`on_quarantine` is called with a message about each quarantined item; `make_detector` replaces `Detector`."""
        self._config, self._on_quarantine = config, on_quarantine
        self._cluster = config.cluster
        self._lag = LagTable(config.reads_committed)
        self._detector = make_detector(
            config.cluster, config.detect, config.judge_from_ms, self._report_quarantine, self._lag.ends
        )
        self._impact = ImpactTracker(config.cluster)
        self._schedule = Schedule()
        self._rhythms: dict[str, CommitRhythm] = {}
        self._gaps = EndedGaps()
        self._groups: dict[str, GroupSnapshot] = {}
        self._published: dict[str, GroupLag] = {}
        #: When an earlier run last published a group's lag.
        self._restored_ms: dict[str, int] = {}
        self._totals = counts.CountTotals()
        self._published_totals: tuple[DecodeTotals, ReportTotals] | None = None
        self._arrived: list[CountActivity] = []
        # Counts start at 0, so that the first error is an increase.
        self._quarantined: Counter[tuple[str, str]] = Counter(dict.fromkeys(_FIRST_KINDS, 0))
        self._probed_ms: int | None = None
        self._latest_ms = self._timed_ms = self._status_ms = 0
        self._renewed_ms: int | None = None
        self._gone: list[RowGone] = []

    # --- What happens ---

    def restore(self, row: Restored, now_ms: int = 0) -> None:
        """Restore what an earlier run published, before any other row; a row that fails is quarantined.

        `now_ms` is 0 where the time is not known.
        """
        try:
            check_restored(row, now_ms)
            self._restore(row)
        except Exception as error:
            # An earlier version may have written something that this one cannot read; a start must not depend on it.
            self.quarantine(RESTORED_ROW, type(error).__name__, f"{error}")

    def _restore(self, row: Restored) -> None:
        match row:
            case GroupLag():
                self._lag.restore(row)
                self._published[row.group] = row
                self._restored_ms[row.group] = row.at_ms
            case RebalanceImpact() | GroupImpact():
                self._impact.restore(row)
            case Finding():
                self._detector.findings.restore(row)
            case DecodeTotals():
                self._totals = _added(self._totals, counts.restore(row, None, self._config.source_topic))
            case ReportTotals():
                self._totals = _added(self._totals, counts.restore(None, row, self._config.source_topic))

    def apply(self, row: Input, at_ms: int) -> None:
        """Process a row that was written at `at_ms`; a row that fails is quarantined."""
        try:
            self._apply(row, at_ms)
        except Exception as error:
            # An error affects only this row.
            self.quarantine("row", f"{type(row).__name__}: {type(error).__name__}", f"{error}")

    def _apply(self, row: Input, at_ms: int) -> None:
        check(row, at_ms)
        match row:
            case CommitActivity():
                self._take_commits(row, at_ms)
            case OffsetActivity():
                self._take_offsets(row, at_ms)
            case ProbeActivity():
                self._take_probe(row)
            case ClientActivity():
                self._detector.take_clients(row)
            case CoordinatorActivity():
                self._take_coordinator(row)
            case CountActivity():
                if row.cluster == self._cluster:
                    self._arrived.append(row)
            case AlertSilence():
                if row.cluster == self._cluster and row.kind == SilenceKind.DEPLOY:
                    self._detector.take_announcement(row)
            case GroupSnapshot():
                self._take_group(row, at_ms)
            case Rebalance():
                self._take_rebalance(row, at_ms)
            case GroupGone():
                self._forget(row, at_ms)

    def _take_probe(self, row: ProbeActivity) -> None:
        if row.probe.cluster == self._cluster:
            self._probed_ms = row.probe.probed_at_ms
            self._detector.take_probe(row.probe)

    def _take_coordinator(self, row: CoordinatorActivity) -> None:
        if row.cluster == self._cluster:
            self._detector.take_coordinator(row)
            self._note_starts(row.group)

    def _note_starts(self, group: str) -> None:
        """Record what coordinators logged about the beginning of a group's rebalances."""
        for rebalance_id, start in self._detector.starts(group):
            self._impact.take_start(group, rebalance_id, start)

    def _take_group(self, row: GroupSnapshot, at_ms: int) -> None:
        if row.cluster == self._cluster:
            self._groups[row.group] = row
            self._schedule.touch(row.group, at_ms)
            self._detector.take_group(row)

    def _take_rebalance(self, row: Rebalance, at_ms: int) -> None:
        if row.cluster == self._cluster:
            if not row.is_at_least:
                self._impact.take_rebalance(row)
            self._schedule.touch(row.group, at_ms)
            self._detector.take_rebalance(row)
            self._note_starts(row.group)

    def _take_commits(self, row: CommitActivity, at_ms: int) -> None:
        if row.cluster != self._cluster or not self._lag.take_commits(row, at_ms):
            return
        # Clients and coordinators may state a time ahead, after which no measurement would count until then.
        self._lag.measure(row.group, min(row.last_commit_ms, at_ms))
        gaps = self._rhythms.setdefault(row.group, CommitRhythm()).take(row)
        self._gaps.add(row.group, gaps)
        self._schedule.touch(row.group, at_ms)
        self._detector.take_commits(row)

    def _take_offsets(self, row: OffsetActivity, at_ms: int) -> None:
        if row.cluster != self._cluster:
            return
        self._probed_ms = row.probed_at_ms
        is_news = self._lag.take_offsets(row)
        if row.ends:
            lag = self._lag.measure(row.group, row.probed_at_ms)
            if lag is not None:
                self._impact.take_lag(row.group, lag, row.probed_at_ms)
        if is_news:
            self._schedule.touch(row.group, at_ms)
        self._detector.take_offsets(row)

    def _forget(self, row: GroupGone, at_ms: int) -> None:
        """Drop a group whose row was deleted at `at_ms`, except for anything newer.

        A start reads older rows of groups, and rows of different topics come only roughly in order. They may contain
        the tombstone of a group that has come back since.
        """
        group, snapshot = row.group, self._groups.get(row.group)
        updated_ms = 0 if snapshot is None else snapshot.updated_at_ms or 0
        if row.cluster != self._cluster or updated_ms > at_ms:
            return
        self._groups.pop(group, None)
        self._schedule.touch(group, at_ms)
        if self._restored_ms.get(group, -1) > at_ms:
            # The earlier run published this, findings included, after it had forgotten the group: it describes the
            # group that came back.
            return
        self._forget_findings(group)
        is_deleted = snapshot is not None and snapshot.state == GroupState.DELETED
        if self._lag.is_committed_to(group, updated_ms if is_deleted else at_ms):
            # Offsets may be committed to a group without members. Its lag is published again, so that the next start
            # recognises it as newer than the tombstone.
            self._published.pop(group, None)
        else:
            self._forget_offsets(group)

    def _forget_all(self, group: str) -> None:
        self._forget_findings(group)
        self._forget_offsets(group)

    def _forget_findings(self, group: str) -> None:
        self._detector.forget_group(group)
        if group in self._published:
            self._gone.append(RowGone(topics.HEARTBEATS, self._cluster, group))

    def _forget_offsets(self, group: str) -> None:
        """Drop everything that depends on a group's commits, and its rows; a start would restore and renew them."""
        if group in self._published:
            self._gone.append(RowGone(topics.LAG, self._cluster, group))
        if self._impact.totals(group) is not None:
            self._gone.append(RowGone(topics.IMPACT, self._cluster, group))
        for table in (self._lag, self._impact, self._gaps):
            table.forget_group(group)
        self._schedule.forget(group)
        for known in (self._rhythms, self._published, self._restored_ms):
            known.pop(group, None)

    # --- What follows ---

    def advance(self, now_ms: int, read_until_ms: int | None = None, most: int | None = None) -> list[Output]:
        """Judge what is due at `now_ms` (epoch milliseconds); return everything that changed since the last call.

        `read_until_ms`: time up to which the inputs have been read; null: all is read. Nothing can be said about what
        was not read yet, so for the rules time stands still while their inputs are behind. `most`: maximum number of
        groups judged in this call; the others are judged in the next calls. Null: all that are due; 0: none. Results
        that need no judgement, above all lag, are returned in any case.
        """
        self._note_clock(now_ms)
        judged_ms = now_ms if read_until_ms is None else min(now_ms, read_until_ms)
        self._take_gaps(judged_ms)
        impacts = self._take_impacts()
        # Tombstones come before the rows of a new group of the same name.
        rows: list[Output] = [*self._gone]
        self._gone.clear()
        rows += self._take_judgement(self._detector.advance(judged_ms, most))
        rows += self._due_lags(now_ms)
        rows += {**impacts, **self._take_impacts()}.values()
        rows += self._renewals(now_ms)
        self._lag.forget_unread(now_ms)
        if now_ms - self._timed_ms >= _TIMING_MS:
            self._timed_ms = now_ms
            rows += self._detector.timings(now_ms)
        if now_ms - self._status_ms >= _STATUS_MS:
            self._status_ms = now_ms
            rows += self._count()
            rows.append(self._status(now_ms, now_ms if read_until_ms is None else read_until_ms))
        return rows

    def _note_clock(self, now_ms: int) -> None:
        """Plan everything anew if the clock was set back: nothing must wait until it reaches its former time."""
        if now_ms >= self._latest_ms - _SET_BACK_MS:
            self._latest_ms = max(now_ms, self._latest_ms)
            return
        self._latest_ms, self._timed_ms, self._status_ms = now_ms, 0, 0
        self._renewed_ms = None if self._renewed_ms is None else min(self._renewed_ms, now_ms)
        for each in (self._schedule, self._lag, self._detector):
            each.turn_back(now_ms)

    def finish(self, now_ms: int) -> list[Output]:
        """Judge everything with what is known, because no more rows will come; return the last rows.

        These are lag and timing of each group as of now, all findings that were not withdrawn, whether they changed or
        not, and the impacts that changed since the last call.
        """
        self._take_gaps(None)
        impacts = self._take_impacts()
        self._take_judgement(self._detector.finish())
        return [
            *(self._lag_row(group, now_ms) for group in sorted({*self._groups, *self._lag.groups()})),
            *{**impacts, **self._take_impacts()}.values(),
            *self._detector.timings(now_ms),
            *self._detector.findings.all(),
        ]

    def _take_gaps(self, read_until_ms: int | None) -> None:
        """Assign the gaps in commits that ended by a time, or all, to the rebalances, which are all known by then."""
        for group, gaps in self._gaps.take(read_until_ms):
            self._impact.take_commit_gaps(group, gaps)

    def _take_judgement(self, judgement: Judgement) -> list[Output]:
        """Count members removed by timeouts; return the findings that changed, each as it is now."""
        for left in judgement.timed_out:
            self._impact.take_timeouts(left.group, left.rebalance_id, left.expired, left.poll_timeout)
        return list({topic_key(each): each for each in (*judgement.findings, *judgement.withdrawn)}.values())

    def _take_impacts(self) -> dict[tuple[str, str], RebalanceImpact | GroupImpact]:
        """Return, once, the impacts that changed, by group and rebalance, and pass those of rebalances to the rules."""
        found: dict[tuple[str, str], RebalanceImpact | GroupImpact] = {}
        for row in self._impact.changed():
            if isinstance(row, RebalanceImpact):
                self._detector.take_impact(row)
                found[row.group, row.rebalance_id] = row
            else:
                found[row.group, ""] = row
        return found

    def quarantine(self, stage: str, reason: str, text: str, count: int = 1) -> None:
        """Count a quarantined item; log the first few of each kind."""
        self._quarantined[stage, reason] += count
        if self._quarantined[stage, reason] <= _LOGGED:
            self._on_quarantine(f"diagnosis: a {stage} is set aside ({reason}): {text[:300]}")

    def _report_quarantine(self, stage: str, group: str, error: Exception) -> None:
        kind = (stage, type(error).__name__)
        if self._detector.quarantined.get(kind, 0) <= _LOGGED:
            self._on_quarantine(
                f"diagnosis: {stage} is set aside for group {group[:100]} ({kind[1]}): {str(error)[:300]}"
            )

    def _due_lags(self, now_ms: int) -> Iterator[GroupLag]:
        """Yield, once, the rows of lag that changed."""
        for group in self._schedule.take_due(now_ms):
            try:
                row = self._lag_row(group, now_ms)
            except Exception as error:
                # An error in one group's figures affects only this group.
                self.quarantine("lag", type(error).__name__, f"group {group}: {error}")
                continue
            known = self._published.get(group)
            if known is None or _APART_FROM_TIME(row) != _APART_FROM_TIME(known):
                self._published[group] = row
                yield row

    def _renewals(self, now_ms: int) -> Iterator[Output]:
        """Yield the last published rows of the groups whose daily turn came since the last call.

        A group without a record and without committed offsets has nothing worth keeping: it is forgotten once its lag
        has been the same for a day. Tools that commit without being members leave groups like these, each with a
        name of its own, and up to Kafka 3.9 there is no tombstone when they are gone.
        """
        since_ms = now_ms if self._renewed_ms is None else self._renewed_ms
        if self._renewed_ms is not None and now_ms - since_ms < _RENEWALS_EVERY_MS:
            return
        self._renewed_ms = now_ms
        known = dict.fromkeys((*self._published, *self._lag.groups()))
        for group in [each for each in known if next_turn(each, since_ms, _RENEWAL_MS) <= now_ms]:
            lag = self._published.get(group)
            if group in self._groups or self._lag.has_positions(group):
                self._forget_old(group, now_ms)
                yield from self._standing(group)
            elif lag is None or now_ms - lag.at_ms >= _RENEWAL_MS:
                self._forget_all(group)

    def _forget_old(self, group: str, now_ms: int) -> None:
        """Forget what no rule looks back to: topics that a group no longer reads, rebalances that are a day old."""
        until_ms, topics_left = now_ms - _GONE_MS, self._lag.topics_of(group)
        if group in self._rhythms:
            self._rhythms[group].forget_others(topics_left, until_ms)
        self._detector.forget_old(group, until_ms)

    def _standing(self, group: str) -> Iterator[Output]:
        lag, totals = self._published.get(group), self._impact.totals(group)
        if lag is not None:
            yield lag
            if totals is not None:
                yield totals
            yield from self._detector.findings.firing(group)

    def _lag_row(self, group: str, now_ms: int) -> GroupLag:
        """Return a group's lag with the windows that end at `now_ms` (epoch milliseconds)."""
        snapshot = self._groups.get(group)
        rebalancing_ms = None if snapshot is None else snapshot.rebalancing_since_ms
        steps = {} if snapshot is None else windows_at(snapshot.windows, now_ms, rebalancing_ms)
        commits = self._lag.windows(group, now_ms)
        self._schedule.published(
            group, now_ms, counted_ms=self._counted_ms(group, snapshot), is_moving=rebalancing_ms is not None
        )
        lost = {name: self._impact.lost_ms(group, now_ms - WINDOWS_MS[name]) for name in commits}
        joined = {name: _window(steps.get(name), window, lost[name]) for name, window in commits.items()}
        if snapshot is not None and snapshot.is_at_least:
            joined = {name: _as_probed(each) for name, each in joined.items()}
        lag = self._lag.lag(group, now_ms, self._cluster, joined)
        return GroupLag(self._cluster, group, now_ms, windows=joined) if lag is None else lag

    def _counted_ms(self, group: str, snapshot: GroupSnapshot | None) -> list[int]:
        """Return the times of the events that a group's windows count; an event counts while its time is inside."""
        steps = () if snapshot is None else snapshot.windows.panes
        lost_ms = self._impact.newest_loss_ms(group)
        return [
            *(pane.start_ms + PANE_MS for pane in steps),
            *self._lag.pane_times(group),
            *(() if lost_ms is None else (lost_ms,)),
        ]

    def _count(self) -> list[Output]:
        if self._arrived:
            self._totals, self._arrived = counts.fold_counts(self._totals, self._arrived), []
        topic = self._config.source_topic
        totals = (
            counts.publish_records(self._cluster, Participant.ACTIVITY.value, self._totals, topic),
            counts.publish_reports(self._cluster, self._totals, topic),
        )
        if totals == self._published_totals:
            return []
        self._published_totals = totals
        return list(totals)

    def _status(self, now_ms: int, read_until_ms: int) -> DiagnosisStatus:
        committing = [row for row in self._published.values() if row.topics]
        quarantined = Counter(self._quarantined)
        quarantined.update(self._detector.quarantined)
        if self._detector.dropped_reports:
            quarantined[DROPPED_REPORT] = self._detector.dropped_reports
        return DiagnosisStatus(
            cluster=self._cluster,
            updated_at_ms=now_ms,
            read_until_ms=read_until_ms,
            groups=len(self._groups.keys() | self._published.keys()),
            committing_groups=len(committing),
            groups_with_lag=sum(row.total is not None for row in committing),
            groups_awaiting_ends=sum(row.total is None and self._lag.awaits_ends(row.group) for row in committing),
            probed_at_ms=None if self._probed_ms is None else min(self._probed_ms, now_ms),
            quarantined=tuple(QuarantineCount(stage, reason, n) for (stage, reason), n in sorted(quarantined.items())),
        )


def _as_probed(window: GroupWindow) -> GroupWindow:
    """Return a window without the numbers that probes cannot give."""
    return replace(window, generations_completed=None, generations_aborted=None, lost_partition_ms=None)


def _window(steps: Window | None, commits: LagWindow, lost_ms: int) -> GroupWindow:
    return GroupWindow(
        generations_completed=0 if steps is None else steps.generations_completed,
        generations_aborted=0 if steps is None else steps.generations_aborted,
        rebalances=0 if steps is None else steps.rebalances,
        rebalancing_ratio=0.0 if steps is None else round(steps.rebalancing_ratio, 6),
        commits=commits.commits,
        lag_max=commits.lag_max,
        lag_slope=None if commits.lag_slope is None else round(commits.lag_slope, 6),
        lost_partition_ms=lost_ms,
    )


def _added(one: counts.CountTotals, other: counts.CountTotals) -> counts.CountTotals:
    return counts.CountTotals({**one.positions, **other.positions}, [*one.entries, *other.entries])
