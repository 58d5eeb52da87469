"""Measures how long a cold start takes until all lag values are right, its cost, and the age of lag afterwards.

Right means that every group of the log is shown with the lag known to the log's generator.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import tempfile
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rebalance_deploy.errors import UserError
from rebalance_devtools.bench import bare_spark, commit_load, subjects
from rebalance_devtools.bench.cluster_log import Shape, Truth, filled_broker
from rebalance_devtools.bench.cold_start_table import LagAge, Result, lines
from rebalance_devtools.bench.commit_load import Commit, Load
from rebalance_devtools.bench.process_trees import CpuMeter, PeakMemory

_READY_POLL_SECONDS = 0.25
#: Pause between two readings of all lag.
_LAG_PAUSE_SECONDS = 1.0
#: Maximum time until the last commits of a load are shown.
_LAST_COMMITS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure; see the options of `rebalance-monitor bench cold-start`."""

    shape: Shape = field(default_factory=Shape)
    keep: Path | None = None
    json_file: Path | None = None
    logs: Path | None = None
    peer: str = ""
    deadline_seconds: float = 300
    settle_seconds: float = 60
    idle_seconds: float = 60
    live_seconds: float = 60
    live_rate: float = 2_000

    def load(self, bootstrap: str) -> Load:
        """Return the load of commits for the live measurement."""
        return Load(bootstrap, self.shape, self.live_rate, self.live_seconds)


def make_options(given: Mapping[str, Any]) -> Options:
    """Return options from those of the command line, by name; None keeps the default."""
    chosen = {name: value for name, value in given.items() if value is not None}
    shape = Shape(**{name: chosen.pop(name) for name in Shape.__dataclass_fields__ if name in chosen})
    return Options(shape=shape, **chosen)


def measure(options: Options) -> Iterator[str]:
    """Yield the lines of the tables: the monitor, then the peer, each on its own broker with an equal log."""
    candidates = subjects.all_subjects(options.peer)
    if problems := [*options.shape.validate(), *options.load("").validate()]:
        raise UserError("; ".join(problems))
    shape = options.shape
    yield (
        f"{shape.groups:,} groups x {shape.partitions} partitions, {shape.rounds * shape.keys:,} commits in"
        f" {shape.source_partitions} partitions of the log, seed {shape.seed}; {os.cpu_count()} cores, broker included"
    )
    yield ""
    results: list[Result] = []
    for name, start in candidates.items():
        results.append(_measure(name, start, options))
        if options.json_file is not None:
            _write_json(options.json_file, shape, results)
    yield from lines(results)
    with filled_broker(shape, options.keep) as broker:
        (broker_pid,) = broker.pids
        yield ""
        yield from bare_spark.lines(bare_spark.measure(broker.bootstrap, broker_pid))


def _write_json(file: Path, shape: Shape, results: Sequence[Result]) -> None:
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release()}
    document = {"shape": asdict(shape), "machine": machine, "subjects": [asdict(result) for result in results]}
    file.write_text(json.dumps(document, indent=1) + "\n")


def _measure(name: str, start: subjects.Start, options: Options) -> Result:
    with filled_broker(options.shape, options.keep) as broker, _files(name, options) as directory:
        (broker_pid,) = broker.pids
        result = Result(name)
        began = time.monotonic()
        with (
            start(broker.bootstrap, directory) as subject,
            PeakMemory(subject.roots) as memory,
            PeakMemory({"broker": broker_pid}) as broker_memory,
        ):
            run = _Run(subject, CpuMeter(subject.roots, broker_pid), broker_pid, options, result)
            try:
                run.until_right(began, memory)
                run.at_rest()
                run.live(broker.bootstrap, directory)
            except UserError as error:
                result.outcome = f"{result.outcome}, then: {error}" if result.right_seconds else str(error)
            result.memory_peak, result.broker_memory = memory.peak, broker_memory.peak
    return result


@contextlib.contextmanager
def _files(name: str, options: Options) -> Iterator[Path]:
    """Yield a temporary directory for logs and checkpoint; its logs are copied to `options.logs`, if set."""
    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-bench-") as directory:
        try:
            yield Path(directory)
        finally:
            if options.logs is not None:
                (options.logs / name).mkdir(parents=True, exist_ok=True)
                for log in Path(directory).glob("*.log"):
                    shutil.copy(log, options.logs / name)


