"""Feeds groups' histories with the stream's rows and judges them: the diagnosis of a whole cluster.

Receives group snapshots, rebalances, commit summaries, probes and client reports in about the order of their times;
hands on findings whenever they change. Time is what it is told: the clock when live, the records' own in a replay. A
rebalance is judged a while after its end, when late generations, commits and probes have arrived, and again when later
events shed light on it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rebalance_streaming.detect.book import Book, Statement
from rebalance_streaming.detect.case import SAME_TIME_MS, Case, Judged
from rebalance_streaming.detect.catalogue import diagnosis
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.departures import POLL_TIMEOUT, SESSION_EXPIRED, Departure
from rebalance_streaming.detect.episode import Elsewhere, Known, Past, look_at
from rebalance_streaming.detect.heartbeats import time_group
from rebalance_streaming.detect.history import GroupHistory
from rebalance_streaming.detect.look import DAY_MS, Look
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.routing import Routing
from rebalance_streaming.detect.rules.aggregate import cluster_wide
from rebalance_streaming.detect.rules.barrier import waiting_now
from rebalance_streaming.detect.rules.benign import FOLLOWS
from rebalance_streaming.detect.rules.patterns import lag_grows
from rebalance_streaming.detect.rules.registry import AGGREGATES, CONDITIONS
from rebalance_streaming.detect.verdict import INFO, PAGE, TICKET, UNDETERMINED, Verdict
from rebalance_streaming.groups.events import (
    CommitSummary,
    Finding,
    GroupSnapshot,
    GroupTiming,
    Member,
    Probe,
    Rebalance,
)
from rebalance_streaming.groups.lagging import LagAround
from rebalance_streaming.groups.leaving import TimedOut
from rebalance_streaming.wire.metrics.report import Report

_ONGOING = "ongoing"
#: Groups that nothing happens to are looked at this often.
_SWEEP_MS = 30_000
#: Rebalances judged again when something new is known of their group.
_RECONSIDERED = 30
#: Diagnoses that rest on commits that do not come.
_SEEN_BY_COMMITS = frozenset({"stalled_consumer", "slow_consumer_group", "no_progress_loop"})


class Detector:
    """Judges all groups of one cluster. Rebalances that ended before `judge_from_ms` are history only."""

    def __init__(self, cluster: str, config: DetectConfig | None = None, judge_from_ms: int = 0) -> None:
        self._cluster, self._config = cluster, config or DetectConfig()
        self._judge_from_ms = judge_from_ms
        self._cases: dict[str, Case] = {}
        self._dirty: set[str] = set()
        self._routing = Routing()
        #: Groups by the hosts on which they have members now.
        self._on_host: dict[str, set[str]] = {}
        self._losses: deque[tuple[str, Past]] = deque(maxlen=1_000)
        self._withdrawn: list[Finding] = []
        #: When to look at a group at the latest, once per group.
        self._overdue: list[tuple[int, str]] = []
        #: When a rebalance is to be judged, without anything else happening to its group.
        self._appointments: list[tuple[int, str]] = []
        self._lags: dict[str, LagAround] = {}
        self._timed_out: list[TimedOut] = []
        self._committing: set[str] = set()
        self._last_commit_ms = 0
        self.book = Book(cluster)
        self.now_ms = 0

    # --- What happens ---

    def take_group(self, picture: GroupSnapshot) -> None:
        """Take up a group's present picture."""
        case = self._case(picture.group)
        if case is None:
            return
        before = case.history.picture
        case.history.take_group(picture, self.now_ms)
        self._settle_on_hosts(picture.group, before, case.history.picture)
        self._note_members(case, picture.members)
        self._dirty.add(picture.group)

    def _settle_on_hosts(self, group: str, before: GroupSnapshot | None, after: GroupSnapshot | None) -> None:
        """Keep the index of groups by host up to date with a group's picture; null: it is not known, or gone."""
        left, there = ({each.host for each in picture.members} if picture else set() for picture in (before, after))
        for host in left - there:
            self._on_host[host].discard(group)
            if not self._on_host[host]:
                del self._on_host[host]
        for host in there - left:
            self._on_host.setdefault(host, set()).add(group)

    def take_rebalance(self, rebalance: Rebalance) -> None:
        """Take up a version of a rebalance."""
        case = self._case(rebalance.group)
        if case is None or case.history.rebalances.get(rebalance.rebalance_id) == rebalance:
            return
        case.history.take_rebalance(rebalance)
        self._note_members(case, (*rebalance.members_before, *rebalance.members_after))
        self._await(case, rebalance)
        self._dirty.add(rebalance.group)

    def _await(self, case: Case, rebalance: Rebalance) -> None:
        """Put a rebalance down for judgement; one that goes on and on is judged on the way, not at its last end."""
        end_ms = rebalance.completed_at_ms
        if rebalance.outcome == _ONGOING or end_ms is None or end_ms < self._judge_from_ms:
            return
        again = rebalance.rebalance_id in case.judged
        due_ms = self.now_ms + SAME_TIME_MS if again else end_ms + self._config.settle_ms
        if rebalance.rebalance_id not in case.waiting:
            case.waiting[rebalance.rebalance_id] = due_ms
            heapq.heappush(self._appointments, (due_ms, rebalance.group))

    def take_commits(self, summary: CommitSummary) -> None:
        """Take up a commit summary."""
        case = self._case(summary.group)
        if case is not None:
            case.history.progress.take_commits(summary)
            self._committing.add(summary.group)
            self._last_commit_ms = max(self._last_commit_ms, case.history.progress.last_commit_ms or 0)

    def take_probe(self, probe: Probe) -> None:
        """Take up a probe."""
        case = self._case(probe.group)
        if case is None:
            return
        case.history.take_probe(probe)
        if (lag := case.watch_lag(probe)) is not None:
            self._lags[probe.group] = lag
        if isinstance(probe.state, str) or isinstance(probe.owners, dict):
            self._dirty.add(probe.group)

    def lags(self) -> tuple[LagAround, ...]:
        """Return, once, what changed of the lag around groups' latest rebalances."""
        changed, self._lags = tuple(self._lags.values()), {}
        return changed

    def timed_out(self) -> tuple[TimedOut, ...]:
        """Return, once, members of judged rebalances that left because a time-out was over."""
        told, self._timed_out = tuple(self._timed_out), []
        return told

    def take_report(self, report: Report) -> None:
        """Take up what a client said of itself; one whose group cannot be told yet is kept for a while."""
        for group, each in self._routing.route(report):
            case = self._case(group)
            if case is not None:
                case.history.clients.take(each)

    def _note_members(self, case: Case, members: Iterable[Member]) -> None:
        """Learn who is in a group, and take up what its clients said before that was known."""
        group = case.history.group
        if self._routing.note_members(group, members):
            for each in self._routing.waiting_for(group):
                case.history.clients.take(each)

    def forget_group(self, group: str) -> None:
        """Drop a group that is gone for good; what was found of it is over."""
        self._dirty.discard(group)
        case = self._cases.pop(group, None)
        if case is not None:
            self._settle_on_hosts(group, case.history.picture, None)
            ended, withdrawn = self.book.update(group, (), self.now_ms, 0)
            self._withdrawn += [*ended, *withdrawn]
            self.book.forget_group(group)

    # --- What it means ---

    def advance(self, now_ms: int) -> list[Finding]:
        """Judge what is due at a time in epoch milliseconds; returns the findings that changed."""
        self.now_ms = max(self.now_ms, now_ms)
        changed: list[Finding] = []
        for group in self._due():
            changed += self._judge(group)
        return changed

    def finish(self) -> list[Finding]:
        """Judge everything with what there is: no more will come."""
        for case in self._cases.values():
            case.waiting = dict.fromkeys(case.waiting, 0)
        changed: list[Finding] = []
        # The first groups are judged before what the last ones lost is known, so all once more where that matters.
        for group in sorted(self._cases):
            changed += self._judge(group)
        for group in sorted(self._cases) if self._losses else ():
            changed += self._judge(group)
        return changed

    def timings(self, now_ms: int) -> Iterator[GroupTiming]:
        """Yield the heartbeat timing of every group whose clients report."""
        for case in self._cases.values():
            if case.history.clients.known and (timing := time_group(case.history, now_ms)) is not None:
                yield timing

    def withdrawn(self) -> list[Finding]:
        """Return, once, findings that a better explanation replaced."""
        found, self._withdrawn = self._withdrawn, []
        return found

    def causes(self, group: str) -> Mapping[str, str]:
        """Return the primary cause of every judged rebalance of a group, by rebalance id."""
        case = self._cases.get(group)
        return {} if case is None else case.causes()

    def _case(self, group: str) -> Case | None:
        case = self._cases.get(group)
        if case is None:
            if self._config.ignores(group):
                return None
            case = self._cases[group] = Case(
                GroupHistory(self._cluster, group), self._config.for_group(group), looked_ms=self.now_ms
            )
            heapq.heappush(self._overdue, (self.now_ms + _SWEEP_MS, group))
        return case

    def _due(self) -> list[str]:
        """Return the groups something happened to, and those not looked at for a while."""
        due = {group for group in self._dirty if group in self._cases}
        self._dirty.clear()
        while self._appointments and self._appointments[0][0] <= self.now_ms:
            _, group = heapq.heappop(self._appointments)
            if group in self._cases:
                due.add(group)
        while self._overdue and self._overdue[0][0] <= self.now_ms:
            _, group = heapq.heappop(self._overdue)
            case = self._cases.get(group)
            if case is None:
                continue
            if self.now_ms - case.looked_ms >= _SWEEP_MS:
                due.add(group)
            looked_ms = self.now_ms if group in due else case.looked_ms
            heapq.heappush(self._overdue, (looked_ms + _SWEEP_MS, group))
        return sorted(due)

    def _judge(self, group: str) -> list[Finding]:
        case = self._cases[group]
        case.looked_ms = self.now_ms
        self._explain(case, case.take_ready(self.now_ms))
        look = self._look(case)
        found = [verdict for rule in CONDITIONS for verdict in rule(look)]
        statements = case.state([each for each in found if each.claims], self.now_ms)
        causes = {name: each.verdict.rule for each in statements if each.primary for name in each.verdict.rebalance_ids}
        look = replace(look, causes=causes)
        harmed = lag_grows(look)
        standing = [each for each in found if not each.claims and not self._is_behind(each)]
        standing += self._holding(case, standing, harmed=harmed)
        statements += case.state_standing(standing)
        statements += case.state_storms([verdict for rule in AGGREGATES for verdict in rule(look)], self.now_ms)
        return self._publish(case, look, statements, harmed=harmed)

    def _holding(self, case: Case, standing: Sequence[Verdict], *, harmed: bool) -> list[Verdict]:
        """Return what else holds the group up, now or until a moment ago."""
        limits = case.thresholds
        waiting = waiting_now(case.history, self.now_ms, limits.barrier_ms, limits.barrier_page_ms, lag_grows=harmed)
        now = [] if waiting is None else [waiting]
        case.note_held([*standing, *now], self.now_ms)
        since_ms = self.now_ms - self._config.settle_ms - 2 * SAME_TIME_MS
        return [*now, *case.released([*standing, *now], since_ms)]

    def _is_behind(self, verdict: Verdict) -> bool:
        """Whether a standstill may be the monitor's own: no group at all is known to have committed since it began."""
        of_commits = verdict.rule in _SEEN_BY_COMMITS
        return of_commits and len(self._committing) > 1 and self._last_commit_ms <= verdict.started_at_ms

    def _explain(self, case: Case, ready: set[str]) -> None:
        """Judge rebalances that are ready, and those before them again: a return sheds light on a departure."""
        order = [each for each in case.history.in_order() if each.rebalance_id in ready | case.judged.keys()]
        if not order:
            return
        horizon = self.now_ms - max(case.thresholds.stay_ms, case.thresholds.storm_window_ms) - 60_000
        again = [each for each in order[-_RECONSIDERED:] if each.started_before_ms >= horizon]
        for rebalance in order:
            if rebalance.rebalance_id in ready or rebalance in again:
                self._explain_one(case, rebalance)
        case.keep(order)

    def _explain_one(self, case: Case, rebalance: Rebalance) -> None:
        known = case.judged.get(rebalance.rebalance_id)
        first_time = known is None
        earlier = [each for each in case.past if each.left_ms <= (rebalance.completed_at_ms or self.now_ms)]
        episode = look_at(
            case.history,
            rebalance,
            case.thresholds,
            self.now_ms,
            Known(
                earlier,
                {} if known is None else known.departures,
                case.held_during(rebalance),
                self._elsewhere(case.history.group, rebalance),
            ),
        )
        verdicts = tuple(self._followed(case, rebalance, each) for each in explain(episode))
        departures = {each.member.member_id: each for each in episode.departures}
        told = self._tell_timed_out(rebalance, departures, frozenset() if known is None else known.told)
        left = case.put(Judged(rebalance, verdicts, departures, told))
        if first_time:
            group = case.history.group
            self._losses.extend((group, each) for each in left if each.departure.likely == SESSION_EXPIRED)

    def _tell_timed_out(
        self, rebalance: Rebalance, departures: Mapping[str, Departure], told: frozenset[str]
    ) -> frozenset[str]:
        """Tell of members that a time-out removed, each once: what a later look makes of one does not count.

        Returns all that were told.
        """
        new = {name: each.likely for name, each in departures.items() if name not in told}
        expired, poll_timeout = (
            tuple(sorted(name for name, likely in new.items() if likely == wanted))
            for wanted in (SESSION_EXPIRED, POLL_TIMEOUT)
        )
        if expired or poll_timeout:
            at_ms = rebalance.completed_at_ms or rebalance.started_before_ms
            self._timed_out.append(TimedOut(rebalance.group, rebalance.rebalance_id, at_ms, expired, poll_timeout))
        return told.union(expired, poll_timeout)

    def _followed(self, case: Case, rebalance: Rebalance, verdict: Verdict) -> Verdict:
        """Give a rebalance that only continues the one before that one's cause."""
        if verdict.rule != FOLLOWS:
            return verdict
        before = case.history.before(rebalance)
        cause = None if before is None else case.judged.get(before.rebalance_id)
        if cause is None:
            return replace(verdict, rule=UNDETERMINED, confidence=0.3)
        return replace(
            cause.verdicts[0],
            confidence=min(cause.verdicts[0].confidence, verdict.confidence),
            rebalance_ids=verdict.rebalance_ids,
        )

    def _elsewhere(self, group: str, rebalance: Rebalance) -> Elsewhere:
        at_ms = rebalance.started_before_ms
        near = [
            (name, past) for name, past in self._losses if name != group and abs(past.left_ms - at_ms) <= SAME_TIME_MS
        ]
        together = {group, *(name for name, _ in near)}
        # A host on which some other group lost nobody is not the reason.
        hosts = {past.member.host for _, past in near if self._on_host.get(past.member.host, set()) <= together}
        coordinators = {
            case.history.coordinators[-1].broker
            for name, _ in near
            if (case := self._cases.get(name)) is not None and case.history.coordinators
        }
        return Elsewhere(
            tuple(sorted({name for name, _ in near})),
            tuple(sorted(hosts)),
            tuple(sorted(coordinators)),
        )

    def _look(self, case: Case) -> Look:
        past, probe_ms = tuple(case.past), self._config.probe_interval_ms
        return Look(case.history, case.thresholds, self.now_ms, past, case.causes(), probe_ms)

    def _publish(self, case: Case, look: Look, statements: Iterable[Statement], *, harmed: bool) -> list[Finding]:
        group, kept = case.history.group, list(statements)
        unexplained = self._unexplained_today(kept)
        recurs = unexplained >= case.thresholds.recurring_per_day
        if unexplained and not recurs:
            recurs = look.churn() >= case.thresholds.churn_share
        weighed = [replace(each, verdict=self._weigh(group, each, harmed=harmed, recurs=recurs)) for each in kept]
        changed, withdrawn = self.book.update(group, weighed, self.now_ms, case.thresholds.resolve_after_ms)
        self._withdrawn += withdrawn
        return changed

    def _unexplained_today(self, statements: Iterable[Statement]) -> int:
        since_ms = self.now_ms - DAY_MS
        unexplained = [each for each in statements if each.primary and each.verdict.rule == UNDETERMINED]
        return sum((each.last_ms or 0) >= since_ms for each in unexplained)

    def _weigh(self, group: str, statement: Statement, *, harmed: bool, recurs: bool) -> Verdict:
        """Set the severity: page only where consumption is harmed now, nothing for what is silenced."""
        verdict = statement.verdict
        severity = verdict.severity or diagnosis(verdict.rule).severity
        if verdict.rule == UNDETERMINED and recurs:
            severity = TICKET
        if severity == TICKET and harmed and statement.primary:
            severity = PAGE
        if self._config.silenced(group, verdict.rule, self.now_ms):
            severity = INFO
        return replace(verdict, severity=severity)

    def disturbances(self) -> list[Finding]:
        """Judge what groups suffered together; returns findings of the whole cluster that changed."""
        hosts = {name: case.history for name, case in self._cases.items()}
        verdicts = cluster_wide(
            self._losses, hosts, self._config.thresholds.scaled(self._config.window_scale), self.now_ms
        )
        changed, withdrawn = self.book.update(
            "", [Statement(each, False, None) for each in verdicts], self.now_ms, _SWEEP_MS
        )
        self._withdrawn += withdrawn
        return changed
