"""One group at the time its conditions are judged: the input of the rules for conditions and patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from rebalance_contract import (
    CONSUMER_PROTOCOL,
    AlertSilence,
    CommitGap,
    GroupState,
    GroupType,
    Member,
    Partitions,
    Rebalance,
    Subject,
)
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict, from_probes, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.partitions import places
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.departures import slot_of
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.inputs import GROUP, LOGGED
from rebalance_streaming.observed.progress import Position, Progress

DAY_MS = 24 * 3_600_000
#: After a rebalance, members with work commit within this time: three auto-commit intervals.
_COMMIT_GAP_MS = 15_000


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group's history and current state. `past` are its departures with their explanations, oldest first.

    `causes` maps each rebalance id to the rule that is its primary cause. `probe_ms` is the interval between probes.
    `announcements` are all announced deploys of the group, earliest first. Rules compare times through `time`, which
    collects when the result of a comparison changes.
    """

    history: GroupHistory
    thresholds: Thresholds
    time: JudgingTime
    past: tuple[ExplainedDeparture, ...] = ()
    causes: dict[str, str] = field(default_factory=dict)
    probe_ms: int = 5_000
    announcements: tuple[AlertSilence, ...] = ()
    memory: Memory = field(default_factory=Memory)

    @property
    def now_ms(self) -> int:
        """The time of judgement in epoch milliseconds."""
        return self.time.now_ms

    def say(self, key: str, since_ms: int, /, *subject: Subject, **given: Any) -> Verdict:
        """Return a verdict about the group, made by `wording.say` from the given facts.

        The facts `lasted` (how long ago it began, in milliseconds), `members` (how many there are) and `limits` (the
        thresholds) have defaults.
        """
        facts = {"lasted": self.now_ms - since_ms, "members": len(self.members), "limits": self.thresholds}
        return say(key, since_ms, *subject, **{**facts, **given})

    def end_growth(self, topic: str, partition: int, window_ms: int) -> int | None:
        """Return how many records a partition got within a window that ends now; null if it was probed less than twice.

        If there are any, the answer changes with each probe that drops out of the window.
        """
        grown = self.progress.end_growth(topic, partition, self.now_ms - window_ms)
        if grown:
            first_ms = self.progress.first_probe_ms(topic, self.now_ms - window_ms)
            self.time.note_due((self.now_ms if first_ms is None else first_ms) + window_ms + 1)
        return grown

    @property
    def progress(self) -> Progress:
        """The committed and end offsets of its partitions."""
        return self.history.progress

    @property
    def members(self) -> tuple[Member, ...]:
        """The current members of the group."""
        return () if self.history.snapshot is None else self.history.snapshot.members

    @property
    def configured_members(self) -> tuple[Member, ...]:
        """The members whose settings count: the current ones or, for a while after the last one left, the last ones.

        A group of few members is empty for moments while they come and go, and their settings are the same afterwards.
        """
        snapshot = self.history.snapshot
        if snapshot is None or snapshot.members or snapshot.state == GroupState.DELETED:
            return self.members
        emptied = next((each for each in reversed(self.history.in_order()) if each.members_before), None)
        if emptied is None or self.time.lasted(emptied.last_known_ms, self.thresholds.stay_ms):
            return ()
        return emptied.members_before

    @property
    def reads_log(self) -> bool:
        """Whether the group is known from the log, and not from probes alone."""
        return self.history.snapshot is None or not self.history.snapshot.is_at_least

    def is_young(self) -> bool:
        """Whether the group is too new for its conditions to be judged."""
        first = self.history.first_ms
        return first is None or not self.time.lasted(first, self.thresholds.young_ms)

    @property
    def is_settled(self) -> bool:
        """Whether the group was neither rebalancing nor empty when last seen."""
        snapshot = self.history.snapshot
        return snapshot is not None and snapshot.state == GroupState.STABLE and snapshot.rebalancing_since_ms is None

    def recent(self, window_ms: int) -> list[Rebalance]:
        """Return the rebalances that began within a window that ends now, oldest first."""
        found = self.history.since_ms(self.now_ms - window_ms)
        if found:
            self.time.note_due(found[0].started_before_ms + window_ms + 1)
        return found

    def churn(self) -> float:
        """Return the share of the last day for which rebalances stopped partitions; 0 without members.

        A gap between commits counts up to `_COMMIT_GAP_MS` after the rebalance; a longer one means an idle topic. The
        share is that of a whole day, so it is a lower bound for a group that was watched for less.
        """
        # The downtime of a group that lost its last member is not a cost of the rebalance.
        of_day = [each for each in self.recent(DAY_MS) if each.members_before and each.members_after]
        assigned = (sum(map(len, (each.partitions or {}).values())) for each in self.members)
        # Members that are still reconciling own fewer partitions than they will.
        partitions = max([sum(assigned), *(len(self.history.commit_gaps_of(each)) for each in of_day)])
        lost_ms = sum(_stood_still_ms(each, self.history.commit_gaps_of(each)) for each in of_day)
        return lost_ms / (partitions * DAY_MS) if partitions else 0.0

    def stable_since_ms(self) -> int | None:
        """Return since when members and assignment have not changed (epoch ms), or None if that is not known."""
        snapshot = self.history.snapshot
        if snapshot is None:
            return None
        return snapshot.last_rebalance_ms or self.history.first_ms

    def client_of(self, member: Member) -> ClientHistory | None:
        """Return the reports of a member's client; null if there are none."""
        return self.history.clients.of(member)

    @property
    def is_consumer_group(self) -> bool:
        """Whether members consume topics: not workers of Connect or others whose assignments have another form."""
        snapshot = self.history.snapshot
        return (
            snapshot is not None
            and snapshot.type in (GroupType.CLASSIC, GroupType.CONSUMER)
            and snapshot.protocol_type in (None, CONSUMER_PROTOCOL)
        )

    def subject_among(self, culprits: Sequence[Member]) -> Subject:
        """Return members as a subject; all members are the whole group, whose key stays as members come and go."""
        return Subject() if len(culprits) == len(self.configured_members) else subject_of(*culprits)

    def standing_since(self, stands: Callable[[tuple[Member, ...]], bool]) -> int | None:
        """Return since when members have satisfied a predicate after every rebalance; null if they do not now."""
        if not stands(self.members):
            return None
        since = None
        for rebalance in reversed(self.history.in_order()):
            if not stands(rebalance.members_after):
                break
            since = rebalance.last_known_ms
        return since if since is not None else self.stable_since_ms()

    def recent_past(self, window_ms: int) -> list[ExplainedDeparture]:
        """Return the departures within a window that ends now, oldest first."""
        return [each for each in self.past if self.time.is_within(each.left_ms, window_ms)]

    def away_ms(self, past: ExplainedDeparture) -> int | None:
        """Return how long a member that left was away (ms), even if it has a new id; null if it has not come back."""
        back_ms = self._came_back_ms(past)
        return None if back_ms is None else max(0, back_ms - past.left_ms)

    def _came_back_ms(self, past: ExplainedDeparture) -> int | None:
        """Return when a member that left was in the group again, even with a new id; null if it has not come back."""
        if past.departure.back_ms is not None:
            return past.departure.back_ms
        slot = slot_of(past.member)
        for rebalance in self.history.in_order():
            at_ms = rebalance.last_known_ms
            if at_ms < past.left_ms:
                continue
            came = [m for m in rebalance.members_after if m.member_id in rebalance.joined and slot_of(m) == slot]
            if any(not self.history.seen_together(past.member.member_id, m.member_id) for m in came):
                return at_ms
        return None

    def positions_of(self, partitions: Partitions | None) -> list[Position]:
        """Return the positions of these partitions."""
        return [self.progress.position(topic, p) for topic, p in sorted(places(partitions))]

    def grew_since(self, position: Position, since_ms: int) -> bool:
        """Whether a partition is known to have got records since a time (epoch ms)."""
        return (self.progress.end_growth(position.topic, position.partition, since_ms) or 0) > 0

    def is_harmed(self, partitions: Iterable[Partitions | None]) -> bool:
        """Whether consumption is harmed now: one of these partitions gets records and does not advance for a while."""
        for each in partitions:
            for position in self.positions_of(each):
                moved = position.advanced_ms
                if not position.lag or moved is None or not self.time.lasted(moved, self.thresholds.stalled_ms):
                    continue
                if self.grew_since(position, moved):
                    return True
        return False

    def lag_grows(self) -> bool:
        """Whether some partition is not consumed while records arrive: actual harm, not only a risk."""
        since_ms = self.now_ms - self.thresholds.stalled_ms
        if any(self.grew_since(each, each.advanced_ms or 0) for each in self.progress.falls_behind(since_ms)):
            return True
        if (next_ms := self.progress.next_to_fall_behind(since_ms)) is not None:
            self.time.note_due(next_ms + self.thresholds.stalled_ms)
        return False

    def is_reporting(self, client: ClientHistory) -> bool:
        """Whether a client still reports: its latest report is at most three intervals or 15 s old."""
        latest = client.latest()
        return latest is not None and self.time.is_within(latest.emitted_ms, max(15_000, 3 * client.interval_ms))


