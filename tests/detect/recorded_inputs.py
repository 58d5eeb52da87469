"""The detector inputs of recorded stories: read once, replayed as often as tests need."""

from __future__ import annotations

from functools import cache

from accuracy.recordings import recordings
from histories import Event
from rebalance_contract import (
    ClientActivity,
    CommitActivity,
    GroupSnapshot,
    OffsetActivity,
    Probe,
    Rebalance,
    RebalanceImpact,
)
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.judgement import Judgement
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import Replay
from rebalance_streaming.wire.records import OFFSETS_TOPIC

#: The detector's inputs and their times; null is a tick of the clock alone.
RecordedInputs = list[tuple[int, Event | None]]


class _Recorder(Detector):
    """Records the rows of a replay and their times."""

    def __init__(self) -> None:
        super().__init__("default")
        self.inputs: RecordedInputs = []

    def take_group(self, snapshot: GroupSnapshot) -> None:
        self.inputs.append((self.now_ms, snapshot))

    def take_rebalance(self, rebalance: Rebalance) -> None:
        self.inputs.append((self.now_ms, rebalance))

    def take_commits(self, row: CommitActivity) -> None:
        self.inputs.append((self.now_ms, row))

    def take_offsets(self, row: OffsetActivity) -> None:
        self.inputs.append((self.now_ms, row))

    def take_impact(self, impact: RebalanceImpact) -> None:
        self.inputs.append((self.now_ms, impact))

    def take_probe(self, probe: Probe) -> None:
        self.inputs.append((self.now_ms, probe))

    def take_clients(self, row: ClientActivity) -> None:
        self.inputs.append((self.now_ms, row))

    def advance(self, now_ms: int, most: int | None = None) -> Judgement:
        self.now_ms = now_ms
        self.inputs.append((now_ms, None))
        return Judgement()


@cache
def recorded_inputs(name: str) -> RecordedInputs:
    """Return the rows that a recording gives a detector, second by second."""
    recorder = _Recorder()
    config = EngineConfig(cluster="default", source_topic=OFFSETS_TOPIC, detect=DetectConfig())
    replay = Replay(engine=Engine(config, make_detector=lambda *_: recorder))
    (recording,) = [each for each in recordings() if each.name == name]
    list(replay.feed(read_lines([recording.lines(())])))
    list(replay.finish())
    return recorder.inputs
