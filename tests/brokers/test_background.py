"""Work of a background thread goes on after an unexpected error, which is reported."""

from __future__ import annotations

import threading

import pytest

from rebalance_streaming import background


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat without a pause."""
    monkeypatch.setattr(background, "_FIRST_PAUSE_SECONDS", 0.0)


def test_an_error_is_reported_once_and_work_goes_on():
    """Each type of error once, however often it comes."""
    stop, said = threading.Event(), list[str]()
    outcomes = iter([ValueError("a"), ValueError("b"), None, KeyError("c"), None])

    def work() -> None:
        outcome = next(outcomes, stop)
        if outcome is stop:
            stop.set()
        elif outcome is not None:
            raise outcome

    background.repeat_until(stop, work, "the check", said.append)
    assert said == [
        "the check failed and is repeated (ValueError: a); please report this",
        "the check failed and is repeated (KeyError: 'c'); please report this",
    ]