def _stood_still_ms(rebalance: Rebalance, silences: tuple[CommitGap, ...]) -> int:
    """Return for how long (ms) a rebalance stopped partitions, summed over the partitions."""
    began_ms, ended_ms = rebalance.started_before_ms, rebalance.completed_at_ms
    if ended_ms is None:
        return 0
    spans = (
        min(each.resumed_at_ms, ended_ms + _COMMIT_GAP_MS) - max(each.last_commit_ms, began_ms) for each in silences
    )
    return sum(max(0, span) for span in spans)


#: Yields the verdicts that hold now, one per subject; the view's time collects when they may change.
ConditionRule = Callable[[GroupView], Iterable[Verdict]]


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule and its inputs besides the group's members and rebalances: a sum of `inputs`.

    `grown`: the rule is not evaluated for young groups. A rule with an input that only the log has is not evaluated
    where the log is not read, unless it also uses other sources (`without_log`).
    """

    rule: ConditionRule
    looks_at: int = GROUP
    grown: bool = False
    without_log: bool = False

    @property
    def name(self) -> str:
        """The name of the rule's function, usually the id of its diagnosis."""
        return getattr(self.rule, "__name__", "rule")

    def __call__(self, view: GroupView) -> Iterable[Verdict]:
        """Return the rule's verdicts; once all are consumed, the view's time has the time of the next evaluation."""
        if self.grown and view.is_young():
            return ()
        if view.reads_log:
            return self.rule(view)
        asked = self.without_log or not self.looks_at & LOGGED
        return map(from_probes, self.rule(view)) if asked else ()


#: Conditions by their functions.
_DECLARED: dict[object, Condition] = {}


def condition(
    looks_at: int = GROUP, *, grown: bool = False, without_log: bool = False
) -> Callable[[ConditionRule], ConditionRule]:
    """Return a decorator that registers a rule as a `Condition`; the function itself is not changed."""

    def declare(rule: ConditionRule) -> ConditionRule:
        _DECLARED[rule] = Condition(rule, looks_at, grown, without_log)
        return rule

    return declare


def conditions_in(*modules: ModuleType) -> tuple[Condition, ...]:
    """Return the rules that modules declare: module by module, in source order."""
    return tuple(
        _DECLARED[each]
        for module in modules
        for each in vars(module).values()
        if isinstance(each, FunctionType) and each in _DECLARED and each.__module__ == module.__name__
    )


@dataclass(frozen=True, slots=True)
class MemoryUpdate:
    """A function that returns a group's new memory from the previous one, and its inputs."""

    update: Callable[[GroupView], Memory]
    looks_at: int = GROUP

    @property
    def name(self) -> str:
        """The name of its function."""
        return getattr(self.update, "__name__", "memory update")
