"""Judges one group: evaluates the rules whose answers may have changed, and turns the verdicts that hold into findings.

Receives groups that are due; returns the findings that changed, and records in the group's timetable when the stated
findings may change. The agenda decides when a group is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rebalance_contract import Finding, RebalanceOutcome
from rebalance_streaming.detect.agenda import WAITING_MS
from rebalance_streaming.detect.catalogue import diagnosis
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.explaining import HORIZON_SLACK_MS, Explainer
from rebalance_streaming.detect.findings import Findings
from rebalance_streaming.detect.group_view import DAY_MS, GroupView
from rebalance_streaming.detect.judged_group import SAME_TIME_MS, JudgedGroup
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.quarantine import Quarantine
from rebalance_streaming.detect.rules.barrier import waiting_now
from rebalance_streaming.detect.rules.registry import AGGREGATES
from rebalance_streaming.detect.severity import with_severities
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.cluster_commits import ClusterCommits
from rebalance_streaming.observed.history import SEEN_FOR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJudge:
    """Judges one group at a time. `findings` are those of the whole cluster; withdrawn ones go into `withdrawn`."""

    config: DetectConfig
    quarantine: Quarantine
    findings: Findings
    withdrawn: list[Finding]
    explainer: Explainer
    commits: ClusterCommits

    def judge(self, judged_group: JudgedGroup, now_ms: int) -> list[Finding]:
        """Evaluate the rules whose answers may have changed; return the findings that changed."""
        group, timetable = judged_group.history.group, judged_group.timetable
        changed, due = timetable.take_changed(now_ms), timetable.take_rebalances(now_ms)
        if due or _is_recent(judged_group, now_ms):
            changed |= self.explainer.explain(judged_group, due, changed, now_ms)
        judged_group.note_held([each for each in judged_group.answers.verdicts() if not each.claims], now_ms)
        view = judged_group.view(now_ms, self.config.probe_interval_ms)
        another = judged_group.answers.ask(view, changed, self.quarantine)
        state = partial(self._state, judged_group, view, changed, another=another)
        found = self.quarantine.ask("state", group, now_ms, state, list[Finding]())
        if self.quarantine.is_quarantined("state", group, now_ms):
            timetable.restate_ms = self.quarantine.quarantined_until_ms("state", group)
        timetable.rests_on = judged_group.answers.rests_on()
        return found

    def _state(self, judged_group: JudgedGroup, view: GroupView, changed: int, *, another: bool) -> list[Finding]:
        """Return the findings that changed; return early if nothing they depend on has changed."""
        now_ms, restate_ms = view.now_ms, judged_group.timetable.restate_ms
        due = restate_ms is not None and restate_ms <= now_ms
        must = another or due or changed & (inputs.GROUP | inputs.STATES) or judged_group.is_joining(now_ms)
        looks_for_harm = must or (judged_group.minds_harm and changed & inputs.BULK)
        until = JudgingTime(now_ms)
        harmed = replace(view, time=until).lag_grows() if looks_for_harm else judged_group.harmed
        if not must and harmed == judged_group.harmed:
            judged_group.await_harm(until.due_ms)
            return []
        judged_group.harmed, found = harmed, list(judged_group.answers.verdicts())
        stated = judged_group.state([each for each in found if each.claims], now_ms)
        causes = {name: each.rule for each in stated if each.primary for name in each.rebalance_ids}
        view = replace(view, causes=causes, time=JudgingTime(now_ms))
        standing = [each for each in found if not each.claims and not self._is_behind(judged_group, each)]
        standing += self._holding(judged_group, standing, now_ms, harmed=harmed)
        stated += [replace(each, primary="stands_alone" in diagnosis(each.rule).traits) for each in standing]
        sums = [verdict for rule in AGGREGATES for verdict in rule(view)]
        stated += [judged_group.secondary(each, now_ms) for each in sums]
        published = self._publish(judged_group, view, stated, harmed=harmed)
        judged_group.await_harm(until.due_ms)
        return published

    def _holding(
        self, judged_group: JudgedGroup, standing: Sequence[Verdict], now_ms: int, *, harmed: bool
    ) -> list[Verdict]:
        """Return verdicts on what blocks the group now, or blocked it until recently, that are not in `standing`."""
        limits = judged_group.thresholds
        waiting = waiting_now(judged_group.history, now_ms, limits.barrier_ms, limits.barrier_page_ms, lag_grows=harmed)
        now = [] if waiting is None else [waiting]
        judged_group.note_held([*standing, *now], now_ms)
        since_ms = now_ms - self.config.settle_ms - 2 * SAME_TIME_MS
        return [*now, *judged_group.released([*standing, *now], since_ms)]

    def _is_behind(self, judged_group: JudgedGroup, verdict: Verdict) -> bool:
        """Whether the monitor itself may lag behind: no group is known to have committed since the standstill began."""
        rests_on_commits = "missing_commits" in diagnosis(verdict.rule).traits
        return rests_on_commits and self.commits.hold_back(judged_group.history.group, verdict.started_at_ms)

    def _publish(
        self, judged_group: JudgedGroup, view: GroupView, stated: Sequence[Verdict], *, harmed: bool
    ) -> list[Finding]:
        weighed = with_severities(stated, view, self.config, harmed=harmed)
        group, resolve_after_ms = judged_group.history.group, judged_group.thresholds.resolve_after_ms
        changed, withdrawn = self.findings.update(group, weighed, view.now_ms, resolve_after_ms, judged_group.unjudged)
        self.withdrawn.extend(withdrawn)
        judged_group.minds_harm = any(each.primary or "gathers" in diagnosis(each.rule).traits for each in weighed)
        judged_group.timetable.restate_ms = self._restate_ms(judged_group, view.time, weighed)
        return changed

    def _restate_ms(self, judged_group: JudgedGroup, time: JudgingTime, stated: Sequence[Verdict]) -> int | None:
        """Return when the stated findings may change by time alone (epoch ms); null: never."""
        resolve_after_ms = judged_group.thresholds.resolve_after_ms
        ends = [each.last_ms for each in stated if each.last_ms is not None]
        times = [at_ms + lasts_ms for at_ms in ends for lasts_ms in (resolve_after_ms, DAY_MS + 1)]
        times += [each.until_ms for each in self.config.silences if each.until_ms is not None]
        times += self.findings.ends_ms(judged_group.history.group, resolve_after_ms)
        if time.due_ms is not None:
            times.append(time.due_ms)
        if judged_group.timetable.waiting and judged_group.held:
            times.append(time.now_ms + WAITING_MS)
        if judged_group.is_joining(time.now_ms):
            times.append(judged_group.history.sightings[-1].at_ms + SEEN_FOR_MS + 1)
        return min((each for each in times if each > time.now_ms), default=None)


def _is_recent(judged_group: JudgedGroup, now_ms: int) -> bool:
    """Whether the group is rebalancing or did so recently, so that causes may change."""
    latest, limits = judged_group.history.latest(), judged_group.thresholds
    if latest is None:
        return False
    horizon = max(limits.stay_ms, limits.storm_window_ms, limits.churn_window_ms) + HORIZON_SLACK_MS
    ended_ms = now_ms if latest.outcome == RebalanceOutcome.ONGOING else latest.last_known_ms
    return ended_ms >= now_ms - horizon
