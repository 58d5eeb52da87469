"""Writes lines, tables and reports to the terminal or to a file; makes every text safe.

Colour and cutting to the width are for terminals; output to a pipe is complete and has neither.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from rebalance_contract.display import Display, Tone, severity_display
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.report import Column, Grid, TextReport, number_lines

#: Wider than any line, so that output for programs does not wrap.
_ENDLESS = 1_000_000

#: Blanks between two columns.
_GAP = 2

_STYLES: Mapping[Tone, str] = {Tone.BAD: "bold red", Tone.WORSE: "yellow", Tone.NOTE: "cyan"}


def style_of(display: Display) -> str:
    """Return the style of a word."""
    return _STYLES.get(display.tone, "")


class Screen:
    """Standard output, or another file."""

    def __init__(self, file: TextIO | None = None, *, width: int | None = None) -> None:
        file = sys.stdout if file is None else file
        if hasattr(file, "reconfigure"):
            # A character that the terminal cannot show is written as its number, instead of raising an error.
            file.reconfigure(errors="backslashreplace")
        self.console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
        if not self.console.is_terminal:
            self.console = Console(file=file, width=_ENDLESS, highlight=False, markup=False, emoji=False)

    @property
    def is_live(self) -> bool:
        """Whether the output is a terminal on which lines can be rewritten."""
        return self.console.is_terminal and not self.console.is_dumb_terminal

    @property
    def width(self) -> int | None:
        """Number of characters per line; null if it is not limited."""
        return self.console.width if self.console.is_terminal else None

    def line(self, text: str = "", style: str = "") -> None:
        """Write one line; it wraps only at a terminal."""
        self.show(Text(safe(text), style=style))

    def grid(self, grid: Grid, styles: Sequence[Mapping[int, str]] = ()) -> None:
        """Write a table with its title and note; `styles` are per row, by column."""
        if grid.title:
            self.line(grid.title, "bold")
        self.show(make_table(grid.columns, grid.rows, styles, self.width))
        if grid.note:
            self.line(grid.note, "dim")

    def report(self, report: TextReport) -> None:
        """Write a report: the headline, its passages beside their labels, its tables."""
        self.line(report.headline, f"bold {_severity_style(report)}".strip())
        if report.passages:
            self.show(_passages(report))
        for grid in report.grids:
            self.line()
            self.grid(grid)
        if report.hints:
            self.line()
        for hint in report.hints:
            self.line(f"{hint.text}: {hint.command}", "dim")

    def show(self, thing: RenderableType) -> None:
        """Write any object that rich can render and whose texts are already safe."""
        if self.console.is_terminal:
            self.console.print(thing)
            return
        with self.console.capture() as captured:
            self.console.print(thing)
        # rich pads the last column with blanks.
        for line in captured.get().removesuffix("\n").split("\n"):
            self.console.file.write(f"{line.rstrip()}\n")
        self.console.file.flush()


def make_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    styles: Sequence[Mapping[int, str]] = (),
    width: int | None = None,
) -> Table:
    """Return a table without lines, as in common command-line tools; makes its texts safe."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    cells = [[Text(safe(cell)) for cell in row] for row in rows]
    for place, wide in enumerate(fit_widths(columns, cells, width)):
        column = columns[place]
        justify: Literal["right", "left"] = "right" if column.right else "left"
        table.add_column(Text(safe(column.heading)), justify=justify, no_wrap=True, overflow="ellipsis", width=wide)
    for number, row in enumerate(cells):
        style = styles[number] if number < len(styles) else {}
        for place, cell in enumerate(row):
            cell.stylize(style.get(place, ""))
        table.add_row(*row)
    return table


def fit_widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int | None) -> list[int]:
    """Return the width of each column: the widest that may shrink is reduced first, down to its heading.

    The others never shrink, because a truncated number is wrong.
    """
    least = [len(column.heading) for column in columns]
    widths = [max(least[place], *(row[place].cell_len for row in rows), 0) for place in range(len(columns))]
    while width is not None and sum(widths) + _GAP * (len(widths) - 1) > width:
        places = [place for place, column in enumerate(columns) if column.may_shrink and widths[place] > least[place]]
        if not places:
            break
        widths[max(places, key=widths.__getitem__)] -= 1
    return widths


def _severity_style(report: TextReport) -> str:
    return "" if report.severity is None else style_of(severity_display(report.severity))


def _passages(report: TextReport) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for passage in report.passages:
        for number, line in enumerate(number_lines(passage)):
            table.add_row(Text(safe(passage.label if number == 0 else "")), Text(safe(line)))
    return table
