"""The marker `faults`, the number of rounds of a case, and docs/reliability.md: a pytest plugin.

    @pytest.mark.faults(8, fast=1, full=10)

marks a test of case 8 of `CASES`. The test requests the fixture `rounds` for the number of repetitions of its fault:
`fast` in `make test`, `full` in `make faults`; with `fast=0` it runs only in `make faults`. With the environment
variable FAULTS_REPORT set the full number of rounds is used, and the results are written into the page, one row per
test; rows of tests that were not run stay as they are.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
IS_FULL = bool(os.environ.get("FAULTS_REPORT"))

#: The fault, and what the monitor must show. C: no record and no rebalance is lost or counted twice, and the diagnosis
#: is the same as in a replay of a recording.
CASES = {
    1: ("SIGKILL of the driver at random moments", "C; back after 30 s, except on a large log"),
    2: ("SIGKILL of a Python worker", "C; no query ends; back after 30 s"),
    3: ("SIGKILL between the writes of a batch and its commit", "C; back after 30 s"),
    4: (
        "SIGKILL of the exporter, which serves 1,000 groups",
        "no counter decreases, except those that count from the exporter's start; ready within 10 s",
    ),
    5: ("SIGKILL of the prober", "no finding for a steady group; the same causes as in a replay; back after 30 s"),
    6: ("brokers unreachable for 2 and for 7 minutes", "C; every finding is delivered; back after 30 s"),
    7: ("a stop signal while the brokers are unreachable", "every process ends within 45 s; C afterwards"),
    8: ("SIGKILL of the broker in the middle of a batch", "C; no false rewind; back after 30 s"),
    9: ("coordinators move between three brokers", "C; no cause that a replay does not give; back after 30 s"),
    10: (
        "an unclean leader election truncates the log",
        "one rewind is reported; all later rebalances are counted",
    ),
    11: (
        "retention deletes records that a stopped stream has not read",
        "the number of skipped positions equals the true gap; an alert fires",
    ),
    12: (
        "the watched topic is deleted and recreated",
        "it is reported; every record is counted, or reported as skipped; back after 30 s",
    ),
    13: ("the monitor's own topics are deleted and recreated", "their rows are published again"),
    14: ("partitions are added to an input topic", "the first row of a new partition is counted within 60 s"),
    15: (
        "a transaction is open for two minutes, then aborted",
        "concurrent rebalances are reported; none of its commits is counted",
    ),
    16: (
        "the disk of the checkpoint is full",
        "an error message names the path; C once there is space; back after 30 s",
    ),
    17: (
        "files of the checkpoint are changed, truncated or deleted",
        "an error message says what to do; C after `--rebuild --set-aside`",
    ),
    18: (
        "the checkpoint is deleted, then rebuilt with --rebuild",
        "no counter decreases; C; no deleted group remains",
    ),
    19: (
        "the clock of one process is an hour ahead, or an hour behind",
        "it is reported; no finding for a steady group; C",
    ),
    20: ("two streams for one cluster", "the earlier one ends within 10 s; no counter decreases; C; back after 30 s"),
    21: (
        "two probers and two exporters, each killed in turn",
        "all series of groups are equal, except those that count from an exporter's own start; back after 30 s",
    ),
    22: ("groups of up to 10,000 members", "no query ends; truncated rows are marked"),
    23: ("15,000 new groups in one batch", "no query ends; the largest message is below 1 MB"),
    24: ("50,000 partitions resume at the same time", "no query ends; the largest message is below 1 MB"),
    25: ("malformed rows in every topic", "no query ends; each row is counted"),
    26: (
        "well-formed nonsense: client metrics, and rows of the monitor's topics",
        "no exception escapes; at most 50 ms per 100 kB",
    ),
    27: ("a message that once caused a regular expression to backtrack", "at most 10 ms"),
    28: ("one message of 1 GiB, compressed with zstd", "it is refused or counted; the process keeps running"),
    29: ("3.6 GB of client metrics, then a restart", "it starts, and is ready within 60 s"),
    30: ("1,000,000 reports of groups that do not exist", "at most 50 MB; dropped reports are counted"),
    31: (
        "2,000 incomplete HTTP requests",
        "99 % of scrapes are answered; at most 10 kB of log per minute",
    ),
    32: (
        "2,000 clients of the event stream, half of which do not read",
        "clients above the limit are refused; memory stays constant",
    ),
    33: ("an upgrade, and the downgrade", "no counter decreases; C"),
    34: (
        "each documented permission of stream, prober and exporter is removed in turn",
        "with all of them no process logs an error; without one, its process names it",
    ),
    35: ("mTLS, PLAIN, SCRAM and OAUTHBEARER for stream, prober and exporter", "12 of 12 become ready"),
    36: ("everything that the processes print and serve is searched for a password", "it is found nowhere"),
    37: (
        "writes are throttled to 1 kB/s for three minutes",
        "C; memory stays constant; the delay is reported",
    ),
    38: (
        "5,000 commits/s, for the duration in *measured for*",
        "measured for 1 h: memory grows by at most 1 %/h; for 10 min, which cannot show that: the lower end of the "
        "interval is below 50 %/h; C",
    ),
    39: ("the environment variables that Kubernetes sets", "all three processes start"),
    40: (
        "brokers unreachable for a reporter in confluent-kafka with 5,000 partitions, in a program that forks",
        "at most 10 MB in addition to librdkafka's statistics; 99 % of polls at most 1 ms longer; no exception",
    ),
}

_HEAD = """# Reliability

