"""Feeds groups' histories with the stream's rows and judges them: the diagnosis of a whole cluster.

Receives group snapshots, rebalances, commit summaries, probes and client reports in about the order of their times;
hands on findings whenever they change. Time is what it is told: the clock when live, the records' own in a replay. A
rebalance is judged a while after its end, when late generations, commits and probes have arrived, and again when later
events shed light on it.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rebalance_contract import (
    UNDETERMINED,
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
    Severity,
)
from rebalance_streaming.detect.case import SAME_TIME_MS, Case, JudgedRebalance
from rebalance_streaming.detect.catalogue import diagnosis
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.episode import EpisodeContext, look_at
from rebalance_streaming.detect.findings import Findings, subject_key
from rebalance_streaming.detect.look import DAY_MS, Look
from rebalance_streaming.detect.quarantine import OnQuarantine, Quarantine
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.rules.barrier import waiting_now
from rebalance_streaming.detect.rules.benign import FOLLOWS, not_understood
from rebalance_streaming.detect.rules.kip848 import held_up
from rebalance_streaming.detect.rules.patterns import lag_grows
from rebalance_streaming.detect.rules.registry import AGGREGATES
from rebalance_streaming.detect.shared_losses import SharedLosses
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import CLAIMED, HINT
from rebalance_streaming.observed.coordinator_log import RebalanceStart
from rebalance_streaming.observed.departures import POLL_TIMEOUT, SESSION_EXPIRED, Departure
from rebalance_streaming.observed.heartbeats import time_group
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.plausible import (
    ImplausibleError,
    check_commits,
    check_ends,
    check_events,
    check_group,
    check_probe,
    check_rebalance,
)
from rebalance_streaming.observed.routing import Routing

#: How long after the first bulky row a group is judged, and where a standing finding rests on such rows.
_BULK_MS, _BULK_STANDING_MS = 30_000, 5_000
#: A group in its join phase is looked at this often: how long it waits is told.
_WAITING_MS = 5_000
#: Everything is asked again this often, in case a rule declared too little.
_SWEEP_MS = 600_000
#: Groups that only probes or clients name are forgotten when nothing was heard of them for so long, and are so many.
_UNCONFIRMED_MS, _MOST_UNCONFIRMED = 1_800_000, 5_000
#: Rebalances judged again when something new is known of their group.
_RECONSIDERED = 30
#: Later rows than this after the longest window shed no light on a rebalance.
_HORIZON_SLACK_MS = 60_000


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Members, by id, that left a group in one rebalance because a time-out was over: the session, or max.poll.

    `at_ms` is when the rebalance ended.
    """

    group: str
    rebalance_id: str
    at_ms: int
    expired: tuple[str, ...] = ()
    poll_timeout: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that changed.

    `findings`: each that is new, another or over, those of the whole cluster under the group "". `withdrawn`: those
    that a better explanation replaced, or whose group is gone. `timed_out`: members that left because a time-out was
    over.
    """

    findings: tuple[Finding, ...] = ()
    withdrawn: tuple[Finding, ...] = ()
    timed_out: tuple[TimedOut, ...] = ()


class Detector:
    """Judges all groups of one cluster. Rebalances that ended before `judge_from_ms` are history only.

    `quarantined` counts what was set aside because it raised, by stage and reason; `on_quarantine` is told each time.
    """

    def __init__(
        self,
        cluster: str,
        config: DetectConfig | None = None,
        judge_from_ms: int = 0,
        on_quarantine: OnQuarantine | None = None,
    ) -> None:
        self._cluster, self._config = cluster, config or DetectConfig()
        self._limits = self._config.thresholds.scaled(self._config.window_scale)
        self._quarantine = Quarantine(on_quarantine)
        self._judge_from_ms = judge_from_ms
        self._cases: dict[str, Case] = {}
        self._dirty: set[str] = set()
        self._routing = Routing()
        self._losses = SharedLosses(self._coordinator_of)
        #: Groups whose members were lost in what the whole cluster suffered.
        self._disturbed: set[str] = set()
        self._withdrawn: list[Finding] = []
        #: When to judge a group next; entries that are not the group's `scheduled_ms` are out of date.
        self._agenda: list[tuple[int, str]] = []
        #: Groups whose standstill may be the monitor's own, with when it began.
        self._held_back: dict[str, int] = {}
        self._unconfirmed = 0
        self._timed_out: list[TimedOut] = []
        self._committing: set[str] = set()
        self._last_commit_ms = 0
        self.findings = Findings(cluster)
        self.now_ms = 0

    # --- What happens ---

    @property
    def quarantined(self) -> Mapping[tuple[str, str], int]:
        """How often something was set aside, by stage and reason."""
        return self._quarantine.counts

    @property
    def dropped_reports(self) -> int:
        """How many clients' reports were given up because neither the log nor a probe told of their group."""
        return self._routing.dropped

    def take_group(self, picture: GroupSnapshot) -> None:
        """Take up a group's present picture."""
        self._quarantine.attempt("take_group", picture.group, lambda: self._take_group(picture), None)

    def _take_group(self, picture: GroupSnapshot) -> None:
        check_group(picture, self.now_ms)
        case = self._case(picture.group, confirmed=True)
        if case is None or (before := case.history.picture) == picture:
            return
        case.history.take_group(picture, self.now_ms)
        self._losses.take_group(picture.group, before, case.history.picture)
        self._note_members(case, picture.members)
        self._touch(case, inputs.GROUP)

    def take_rebalance(self, rebalance: Rebalance) -> None:
        """Take up a version of a rebalance."""
        self._quarantine.attempt("take_rebalance", rebalance.group, lambda: self._take_rebalance(rebalance), None)

    def _take_rebalance(self, rebalance: Rebalance) -> None:
        check_rebalance(rebalance, self.now_ms)
        case = self._case(rebalance.group, confirmed=True)
        if case is None or case.history.rebalances.get(rebalance.rebalance_id) == rebalance:
            return
        case.history.take_rebalance(rebalance)
        self._note_members(case, (*rebalance.members_before, *rebalance.members_after))
        self._await(case, rebalance)
        self._touch(case, inputs.GROUP)

    def _await(self, case: Case, rebalance: Rebalance) -> None:
        """Put a rebalance down for judgement; one that goes on and on is judged on the way, not at its last end."""
        end_ms = rebalance.completed_at_ms
        if rebalance.outcome == RebalanceOutcome.ONGOING or end_ms is None or end_ms < self._judge_from_ms:
            return
        again = rebalance.rebalance_id in case.judged
        due_ms = self.now_ms + SAME_TIME_MS if again else end_ms + self._config.settle_ms
        if rebalance.rebalance_id not in case.waiting:
            case.waiting[rebalance.rebalance_id] = due_ms
            self._schedule(case, due_ms)

    def take_commits(self, row: CommitActivity) -> None:
        """Take up packed commits."""
        self._quarantine.attempt("take_commits", row.group, lambda: self._take_commits(row), None)

    def _take_commits(self, row: CommitActivity) -> None:
        check_commits(row, self.now_ms)
        case = self._case(row.group, confirmed=True)
        if case is not None:
            case.history.progress.take_commits(row)
            self._committing.add(row.group)
            self._last_commit_ms = max(self._last_commit_ms, case.history.progress.last_commit_ms or 0)
            self._touch(case, inputs.COMMITS)

    def take_probe(self, probe: Probe) -> None:
        """Take up a probe."""
        self._quarantine.attempt("take_probe", probe.group, lambda: self._take_probe(probe), None)

    def _take_probe(self, probe: Probe) -> None:
        check_probe(probe, self.now_ms)
        case = self._case(probe.group)
        if case is None:
            return
        changed = case.history.take_probe(probe)
        if changed:
            self._touch(case, changed)

    def take_offsets(self, row: OffsetActivity) -> None:
        """Take up probed end offsets."""
        self._quarantine.attempt("take_offsets", row.group, lambda: self._take_offsets(row), None)

    def _take_offsets(self, row: OffsetActivity) -> None:
        check_ends(row, self.now_ms)
        case = self._case(row.group)
        if case is not None and (changed := case.history.take_offsets(row)):
            self._touch(case, changed)

    def take_impact(self, impact: RebalanceImpact) -> None:
        """Take up what a rebalance cost, as far as it is known."""
        case = self._cases.get(impact.group)
        if case is not None and case.history.take_impact(impact):
            self._touch(case, inputs.GROUP)

    def take_clients(self, row: ClientActivity) -> None:
        """Take up what a client said of itself; a row whose group is not known yet is kept for a while.

        Clients name groups as they like: one makes no group, it is known by the log or by probes.
        """
        if row.group_id not in self._cases and self._config.ignores(row.group_id or ""):
            return
        for group, each in self._routing.route(row):
            case = self._cases.get(group)
            if case is not None:
                case.history.clients.take(each)
                self._touch(case, inputs.CLIENTS)

    def take_coordinator(self, row: CoordinatorActivity) -> None:
        """Take up what a group's coordinators wrote in their brokers' logs."""
        self._quarantine.attempt("take_coordinator", row.group, lambda: self._take_coordinator(row), None)

    def _take_coordinator(self, row: CoordinatorActivity) -> None:
        check_events(row, self.now_ms)
        case = self._case(row.group)
        if case is not None and case.history.coordinator_log.take(row.events):
            self._touch(case, inputs.STATES)

    def starts(self, group: str) -> Iterator[tuple[str, RebalanceStart]]:
        """Yield when coordinators began to prepare a group's latest rebalances, by the ids of these."""
        case = self._cases.get(group)
        if case is None or case.history.coordinator_log.is_empty():
            return
        for rebalance in case.history.in_order()[-_RECONSIDERED:]:
            if (start := case.history.coordinator_log.start_of(rebalance)) is not None:
                yield rebalance.rebalance_id, start

    def _note_members(self, case: Case, members: Iterable[Member]) -> None:
        """Learn who is in a group, and take up what its clients said before that was known."""
        group = case.history.group
        known = tuple(members)
        if self._routing.note_members(group, known):
            for each in self._routing.waiting_for(group, known):
                case.history.clients.take(each)
                self._touch(case, inputs.CLIENTS)

    def forget_group(self, group: str) -> None:
        """Drop a group that is gone for good; what was found of it is over."""
        self._dirty.discard(group)
        self._routing.groups.discard(group)
        case = self._cases.pop(group, None)
        if case is None:
            return
        self._unconfirmed -= not case.confirmed
        self._held_back.pop(group, None)
        self._committing.discard(group)
        self._quarantine.forget(group)
        self._losses.take_group(group, case.history.picture, None)
        ended, withdrawn = self.findings.update(group, (), self.now_ms, 0)
        self._withdrawn += [*ended, *withdrawn]
        self.findings.forget_group(group)

    # --- What it means ---

    def advance(self, now_ms: int, most: int | None = None) -> Judgement:
        """Judge what is due at a time in epoch milliseconds; returns everything that changed since the last call.

        `most`: groups judged in this call, those with rebalances that wait for it first; the others are judged at the
        next calls. Null: all.
        """
        self.now_ms = max(self.now_ms, now_ms)
        changed: list[Finding] = []
        for group in self._take_turns(self._due(), most):
            changed += self._judge(self._cases[group])
        return self._judgement([*changed, *self._disturbances()])

    def _take_turns(self, due: list[str], most: int | None) -> list[str]:
        if most is None or len(due) <= most:
            return due
        due.sort(key=lambda group: not self._cases[group].waiting)
        self._dirty.update(due[most:])
        return due[:most]

    def finish(self) -> Judgement:
        """Judge everything with what there is: no more will come."""
        for case in self._cases.values():
            case.waiting = dict.fromkeys(case.waiting, 0)
        changed: list[Finding] = []
        # The first groups are judged before what the last ones lost is known, so all once more where that matters.
        for _ in range(2 if self._losses else 1):
            for group in sorted(self._cases):
                self._cases[group].changed = inputs.EVERYTHING
                changed += self._judge(self._cases[group])
        return self._judgement([*changed, *self._disturbances()])

    def _judgement(self, changed: list[Finding]) -> Judgement:
        found = Judgement(tuple(changed), tuple(self._withdrawn), tuple(self._timed_out))
        self._withdrawn, self._timed_out = [], []
        return found

    def timings(self, now_ms: int) -> Iterator[GroupTiming]:
        """Yield the heartbeat timing of every group whose clients report."""
        for group, case in self._cases.items():
            if case.history.clients.known:
                timing = self._quarantine.ask("timing", group, now_ms, partial(time_group, case.history, now_ms), None)
                if timing is not None:
                    yield timing

    def causes(self, group: str) -> Mapping[str, str]:
        """Return the primary cause of every judged rebalance of a group, by rebalance id."""
        case = self._cases.get(group)
        return {} if case is None else case.causes()

    def _case(self, group: str, *, confirmed: bool = False) -> Case | None:
        """Return a group's case; null for groups that are ignored.

        Raises ImplausibleError where too many are known from probes and reports only.
        """
        case = self._cases.get(group)
        if case is None:
            if self._config.ignores(group):
                return None
            if not confirmed and self._unconfirmed >= _MOST_UNCONFIRMED:
                raise ImplausibleError("more groups than can be that only probes and clients name")
            case = self._cases[group] = Case(GroupHistory(self._cluster, group), self._config.for_group(group))
            case.looked_ms, self._unconfirmed = self.now_ms, self._unconfirmed + 1
            # Sweeps are spread over time.
            case.sweep_ms = self.now_ms + zlib.crc32(group.encode(errors="replace")) % _SWEEP_MS
            self._schedule(case, min(case.sweep_ms, self.now_ms + _BULK_MS))
            self._note_members(case, ())
        if confirmed and not case.confirmed:
            case.confirmed, self._unconfirmed = True, self._unconfirmed - 1
        case.heard_ms = self.now_ms
        return case

    # --- When ---

    def _touch(self, case: Case, changed: int) -> None:
        """Note which inputs of a group changed: it is judged at once, or soon where such rows come all the time."""
        case.changed |= changed
        if changed & ~inputs.BULK:
            self._dirty.add(case.history.group)
        else:
            self._schedule(case, case.looked_ms + (_BULK_STANDING_MS if case.rests_on & changed else _BULK_MS))

    def _schedule(self, case: Case, at_ms: int) -> None:
        """Put a group on the agenda, unless it is there for sooner."""
        if case.scheduled_ms is None or at_ms < case.scheduled_ms:
            case.scheduled_ms = at_ms
            heapq.heappush(self._agenda, (at_ms, case.history.group))

    def _due(self) -> list[str]:
        """Return the groups something happened to, and those whose time has come."""
        due = {group for group in self._dirty if group in self._cases}
        self._dirty.clear()
        while self._agenda and self._agenda[0][0] <= self.now_ms:
            at_ms, group = heapq.heappop(self._agenda)
            case = self._cases.get(group)
            if case is not None and case.scheduled_ms == at_ms:
                case.scheduled_ms = None
                due.add(group)
        for group in [name for name, began_ms in self._held_back.items() if self._last_commit_ms > began_ms]:
            del self._held_back[group]
            self._cases[group].restate_ms = self.now_ms
            due.add(group)
        for group in [each for each in due if self._is_invented(self._cases[each])]:
            due.discard(group)
            self.forget_group(group)
        return sorted(due)

    def _is_invented(self, case: Case) -> bool:
        """Whether nothing but probes and clients ever named a group, and these stopped long ago."""
        return not case.confirmed and self.now_ms - case.heard_ms >= _UNCONFIRMED_MS

    def _next_ms(self, case: Case) -> int:
        """Return when a group is to be judged next if nothing happens to it."""
        times = [case.sweep_ms, *case.waiting.values()]
        for at_ms in (case.answers.due_ms(), case.restate_ms):
            if at_ms is not None:
                times.append(max(at_ms, self.now_ms + 1))
        if case.changed & inputs.BULK:
            times.append(self.now_ms + _BULK_MS)
        times += [at_ms for at_ms in case.explain_ms.values() if at_ms > self.now_ms]
        if case.is_waiting(self.now_ms):
            times.append(self.now_ms + _WAITING_MS)
        return min(times)

    def _is_recent(self, case: Case) -> bool:
        """Whether the group rebalances, or did so lately: then all is judged anew whenever it is looked at."""
        latest, limits = case.history.latest(), case.thresholds
        if latest is None:
            return False
        horizon = max(limits.stay_ms, limits.storm_window_ms, limits.churn_window_ms) + _HORIZON_SLACK_MS
        ended_ms = self.now_ms if latest.outcome == RebalanceOutcome.ONGOING else latest.last_known_ms
        return ended_ms >= self.now_ms - horizon

    # --- One group ---

    def _judge(self, case: Case) -> list[Finding]:
        """Ask what may have another answer, and state what became of it."""
        group = case.history.group
        changed, case.changed, case.looked_ms = case.changed, inputs.NOTHING, self.now_ms
        if self.now_ms >= case.sweep_ms:
            case.sweep_ms += max(_SWEEP_MS, (self.now_ms - case.sweep_ms) // _SWEEP_MS * _SWEEP_MS + _SWEEP_MS)
            changed = inputs.EVERYTHING
        ready = case.take_ready(self.now_ms)
        due = ready | {name for name, at_ms in case.explain_ms.items() if at_ms <= self.now_ms}
        if due or self._is_recent(case):
            changed = inputs.EVERYTHING
            self._explain(case, due)
        case.note_held([each for each in case.answers.verdicts() if not each.claims], self.now_ms)
        look = self._look(case)
        another = case.answers.ask(look, changed, self._quarantine)
        nothing: list[Finding] = []
        found = self._quarantine.ask(
            "state", group, self.now_ms, lambda: self._state(case, look, changed, another=another), nothing
        )
        case.rests_on = case.answers.rests_on()
        self._schedule(case, self._next_ms(case))
        return found

    def _state(self, case: Case, look: Look, changed: int, *, another: bool) -> list[Finding]:
        """State what holds, unless it is what was stated before."""
        due = case.restate_ms is not None and case.restate_ms <= self.now_ms
        must = another or due or changed & (inputs.GROUP | inputs.STATES) or case.is_waiting(self.now_ms)
        look.deadline.at_ms = None
        harmed = lag_grows(look) if must or (case.minds_harm and changed & inputs.BULK) else case.harmed
        if not must and harmed == case.harmed:
            return []
        case.harmed, found = harmed, list(case.answers.verdicts())
        stated = case.state([each for each in found if each.claims], self.now_ms)
        causes = {name: each.rule for each in stated if each.primary for name in each.rebalance_ids}
        look = replace(look, causes=causes)
        standing = [each for each in found if not each.claims and not self._is_behind(case, each)]
        standing += self._holding(case, standing, harmed=harmed)
        stated += case.state_standing(standing)
        stated += case.state_storms([verdict for rule in AGGREGATES for verdict in rule(look)], self.now_ms)
        return self._publish(case, look, stated, harmed=harmed)

    def _holding(self, case: Case, standing: Sequence[Verdict], *, harmed: bool) -> list[Verdict]:
        """Return what else holds the group up, now or until a moment ago."""
        limits = case.thresholds
        waiting = waiting_now(case.history, self.now_ms, limits.barrier_ms, limits.barrier_page_ms, lag_grows=harmed)
        now = [] if waiting is None else [waiting]
        case.note_held([*standing, *now], self.now_ms)
        since_ms = self.now_ms - self._config.settle_ms - 2 * SAME_TIME_MS
        return [*now, *case.released([*standing, *now], since_ms)]

    def _is_behind(self, case: Case, verdict: Verdict) -> bool:
        """Whether a standstill may be the monitor's own: no group at all is known to have committed since it began."""
        if "missing_commits" not in diagnosis(verdict.rule).traits or len(self._committing) < 2:
            return False
        behind = self._last_commit_ms <= verdict.started_at_ms
        if behind:
            self._held_back[case.history.group] = verdict.started_at_ms
        return behind

    def _explain(self, case: Case, ready: set[str]) -> None:
        """Judge rebalances that are ready, and those before them again: a return sheds light on a departure."""
        order = [each for each in case.history.in_order() if each.rebalance_id in ready | case.judged.keys()]
        if not order:
            return
        horizon = self.now_ms - max(case.thresholds.stay_ms, case.thresholds.storm_window_ms) - _HORIZON_SLACK_MS
        again = [each for each in order[-_RECONSIDERED:] if each.started_before_ms >= horizon]
        recent = {each.rebalance_id for each in again} | ready
        for rebalance in order:
            if rebalance.rebalance_id in recent:
                self._try_to_explain(case, rebalance)
        case.keep(order)

    def _try_to_explain(self, case: Case, rebalance: Rebalance) -> None:
        """Judge a rebalance; one that cannot be, because something in it is odd, has a cause that nobody can tell."""
        group, name = case.history.group, rebalance.rebalance_id
        explained = self._quarantine.ask(
            "explain", group, self.now_ms, lambda: self._explain_one(case, rebalance), False, about=name
        )
        if not explained and name not in case.judged:
            case.put(JudgedRebalance(rebalance, (not_understood(rebalance),), {}))

    def _explain_one(self, case: Case, rebalance: Rebalance) -> bool:
        known = case.judged.get(rebalance.rebalance_id)
        first_time = known is None
        earlier = [each for each in case.past if each.left_ms <= (rebalance.completed_at_ms or self.now_ms)]
        episode = look_at(
            case.history,
            rebalance,
            case.thresholds,
            self.now_ms,
            EpisodeContext(
                earlier,
                {} if known is None else known.departures,
                (*case.held_during(rebalance), *held_up(self._look(case), rebalance)),
                self._losses.elsewhere(case.history.group, rebalance),
            ),
        )
        verdicts = tuple(self._followed(case, rebalance, each) for each in explain(episode))
        case.explain_ms.pop(rebalance.rebalance_id, None)
        if episode.deadline.at_ms is not None:
            case.explain_ms[rebalance.rebalance_id] = episode.deadline.at_ms
        departures = {each.member.member_id: each for each in episode.departures}
        told = self._tell_timed_out(rebalance, departures, frozenset() if known is None else known.told)
        left = case.put(JudgedRebalance(rebalance, verdicts, departures, told))
        if first_time:
            self._shed_light(self._losses.take(case.history.group, left))
        return True

    def _shed_light(self, groups: Iterable[str]) -> None:
        """Have groups judged again that lost members at the same time as another one."""
        for group in groups:
            case = self._cases.get(group)
            if case is not None:
                self._schedule(case, self.now_ms + 1)

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
            at_ms = rebalance.last_known_ms
            self._timed_out.append(TimedOut(rebalance.group, rebalance.rebalance_id, at_ms, expired, poll_timeout))
        return told.union(expired, poll_timeout)

    def _followed(self, case: Case, rebalance: Rebalance, verdict: Verdict) -> Verdict:
        """Give a rebalance that only continues the one before that one's cause."""
        if verdict.rule != FOLLOWS:
            return verdict
        before = case.history.before(rebalance)
        cause = None if before is None else case.judged.get(before.rebalance_id)
        if cause is None:
            return replace(verdict, rule=UNDETERMINED, confidence=HINT)
        return replace(
            cause.verdicts[0],
            confidence=min(cause.verdicts[0].confidence, verdict.confidence),
            rebalance_ids=verdict.rebalance_ids,
        )

    def _look(self, case: Case) -> Look:
        past, probe_ms = tuple(case.past), self._config.probe_interval_ms
        return Look(case.history, case.thresholds, self.now_ms, past, case.causes(), probe_ms)

    def _publish(self, case: Case, look: Look, stated: Sequence[Verdict], *, harmed: bool) -> list[Finding]:
        group, unexplained = case.history.group, self._unexplained_today(stated)
        recurs = unexplained >= case.thresholds.recurring_per_day
        if unexplained and not recurs:
            recurs = look.churn() >= case.thresholds.churn_share
        sure: dict[tuple[str, str], float] = {}
        for each in stated:
            key = (each.rule, subject_key(each))
            sure[key] = max(each.confidence, sure.get(key, 0.0))
        claimed = {key for key, confidence in sure.items() if confidence >= CLAIMED}
        weighed = [self._weigh(group, each, claimed, harmed=harmed, recurs=recurs) for each in stated]
        changed, withdrawn = self.findings.update(group, weighed, self.now_ms, case.thresholds.resolve_after_ms)
        self._withdrawn += withdrawn
        case.minds_harm = any(each.primary or "gathers" in diagnosis(each.rule).traits for each in weighed)
        case.restate_ms = self._restate_ms(case, look, weighed)
        return changed

    def _restate_ms(self, case: Case, look: Look, stated: Sequence[Verdict]) -> int | None:
        """Return when what was stated becomes something else by the time alone; null: never."""
        ends = [each.last_ms for each in stated if each.last_ms is not None]
        times = [at_ms + lasts_ms for at_ms in ends for lasts_ms in (case.thresholds.resolve_after_ms, DAY_MS + 1)]
        times += [each.until_ms for each in self._config.silences if each.until_ms is not None]
        times += [each.updated_at_ms for each in self.findings.firing(case.history.group)]
        if look.deadline.at_ms is not None:
            times.append(look.deadline.at_ms)
        if case.waiting and case.held:
            times.append(self.now_ms + _WAITING_MS)
        return min((each for each in times if each > self.now_ms), default=None)

    def _unexplained_today(self, stated: Iterable[Verdict]) -> int:
        since_ms = self.now_ms - DAY_MS
        return sum(each.primary and each.rule == UNDETERMINED and (each.last_ms or 0) >= since_ms for each in stated)

    def _weigh(
        self, group: str, verdict: Verdict, claimed: Collection[tuple[str, str]], *, harmed: bool, recurs: bool
    ) -> Verdict:
        """Set the severity: page only where consumption is harmed now, nothing for hints and for what is silenced.

        `claimed`: what is claimed surely enough, by rule and subject.
        """
        severity = verdict.severity or diagnosis(verdict.rule).severity
        if verdict.rule == UNDETERMINED and recurs:
            severity = Severity.TICKET
        if severity == Severity.TICKET and harmed and verdict.primary:
            severity = Severity.PAGE
        sure = (verdict.rule, subject_key(verdict)) in claimed or "unsure" in diagnosis(verdict.rule).traits
        if not sure:
            severity = Severity.INFO  # a hint wakes nobody
        if self._config.silenced(group, verdict.rule, self.now_ms):
            severity = Severity.INFO
        return replace(verdict, severity=severity)

    def _disturbances(self) -> list[Finding]:
        """Judge what groups suffered together; returns findings of the whole cluster that changed."""
        limits = self._limits
        if not self._disturbed and self._losses.latest_ms < self.now_ms - limits.resolve_after_ms:
            return []
        verdicts = self._losses.disturbances(limits, self.now_ms)
        changed, withdrawn = self.findings.update("", verdicts, self.now_ms, limits.resolve_after_ms)
        self._withdrawn += withdrawn
        named = {name for each in verdicts for name in each.rebalance_ids}
        concerned = self._losses.groups_of(named)
        if changed:
            # A part names what it is a part of.
            self._dirty |= concerned | self._disturbed
        self._disturbed = concerned
        return changed

    def _coordinator_of(self, group: str) -> int | None:
        """Return the broker that coordinates a group, as last probed."""
        case = self._cases.get(group)
        return case.history.coordinators[-1].broker if case is not None and case.history.coordinators else None
