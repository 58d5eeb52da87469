"""The progress display of long operations: its content, and where it is shown."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import pytest

from rebalance_deploy import progress
from rebalance_deploy.log_settings import LogConfig
from rebalance_deploy.logs import configure
from rebalance_deploy.progress import (
    Pace,
    StepProgress,
    describe,
    draw,
    drawing,
    figures_of,
    raw_positions,
    shown,
    step_of_bytes,
)
from waiting import wait_for

ERASE_LINE = "\x1b[2K"


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns, to be set as standard error within the test: before it, pytest sets its own."""
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(progress, "_SILENT_SECONDS", 0.0)
    return Terminal()


def paced(*readings: tuple[float, StepProgress]) -> tuple[StepProgress, Pace]:
    """Return the last of several readings at times in seconds, and their pace."""
    pace = Pace()
    for at_seconds, reading in readings:
        pace.take(reading, at_seconds)
    return readings[-1][1], pace


MEGABYTE = 1_000_000


def fetching(done: int, wanted: int) -> StepProgress:
    return step_of_bytes("fetching", done, wanted)


@pytest.mark.parametrize(
    ("readings", "reported"),
    [
        pytest.param([(0, StepProgress("recording", 0, "records"))], "0 records", id="at the start"),
        pytest.param(
            [(0, StepProgress("recording", 100, "records")), (2, StepProgress("recording", 30_100, "records"))],
            "30.1k records  15k records/s",
            id="without an end there is a rate and no time left",
        ),
        pytest.param(
            [(0, fetching(0, 60 * MEGABYTE)), (4, fetching(20 * MEGABYTE, 60 * MEGABYTE))],
            "33 %  20.0 of 60.0 MB  5.0 MB/s  8 s left",
            id="bytes",
        ),
        pytest.param(
            [(0, fetching(0, 2 * MEGABYTE)), (0.5, fetching(512, 2 * MEGABYTE))],
            "0 %  512 B of 2.0 MB",
            id="no rate before a second has passed",
        ),
        pytest.param(
            [
                (0, StepProgress("recording", 0, "records", share=0.0)),
                (10, StepProgress("recording", 500, "records", share=0.1)),
            ],
            "10 %  500 records  50 records/s  1.5 min left",
            id="the end follows from the share and not from what is counted",
        ),
        pytest.param(
            [(0, step_of_bytes("reading", 5, 10)), (3, step_of_bytes("reading", 5, 10))],
            "50 %  5 of 10 B  0 B/s",
            id="what stands still has no time left",
        ),
        pytest.param(
            [(0, step_of_bytes("reading", 0, 10)), (5, step_of_bytes("judging", 9, 10))],
            "90 %  9 of 10 B",
            id="another step begins anew",
        ),
        pytest.param(
            [(0, step_of_bytes("reading", 9, 10)), (5, step_of_bytes("reading", 1, 10))],
            "10 %  1 of 10 B",
            id="what fell back begins anew",
        ),
        pytest.param(
            [(0, fetching(0, 100)), (60, fetching(20, 100)), (80, fetching(60, 100))],
            "60 %  60 of 100 B  2 B/s  20 s left",
            id="the rate is that of late",
        ),
        pytest.param([(0, step_of_bytes("reading", 999, 1_000))], "99 %  999 B of 1.0 kB", id="rounded down"),
    ],
)
def test_what_is_logged(readings: list[tuple[float, StepProgress]], reported: str) -> None:
    """Share, amount, rate and time left, each if it is known."""
    assert describe(*paced(*readings)) == reported


def test_all_of_it_fits_into_a_line_of_80_columns(terminal: Terminal) -> None:
    """Step, bar and text are on one line, which is redrawn in place."""
    drawn = drawing(terminal)
    assert drawn is not None
    readings = (
        (0, StepProgress("judging", 0, "records", 5_640, 0.0)),
        (30, StepProgress("judging", 4_997, "records", 5_640, 0.886)),
    )
    with drawn:
        draw(drawn, *paced(*readings[:1]))
        draw(drawn, *paced(*readings))
    before, *_, last = [each for each in terminal.getvalue().replace("\r", "").split(ERASE_LINE) if "judging" in each]
    assert before.endswith("0 %  0 of 5640 records")
    assert last.split("\n")[0].startswith("judging ━")
    assert last.split("\n")[0].endswith("  88 %  4997 of 5640 records  167 records/s  4 s left")
    assert len(last.split("\n")[0]) == 80


