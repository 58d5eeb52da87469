"""How far long work is, with its rate and the time that is left, for a person who waits at a terminal, or a program.

Receives a function that says how far the work is; asks it a few times a second from a thread of its own, so that the
work itself has nothing to do for it. Draws on standard error where that is a terminal, which needs `rich` of the extra
`terminal`; with `log.format = "json"` it is a line every five seconds instead, with figures. Elsewhere nothing is said.
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
#: What is done sooner needs no bar.
_SILENT_SECONDS = 1.0
#: Rates are those of so long a time, and none is reported of a shorter one than the second.
_PACE_SECONDS, _SHORTEST_SECONDS = 20.0, 1.0
_BYTES = "bytes"


class StepProgress(NamedTuple):
    """How far a step is. `share`, 0 to 1, is null where there is no end, or none that is known."""

    step: str
    done: int
    unit: str
    wanted: int | None = None
    share: float | None = None


Measure = Callable[[], StepProgress]


def step_of(step: str, done: int, unit: str, wanted: int | None) -> StepProgress:
    """Return how far a step is whose share is `done` of `wanted`."""
    return StepProgress(step, done, unit, wanted, min(1.0, done / wanted) if wanted else None)


def step_of_bytes(step: str, done: int, wanted: int) -> StepProgress:
    """Return how far a step is that is measured in bytes."""
    return step_of(step, done, _BYTES, wanted)


@dataclass(slots=True)
class Pace:
    """How fast a step goes, from its latest readings; a step of another name, or that fell back, begins anew."""

    _seen: deque[tuple[float, StepProgress]] = field(default_factory=deque)

    def take(self, reading: StepProgress, now_seconds: float) -> None:
        """Process a reading, in the order of a clock that never goes back."""
        if self._seen and (reading.step != self._seen[-1][1].step or _is_behind(reading, self._seen[-1][1])):
            self._seen.clear()
        self._seen.append((now_seconds, reading))
        while now_seconds - self._seen[0][0] > _PACE_SECONDS and len(self._seen) > 2:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Units per second; null before a second has passed."""
        return self._per_second(lambda each: each.done)

    @property
    def share_rate(self) -> float | None:
        """The share that a second adds; null where it is not known."""
        return self._per_second(lambda each: each.share)

    @property
    def left_seconds(self) -> float | None:
        """How long it takes to the end at this rate; null where that is not known, or nothing moves."""
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
    """Return what stands beside the bar: `45 %  57.0 of 127.0 MB  8.1 MB/s  9 s left`, as far as it is known."""
    rate = pace.rate
    parts = (
        # Rounded down: 100 % is said of what is done only.
        "" if reading.share is None else f"{int(100 * reading.share)} %",
        _count(reading),
        "" if rate is None else f"{' '.join(_figure(rate, reading.unit))}/s",
        time_left(pace),
    )
    return "  ".join(part for part in parts if part)


def figures_of(reading: StepProgress, pace: Pace) -> dict[str, object]:
    """Return what programs read; null where it is not known."""
    counted = {"done": reading.done, "wanted": reading.wanted, "unit": reading.unit, "rate": pace.rate}
    return {
        "step": reading.step,
        "share": reading.share,
        "share_rate": pace.share_rate,
        "seconds_left": pace.left_seconds,
        # Some report their share only.
        **(counted if reading.unit else dict.fromkeys(counted)),
    }


def time_left(pace: Pace) -> str:
    """Return how long it still takes, rounded up to seconds; empty where that is not known."""
    left_seconds = pace.left_seconds
    return "" if left_seconds is None else f"{span(1000 * math.ceil(round(left_seconds, 3)))} left"


def _count(reading: StepProgress) -> str:
    done, unit = _figure(reading.done, reading.unit)
    if reading.wanted is None:
        return f"{done} {unit}"
    wanted, unit_of_all = _figure(reading.wanted, reading.unit)
    return f"{done}{'' if unit == unit_of_all else f' {unit}'} of {wanted} {unit_of_all}"


def _figure(number: float, unit: str) -> tuple[str, str]:
    """Return a number, and what it counts."""
    if unit != _BYTES:
        return amount(number), unit
    for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f}", name
    return f"{number:.0f}", "B"


class Bar:
    """One line at the foot of a terminal, as long as it is shown. `stop` may be called at any time, and again."""

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
        """Begin to watch."""
        if self._for_programs or self._stream.isatty():
            self._thread.start()

    def stop(self) -> None:
        """Take the line away, and ask no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _log(self) -> None:
        """Log it now and then, and once more at the end of what took so long that it was reported before."""
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
    """Show how far work is while the context lasts, once it takes a second: at a terminal, or as lines of JSON.

    `measure` is called from another thread.
    """
    bar = Bar(measure, sys.stderr)
    bar.start()
    try:
        yield bar
    finally:
        bar.stop()


def drawing(stream: IO[str]) -> Progress | None:
    """Return what draws on a terminal; null for one that cannot move its cursor, and without the library."""
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415
        from rich.table import Column  # noqa: PLC0415
    except ImportError:
        return None

    class Cautious(Console):
        def show_cursor(self, show: bool = True) -> bool:
            """Leave the cursor as it is: a process that is killed could not bring it back."""
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
        # It would send what goes to a pipe to the terminal.
        redirect_stdout=False,
        transient=True,
        auto_refresh=False,
    )


def draw(progress: Progress, reading: StepProgress, pace: Pace) -> None:
    """Put a reading into the one line."""
    if not progress.task_ids:
        # Adding draws at once, when there is nothing to show yet.
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
    """Return what says how many bytes were read of how many, of the files as they are stored, compressed or not.

    Null when one of them is none that has a size, such as a pipe.
    """
    numbers = [_number(file) for file in files]
    known = [number for number in numbers if number is not None and stat.S_ISREG(os.fstat(number).st_mode)]
    if len(known) < len(numbers):
        return None
    sizes = [os.fstat(number).st_size for number in known]
    # Asked of the system: the position of the object that reads belongs to the thread that reads.
    return lambda: (sum(os.lseek(number, 0, os.SEEK_CUR) for number in known), sum(sizes))


def _number(file: Any) -> int | None:
    """Return the number of an open file; null of what is none, such as text in memory."""
    try:
        return int(file.fileno())
    except (AttributeError, OSError):
        return None
