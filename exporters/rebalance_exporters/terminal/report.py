"""A report as a value: a title, labelled passages and tables; and its Markdown form.

Its texts are unescaped and may contain foreign names; the code that writes a report makes them safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rebalance_exporters.terminal.escaping import markdown_code, safe_markdown


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines under one label; a numbered passage is a list of actions in order."""

    label: str
    lines: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers are right-aligned. `may_shrink`: its cells may be cut on a narrow screen."""

    heading: str
    right: bool = False
    may_shrink: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with a title and a note below; both may be empty."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """A command to run next, and its purpose."""

    text: str
    command: str


@dataclass(frozen=True, slots=True)
class TextReport:
    """A report about one group. `severity` is null if there is no finding."""

    title: str
    severity: str | None
    passages: tuple[Passage, ...]
    grids: tuple[Grid, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def headline(self) -> str:
        """The title, with the severity in front."""
        return self.title if self.severity is None else f"[{self.severity.upper()}] {self.title}"


def number_lines(passage: Passage) -> tuple[str, ...]:
    """Return a passage's lines, numbered if it is a list of actions."""
    if not passage.numbered:
        return passage.lines
    return tuple(f"{number}) {line}" for number, line in enumerate(passage.lines, 1))


def write_markdown(report: TextReport) -> str:
    """Return the report for a ticket or a chat."""
    severity = "" if report.severity is None else f"[{safe_markdown(report.severity.upper())}] "
    lines = [f"### {severity}{safe_markdown(report.title)}", ""]
    for passage in report.passages:
        lines += [*_write_passage(passage), ""]
    for grid in report.grids:
        lines += [*_write_grid(grid), ""]
    lines += [f"- {safe_markdown(hint.text)}: {markdown_code(hint.command)}" for hint in report.hints]
    return "\n".join(lines).rstrip("\n")


def _write_passage(passage: Passage) -> Iterator[str]:
    label = f"**{safe_markdown(passage.label)}**"
    if len(passage.lines) == 1 and not passage.numbered:
        yield f"{label} {safe_markdown(passage.lines[0])}"
        return
    yield label
    yield ""
    for number, line in enumerate(passage.lines, 1):
        yield f"{f'{number}.' if passage.numbered else '-'} {safe_markdown(line)}"


def _write_grid(grid: Grid) -> Iterator[str]:
    if grid.title:
        yield f"**{safe_markdown(grid.title)}**"
        yield ""
    yield _row([safe_markdown(column.heading) for column in grid.columns])
    yield _row(["--:" if column.right else "---" for column in grid.columns])
    for row in grid.rows:
        yield _row([safe_markdown(cell) for cell in row])
    if grid.note:
        yield ""
        yield safe_markdown(grid.note)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