def test_the_line_is_gone_when_the_work_is_done(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only other output remains on the terminal; messages in between appear above the line."""
    monkeypatch.setattr(sys, "stderr", terminal)
    with shown(lambda: StepProgress("recording", 7, "records")) as bar:
        wait_for(lambda: "recording" in terminal.getvalue(), terminal.getvalue)
        sys.stderr.write("a message\n")
        bar.stop()
        written = terminal.getvalue()
        assert "a message\n" in written
        assert written.endswith(ERASE_LINE)
    assert terminal.getvalue() == written
    # The cursor is never hidden, because a killed process could not show it again.
    assert "\x1b[?25l" not in written


def refuse() -> StepProgress:
    raise AssertionError("nobody asks how far it is")


def test_nothing_is_asked_or_written_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """For a service, a pipe or a file there is neither a thread nor text."""
    with shown(refuse):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_program_reads_figures_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_logging: None
) -> None:
    """With `log.format = "json"` share, rate and seconds left are on standard error, the final ones at the end."""
    readings = iter([fetching(0, 60), fetching(0, 60)])
    asked: list[int] = []

    def measure() -> StepProgress:
        asked.append(1)
        return next(readings, fetching(60, 60))

    monkeypatch.setattr(progress, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.001)
    # No rate is given, however long the machine takes between two readings.
    monkeypatch.setattr(progress, "_SHORTEST_SECONDS", float("inf"))
    configure(LogConfig(format="json"), "record", {})
    with shown(measure):
        wait_for(lambda: len(asked) > 3, "some readings")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {each["process"] for each in said} == {"record"}
    assert said[0]["progress"] == {
        "step": "fetching",
        "share": 0.0,
        "share_rate": None,
        "seconds_left": None,
        "done": 0,
        "wanted": 60,
        "unit": "bytes",
        "rate": None,
    }
    assert said[-1]["message"].startswith("fetching: 100 %  60 of 60 B")
    assert said[-1]["progress"]["share"] == 1.0


def test_figures_are_those_of_the_sentence() -> None:
    """Rates are per second, in counted units and in the share."""
    reading, pace = paced((0, fetching(0, 60)), (4, fetching(20, 60)))
    figures = figures_of(reading, pace)
    assert (figures["rate"], figures["share_rate"]) == (5.0, pytest.approx(1 / 12))
    assert figures["seconds_left"] == pytest.approx(8.0)


@pytest.mark.parametrize("why", ["dumb", "no library"])
def test_nothing_is_drawn_where_it_cannot_be(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """On a terminal whose cursor cannot be moved, and without `rich`, which production does not need."""
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    assert drawing(terminal) is None
    monkeypatch.setattr(sys, "stderr", terminal)
    asked: list[int] = []

    def measure() -> StepProgress:
        asked.append(1)
        return StepProgress("recording", 7, "records")

    with shown(measure):
        wait_for(lambda: asked, "the first reading")
    assert terminal.getvalue() == ""


def test_short_work_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation of less than a second draws nothing."""
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_SILENT_SECONDS", 60.0)
    with shown(lambda: StepProgress("recording", 7, "records")):
        pass
    assert terminal.getvalue() == ""


def test_bytes_are_those_of_the_files_as_they_are_stored(tmp_path: Path) -> None:
    """A compressed file counts by its compressed size; several files are added up."""
    packed, plain = tmp_path / "packed.gz", tmp_path / "plain"
    packed.write_bytes(gzip.compress(os.urandom(100_000)))
    plain.write_bytes(bytes(50_000))
    size = packed.stat().st_size
    with packed.open("rb") as first, plain.open("rb") as second:
        positions = raw_positions([first, second])
        assert positions is not None
        assert positions() == (0, size + 50_000)
        first.read()
        assert positions() == (size, size + 50_000)
        second.read()
        assert positions() == (size + 50_000, size + 50_000)


def test_of_a_pipe_there_is_no_size(tmp_path: Path) -> None:
    """Nor for text in memory."""
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert raw_positions([pipe]) is None
    assert raw_positions([io.BytesIO()]) is None