Written by `make faults` (tests/faults/reporting.py). The faults are injected into a real broker and real processes,
unless a row names a test that needs none. Each row is one test, with the result of its last run under `make faults`.
`make test` runs the same tests with fewer rounds, or skips them (0). The case numbers are the keys of `CASES` in that
file. *with changes* means that the working tree had uncommitted changes.

**C** in the column *what must hold* means: no record and no rebalance is lost or counted twice, and the groups, the
rebalances and the primary causes are those of a replay of a recording of the log. Bounds of times, lag and costs are
compared in `tests/e2e/test_exact_counts.py` only, as far as they can be equal.

- **Full disk** (case 16): a tmpfs of 64 MB, which the test mounts as root.
- **Clocks** (case 19): the process runs on the same machine with a library that shifts the time of day by an hour.
  Brokers and clients keep the machine's clock.
- **Reporter** (case 40): the peak memory of a process with the reporter is compared with that of the same consumer with
  librdkafka's statistics and without the reporter. The reporter enables these statistics, so the memory that they need
  for many partitions has to be added.
- **Shorter than usual**: the transaction of case 15 is open for two minutes, the throttling of case 37 is 1 kB/s for
  three minutes, and case 40 takes three minutes with a report a second, of which the best of three measurements counts.
- **Back after** (cases 1, 2, 3, 5, 6, 8, 9, 12, 16, 20, 21) is the time from the end of the fault, such as the restart
  of what was killed, until the monitor shows what happened after it, at most 30 s: of a process its first row or its
  readiness, otherwise all records up to the next change of a group's members, for which the clients need some time,
  too. Other times are asserted in cases 4 (10 s), 7 (45 s), 14 (60 s) and 20 (10 s). Elsewhere the page has what
  was measured, and a test waits for up to 300 s.
- **Counters of the exporter**: `state_seconds_total` and `findings_total` count from the start of an exporter, so cases
  4 and 21 exempt them.
- **Upgrade** (case 33): between the present version and a commit that the test pins. Both have the same layout of the
  checkpoint.

**Memory** (case 38) is PSS, per process and in total. The slope is the median of the slopes between the lowest values
of any two of 20 time slices (Theil-Sen), with its 95 % interval. The measurement starts after 30 minutes of load,
when the state of the last 15 minutes is full; if it takes an hour, it starts after 90 minutes, because the JVM's heap
grows towards its limit until then. Ten minutes cannot resolve 1 %/h, which would be 0.2 % of a heap that the JVM
fills and collects. A measurement of ten minutes therefore asserts only that no interval lies entirely above 50 %/h
and 10 MiB/h: a leak of a few bytes per commit would. A measurement of an hour (`make faults ONLY=soak
SOAK_MINUTES=60`) asserts that all processes together grow by at most 1 %/h, and that no interval lies entirely above
1 %/h and 10 MiB/h.

A first measurement of an hour on 2026-11-27 failed: all processes together grew by 2.9 %/h, and the diagnosis by
12 MiB/h, mostly measurements of lag, 200 per group. These are limited to 40 minutes since then. The second one, of the
same day, missed the limit by 0.03 %/h, beside other load of 7 to 20 on the two cores (tests, measurements, recordings),
which made Spark's Python workers shrink and grow: all processes together grew by 16 MiB/h (1.03 %, 95 % interval -3.3
to 4.4 %), the diagnosis by 2.1 MiB/h; no process alone has an interval above its limit. The third one, of the evening,
failed by the JVM: its heap grew once more, by 14 MiB between the 80th and the 95th minute, and then by 2 MiB/h for the
remaining 25 minutes; over the hour that is 3.4 %/h for the JVM and 2.0 %/h for all processes. The warm-up takes 90
minutes since then. In all three, counts and lag were exact, and nothing restarted. The fourth one, of 2026-11-28, is
the row below: it passed. The JVM was larger in it, 1.2 GiB instead of 0.7, and shrank a little. A whole night was not
measured.

