"""Groups whose members come and go, given to a detector as time passes: for stories about diagnosis."""

from __future__ import annotations

from dataclasses import replace

from histories import CLUSTER, MINUTE, SECOND, T0, Event, lost, member, packed, probe, pulse, snapshot, unpacked
from rebalance_contract import (
    CommitActivity,
    Finding,
    GroupSnapshot,
    OffsetActivity,
    Probe,
    ProbeActivity,
    Rebalance,
    RebalanceImpact,
)
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.judgement import TimedOut
from rebalance_streaming.detect.quarantine import OnQuarantine


def take(detector: Detector, row: object) -> None:
    """Let a detector take a row of any kind."""
    if isinstance(row, GroupSnapshot):
        detector.take_group(row)
    elif isinstance(row, Rebalance):
        detector.take_rebalance(row)
    elif isinstance(row, CommitActivity):
        detector.take_commits(row)
    elif isinstance(row, RebalanceImpact):
        detector.take_impact(row)
    elif isinstance(row, OffsetActivity):
        detector.take_offsets(row)
    elif isinstance(row, Probe):
        detector.take_probe(row)


def hear(detector: Detector, event: Event) -> None:
    """Give a detector one event."""
    if isinstance(event, Probe):
        for row in unpacked(event):
            take(detector, row.probe if isinstance(row, ProbeActivity) else row)
    elif isinstance(event, GroupSnapshot | Rebalance | CommitActivity | RebalanceImpact | OffsetActivity):
        take(detector, event)
    else:
        detector.take_clients(packed(event))


def outage(groups: int, brokers: int, *, apart_ms: int = 0) -> list[Event]:
    """Let the session of one member in each of several groups expire, one after the other."""
    events: list[Event] = []
    for n in range(groups):
        who, stays = member(f"m{n}-1", [0, 1]), member(f"n{n}-1", [2, 3])
        at = T0 + 2 * MINUTE + n * apart_ms
        quiet = [*pulse(T0, at - 13 * SECOND, range(4)), *pulse(at - 13 * SECOND, at, [2, 3])]
        story: list[Event] = [snapshot(T0, who, stays), probe(T0 + SECOND, coordinator_id=n % brokers)]
        story += [*quiet, lost(at, who, [who, stays], rebalance_id=f"{n}-1")]
        events += [replace(each, group=f"g{n}") for each in story]
    return events


def known_at_ms(event: Event) -> int:
    """Return when a made-up event becomes known: at its end."""
    if isinstance(event, GroupSnapshot):
        return event.updated_at_ms or T0
    if isinstance(event, Rebalance):
        return event.completed_at_ms or event.started_before_ms
    if isinstance(event, CommitActivity):
        return event.last_commit_ms // event.pane_ms * event.pane_ms + event.pane_ms
    if isinstance(event, RebalanceImpact):
        # After its rebalance, which takes at most a quarter of an hour.
        return max(each.last_commit_ms for each in event.silences) + 16 * MINUTE
    if isinstance(event, OffsetActivity):
        return event.probed_at_ms
    return event.probed_at_ms if isinstance(event, Probe) else packed(event).samples[-1].observed_ms


class Run:
    """A detector and the clock; keeps the latest published version of each finding."""

    def __init__(
        self,
        config: DetectConfig | None = None,
        *,
        judge_from_ms: int = 0,
        on_quarantine: OnQuarantine | None = None,
    ) -> None:
        self.detector = Detector(CLUSTER, config, judge_from_ms, on_quarantine)
        self.detector.now_ms = self.now_ms = T0
        self.published: list[Finding] = []
        self.withdrawn: list[Finding] = []
        self.timed_out: list[TimedOut] = []

    def live(self, until_ms: int, *events: Event, step_ms: int = SECOND) -> Run:
        """Advance the clock to a time, and give the detector each event when it becomes known."""
        due = sorted(events, key=known_at_ms)
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + step_ms)
            while due and known_at_ms(due[0]) <= self.now_ms:
                hear(self.detector, due.pop(0))
            changed = self.detector.advance(self.now_ms)
            self.published += changed.findings
            self.withdrawn += changed.withdrawn
            self.timed_out += changed.timed_out
        assert not due, "events later than the end of the story"
        return self

    def finding(self, rule: str) -> Finding:
        """Return the one finding of a rule."""
        (found,) = [each for each in self.detector.findings.all() if each.rule == rule]
        return found

    def rules(self) -> set[str]:
        """Return the rules of all findings."""
        return {each.rule for each in self.detector.findings.all()}

    def causes(self) -> dict[str, str]:
        """Return the rule of the primary finding of every rebalance; no rebalance may have two."""
        named = [
            (name, each.rule) for each in self.detector.findings.all() if each.primary for name in each.rebalance_ids
        ]
        assert len(named) == len(dict(named)), named
        return dict(named)