@dataclass(frozen=True, slots=True)
class LagReading:
    """The lag shown for each group, and the times of the request and the answer, in seconds of the monotonic clock."""

    asked: float
    answered: float
    lags: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Run:
    """A running subject, the broker it watches, and the measurements so far."""

    subject: subjects.BenchSubject
    meter: CpuMeter
    broker: int
    options: Options
    result: Result

    def until_right(self, began: float, memory: PeakMemory) -> None:
        """Wait for readiness and for right lag. Raises UserError after the deadline."""
        result, lags = self.result, Truth(self.options.shape).group_lags
        read_again = began
        while result.ready_seconds is None or result.right_seconds is None:
            self.subject.check()
            if result.ready_seconds is None and self.subject.is_ready():
                result.ready_seconds = time.monotonic() - began
            if result.right_seconds is None and time.monotonic() >= read_again:
                shown = self._read_lags()
                read_again = time.monotonic() + _LAG_PAUSE_SECONDS
                result.groups_right = _count_right(shown, lags)
                if shown and result.first_lag_seconds is None:
                    result.first_lag_seconds = time.monotonic() - began
                if result.groups_right == len(lags):
                    result.right_seconds, result.outcome = time.monotonic() - began, "right"
                    result.memory_until_right = memory.peak
                    result.cpu_until_right = self.meter.read()
            if time.monotonic() - began > self.options.deadline_seconds:
                raise UserError(f"not ready and right within {self.options.deadline_seconds:,.0f} s")
            time.sleep(_READY_POLL_SECONDS)

    def at_rest(self) -> None:
        """Measure the processor time while there are neither commits nor requests."""
        self._wait(self.options.settle_seconds)
        meter = CpuMeter(self.subject.roots, self.broker)
        self._wait(self.options.idle_seconds)
        self.result.cpu_idle = meter.read()
        lags = Truth(self.options.shape).group_lags
        self.result.right_after_idle = _count_right(self._read_lags(), lags) == len(lags)

    def live(self, bootstrap: str, directory: Path) -> None:
        """Measure the age of lag while groups commit. Raises UserError if commits are refused."""
        load = self.options.load(bootstrap)
        output = str(directory / "commits.json")
        shown: list[LagReading] = []
        meter = CpuMeter(self.subject.roots, self.broker)
        with commit_load.start(load, output) as process:
            while process.is_running:
                shown.append(self._watch_lags())
        self.result.cpu_live = meter.read()
        commits = commit_load.read(output)
        last = time.monotonic() + _LAST_COMMITS_SECONDS
        while time.monotonic() < last and not _shows_all(shown[-1].lags, commits):
            shown.append(self._watch_lags())
        self.result.lag_age = _lag_age(commits, shown, self.options.shape.partitions)

    def _read_lags(self) -> dict[str, int]:
        """Return the lag shown for each group; empty if there is no answer."""
        with contextlib.suppress(urllib.error.URLError, TimeoutError, ConnectionError):
            return self.subject.read_lags()
        return {}

    def _watch_lags(self) -> LagReading:
        """Read all lag, then pause until the next reading."""
        self.subject.check()
        asked = time.monotonic()
        reading = LagReading(asked, lags=self._read_lags(), answered=time.monotonic())
        time.sleep(_LAG_PAUSE_SECONDS)
        return reading

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.subject.check()
            time.sleep(min(1.0, max(0.0, until - time.monotonic())))


def _count_right(shown: Mapping[str, int], lags: Mapping[str, int]) -> int:
    return sum(shown.get(group) == lag for group, lag in lags.items())


def _shows_all(shown: Mapping[str, int], commits: Sequence[Commit]) -> bool:
    return all(commit.lag >= shown.get(commit.group, commit.lag + 1) for commit in commits)


def _lag_age(commits: Sequence[Commit], shown: Sequence[LagReading], partitions: int) -> LagAge:
    """Return the distribution of the time from each commit to the first reading whose lag includes it.

    This overestimates the time until the commit was shown by at most the pause of a second and one reading.
    """
    ages: list[float] = []
    least: list[float] = []
    waiting = commits
    asked_before = float("-inf")
    for reading in shown:
        unseen = []
        for commit in waiting:
            if reading.lags.get(commit.group, commit.lag + 1) <= commit.lag:
                ages.append(reading.answered - commit.at)
                least.append(max(0.0, asked_before - commit.at))
            else:
                unseen.append(commit)
        waiting, asked_before = unseen, reading.asked
    p50, p95, highest = _percentiles(ages)
    least_p50, least_p95, _ = _percentiles(least)
    seconds = max(commit.at for commit in commits) - min(commit.at for commit in commits)
    rate = (len(commits) - 1) * partitions / seconds if seconds else 0.0
    reading_seconds = median(reading.answered - reading.asked for reading in shown)
    return LagAge(rate, p50, p95, least_p50, least_p95, highest, len(commits), len(waiting), reading_seconds)


def _percentiles(ages: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the median, the 95th percentile and the maximum; None for no ages."""
    if not ages:
        return None, None, None
    p50, p95, highest = (float(age) for age in np.percentile(ages, (50, 95, 100)))
    return p50, p95, highest