| case | fault | what must hold | test | `make test` | rounds | result | worst figures | took | when, commit |
|---:|---|---|---|---:|---:|---|---|---:|---|
"""
_ROW = re.compile(r"^\| (?P<case>\d+) \|.*?\| `(?P<test>[^`]+)` \|")


class Figures:
    """The measurements of a test; of each name the largest is kept."""

    def __init__(self) -> None:
        self.worst: dict[str, tuple[float, str]] = {}

    def note(self, name: str, value: float, unit: str) -> None:
        """Add a measurement."""
        known, _ = self.worst.get(name, (value, unit))
        self.worst[name] = (max(known, value), unit)


@dataclass
class _Result:
    """The results of one test, over all its parameters."""

    case: int
    fast: int
    full: int
    figures: Figures = field(default_factory=Figures)
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)
    ran: bool = False


_results: dict[str, _Result] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests without rounds in `make test`."""
    for item in items:
        marker = item.get_closest_marker("faults")
        if marker is not None and marker.kwargs.get("fast", 1) == 0:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often this test repeats its fault."""
    marker = request.node.get_closest_marker("faults")
    fast, full = marker.kwargs["fast"], marker.kwargs["full"]
    return full if IS_FULL or not fast else fast


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """The measurements that a test records."""
    found = _result_of(request.node)
    return Figures() if found is None else found.figures


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Record the result of a test."""
    outcome: Any = yield
    report, result = outcome.get_result(), _result_of(item)
    if result is None:
        return
    result.seconds += report.duration if report.when == "call" else 0
    result.ran |= report.when == "call" or report.failed
    if report.failed:
        result.failed.append(_reason(report))


def pytest_sessionfinish() -> None:
    """Write the page."""
    ran = {test: each for test, each in _results.items() if each.ran}
    if IS_FULL and ran:
        PAGE.write_text(render(ran, PAGE.read_text() if PAGE.exists() else ""))


def _result_of(item: Any) -> _Result | None:
    marker = item.get_closest_marker("faults")
    if marker is None:
        return None
    test = f"{Path(item.path).relative_to(Path(__file__).parents[1])}::{item.originalname}"
    fast, full = marker.kwargs.get("fast", 1), marker.kwargs.get("full", 1)
    return _results.setdefault(test, _Result(marker.args[0], fast, full))


def _reason(report: Any) -> str:
    text = str(getattr(getattr(report.longrepr, "reprcrash", None), "message", report.longrepr))
    return text.splitlines()[0][:200] if text else "failed"


def render(results: dict[str, _Result], page: str) -> str:
    """Return the page with these results; rows of other tests are copied from the existing page."""
    rows = {(int(found["case"]), found["test"]): line for line in page.splitlines() if (found := _ROW.match(line))}
    when = f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())}, {_commit()}"
    rows |= {(each.case, test): _row(test, each, when) for test, each in results.items()}
    return _HEAD + "".join(f"{line}\n" for _, line in sorted(rows.items()))


def _row(test: str, result: _Result, when: str) -> str:
    fault, promise = CASES[result.case]
    figures = "; ".join(f"{name} {value:,.4g} {unit}".strip() for name, (value, unit) in result.figures.worst.items())
    how = "passed" if not result.failed else f"**failed**: {result.failed[0]}"
    cells = (
        result.case,
        fault,
        promise,
        f"`{test}`",
        result.fast,
        result.full,
        how,
        figures,
        f"{result.seconds:.0f} s",
    )
    return f"| {' | '.join(str(each).replace('|', '/') for each in cells)} | {when} |"


def known_rows(page: str) -> set[tuple[int, str]]:
    """Return (case, test) of every row of the page."""
    return {(int(found["case"]), found["test"]) for line in page.splitlines() if (found := _ROW.match(line))}


def _commit() -> str:
    folder = PAGE.parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = [line for line in git("status", "--porcelain").splitlines() if "reliability.md" not in line]
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
