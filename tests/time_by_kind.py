"""The time of a test run by kind of test: a pytest plugin, which prints it after `--durations`.

The kind of a test is the most expensive of its markers. Its time is wall-clock time, including set-up and teardown of
its fixtures; fixtures shared by several tests count for the first and the last of them. Processor time is that of the
worker and of the processes that it started, which is known when these have exited. Nothing is measured without
`--durations`.
"""

from __future__ import annotations

import resource
from collections import Counter, defaultdict
from typing import Any

import pytest

from markers import marker_names

#: Markers, most expensive first.
KINDS = ("e2e", "broker", "spark", "processes", "tools", "recordings", "generated", "waits")
UNIT = "unit"


def kind_of(item: pytest.Item) -> str:
    """Return the kind of a test."""
    names = marker_names(item)
    return next((name for name in KINDS if name in names), UNIT)


def processor_seconds() -> float:
    """Return the processor time of this process so far, and of those of its children that have ended."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


_reported_seconds = 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Add the kind of a test to its reports, for the process that reads them."""
    global _reported_seconds  # noqa: PLW0603
    if item.config.option.durations is None:
        return
    _reported_seconds = processor_seconds()
    item.user_properties.append(("kind", kind_of(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> None:
    """Append the processor time of a phase to its report, which has a copy of the properties."""
    global _reported_seconds
    if item.config.option.durations is None:
        return
    before, _reported_seconds = _reported_seconds, processor_seconds()
    item.user_properties.append(("processor_seconds", _reported_seconds - before))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a Markdown table."""
    if terminalreporter.config.option.durations is None:
        return
    seconds: defaultdict[tuple[object, object], float] = defaultdict(float)
    tests: Counter[object] = Counter()
    processor: defaultdict[object, float] = defaultdict(float)
    for report in (each for several in terminalreporter.stats.values() for each in several):
        if isinstance(report, pytest.TestReport):
            reported = dict(report.user_properties)
            kind = reported.get("kind")
            processor[kind] += float(str(reported.get("processor_seconds", 0)))
            seconds[kind, report.when] += report.duration
            tests[kind] += report.when == "call"
    terminalreporter.section("time by kind")
    terminalreporter.write_line(
        "| kind | tests | setup | call | teardown | processor time |\n|---|---:|---:|---:|---:|---:|"
    )
    for kind in (each for each in (*KINDS, UNIT) if tests[each]):
        parts = " | ".join(f"{seconds[kind, when]:,.0f} s" for when in ("setup", "call", "teardown"))
        terminalreporter.write_line(f"| {kind} | {tests[kind]:,} | {parts} | {processor[kind]:,.0f} s |")
