"""A report as a value: a title, labelled passages and tables; and how it looks in Markdown.

What goes in is text as it came, names of strangers included; whoever writes a report out makes it safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rebalance_exporters.terminal.escaping import markdown_code, safe_markdown


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines under one label; a numbered one is a list of things to do, in order."""

    label: str
    lines: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers stand right. `may_shrink`: its cells may be cut where the screen is narrow."""

    heading: str
    right: bool = False
    may_shrink: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with a title and a sentence below, either of which may be empty."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """What to type next, and what for."""

    text: str
    command: str


@dataclass(frozen=True, slots=True)
class TextReport:
    """What is to be said of one group. `severity` is null where nothing was found."""

    title: str
    severity: str | None
    passages: tuple[Passage, ...]
    grids: tuple[Grid, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def headline(self) -> str:
        """The title, with how grave it is in front."""
        return self.title if self.severity is None else f"[{self.severity.upper()}] {self.title}"


def number_lines(passage: Passage) -> tuple[str, ...]:
    """Return a passage's lines, numbered where they are a list."""
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
