"""The diagnosis of a whole cluster: adds the stream's rows to the groups' histories and has the groups judged.

Receives group snapshots, rebalances, commit summaries, probes and client reports roughly in time order; returns
findings whenever they change. The time is an argument: the clock when live, the records' own in a replay. A rebalance
is judged some time after its end, when late generations, commits and probes have arrived, and again when later events
may change its explanation. `agenda` decides when a group is judged, `judge` and `explaining` how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import Protocol, TypeVar

from rebalance_contract import (
    AlertSilence,
    ClientActivity,
    CommitActivity,
    CoordinatorActivity,
    Finding,
    GroupSnapshot,
    GroupTiming,
    Member,
    OffsetActivity,
    Probe,
    Rebalance,
    RebalanceImpact,
    RebalanceOutcome,
)
from rebalance_streaming.detect.agenda import Agenda
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.explaining import RECONSIDERED, Explainer
from rebalance_streaming.detect.findings import Findings
from rebalance_streaming.detect.judge import GroupJudge
from rebalance_streaming.detect.judged_group import SAME_TIME_MS, JudgedGroup
from rebalance_streaming.detect.judgement import Judgement, Unpublished
from rebalance_streaming.detect.quarantine import OnQuarantine, Quarantine
from rebalance_streaming.detect.shared_losses import SharedLosses
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.announcements import Announcements
from rebalance_streaming.observed.cluster_commits import ClusterCommits
from rebalance_streaming.observed.coordinator_log import RebalanceStart
from rebalance_streaming.observed.heartbeats import time_group
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.plausible import ImplausibleError
from rebalance_streaming.observed.progress import Progress
from rebalance_streaming.observed.routing import Routing
from rebalance_streaming.observed.topic_ends import ClusterEnds

#: Groups known only from probes or clients: time without rows after which one is forgotten, and their maximum number.
_UNCONFIRMED_MS, _MOST_UNCONFIRMED = 1_800_000, 5_000


class _GroupRow(Protocol):
    """A row about one group."""

    @property
    def group(self) -> str: ...


_Row = TypeVar("_Row", bound=_GroupRow)


def _guarded(take: Callable[[Detector, _Row], None]) -> Callable[[Detector, _Row], None]:
    """Return a method that quarantines the rows for which `take` raises, under its name and the row's group."""

    @wraps(take)
    def attempt(self: Detector, row: _Row) -> None:
        try:
            take(self, row)
        except Exception as error:
            self._quarantine.report(take.__name__, row.group, error)

    return attempt


