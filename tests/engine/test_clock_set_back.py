"""The clock of the driver is set back while it runs: nothing waits until it reaches its former time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from engine.driving import config
from histories import CLUSTER, HOUR, MINUTE, SECOND, T0, commits, member, report, snapshot
from rebalance_contract import DiagnosisStatus, Finding, GroupLag, GroupTiming
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.activity.clients import pack_reports
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.judged_group import JudgedGroup
from rebalance_streaming.engine.engine import Engine
from rebalance_streaming.engine.rows import Output

A = member("a-1", [0])


class NotesTurns(Detector):
    """Notes the time of each judgement."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.judged_ms: list[int] = []

    def _judge_group(self, judged_group: JudgedGroup) -> list[Finding]:
        self.judged_ms.append(self.now_ms)
        return super()._judge_group(judged_group)


class Driven:
    """An engine with a group that commits and reports every five seconds, and a clock that may be wrong."""

    def __init__(self) -> None:
        made: list[NotesTurns] = []

        def make(*given: Any) -> NotesTurns:
            made.append(NotesTurns(*given))
            return made[0]

        self.engine = Engine(replace(config(), cluster=CLUSTER), make_detector=make)
        (self.detector,) = made
        self.engine.apply(snapshot(T0, A), T0)
        self._at_ms = T0

    def run(self, for_ms: int, ahead_ms: int) -> list[tuple[int, Output]]:
        """Return what is published, with the right times."""
        found: list[tuple[int, Output]] = []
        until_ms = self._at_ms + for_ms
        while self._at_ms < until_ms:
            self._at_ms += SECOND
            if self._at_ms % (5 * SECOND) == 0:
                self.engine.apply(commits(self._at_ms, {0: self._at_ms - T0}), self._at_ms)
                ((_, row),) = pack_reports([report(self._at_ms, A, {POLL_AGE: 1.0})], 5_000, CLUSTER)
                self.engine.apply(row, self._at_ms)
            now_ms = self._at_ms + ahead_ms
            found += [(self._at_ms, each) for each in self.engine.advance(now_ms, now_ms)]
        return found


def longest_pause(found: list[tuple[int, Output]], kind: type, from_ms: int, to_ms: int) -> int:
    times = [from_ms, *(at_ms for at_ms, each in found if isinstance(each, kind)), to_ms]
    return max(later - earlier for earlier, later in pairwise(times))


def test_lag_timing_and_status_go_on():
    """Lag within a minute, and then as often as before; the others at once."""
    driven = Driven()
    driven.run(2 * MINUTE, HOUR)
    found = driven.run(10 * MINUTE, 0)
    begin, end = T0 + 2 * MINUTE, T0 + 12 * MINUTE
    assert longest_pause(found, DiagnosisStatus, begin, end) <= 2 * SECOND
    assert longest_pause(found, GroupTiming, begin, end) <= 10 * SECOND
    assert longest_pause(found, GroupLag, begin, end) <= MINUTE
    assert sum(isinstance(each, GroupLag) for _, each in found) > 60
    assert all(each.at_ms <= at_ms for at_ms, each in found if isinstance(each, GroupLag))


def test_groups_are_judged_as_of_the_new_time():
    """Within half a minute, and then as often as their commits arrive; they would look silent for an hour."""
    driven = Driven()
    driven.run(2 * MINUTE, HOUR)
    driven.detector.judged_ms.clear()
    driven.run(5 * MINUTE, 0)
    times = [T0 + 2 * MINUTE, *driven.detector.judged_ms, T0 + 7 * MINUTE]
    assert times == sorted(times)
    assert max(later - earlier for earlier, later in pairwise(times)) <= 31 * SECOND


def test_a_small_step_is_waited_out():
    """Clocks are corrected by milliseconds all the time, and judging all groups again would be expensive."""
    driven = Driven()
    driven.run(2 * MINUTE, 900)
    driven.detector.judged_ms.clear()
    driven.run(20 * SECOND, 0)
    assert len(driven.detector.judged_ms) <= 1
