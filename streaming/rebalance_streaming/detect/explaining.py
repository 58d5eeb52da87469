"""Finds the causes of a group's rebalances: when one is due, and again when later events may change its explanation.

Receives groups with the rebalances that are due; stores the results in the groups, and in their timetables when these
may change. `judge` evaluates conditions and decides what is stated.

A group that rebalances every few seconds is judged as often, and has dozens of recent rebalances, whose explanations
rarely change. So the older a rebalance is, the less often it is explained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from rebalance_contract import UNDETERMINED, Rebalance
from rebalance_streaming.detect.episode import EpisodeContext, make_episode
from rebalance_streaming.detect.judged_group import JudgedGroup, JudgedRebalance
from rebalance_streaming.detect.judgement import TimedOut
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.quarantine import Quarantine
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.rules.benign import FOLLOWS, not_understood
from rebalance_streaming.detect.rules.kip848 import held_up
from rebalance_streaming.detect.shared_losses import SharedLosses
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import HINT
from rebalance_streaming.observed.departures import POLL_TIMEOUT, SESSION_EXPIRED, UNSYNCED, Departure

#: Number of latest rebalances that are judged again when something new is known of their group.
RECONSIDERED = 30
#: After a change, a rebalance is explained again when its age has grown by this share, at the latest after this time.
_AGE_SHARE, _LATEST_MS = 0.25, 30_000
#: The times of that are multiples of this, so that a group's rebalances are explained together.
_TURN_MS = 5_000
#: Rows later than the longest window plus this do not affect the explanation of a rebalance.
HORIZON_SLACK_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Finds causes of rebalances. `losses` are those of the whole cluster, `probe_ms` is the interval between probes.

    `on_timeouts` is called with the members that a rebalance lost to a timeout, `on_shared_losses` with the other
    groups that lost members at the same time, since their causes may have changed.
    """

    quarantine: Quarantine
    losses: SharedLosses
    probe_ms: int
    on_timeouts: Callable[[TimedOut], None]
    on_shared_losses: Callable[[Iterable[str]], None]

    def explain(self, judged_group: JudgedGroup, due: set[str], changed: int, now_ms: int) -> int:
        """Explain rebalances that are due, and recent ones again: a return may change how a departure is explained.

        `changed` are the inputs of the group that changed since its last judgement. Return those that change hereby.
        """
        names = due | judged_group.judged.keys()
        order = [each for each in judged_group.history.in_order() if each.rebalance_id in names]
        if not order:
            return inputs.NOTHING
        limits = judged_group.thresholds
        horizon = now_ms - max(limits.stay_ms, limits.storm_window_ms) - HORIZON_SLACK_MS
        again = [each for each in order[-RECONSIDERED:] if each.started_before_ms >= horizon]
        recent = {each.rebalance_id for each in again} | due
        others_lost = bool(changed & inputs.LOSSES)
        differs = False
        for rebalance in order:
            name = rebalance.rebalance_id
            if name not in recent:
                continue
            known = judged_group.judged.get(name)
            # Explanations build on those of earlier rebalances.
            if known is None or name in due or differs or others_lost or now_ms >= _again_ms(known):
                self._try_to_explain(judged_group, rebalance, now_ms)
                differs = differs or known is None or known.differs(judged_group.judged[name])
            elif changed:
                judged_group.timetable.explain_by(name, _again_ms(known))
        judged_group.keep(order)
        return inputs.GROUP if differs else inputs.NOTHING

    def _try_to_explain(self, judged_group: JudgedGroup, rebalance: Rebalance, now_ms: int) -> None:
        """Explain a rebalance; if that fails and it has no cause yet, its cause is undetermined.

        One whose cause may change by time is not due again before it is no longer quarantined.
        """
        group, name = judged_group.history.group, rebalance.rebalance_id
        attempt = partial(self._explain, judged_group, rebalance, now_ms)
        explained = self.quarantine.ask("explain", group, now_ms, attempt, False, about=name)
        if explained:
            return
        if name in judged_group.timetable.explain_ms:
            judged_group.timetable.explain_again(name, self.quarantine.quarantined_until_ms("explain", group, name))
        if name not in judged_group.judged:
            judged_group.put(JudgedRebalance(rebalance, (not_understood(rebalance),), {}, now_ms))

    def _explain(self, judged_group: JudgedGroup, rebalance: Rebalance, now_ms: int) -> bool:
        group, name = judged_group.history.group, rebalance.rebalance_id
        known = judged_group.judged.get(name)
        # This view has a time of its own: growing harm alone is no reason to explain the rebalance again.
        held = held_up(judged_group.view(now_ms, self.probe_ms), rebalance)
        context = EpisodeContext(
            [each for each in judged_group.past if each.left_ms <= (rebalance.completed_at_ms or now_ms)],
            {} if known is None else known.departures,
            (*judged_group.held_during(rebalance), *held),
            self.losses.elsewhere(group, rebalance),
        )
        time = JudgingTime(now_ms)
        episode = make_episode(judged_group.history, rebalance, judged_group.thresholds, time, context)
        found = explain(episode)
        follows = any(each.rule == FOLLOWS for each in found)
        before = judged_group.judged_before(rebalance) if follows else None
        verdicts = judged_group.recall(name, tuple(_followed(each, before) for each in found))
        judged_group.timetable.explain_again(name, time.due_ms)
        departures = {each.member.member_id: each for each in episode.departures}
        reported = self._report_timed_out(rebalance, departures, frozenset() if known is None else known.reported)
        returns = {
            each.member.member_id: each.returned_from.departure
            for each in episode.arrivals
            if each.returned_from is not None
        }
        continued = {}
        if before is not None:
            named = {each.member_id for verdict in verdicts for each in verdict.subject.members}
            continued = {member_id: each for member_id, each in before.lost.items() if member_id in named}
            returns |= {member_id: each for member_id, each in before.returns.items() if member_id in named}
        left = judged_group.put(JudgedRebalance(rebalance, verdicts, departures, now_ms, reported, returns, continued))
        if others := self.losses.take(group, name, left, () if known is None else known.past()):
            self.on_shared_losses(others)
        return True

    def _report_timed_out(
        self, rebalance: Rebalance, departures: Mapping[str, Departure], reported: frozenset[str]
    ) -> frozenset[str]:
        """Report members that a timeout removed, each once, even if a later judgement classifies it differently.

        A member that did not request its assignment in time counts as a poll timeout: the coordinator allows it the
        rebalance timeout, which equals the poll limit. Return the ids of all reported members.
        """
        new = {name: each.likely for name, each in departures.items() if name not in reported}
        expired, poll_timeout = (
            tuple(sorted(name for name, likely in new.items() if likely in wanted))
            for wanted in ((SESSION_EXPIRED,), (POLL_TIMEOUT, UNSYNCED))
        )
        if expired or poll_timeout:
            at_ms = rebalance.last_known_ms
            self.on_timeouts(TimedOut(rebalance.group, rebalance.rebalance_id, at_ms, expired, poll_timeout))
        return reported.union(expired, poll_timeout)


def _again_ms(known: JudgedRebalance) -> int:
    """Return from when on any change of its group has a rebalance explained again (epoch ms)."""
    age_ms = max(0, known.explained_ms - known.rebalance.last_known_ms)
    at_ms = known.explained_ms + min(int(age_ms * _AGE_SHARE), _LATEST_MS)
    return -(-at_ms // _TURN_MS) * _TURN_MS


def _followed(verdict: Verdict, before: JudgedRebalance | None) -> Verdict:
    """Return a verdict; for a rebalance that only continues the one before, with the cause of that one."""
    if verdict.rule != FOLLOWS:
        return verdict
    if before is None:
        return replace(verdict, rule=UNDETERMINED, confidence=HINT)
    cause = before.verdicts[0]
    sure = min(cause.confidence, verdict.confidence)
    return replace(cause, confidence=sure, rebalance_ids=verdict.rebalance_ids, is_consequence=True)
