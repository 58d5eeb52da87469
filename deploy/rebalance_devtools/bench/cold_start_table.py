"""Formats the results of cold starts as a table with one column per subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rebalance_devtools.bench.process_trees import CpuUse, MemoryUse

NOT_MEASURED = "-"

T = TypeVar("T")


@dataclass(slots=True)
class LagAge:
    """Age of lag when it was shown, in seconds, over all commits of a load; `unseen` counts commits never shown.

    Lag is read once a second. `p50` and `p95` count to the end of the first reading that shows a commit (upper bound),
    `least_p50` and `least_p95` to the start of the reading before, which did not show it yet (lower bound).
    """

    commits_per_second: float
    p50: float | None
    p95: float | None
    least_p50: float | None
    least_p95: float | None
    highest: float | None
    requests: int
    unseen: int
    #: Time to read all lag, median.
    reading_seconds: float


@dataclass(slots=True)
class Result:
    """One subject's measurements; None if it failed before. Seconds count from its start."""

    name: str
    outcome: str = "not right in time"
    ready_seconds: float | None = None
    first_lag_seconds: float | None = None
    right_seconds: float | None = None
    groups_right: int = 0
    memory_until_right: MemoryUse | None = None
    memory_peak: MemoryUse | None = None
    broker_memory: MemoryUse | None = None
    cpu_until_right: CpuUse | None = None
    cpu_idle: CpuUse | None = None
    cpu_live: CpuUse | None = None
    right_after_idle: bool | None = None
    lag_age: LagAge | None = None

    @property
    def processes(self) -> list[str]:
        """Names of all processes seen, sorted."""
        memory = () if self.memory_peak is None else self.memory_peak.pss
        uses = (self.cpu_until_right, self.cpu_idle, self.cpu_live)
        return sorted({*memory, *(process for use in uses if use is not None for process in use.processes)})


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table with a column for each subject, then a table of the processes of each subject with several."""
    yield from _table(["what", *(result.name for result in results)], _rows(results))
    for result in results:
        if len(result.processes) > 1:
            yield ""
            yield from _table(
                [f"{result.name}, by process", "PSS, MiB", "CPU s until right", "idle: cores", "live: cores"],
                _parts(result),
            )


def _rows(results: Sequence[Result]) -> Iterator[list[str]]:
    rows: dict[str, Callable[[Result], str]] = {
        "outcome": lambda it: it.outcome,
        "ready after": lambda it: _seconds(it.ready_seconds),
        "first lag of any group after": lambda it: _seconds(it.first_lag_seconds),
        "right after": lambda it: _seconds(it.right_seconds),
        "groups right": lambda it: f"{it.groups_right:,}",
        "right still after idling": lambda it: _yes(it.right_after_idle),
        "memory (PSS), highest until right": lambda it: _mib(it.memory_until_right),
        "memory (PSS), highest of the run": lambda it: _mib(it.memory_peak),
        "RSS then": lambda it: _known(it.memory_peak, lambda memory: f"{sum(memory.rss.values()):,.0f} MiB"),
        "CPU until right": lambda it: _seconds(_total(it.cpu_until_right)),
        "idle: cores": lambda it: _cores(it.cpu_idle, lambda use: use.total),
        "live: cores": lambda it: _cores(it.cpu_live, lambda use: use.total),
        "live: commits/s": lambda it: _known(it.lag_age, lambda age: f"{age.commits_per_second:,.0f}"),
        "live: age of lag, p50": lambda it: _known(it.lag_age, lambda age: _seconds(age.p50)),
        "live: age of lag, p50 at least": lambda it: _known(it.lag_age, lambda age: _seconds(age.least_p50)),
        "live: age of lag, p95": lambda it: _known(it.lag_age, lambda age: _seconds(age.p95)),
        "live: age of lag, p95 at least": lambda it: _known(it.lag_age, lambda age: _seconds(age.least_p95)),
        "live: age of lag, highest": lambda it: _known(it.lag_age, lambda age: _seconds(age.highest)),
        "live: requests to commit, of them never shown": lambda it: _known(
            it.lag_age, lambda age: f"{age.requests:,}, {age.unseen:,}"
        ),
        "live: reading all lag once, median": lambda it: _known(it.lag_age, lambda age: _seconds(age.reading_seconds)),
        "broker: memory (PSS)": lambda it: _mib(it.broker_memory),
        "broker: cores until right": lambda it: _cores(it.cpu_until_right, lambda use: use.broker),
        "broker: cores, idle": lambda it: _cores(it.cpu_idle, lambda use: use.broker),
        "broker: cores, live": lambda it: _cores(it.cpu_live, lambda use: use.broker),
        "else on this machine: cores until right": lambda it: _cores(it.cpu_until_right, lambda use: use.others),
        "else on this machine: cores, idle": lambda it: _cores(it.cpu_idle, lambda use: use.others),
        "else on this machine: cores, live": lambda it: _cores(it.cpu_live, lambda use: use.others),
    }
    for what, show in rows.items():
        yield [what, *(show(result) for result in results)]


def _parts(result: Result) -> Iterator[list[str]]:
    memory = {} if result.memory_peak is None else result.memory_peak.pss
    for process in result.processes:
        of = partial(_part, process)
        yield [
            process,
            f"{memory.get(process, 0.0):,.0f}",
            NOT_MEASURED if result.cpu_until_right is None else f"{of(result.cpu_until_right):,.1f}",
            _cores(result.cpu_idle, of),
            _cores(result.cpu_live, of),
        ]


def _part(process: str, use: CpuUse) -> float:
    return use.processes.get(process, 0.0)


def _table(head: Sequence[str], rows: Iterator[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _seconds(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:,.1f} s"


def _known(value: T | None, show: Callable[[T], str]) -> str:
    return NOT_MEASURED if value is None else show(value)


def _cores(use: CpuUse | None, part: Callable[[CpuUse], float]) -> str:
    return _known(use, lambda known: f"{part(known) / known.seconds:.1%}")


def _total(use: CpuUse | None) -> float | None:
    return None if use is None else use.total


def _mib(memory: MemoryUse | None) -> str:
    return _known(memory, lambda known: f"{known.total:,.0f} MiB")


def _yes(value: bool | None) -> str:
    return _known(value, lambda known: "yes" if known else "no")
