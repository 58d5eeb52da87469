"""Progress of long work, with its rate and the remaining time, for a person at a terminal or for a program.

Takes a function that measures the progress and calls it a few times a second from its own thread, so that the work
itself needs no extra code. Draws a bar on standard error if that is a terminal, which needs `rich` of the extra
`terminal`; otherwise, with `log.format = "json"`, logs a line with figures every five seconds, or else nothing.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from rebalance_deploy.logs import logs_json, say_progress
from rebalance_exporters.text.figures import amount, span

if TYPE_CHECKING:
    from rich.progress import Progress

_EVERY_SECONDS = 0.25
_LOG_SECONDS = 5.0
#: Work that ends sooner gets no bar.
_SILENT_SECONDS = 1.0
#: Rates are computed over at most the first and at least the second of these times.
_PACE_SECONDS, _SHORTEST_SECONDS = 20.0, 1.0
_BYTES = "bytes"


class StepProgress(NamedTuple):
    """Progress of a step. `share` is 0 to 1, or None if there is no known end."""

    step: str
    done: int
    unit: str
    wanted: int | None = None
    share: float | None = None


Measure = Callable[[], StepProgress]


def step_of(step: str, done: int, unit: str, wanted: int | None) -> StepProgress:
    """Return the progress of a step whose share is `done` of `wanted`."""
    return StepProgress(step, done, unit, wanted, min(1.0, done / wanted) if wanted else None)


def step_of_bytes(step: str, done: int, wanted: int) -> StepProgress:
    """Return the progress of a step that is measured in bytes."""
    return step_of(step, done, _BYTES, wanted)


@dataclass(slots=True)
class Pace:
    """Rate of a step, from its latest readings; starts over if the step changes or its share decreases."""

    _seen: deque[tuple[float, StepProgress]] = field(default_factory=deque)

    def take(self, reading: StepProgress, now_seconds: float) -> None:
        """Process a reading; `now_seconds` is from a monotonic clock."""
        if self._seen and (reading.step != self._seen[-1][1].step or _is_behind(reading, self._seen[-1][1])):
            self._seen.clear()
        self._seen.append((now_seconds, reading))
        while now_seconds - self._seen[0][0] > _PACE_SECONDS and len(self._seen) > 2:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Units per second, or None before a second has passed."""
        return self._per_second(lambda each: each.done)

    @property
    def share_rate(self) -> float | None:
        """Increase of the share per second, or None if unknown."""
        return self._per_second(lambda each: each.share)

    @property
    def left_seconds(self) -> float | None:
        """Remaining time at this rate, or None if unknown or if there is no progress."""
        rate = self.share_rate
        share = self._seen[-1][1].share if self._seen else None
        return None if not rate or share is None else (1 - share) / rate

    def _per_second(self, figure: Callable[[StepProgress], float | None]) -> float | None:
        if not self._seen:
            return None
        (first_seconds, first), (last_seconds, last) = self._seen[0], self._seen[-1]
        before, now, seconds = figure(first), figure(last), last_seconds - first_seconds
        return None if before is None or now is None or seconds < _SHORTEST_SECONDS else (now - before) / seconds


def _is_behind(reading: StepProgress, before: StepProgress) -> bool:
    if reading.share is None or before.share is None:
        return reading.share is not before.share
    return reading.share < before.share


def describe(reading: StepProgress, pace: Pace) -> str:
    """Return the text beside the bar: `45 %  57.0 of 127.0 MB  8.1 MB/s  9 s left`, without the unknown parts."""
    rate = pace.rate
    parts = (
        # Rounded down, so that 100 % means done.
        "" if reading.share is None else f"{int(100 * reading.share)} %",
        _count(reading),
        "" if rate is None else f"{' '.join(_figure(rate, reading.unit))}/s",
        time_left(pace),
    )
    return "  ".join(part for part in parts if part)


def figures_of(reading: StepProgress, pace: Pace) -> dict[str, object]:
    """Return the figures for programs, with None for unknown ones."""
    counted = {"done": reading.done, "wanted": reading.wanted, "unit": reading.unit, "rate": pace.rate}
    return {
        "step": reading.step,
        "share": reading.share,
        "share_rate": pace.share_rate,
        "seconds_left": pace.left_seconds,
        # A step without a unit reports only its share.
        **(counted if reading.unit else dict.fromkeys(counted)),
    }


def time_left(pace: Pace) -> str:
    """Return the remaining time, rounded up to seconds; empty if unknown."""
    left_seconds = pace.left_seconds
    return "" if left_seconds is None else f"{span(1000 * math.ceil(round(left_seconds, 3)))} left"


