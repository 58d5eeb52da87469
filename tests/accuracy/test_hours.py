"""Founding incidents that go on for an hour are judged at its end as in its first minutes.

They were played beside other load: a soak test and measurements kept both cores of the machine busy.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from accuracy.outcomes import is_stray
from accuracy.recordings import GOLDEN, Recording, recordings
from rebalance_contract import Finding, FindingState
from rebalance_devtools.stories.judging import mistakes_of_sick
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.judgement import Judgement
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import CLUSTER, Replay
from rebalance_streaming.wire.records import OFFSETS_TOPIC

# Most have hundreds of rebalances: up to half a minute of processor time each.
pytestmark = [pytest.mark.recordings, pytest.mark.slow, pytest.mark.timeout(3_600)]

HOURS = recordings(GOLDEN / "hours")
#: Over within a minute, so that the finding ends later: newcomers give up, or the member that no longer polls leaves.
_END = ("owner_lock", "join_barrier")
_MINUTE_MS = 60_000


class MinutesDetector(Detector):
    """A detector that keeps which findings were firing at the end of each minute, as (epoch ms, findings)."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.minutes: list[tuple[int, list[Finding]]] = []
        self._known: dict[str, Finding] = {}

    def advance(self, now_ms: int, most: int | None = None) -> Judgement:
        """Judge, and keep the result once a minute."""
        judgement = super().advance(now_ms, most)
        self._known.update((each.finding_id, each) for each in judgement.findings)
        for each in judgement.withdrawn:
            self._known.pop(each.finding_id, None)
        if not self.minutes or now_ms - self.minutes[-1][0] >= _MINUTE_MS:
            self.minutes.append((now_ms, list(self._known.values())))
        return judgement


def judged_each_minute(recording: Recording) -> list[list[Finding]]:
    """Return the findings about the story's group known at the end of each minute from the first cause on."""
    settings = EngineConfig(cluster=CLUSTER, source_topic=OFFSETS_TOPIC, detect=DetectConfig())
    detector = MinutesDetector(CLUSTER, settings.detect)
    engine = Engine(settings, make_detector=lambda *_: detector)
    replay = Replay(engine=engine)
    for _ in replay.feed(read_lines([recording.lines(())])):
        pass
    for _ in replay.finish():
        pass
    assert recording.expected is not None
    minutes = [[each for each in found if each.group == recording.run.group] for _, found in detector.minutes]
    first = next(i for i, found in enumerate(minutes) if recording.expected.diagnosis in {each.rule for each in found})
    return minutes[first:]


@pytest.mark.parametrize("recording", HOURS, ids=lambda each: each.name)
def test_the_cause_is_the_same_after_an_hour(recording: Recording) -> None:
    """At every minute the cause fires while the incident goes on, and nothing wrong stands beside it.

    No finding ends and begins again, and in the end culprit and advice are right.
    """
    expected, minutes = recording.expected, judged_each_minute(recording)
    assert expected is not None
    assert len(minutes) >= 55
    for number, found in enumerate(minutes):
        firing = {each.rule for each in found if each.state == FindingState.FIRING}
        assert expected.diagnosis in firing or recording.run.story in _END, (number, firing)
        assert [each.summary for each in found if is_stray(expected, each)] == [], number
    assert mistakes_of_sick(recording.run, expected, minutes[-1]) == []
    assert begun_anew(minutes) == {}


def begun_anew(minutes: list[list[Finding]]) -> dict[str, list[int]]:
    """Return, by rule, the minutes at which it fires again after minutes in which it did not."""
    firing = [{each.rule for each in found if each.state == FindingState.FIRING} for found in minutes]
    begins: dict[str, list[int]] = {}
    for number, (before, now) in enumerate(itertools.pairwise([set[str](), *firing])):
        for rule in now - before:
            begins.setdefault(rule, []).append(number)
    return {rule: numbers[1:] for rule, numbers in begins.items() if len(numbers) > 1}