class Detector:
    """Judges all groups of one cluster. Rebalances that ended before `judge_from_ms` only serve as history.

    `quarantined` counts rows and rules that raised, by stage and reason; `on_quarantine` is called each time. `ends`
    are the end offsets of the cluster's topics, updated by the caller (null: the detector keeps its own). `lists_all`:
    findings that ended long ago stay in the list, for callers that read it at the end.
    """

    def __init__(
        self,
        cluster: str,
        config: DetectConfig | None = None,
        judge_from_ms: int = 0,
        on_quarantine: OnQuarantine | None = None,
        ends: ClusterEnds | None = None,
        *,
        lists_all: bool = True,
    ) -> None:
        self._cluster, self._config = cluster, config or DetectConfig()
        self._ends, self._keeps_ends = (ClusterEnds(), True) if ends is None else (ends, False)
        self._limits = self._config.thresholds.scaled(self._config.window_scale)
        self._quarantine = Quarantine(on_quarantine)
        self._judge_from_ms = judge_from_ms
        self._judged_groups: dict[str, JudgedGroup] = {}
        self._unconfirmed = 0
        self._routing = Routing()
        self._agenda = Agenda()
        self._commits = ClusterCommits()
        self._losses = SharedLosses(self._coordinator_of)
        self._announcements = Announcements()
        #: Groups that lost members in a disturbance of the whole cluster.
        self._disturbed: set[str] = set()
        self._unpublished = Unpublished()
        self.findings = Findings(cluster, lists_all=lists_all)
        self.now_ms = 0
        explainer = Explainer(
            quarantine=self._quarantine,
            losses=self._losses,
            probe_ms=self._config.probe_interval_ms,
            on_timeouts=self._unpublished.timed_out.append,
            on_shared_losses=lambda groups: self._agenda.plan_groups(groups, inputs.LOSSES, self.now_ms + 1),
        )
        self._judge = GroupJudge(
            config=self._config,
            quarantine=self._quarantine,
            findings=self.findings,
            withdrawn=self._unpublished.withdrawn,
            explainer=explainer,
            commits=self._commits,
        )

    # --- Input ---

    @property
    def quarantined(self) -> Mapping[tuple[str, str], int]:
        """Number of errors that were quarantined, by stage and reason."""
        return self._quarantine.counts

    @property
    def dropped_reports(self) -> int:
        """Number of client reports dropped because neither the log nor a probe contained their group."""
        return self._routing.dropped

    @_guarded
    def take_group(self, snapshot: GroupSnapshot) -> None:
        """Take up a group's current snapshot."""
        judged_group = self._judged_group(snapshot.group, confirmed=True)
        if judged_group is None or (before := judged_group.history.snapshot) == snapshot:
            return
        judged_group.history.take_group(snapshot, self.now_ms)
        self._losses.take_group(snapshot.group, before, judged_group.history.snapshot)
        self._note_members(judged_group, snapshot.members)
        self._agenda.touch(judged_group.timetable, inputs.GROUP)

    @_guarded
    def take_rebalance(self, rebalance: Rebalance) -> None:
        """Take up a version of a rebalance."""
        judged_group = self._judged_group(rebalance.group, confirmed=True)
        if judged_group is None or judged_group.history.rebalances.get(rebalance.rebalance_id) == rebalance:
            return
        judged_group.history.take_rebalance(rebalance)
        self._note_members(judged_group, (*rebalance.members_before, *rebalance.members_after))
        self._await(judged_group, rebalance)
        self._agenda.touch(judged_group.timetable, inputs.GROUP)

    def _await(self, judged_group: JudgedGroup, rebalance: Rebalance) -> None:
        """Plan the judgement of a rebalance; one that keeps being extended is judged at the time planned first."""
        end_ms = rebalance.completed_at_ms
        if rebalance.outcome == RebalanceOutcome.ONGOING or end_ms is None or end_ms < self._judge_from_ms:
            return
        again = rebalance.rebalance_id in judged_group.judged
        due_ms = self.now_ms + SAME_TIME_MS if again else end_ms + self._config.settle_ms
        self._agenda.plan_rebalance(judged_group.timetable, rebalance.rebalance_id, due_ms)

    @_guarded
    def take_commits(self, row: CommitActivity) -> None:
        """Take up packed commits."""
        judged_group = self._judged_group(row.group, confirmed=True)
        if judged_group is not None:
            judged_group.history.progress.take_commits(row)
            self._commits.take(row.group, judged_group.history.progress.last_commit_ms or 0)
            self._agenda.touch(judged_group.timetable, inputs.COMMITS)

    @_guarded
    def take_probe(self, probe: Probe) -> None:
        """Take up a probe."""
        judged_group = self._judged_group(probe.group)
        if judged_group is not None:
            self._agenda.touch(judged_group.timetable, judged_group.history.take_probe(probe))

    @_guarded
    def take_offsets(self, row: OffsetActivity) -> None:
        """Take up probed end offsets."""
        judged_group = self._judged_group(row.group)
        if judged_group is not None:
            self._agenda.touch(judged_group.timetable, judged_group.history.take_offsets(row))

    @_guarded
    def take_impact(self, impact: RebalanceImpact) -> None:
        """Take up the known costs of a rebalance."""
        judged_group = self._judged_groups.get(impact.group)
        if judged_group is not None and judged_group.history.take_impact(impact):
            self._agenda.touch(judged_group.timetable, inputs.GROUP)

    def take_clients(self, row: ClientActivity) -> None:
        """Take up a client's report; a row whose group is not known yet is kept for a while.

        A report never creates a group, since clients choose its group name: groups come from the log or from probes.
        """
        if row.group_id not in self._judged_groups and self._config.ignores(row.group_id or ""):
            return
        for group, each in self._routing.route(row):
            judged_group = self._judged_groups.get(group)
            if judged_group is not None:
                judged_group.history.clients.take(each)
                self._agenda.touch(judged_group.timetable, inputs.CLIENTS)

    @_guarded
    def take_coordinator(self, row: CoordinatorActivity) -> None:
        """Take up a group's events from the logs of its coordinators."""
        judged_group = self._judged_group(row.group)
        if judged_group is not None and judged_group.history.coordinator_log.take(row.events):
            self._agenda.touch(judged_group.timetable, inputs.STATES)

    def take_announcement(self, row: AlertSilence) -> None:
        """Take up an announced deploy or its new end; silences of other kinds are ignored."""
        known = self._announcements.put(row)
        for group, judged_group in self._judged_groups.items():
            if row.is_about(group) or (known is not None and known.is_about(group)):
                self._agenda.touch(judged_group.timetable, inputs.GROUP)

    def starts(self, group: str) -> Iterator[tuple[str, RebalanceStart]]:
        """Yield (rebalance id, start) of a group's latest rebalances, as the coordinators logged their starts."""
        judged_group = self._judged_groups.get(group)
        if judged_group is None or judged_group.history.coordinator_log.is_empty():
            return
        for rebalance in judged_group.history.in_order()[-RECONSIDERED:]:
            if (start := judged_group.history.coordinator_log.start_of(rebalance)) is not None:
                yield rebalance.rebalance_id, start

    def _note_members(self, judged_group: JudgedGroup, members: Iterable[Member]) -> None:
        """Record the members of a group, and take up the reports that waited for them."""
        group = judged_group.history.group
        known = tuple(members)
        if self._routing.note_members(group, known):
            for each in self._routing.waiting_for(group, known):
                judged_group.history.clients.take(each)
                self._agenda.touch(judged_group.timetable, inputs.CLIENTS)

    def forget_group(self, group: str) -> None:
        """Drop a group that no longer exists; its findings end."""
        self._agenda.forget(group)
        self._routing.groups.discard(group)
        judged_group = self._judged_groups.pop(group, None)
        if judged_group is None:
            return
        self._unconfirmed -= not judged_group.confirmed
        self._commits.forget(group)
        self._quarantine.forget(group)
        self._losses.take_group(group, judged_group.history.snapshot, None)
        ended, withdrawn = self.findings.update(group, (), self.now_ms, 0)
        self._unpublished.withdrawn += [*ended, *withdrawn]
        self.findings.forget_group(group)

    def forget_old(self, group: str, until_ms: int) -> None:
        """Forget the topics of a group that were gone, and the rebalances that had ended, at `until_ms` (epoch ms)."""
        judged_group = self._judged_groups.get(group)
        if judged_group is None:
            return
        judged_group.history.forget_topics(until_ms)
        if judged_group.history.forget_rebalances(until_ms):
            judged_group.keep(judged_group.history.in_order())

    # --- Judgement ---

    def advance(self, now_ms: int, most: int | None = None) -> Judgement:
        """Judge the groups due at a time in epoch milliseconds; return everything that changed since the last call.

        `most`: maximum number of groups judged in this call (null: all). Groups with waiting rebalances come first,
        then those that were put off first; the rest is judged at the next calls.
        """
        if self.now_ms == 0:
            # The age of rows received before the first call is not known.
            for judged_group in self._judged_groups.values():
                judged_group.heard_ms = now_ms
        self.now_ms = max(self.now_ms, now_ms)
        changed: list[Finding] = []
        for group in self._take_turns(self._due(), most):
            changed += self._judge_group(self._judged_groups[group])
        return self._unpublished.take([*changed, *self._disturbances()])

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms` (epoch ms): all groups are judged again within half a minute.

        Their next judgements were planned for times that are far ahead now.
        """
        self.now_ms = min(self.now_ms, now_ms)
        self._agenda.turn_back(now_ms)
        self._quarantine.turn_back(now_ms)
        for judged_group in self._judged_groups.values():
            judged_group.heard_ms = min(judged_group.heard_ms, now_ms)
            judged_group.answers.turn_back(now_ms)

    def _judge_group(self, judged_group: JudgedGroup) -> list[Finding]:
        found, timetable = self._judge.judge(judged_group, self.now_ms), judged_group.timetable
        is_joining = judged_group.is_joining(self.now_ms)
        self._agenda.plan(
            timetable, timetable.next_ms(self.now_ms, judged_group.answers.due_ms(), is_joining=is_joining)
        )
        return found

    def _take_turns(self, due: list[str], most: int | None) -> list[str]:
        if most is None or len(due) <= most:
            return due
        due.sort(key=lambda group: self._judged_groups[group].timetable.turn(self.now_ms))
        self._agenda.put_off(due[most:], self.now_ms)
        return due[:most]

    def finish(self) -> Judgement:
        """Judge everything with the rows received so far; no more will come."""
        for judged_group in self._judged_groups.values():
            judged_group.timetable.waiting = dict.fromkeys(judged_group.timetable.waiting, 0)
        changed: list[Finding] = []
        # The first groups are judged before the losses of the last ones are known, so losses need a second pass.
        for _ in range(2 if self._losses else 1):
            for group in sorted(self._judged_groups):
                self._judged_groups[group].timetable.changed = inputs.EVERYTHING
                changed += self._judge_group(self._judged_groups[group])
        return self._unpublished.take([*changed, *self._disturbances()])

    def timings(self, now_ms: int) -> Iterator[GroupTiming]:
        """Yield the heartbeat timing of every group whose clients report."""
        for group, judged_group in self._judged_groups.items():
            if judged_group.history.clients.known:
                timing = self._quarantine.ask(
                    "timing", group, now_ms, partial(time_group, judged_group.history, now_ms), None
                )
                if timing is not None:
                    yield timing

    def groups(self) -> list[str]:
        """Return the names of all known groups."""
        return list(self._judged_groups)

    def causes(self, group: str) -> Mapping[str, str]:
        """Return the primary cause of every judged rebalance of a group, by rebalance id."""
        judged_group = self._judged_groups.get(group)
        return {} if judged_group is None else judged_group.causes()

    def _judged_group(self, group: str, *, confirmed: bool = False) -> JudgedGroup | None:
        """Return the state of a group, creating it if it is new; null for groups that are ignored.

        Raises ImplausibleError if too many groups are known only from probes and reports.
        """
        judged_group = self._judged_groups.get(group)
        if judged_group is None:
            # Findings under an empty name are those of the whole cluster.
            if not group or self._config.ignores(group):
                return None
            if not confirmed and self._unconfirmed >= _MOST_UNCONFIRMED:
                raise ImplausibleError("more groups than can be that only probes and clients name")
            progress = Progress(self._ends, keeps_ends=self._keeps_ends)
            history, thresholds = GroupHistory(self._cluster, group, progress=progress), self._config.for_group(group)
            judged_group = self._judged_groups[group] = JudgedGroup(
                history, thresholds, self._agenda.open(group, self.now_ms), self._announcements
            )
            judged_group.restore(self.findings.firing(group))
            self._unconfirmed += 1
            self._note_members(judged_group, ())
        if confirmed and not judged_group.confirmed:
            judged_group.confirmed, self._unconfirmed = True, self._unconfirmed - 1
        judged_group.heard_ms = self.now_ms
        return judged_group

    def _due(self) -> list[str]:
        """Return the groups that are due; those that turn out to be invented are forgotten instead."""
        self._agenda.restate(self._commits.take_released(), self.now_ms)
        due = self._agenda.take_due(self.now_ms)
        for group in [each for each in due if self._is_invented(self._judged_groups[each])]:
            due.discard(group)
            self.forget_group(group)
        return sorted(due)

    def _is_invented(self, judged_group: JudgedGroup) -> bool:
        """Whether a group was only ever named by probes and clients, and its last row is too old."""
        return not judged_group.confirmed and self.now_ms - judged_group.heard_ms >= _UNCONFIRMED_MS

    def _disturbances(self) -> list[Finding]:
        """Judge losses that several groups had together; return the findings of the whole cluster that changed."""
        limits = self._limits
        if not self._disturbed and self._losses.latest_ms < self.now_ms - limits.resolve_after_ms:
            return []
        verdicts = self._losses.disturbances(limits, self.now_ms)
        changed, withdrawn = self.findings.update("", verdicts, self.now_ms, limits.resolve_after_ms)
        self._unpublished.withdrawn += withdrawn
        named = {name for each in verdicts for name in each.rebalance_ids}
        concerned = self._losses.groups_of(named)
        if changed:
            # Findings of these groups name the cluster's finding as their parent.
            self._agenda.restate(concerned | self._disturbed, self.now_ms)
        self._disturbed = concerned
        return changed

    def _coordinator_of(self, group: str) -> int | None:
        """Return the id of the broker that coordinates a group, as last probed, or None."""
        judged_group = self._judged_groups.get(group)
        seen = () if judged_group is None else judged_group.history.coordinators
        return seen[-1].broker if seen else None
