"""The poll fields of a report."""

from __future__ import annotations

import pytest

from rebalance_exporters.reporters.polls import PollTracker, wall_ms


class Clock:
    """A clock that advances by one ms per call, and further on demand."""

    def __init__(self) -> None:
        self.now_ms = 1000

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


@pytest.fixture
def polls() -> PollTracker:
    return PollTracker(Clock(), lambda: 0)


def reported(polls: PollTracker) -> tuple[int | None, int | None, int | None, int | None]:
    """Return last return, waiting since, records, records done."""
    read = polls.read()
    return read["last_poll_return_ms"], read["waiting_since_ms"], read["records_in_last_poll"], read["records_done"]


def test_nothing_is_said_before_the_first_poll(polls):
    """Neither a return nor records are invented."""
    assert reported(polls) == (None, None, None, None)


def test_a_poll_is_reported_by_its_return(polls):
    """The time of the return is constant until the next one; the progress within the batch is unknown."""
    polls.enter_poll()
    polls.leave_poll(7)
    assert reported(polls) == reported(polls) == (1002, None, 7, None)


def test_while_the_application_waits_its_last_return_is_null(polls):
    """Otherwise a consumer of an idle topic would look like a hanging one."""
    polls.enter_poll()
    polls.leave_poll(7)
    polls.enter_poll()
    assert reported(polls) == (None, 1003, 7, None)


def test_an_iterator_over_polls_reports_how_much_of_the_batch_is_done(polls):
    """kafka-python 2.x and 3.x: the batch is polled inside the first call, and each further call ends one record."""
    seen = []
    for call in range(4):
        polls.enter_next()
        if call in (0, 3):
            polls.enter_poll()
            polls.leave_poll(3)
        polls.leave_next(found=True)
        seen.append(reported(polls))
    assert seen == [(1003, None, 3, 0), (1003, None, 3, 1), (1003, None, 3, 2), (1008, None, 3, 0)]


def test_an_iterator_that_finds_nothing_polls_on(polls):
    """Empty polls inside it count as waiting, not as returns."""
    polls.enter_next()
    polls.enter_poll()
    polls.leave_poll(0)
    polls.enter_poll()
    assert reported(polls) == (None, 1004, 0, 0)


def test_each_record_of_an_iterator_without_polls_counts_as_a_poll(polls):
    """kafka-python 1.4: nothing is polled inside, the work of a poll is done between records."""
    seen = []
    for _ in range(2):
        polls.enter_next()
        polls.leave_next(found=True)
        seen.append(reported(polls))
    assert seen == [(1002, None, 1, 0), (1004, None, 1, 0)]
    polls.enter_next()
    assert reported(polls) == (None, 1005, 1, 1)


def test_an_iterator_that_ends_gives_the_application_back_to_itself(polls):
    """consumer_timeout_ms ends it without a record."""
    polls.enter_next()
    polls.leave_next(found=False)
    assert reported(polls) == (1002, None, 0, 0)


class Clocks:
    """Stands in for the module `time`: the system's clock can be set, the monotonic one only goes on."""

    def __init__(self) -> None:
        self.passed_seconds, self.set_by_seconds = 0.0, 1_000.0

    def time(self) -> float:
        return self.passed_seconds + self.set_by_seconds

    def monotonic(self) -> float:
        return self.passed_seconds


def test_a_step_of_the_systems_clock_changes_no_age(monkeypatch):
    """Times of polls follow it, as the report's own time does; a difference of a few ms is no step."""
    clocks = Clocks()
    monkeypatch.setattr("rebalance_exporters.reporters.polls.time", clocks)
    polls = PollTracker()
    polls.enter_poll()
    polls.leave_poll(7)
    clocks.passed_seconds += 2
    assert (wall_ms(), reported(polls)) == (1_002_000, (1_000_000, None, 7, None))
    clocks.set_by_seconds += 0.005
    assert reported(polls) == (1_000_000, None, 7, None)
    clocks.set_by_seconds += 600
    assert (wall_ms(), reported(polls)) == (1_602_005, (1_600_005, None, 7, None))
    polls.enter_poll()
    clocks.set_by_seconds -= 1_200
    clocks.passed_seconds += 1
    assert (wall_ms(), reported(polls)) == (403_005, (None, 402_005, 7, None))
