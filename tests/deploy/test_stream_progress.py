"""The progress that `stream` shows until it has read its log to the end."""

import io
from collections.abc import Callable

from exporters.contract_rows import query_row
from rebalance_contract import QueryStatus, decode
from rebalance_deploy.progress import Bar, StepProgress
from rebalance_deploy.stream_progress import StreamProgress


class Recorded(Bar):
    """A bar that draws nothing and records its calls."""

    def __init__(self, measure: Callable[[], StepProgress], stream: io.StringIO) -> None:
        super().__init__(measure, stream)
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


def status(query: str, read: int, wanted: int) -> QueryStatus:
    """The status of a query's progress."""
    row = query_row(query, read_records=read, wanted_records=wanted, caught_up=read == wanted)
    return decode(row.value or b"", QueryStatus)


class Bars(list[Recorded]):
    """The created bars."""

    def make(self, measure: Callable[[], StepProgress], stream: io.StringIO) -> Bar:
        self.append(Recorded(measure, stream))
        return self[-1]


def test_it_is_shown_from_the_first_look_until_all_queries_caught_up() -> None:
    """Shown once: a query that falls behind later is not part of the start."""
    bars = Bars()
    progress = StreamProgress(io.StringIO(), bars.make)
    for membership, activity in ((0, 0), (50, 100), (100, 100), (0, 100)):
        progress.look([status("membership", membership, 100), status("activity", activity, 100)])
    progress.stop()
    assert [each.calls for each in bars] == [["start", "stop"]]


def test_it_counts_the_records_of_all_queries() -> None:
    """Of all records in their inputs at the start."""
    progress = StreamProgress(io.StringIO())
    progress.look([])
    assert progress.reading() == StepProgress("reading the log up", 0, "records", 0, None)
    progress.look([status("membership", 60, 100), status("activity", 90, 200)])
    assert progress.reading() == StepProgress("reading the log up", 150, "records", 300, 0.5)
    progress.stop()


def test_a_rebuild_is_shown_before_the_queries_are() -> None:
    """In one bar: first the published topics, then the inputs."""
    bars = Bars()
    progress = StreamProgress(io.StringIO(), bars.make)
    progress.read_back(50, 200)
    assert progress.reading() == StepProgress("reading the published rows", 50, "positions", 200, 0.25)
    progress.look([status("membership", 60, 100)])
    assert progress.reading() == StepProgress("reading the log up", 60, "records", 100, 0.6)
    progress.look([status("membership", 100, 100)])
    assert [each.calls for each in bars] == [["start", "stop"]]


def test_a_stream_that_starts_where_it_stopped_shows_nothing() -> None:
    """A stream that has caught up at the first look has nothing to wait for."""
    bars = Bars()
    StreamProgress(io.StringIO(), bars.make).look([status("membership", 5, 5)])
    assert [each.calls for each in bars] == [["stop"]]


class Terminal(io.StringIO):
    """The terminal of another process."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_on_a_terminal_of_others() -> None:
    """As for the stream started by `up`."""
    bars = Bars()
    progress = StreamProgress(Terminal(), bars.make)
    progress.look([status("membership", 0, 5)])
    progress.stop()
    assert not bars
