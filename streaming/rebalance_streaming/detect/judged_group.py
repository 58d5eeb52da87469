"""One group under judgement: its history, the verdicts on its rebalances, and what blocks it now.

Receives verdicts; returns those that hold, with one primary verdict per rebalance. Its owner handles other groups and
the clock; its timetable has the times at which it is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import attrgetter

from rebalance_contract import UNDETERMINED, Finding, GroupState, Rebalance
from rebalance_streaming.detect.agenda import Timetable
from rebalance_streaming.detect.answers import Answers
from rebalance_streaming.detect.catalogue import CALLED, PARTS, diagnosis, with_trait
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.findings import as_verdict
from rebalance_streaming.detect.group_view import GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.expiries import EXPIRY, with_expiries
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.detect.wording import WORDINGS
from rebalance_streaming.observed.announcements import Announcements
from rebalance_streaming.observed.confidence import CLAIMED
from rebalance_streaming.observed.departures import Departure
from rebalance_streaming.observed.history import SEEN_FOR_MS, GroupHistory

#: Events this close count as simultaneous.
SAME_TIME_MS = 5_000
_KEPT_HELD = 20
_HOLDING = with_trait("holding")
#: Rules that explain single rebalances; patterns across several are evaluated again after a restart.
_SINGLE_CAUSES = frozenset(each.rule for each in WORDINGS.values() if not each.claims) - with_trait("unexplained")


@dataclass(slots=True)
class JudgedRebalance:
    """A rebalance's verdicts, the primary first, and how its members left, by member id.

    `explained_ms` is when these were found (epoch ms), `reported` are the ids of members whose departures were reported
    as timeouts, `returns` how members that came back in it had left before, by their new ids. `continued` are those
    departures of the rebalance before that are its cause as well, if it only continues that one.
    """

    rebalance: Rebalance
    verdicts: tuple[Verdict, ...]
    departures: dict[str, Departure]
    explained_ms: int
    reported: frozenset[str] = frozenset()
    returns: Mapping[str, Departure] = field(default_factory=dict)
    continued: Mapping[str, Departure] = field(default_factory=dict)
    _stated: tuple[Verdict, ...] = ()

    def stated(self, last_ms: int, expiry: Verdict | None = None) -> tuple[Verdict, ...]:
        """Return the primary verdict and the secondary ones to be stated; `last_ms`: when the rebalance ended.

        `expiry` is the expired session that an earlier run stated of it, null if it stated none.
        """
        if not self._stated or self._stated[0].last_ms != last_ms:
            primary, *others = with_expiries(self.verdicts, self.lost, self.returns, expiry)
            shown = [each for each in others if each.rule != primary.rule and _is_shown(each)]
            self._stated = (
                replace(primary, primary=True, last_ms=last_ms),
                *(replace(each, primary=False, last_ms=last_ms) for each in shown),
            )
        return self._stated

    def resists(self, claim: Verdict, expiry: Verdict | None = None) -> bool:
        """Whether its own cause takes precedence over a pattern: members came or went for a known reason.

        A pattern covers its own causes (`takes_over` in the catalogue) and rebalances without a known cause. A hint at
        one does not cover an expired session, unless it is harmless and no earlier run stated the expired session
        (`expiry`, null: none).
        """
        if claim.confidence < CLAIMED and (expiry is not None or diagnosis(claim.rule).family != "benign"):
            primary, *_ = with_expiries(self.verdicts, self.lost, self.returns, expiry)
            if primary.rule == EXPIRY:
                return True
        own = self.verdicts[0]
        known = own.confidence >= CLAIMED and own.rule not in PARTS
        return self.rebalance.changes > 0 and known and own.rule not in (claim.rule, *diagnosis(claim.rule).takes_over)

    def differs(self, other: JudgedRebalance) -> bool:
        """Whether another explanation of the rebalance has a different result."""
        told = attrgetter("verdicts", "departures", "returns", "continued")
        return told(self) != told(other)

    @property
    def lost(self) -> Mapping[str, Departure]:
        """The departures that its causes rest on, by member id."""
        return {**self.continued, **self.departures}

    def past(self) -> list[ExplainedDeparture]:
        """Return its departures, each with the verdict about that member, or else with the primary one."""
        return [self._past(each) for each in self.departures.values()]

    def _past(self, departure: Departure) -> ExplainedDeparture:
        member = departure.member
        about = (each for each in self.verdicts if any(m.member_id == member.member_id for m in each.subject.members))
        cause = next(about, self.verdicts[0])
        return ExplainedDeparture(
            cause.rule, cause.confidence, departure.to_ms, member, departure, self.rebalance.rebalance_id
        )


@dataclass(slots=True)
class JudgedGroup:
    """One group under judgement.

    `judged` is by rebalance id. `held` are verdicts on what blocked the group, with the time each last held (epoch ms).
    """

    history: GroupHistory
    thresholds: Thresholds
    timetable: Timetable
    #: The announced deploys of all groups.
    announcements: Announcements = field(default_factory=Announcements)
    judged: dict[str, JudgedRebalance] = field(default_factory=dict)
    past: list[ExplainedDeparture] = field(default_factory=list)
    held: list[tuple[Verdict, int]] = field(default_factory=list)
    #: By rebalance id: the cause that an earlier run found, and the first rule that this run found (null: none yet).
    earlier: dict[str, tuple[Verdict, str | None]] = field(default_factory=dict)
    #: By rebalance id: the expired session that an earlier run stated of it.
    expiries: dict[str, Verdict] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)
    #: At the last statement: whether harm to consumption affects the findings, and whether there was any.
    minds_harm: bool = False
    harmed: bool = False
    #: Whether the log contains the group; the group names of probes and reports are not checked.
    confirmed: bool = False
    heard_ms: int = 0

    def causes(self) -> dict[str, str]:
        """Return the primary cause of every judged rebalance, by rebalance id."""
        return {name: each.verdicts[0].rule for name, each in self.judged.items()}

    def judged_before(self, rebalance: Rebalance) -> JudgedRebalance | None:
        """Return the rebalance before this one with its verdicts; null if it is not judged."""
        before = self.history.before(rebalance)
        return None if before is None else self.judged.get(before.rebalance_id)

    def unjudged(self) -> Set[str]:
        """Return the ids of remembered rebalances that are not judged: from before the start, or not due yet."""
        return self.history.rebalances.keys() - self.judged.keys()

    def view(self, now_ms: int, probe_ms: int) -> GroupView:
        """Return the group as rules see it now; `probe_ms` is the interval between probes."""
        announced = self.announcements.of(self.history.cluster, self.history.group)
        past = tuple(self.past)
        return GroupView(self.history, self.thresholds, JudgingTime(now_ms), past, self.causes(), probe_ms, announced)

    def is_joining(self, now_ms: int) -> bool:
        """Whether the latest probe saw the group in its join phase, and recently."""
        seen = self.history.sightings
        joins = bool(seen) and seen[-1].state == GroupState.PREPARING_REBALANCE
        return joins and now_ms - seen[-1].at_ms <= SEEN_FOR_MS

    def await_harm(self, at_ms: int | None) -> None:
        """State findings that depend on harm again when consumption may be harmed (epoch ms; null: never)."""
        if at_ms is not None and self.minds_harm:
            self.timetable.restate_by(at_ms)

    def put(self, judged: JudgedRebalance) -> list[ExplainedDeparture]:
        """Replace the verdicts of a rebalance; return its departures."""
        name, left = judged.rebalance.rebalance_id, judged.past()
        self.judged[name] = judged
        others = [each for each in self.past if each.rebalance_id != name]
        self.past = sorted([*others, *left], key=lambda each: each.left_ms)
        return left

    def keep(self, rebalances: Iterable[Rebalance]) -> None:
        """Forget the verdicts and departures of all other rebalances."""
        kept = {each.rebalance_id for each in rebalances}
        self.judged = {name: each for name, each in self.judged.items() if name in kept}
        self.past = [each for each in self.past if each.rebalance_id in kept]
        self.timetable.keep(kept)

    # --- Results of an earlier run ---

    def restore(self, findings: Iterable[Finding]) -> None:
        """Take up open findings: what blocked the group, as its end may have been missed, and causes of rebalances."""
        for finding in findings:
            verdict = as_verdict(finding)
            self.note_held((verdict,), finding.updated_at_ms)
            if not finding.primary:
                continue
            causes = {name: replace(verdict, rebalance_ids=(name,)) for name in finding.rebalance_ids}
            if finding.rule == EXPIRY:
                self.expiries |= causes
            elif finding.rule in _SINGLE_CAUSES:
                self.earlier |= {name: (each, None) for name, each in causes.items()}

    def recall(self, rebalance_id: str, found: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        """Return the verdicts of a rebalance, led by the cause that an earlier run found unless the new one is surer.

        The earlier run knew rows that are not read again or are forgotten soon. A cause that differs from the one this
        run found first rests on new rows, so it replaces the earlier run's.
        """
        if rebalance_id not in self.earlier:
            return found
        verdict, first = self.earlier[rebalance_id]
        now = found[0]
        if now.rule == verdict.rule or now.confidence > verdict.confidence or first not in (None, now.rule):
            del self.earlier[rebalance_id]
            return found
        self.earlier[rebalance_id] = verdict, now.rule
        others = (each for each in found if each.rule not in (verdict.rule, UNDETERMINED))
        return verdict, *others

    # --- Verdicts on what blocks the group ---

    def note_held(self, standing: Iterable[Verdict], now_ms: int) -> None:
        """Remember what blocks the group, until the rebalance it belongs to is judged."""
        for verdict in standing:
            if verdict.rule in _HOLDING:
                self.held = [each for each in self.held if each[0].started_at_ms != verdict.started_at_ms]
                self.held.append((verdict, now_ms))
        del self.held[:-_KEPT_HELD]

    def released(self, standing: Iterable[Verdict], since_ms: int) -> list[Verdict]:
        """Return what blocked the group until `since_ms` or later, while its rebalance is waiting to be judged."""
        if not self.timetable.waiting:
            return []
        stated = {each.rule for each in standing}
        return [each for each, last_ms in self.held[-1:] if last_ms >= since_ms and each.rule not in stated]

    def held_during(self, rebalance: Rebalance) -> tuple[Verdict, ...]:
        """Return the verdicts on what blocked the group during a rebalance, the latest first."""
        end_ms = rebalance.last_known_ms
        start_ms = rebalance.started_before_ms - SAME_TIME_MS
        return tuple(
            verdict
            for verdict, last_ms in reversed(self.held)
            if verdict.started_at_ms <= end_ms and last_ms >= start_ms
        )

    # --- Stated verdicts ---

    def state(self, claims: Sequence[Verdict], now_ms: int) -> list[Verdict]:
        """Return one primary verdict per judged rebalance, and the secondary ones.

        `claims` are causes found across several rebalances; a rebalance claimed by several goes to the surest.
        """
        claimed: dict[str, Verdict] = {}
        for claim in sorted(claims, key=lambda each: -each.confidence):
            for name in claim.rebalance_ids:
                if name in self.judged and not self.judged[name].resists(claim, self.expiries.get(name)):
                    claimed.setdefault(name, claim)
        return [*self._of_claims(claims, claimed, now_ms), *self._of_rebalances(claimed, now_ms)]

    def _of_claims(self, claims: Iterable[Verdict], claimed: dict[str, Verdict], now_ms: int) -> Iterator[Verdict]:
        for claim in claims:
            mine = tuple(name for name in claim.rebalance_ids if claimed.get(name) is claim)
            if mine:
                yield replace(claim, rebalance_ids=mine, primary=True, last_ms=self._last_of(mine, now_ms))

    def _of_rebalances(self, claimed: dict[str, Verdict], now_ms: int) -> Iterator[Verdict]:
        for name, judged in self.judged.items():
            primary, *others = judged.stated(self._last_of((name,), now_ms), self.expiries.get(name))
            if name not in claimed:
                yield primary
            yield from others

    def secondary(self, verdict: Verdict, now_ms: int) -> Verdict:
        """Return a verdict about several rebalances as stated beside their causes."""
        return replace(verdict, primary=False, last_ms=self._last_of(verdict.rebalance_ids, now_ms))

    def _last_of(self, rebalance_ids: Iterable[str], now_ms: int) -> int:
        """Return when the last of these rebalances ended; now if none of them is remembered."""
        times = [
            each.last_known_ms for name in rebalance_ids if (each := self.history.rebalances.get(name)) is not None
        ]
        return max(times, default=now_ms)


def _is_shown(verdict: Verdict) -> bool:
    """Whether a secondary verdict is stated: what is normal explains nothing beside another cause."""
    return diagnosis(verdict.rule).family not in ("benign", UNDETERMINED) or verdict.rule in CALLED
