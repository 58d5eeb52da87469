"""The page of faults: a row for each test; a run keeps the rows of other tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faults.reporting import CASES, PAGE, Figures, _Result, known_rows, render

TESTS = Path(__file__).parents[1]
_MARKED = re.compile(r"@pytest\.mark\.faults\((\d+), fast=\d+, full=\d+\)\n(?:@.*\n)*def (\w+)\(")


def marked_tests() -> set[tuple[int, str]]:
    """Return (case, test) of every marked test."""
    return {
        (int(case), f"{path.relative_to(TESTS)}::{name}")
        for path in TESTS.rglob("test_*.py")
        for case, name in _MARKED.findall(path.read_text())
    }


def result(case: int, *failed: str) -> _Result:
    """Return the result of a test."""
    return _Result(case, 1, 20, Figures(), 12.3, list(failed), ran=True)


def test_every_case_has_a_test_and_every_test_a_row():
    """The page has exactly the marked tests."""
    assert {case for case, _ in marked_tests()} == CASES.keys()
    assert known_rows(PAGE.read_text()) == marked_tests()


@pytest.mark.processes
def test_rows_of_tests_that_were_not_run_stay():
    """A run of one test replaces its row and keeps the others."""
    first = render({"a.py::one": result(1), "b.py::two": result(2)}, "")
    second = render({"b.py::two": result(2, "it | broke")}, first)
    assert known_rows(second) == known_rows(first) == {(1, "a.py::one"), (2, "b.py::two")}
    (one,) = (line for line in first.splitlines() if "a.py::one" in line)
    assert one in second.splitlines()
    assert "**failed**: it / broke" in second


@pytest.mark.processes
def test_of_several_measurements_the_largest_is_told():
    """With its name and unit."""
    ran = result(1)
    for seconds in (3.0, 12.34, 5.0):
        ran.figures.note("first output", seconds, "s")
    assert "| first output 12.34 s |" in render({"a.py::one": ran}, "")
