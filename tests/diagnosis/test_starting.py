"""A start of the diagnosis process waits for its answer, and for nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis import process
from rebalance_streaming.diagnosis.frames import Done, send
from rebalance_streaming.diagnosis.process import DiagnosisError, DiagnosisProcess, EndingError


class Restoring:
    """A process that has been started and restores rows: the other side of its connection."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.killed = False
        handle: Any = SimpleNamespace(poll=lambda: None, kill=self._kill, wait=lambda _=None: 0)
        self.spawned = handle, self.ours

    def _kill(self) -> None:
        self.killed = True


@pytest.fixture
def restoring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Restoring]:
    """The process that the next start uses."""
    made = Restoring()
    monkeypatch.setattr(DiagnosisProcess, "_spawn", lambda _: made.spawned)
    monkeypatch.setattr(process, "_LOOK_SECONDS", 0.001)
    yield made
    made.theirs.close()
    made.ours.close()


def diagnosis() -> DiagnosisProcess:
    """Return a handle without a process."""
    return DiagnosisProcess(StreamConfig(), DetectConfig(), 1, lambda _: None)


def test_a_start_is_interrupted_when_the_stream_ends(restoring: Restoring):
    """It may take two minutes, during which a stop signal must be obeyed; no process is left."""
    looks = iter([False, False, True])
    with pytest.raises(EndingError):
        diagnosis().start(0, lambda: next(looks))
    assert restoring.killed
    assert restoring.ours.fileno() == -1


def test_a_start_ends_with_the_answer(restoring: Restoring):
    """While it waits it looks whether the stream ends."""
    looked: list[bool] = []

    def is_ending() -> bool:
        looked.append(True)
        if len(looked) == 3:
            send(restoring.theirs, Done())
        return False

    diagnosis().start(0, is_ending)
    assert len(looked) == 3
    assert not restoring.killed


def test_a_start_without_an_answer_fails_at_its_time_limit(restoring: Restoring, monkeypatch: pytest.MonkeyPatch):
    """The supervision tries again later."""
    monkeypatch.setattr(process, "_START_SECONDS", 0.01)
    with pytest.raises(DiagnosisError, match=r"no answer for 0\.01 s"):
        diagnosis().start(0, lambda: False)
    assert restoring.killed