def _count(reading: StepProgress) -> str:
    done, unit = _figure(reading.done, reading.unit)
    if reading.wanted is None:
        return f"{done} {unit}"
    wanted, unit_of_all = _figure(reading.wanted, reading.unit)
    return f"{done}{'' if unit == unit_of_all else f' {unit}'} of {wanted} {unit_of_all}"


def _figure(number: float, unit: str) -> tuple[str, str]:
    """Return a number as text, and its unit; bytes are scaled to kB, MB or GB."""
    if unit != _BYTES:
        return amount(number), unit
    for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f}", name
    return f"{number:.0f}", "B"


class Bar:
    """One line at the bottom of a terminal while it is shown. `stop` may be called at any time, and repeatedly."""

    def __init__(self, measure: Measure, stream: IO[str]) -> None:
        """Make a bar; `stream` is the terminal."""
        self._measure = measure
        self._stream = stream
        self._pace = Pace()
        self._stop = threading.Event()
        self._for_programs = not stream.isatty() and logs_json()
        run = self._log if self._for_programs else self._draw
        self._thread = threading.Thread(target=run, name="progress", daemon=True)

    def start(self) -> None:
        """Start the thread, if there is a terminal or a JSON log."""
        if self._for_programs or self._stream.isatty():
            self._thread.start()

    def stop(self) -> None:
        """Remove the line and stop measuring."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _log(self) -> None:
        """Log the progress every few seconds, and once more at the end if it was logged before."""
        self._take()
        is_over = self._stop.wait(_SILENT_SECONDS)
        if is_over:
            return
        while True:
            reading = self._take()
            say_progress(f"{reading.step}: {describe(reading, self._pace)}", figures_of(reading, self._pace))
            if is_over:
                return
            is_over = self._stop.wait(_LOG_SECONDS)

    def _draw(self) -> None:
        reading = self._take()
        if self._stop.wait(_SILENT_SECONDS):
            return
        progress = drawing(self._stream)
        if progress is None:
            return
        with progress:
            while True:
                draw(progress, reading, self._pace)
                if self._stop.wait(_EVERY_SECONDS):
                    return
                reading = self._take()

    def _take(self) -> StepProgress:
        reading = self._measure()
        self._pace.take(reading, time.monotonic())
        return reading


@contextmanager
def shown(measure: Measure) -> Iterator[Bar]:
    """Show the progress of work that takes more than a second: at a terminal, or as lines of JSON.

    `measure` is called from another thread.
    """
    bar = Bar(measure, sys.stderr)
    bar.start()
    try:
        yield bar
    finally:
        bar.stop()


def drawing(stream: IO[str]) -> Progress | None:
    """Return what draws on a terminal, or None if it cannot move its cursor or the library is missing."""
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415
        from rich.table import Column  # noqa: PLC0415
    except ImportError:
        return None

    class Cautious(Console):
        def show_cursor(self, show: bool = True) -> bool:
            """Leave the cursor visible: a process that is killed could not restore it."""
            return False

    console = Cautious(file=stream, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[described]}", markup=False, table_column=Column(no_wrap=True)),
        console=console,
        expand=True,
        # Redirection would write output meant for a pipe to the terminal.
        redirect_stdout=False,
        transient=True,
        auto_refresh=False,
    )


def draw(progress: Progress, reading: StepProgress, pace: Pace) -> None:
    """Draw a reading on the line."""
    if not progress.task_ids:
        # Invisible, because adding a task draws it at once.
        progress.add_task("", total=None, visible=False, described="")
    progress.update(
        progress.task_ids[0],
        description=reading.step,
        total=None if reading.share is None else 1.0,
        completed=reading.share or 0.0,
        described=describe(reading, pace),
        visible=True,
        refresh=True,
    )


def raw_positions(files: Iterable[Any]) -> Callable[[], tuple[int, int]] | None:
    """Return a function that returns the bytes read and the total size, of the files as stored (even compressed).

    None if one of them has no size, such as a pipe.
    """
    numbers = [_number(file) for file in files]
    known = [number for number in numbers if number is not None and stat.S_ISREG(os.fstat(number).st_mode)]
    if len(known) < len(numbers):
        return None
    sizes = [os.fstat(number).st_size for number in known]
    # From the system, because the position of a file object must only be used by the thread that reads.
    return lambda: (sum(os.lseek(number, 0, os.SEEK_CUR) for number in known), sum(sizes))


def _number(file: Any) -> int | None:
    """Return the file descriptor of an open file, or None if it has none, such as text in memory."""
    try:
        return int(file.fileno())
    except (AttributeError, OSError):
        return None
