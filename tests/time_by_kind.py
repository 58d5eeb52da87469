"""Where the time of a run went, by kind of test: a plugin of pytest, which tells it beside `--durations`.

The kind of a test is the most expensive of its markers. Its time is that of the clock, setting up and ending what it
uses included; what several tests share is counted with the first and the last of them.
"""

from __future__ import annotations

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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the reports of a test tell its kind, whichever process reads them."""
    item.user_properties.append(("kind", kind_of(item)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a table in Markdown."""
    if terminalreporter.config.option.durations is None:
        return
    seconds: defaultdict[tuple[object, object], float] = defaultdict(float)
    tests: Counter[object] = Counter()
    for report in (each for several in terminalreporter.stats.values() for each in several):
        if isinstance(report, pytest.TestReport):
            kind = dict(report.user_properties).get("kind")
            seconds[kind, report.when] += report.duration
            tests[kind] += report.when == "call"
    terminalreporter.section("time by kind")
    terminalreporter.write_line("| kind | tests | setup | call | teardown |\n|---|---:|---:|---:|---:|")
    for kind in (each for each in (*KINDS, UNIT) if tests[each]):
        parts = " | ".join(f"{seconds[kind, when]:,.0f} s" for when in ("setup", "call", "teardown"))
        terminalreporter.write_line(f"| {kind} | {tests[kind]:,} | {parts} |")
