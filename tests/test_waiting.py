"""The time accounting of a wait, with the test's own clock."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from waiting import wait_for


class Clock:
    """A clock that advances by a fixed time at each look at the condition; at one look by much more."""

    def __init__(self, seconds: float, stands_still_at: int = 0) -> None:
        self.now, self.looks = 0.0, 0
        self._seconds, self._stands_still_at = seconds, stands_still_at

    def look(self) -> bool:
        """Return false."""
        self.looks += 1
        self.now += 3_600 if self.looks == self._stands_still_at else self._seconds
        return False

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make waits use this clock."""
        monkeypatch.setattr("waiting.time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr("waiting._LONGEST_REST_SECONDS", 0.0)


def wait_in_vain(clock: Clock, seconds: float) -> None:
    with pytest.raises(AssertionError, match=f"waited {seconds} s in vain for: nothing"):
        wait_for(clock.look, "nothing", seconds, every=0)


def test_a_wait_ends_with_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty seconds are over with the first look beyond them."""
    clock = Clock(4.0)
    clock.watch(monkeypatch)
    wait_in_vain(clock, 60)
    assert clock.looks == 16


@pytest.mark.parametrize("stands_still_at", [1, 7, 15])
def test_time_in_which_the_waiting_process_stood_still_is_not_used_up(
    monkeypatch: pytest.MonkeyPatch, stands_still_at: int
) -> None:
    """An hour between two looks counts as five seconds: the awaited process was stalled, too."""
    clock = Clock(4.0, stands_still_at)
    clock.watch(monkeypatch)
    wait_in_vain(clock, 60)
    assert clock.looks == 15
    assert clock.now > 3_600
