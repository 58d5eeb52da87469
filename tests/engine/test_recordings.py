"""The engine on real recordings: a repeated row changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from accuracy.recordings import Recording, recordings
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import Replay, make_engine
from rebalance_streaming.wire.records import OFFSETS_TOPIC

pytestmark = pytest.mark.recordings

_NAMES = ("poll_overrun-1", "rolling_deploy-1", "idle_lock-sick-4", "owner_lock-sick-1")
CHOSEN = [each for each in recordings() if each.name in _NAMES]


class _Repeating(Engine):
    """Receives every row twice, as after a crash in the middle of a batch."""

    def apply(self, row: Input, at_ms: int) -> None:
        super().apply(row, at_ms)
        super().apply(row, at_ms)


def replayed(recording: Recording, engine: Engine) -> list[dict[str, Any]]:
    replay = Replay(engine=engine)
    return [*replay.feed(read_lines([recording.lines(())])), *replay.finish()]


@pytest.mark.parametrize("recording", CHOSEN, ids=lambda each: each.name)
def test_delivery_at_least_once_changes_nothing(recording: Recording):
    """Findings, lag, impact and timing are the same however often rows arrive."""
    config = EngineConfig(cluster="default", source_topic=OFFSETS_TOPIC, detect=DetectConfig())
    assert replayed(recording, _Repeating(config)) == replayed(recording, make_engine("default"))
