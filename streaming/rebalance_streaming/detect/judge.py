"""One group's turn: rules are asked what may have another answer, and what holds of all they say becomes findings.

Receives cases whose time has come, with all that changed in them; hands on the findings that changed, and notes in
their timetables when what was stated may be something else. When a group's time has come is the agenda's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rebalance_contract import Finding, RebalanceOutcome
from rebalance_streaming.detect.agenda import WAITING_MS
from rebalance_streaming.detect.case import SAME_TIME_MS, Case
from rebalance_streaming.detect.catalogue import diagnosis
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.explaining import HORIZON_SLACK_MS, Explainer
from rebalance_streaming.detect.findings import Findings
from rebalance_streaming.detect.look import DAY_MS, Look
from rebalance_streaming.detect.quarantine import Quarantine
from rebalance_streaming.detect.rules.barrier import waiting_now
from rebalance_streaming.detect.rules.patterns import lag_grows
from rebalance_streaming.detect.rules.registry import AGGREGATES
from rebalance_streaming.detect.severity import with_severities
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.cluster_commits import ClusterCommits


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJudge:
    """Judges one group at a time. `findings` are those of the whole cluster; withdrawn ones go into `withdrawn`."""

    config: DetectConfig
    quarantine: Quarantine
    findings: Findings
    withdrawn: list[Finding]
    explainer: Explainer
    commits: ClusterCommits

    def judge(self, case: Case, now_ms: int) -> list[Finding]:
        """Ask what may have another answer, and state what became of it; returns the findings that changed."""
        group, timetable = case.history.group, case.timetable
        changed, due = timetable.take_changed(now_ms), timetable.take_rebalances(now_ms)
        if due or _is_recent(case, now_ms):
            changed = inputs.EVERYTHING
            self.explainer.explain(case, due, now_ms)
        case.note_held([each for each in case.answers.verdicts() if not each.claims], now_ms)
        look = case.look(now_ms, self.config.probe_interval_ms)
        another = case.answers.ask(look, changed, self.quarantine)
        state = partial(self._state, case, look, changed, another=another)
        found = self.quarantine.ask("state", group, now_ms, state, list[Finding]())
        timetable.rests_on = case.answers.rests_on()
        return found

    def _state(self, case: Case, look: Look, changed: int, *, another: bool) -> list[Finding]:
        """State what holds, unless it is what was stated before."""
        now_ms, restate_ms = look.now_ms, case.timetable.restate_ms
        due = restate_ms is not None and restate_ms <= now_ms
        must = another or due or changed & (inputs.GROUP | inputs.STATES) or case.is_joining(now_ms)
        look.deadline.at_ms = None
        harmed = lag_grows(look) if must or (case.minds_harm and changed & inputs.BULK) else case.harmed
        if not must and harmed == case.harmed:
            return []
        case.harmed, found = harmed, list(case.answers.verdicts())
        stated = case.state([each for each in found if each.claims], now_ms)
        causes = {name: each.rule for each in stated if each.primary for name in each.rebalance_ids}
        look = replace(look, causes=causes)
        standing = [each for each in found if not each.claims and not self._is_behind(case, each)]
        standing += self._holding(case, standing, now_ms, harmed=harmed)
        stated += case.state_standing(standing)
        stated += case.state_storms([verdict for rule in AGGREGATES for verdict in rule(look)], now_ms)
        return self._publish(case, look, stated, harmed=harmed)

    def _holding(self, case: Case, standing: Sequence[Verdict], now_ms: int, *, harmed: bool) -> list[Verdict]:
        """Return what else holds the group up, now or until a moment ago."""
        limits = case.thresholds
        waiting = waiting_now(case.history, now_ms, limits.barrier_ms, limits.barrier_page_ms, lag_grows=harmed)
        now = [] if waiting is None else [waiting]
        case.note_held([*standing, *now], now_ms)
        since_ms = now_ms - self.config.settle_ms - 2 * SAME_TIME_MS
        return [*now, *case.released([*standing, *now], since_ms)]

    def _is_behind(self, case: Case, verdict: Verdict) -> bool:
        """Whether a standstill may be the monitor's own: no group at all is known to have committed since it began."""
        rests_on_commits = "missing_commits" in diagnosis(verdict.rule).traits
        return rests_on_commits and self.commits.hold_back(case.history.group, verdict.started_at_ms)

    def _publish(self, case: Case, look: Look, stated: Sequence[Verdict], *, harmed: bool) -> list[Finding]:
        weighed = with_severities(stated, look, self.config, harmed=harmed)
        group, resolve_after_ms = case.history.group, case.thresholds.resolve_after_ms
        changed, withdrawn = self.findings.update(group, weighed, look.now_ms, resolve_after_ms)
        self.withdrawn.extend(withdrawn)
        case.minds_harm = any(each.primary or "gathers" in diagnosis(each.rule).traits for each in weighed)
        case.timetable.restate_ms = self._restate_ms(case, look, weighed)
        return changed

    def _restate_ms(self, case: Case, look: Look, stated: Sequence[Verdict]) -> int | None:
        """Return when what was stated becomes something else by time alone; null: never."""
        ends = [each.last_ms for each in stated if each.last_ms is not None]
        times = [at_ms + lasts_ms for at_ms in ends for lasts_ms in (case.thresholds.resolve_after_ms, DAY_MS + 1)]
        times += [each.until_ms for each in self.config.silences if each.until_ms is not None]
        times += [each.updated_at_ms for each in self.findings.firing(case.history.group)]
        if look.deadline.at_ms is not None:
            times.append(look.deadline.at_ms)
        if case.timetable.waiting and case.held:
            times.append(look.now_ms + WAITING_MS)
        return min((each for each in times if each > look.now_ms), default=None)


def _is_recent(case: Case, now_ms: int) -> bool:
    """Whether the group rebalances, or did so lately: then all is judged anew whenever it is looked at."""
    latest, limits = case.history.latest(), case.thresholds
    if latest is None:
        return False
    horizon = max(limits.stay_ms, limits.storm_window_ms, limits.churn_window_ms) + HORIZON_SLACK_MS
    ended_ms = now_ms if latest.outcome == RebalanceOutcome.ONGOING else latest.last_known_ms
    return ended_ms >= now_ms - horizon
