"""`top`: all groups in one table, the one that lost most time first.

Receives the overview; chooses rows, columns and their texts. The caller decides whether to refresh it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from rebalance_contract import SETTLED_STATES, Finding, FindingState, severity_rank
from rebalance_contract.api import FindingMark, Overview, OverviewRow, OverviewWindow, reading_order
from rebalance_contract.display import severity_display, state_display
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api, UnreachableError
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.report import Column
from rebalance_exporters.terminal.screen import Screen, make_table, style_of
from rebalance_exporters.terminal.silences import silence_word
from rebalance_exporters.text.figures import UNKNOWN, amount, plural, span

WINDOW = "15m"
_NOTHING = OverviewWindow(0, 0, 0.0, 0.0)

#: Lines around the table: summary, trouble, heading, legend, next command, and the cursor's own.
_FRAME_LINES = 6
_GAP = 2

_Key = Callable[[OverviewRow], tuple[Any, ...]]


def _name(row: OverviewRow) -> tuple[str, str]:
    return row.group, row.cluster


def _lost(row: OverviewRow) -> tuple[Any, ...]:
    window = row.windows.get(WINDOW, _NOTHING)
    total = row.lost_partition_seconds_total
    return -(window.lost_partition_seconds or 0), -window.rebalancing_ratio, -(total or 0), *_name(row)


#: Sort orders of rows: numbers descending, names ascending.
SORTS: Mapping[str, _Key] = {
    "lost": _lost,
    "rebalances": lambda row: (-(row.rebalances_in(WINDOW) or 0), *_lost(row)),
    "finding": lambda row: (-max((severity_rank(each.severity) + 1 for each in row.findings), default=0), *_lost(row)),
    "lag": lambda row: (-(row.lag or 0), *_lost(row)),
    "members": lambda row: (-(row.members or 0), *_name(row)),
    "state": lambda row: (row.state is None, row.state in SETTLED_STATES, row.state or "", *_name(row)),
    "group": _name,
}


@dataclass(frozen=True, slots=True)
class TopColumn:
    """A column of the table. On a narrow screen, those with the highest `rank` are removed first."""

    column: Column
    rank: int
    cell: Callable[[OverviewRow, int], str]
    style: Callable[[OverviewRow], str] = field(default=lambda _: "")


def _state(row: OverviewRow, now_ms: int) -> str:
    state = row.state or UNKNOWN
    if state in SETTLED_STATES or row.state_since_ms is None:
        return state
    return f"{state} {span(max(0, now_ms - row.state_since_ms))}"


def _finding(row: OverviewRow, _now_ms: int) -> str:
    if not row.findings:
        return UNKNOWN if row.silence is None else silence_word(row.silence.kind)
    gravest = _gravest(row)
    further = len(row.findings) - 1
    marked = "" if row.silence is None else f"{silence_word(row.silence.kind)}, "
    return f"{marked}{gravest.severity}: {gravest.rule}{f' +{further}' if further else ''}"


def _gravest(row: OverviewRow) -> FindingMark:
    return min(row.findings, key=reading_order)


def _finding_style(row: OverviewRow) -> str:
    if not row.findings or row.is_silenced:
        return ""
    return style_of(severity_display(_gravest(row).severity))


def _state_style(row: OverviewRow) -> str:
    return "" if row.state is None else style_of(state_display(row.state))


def _lost_span(row: OverviewRow, _now_ms: int) -> str:
    window = row.windows.get(WINDOW)
    if window is None or window.lost_partition_seconds is None:
        return UNKNOWN
    return span(window.lost_partition_seconds * 1000) if window.lost_partition_seconds else "0 s"


def _rebalances(row: OverviewRow, _now_ms: int) -> str:
    count = row.rebalances_in(WINDOW)
    return f"{AT_LEAST if row.is_at_least and count is not None else ''}{amount(count)}"


def _number(row: OverviewRow, name: str) -> str:
    value = getattr(row, name)
    return UNKNOWN if value is None else str(value)


COLUMNS = (
    TopColumn(Column("CLUSTER"), 5, lambda row, _: row.cluster),
    TopColumn(Column("GROUP", may_shrink=True), 0, lambda row, _: row.group, lambda _: "bold"),
    TopColumn(Column("STATE"), 2, _state, _state_style),
    TopColumn(Column("GENERATION", right=True), 8, lambda row, _: _number(row, "generation")),
    TopColumn(Column("#MEMBERS", right=True), 6, lambda row, _: _number(row, "members")),
    TopColumn(Column("#PARTITIONS", right=True), 9, lambda row, _: _number(row, "assigned_partitions")),
    TopColumn(Column(f"REBALANCES({WINDOW})", right=True), 3, _rebalances),
    TopColumn(Column("LOST", right=True), 1, _lost_span),
    TopColumn(Column("LAG", right=True), 4, lambda row, _: amount(row.lag)),
    TopColumn(Column("COORDINATOR", right=True), 10, lambda row, _: _number(row, "coordinator")),
    TopColumn(Column("ASSIGNMENT-STRATEGY"), 11, lambda row, _: row.protocol or UNKNOWN),
    TopColumn(Column("FINDING", may_shrink=True), 1, _finding, _finding_style),
)

#: Prefix of a number that is counted from probes.
AT_LEAST = ">="
#: Number of characters by which a group's name can usually be recognised, and the same for a finding.
_NAME_WIDTH, _FINDING_WIDTH = 16, 24


def choose_rows(rows: Sequence[OverviewRow], sort: str, limit: int | None) -> tuple[OverviewRow, ...]:
    """Return the first `limit` rows in the given order; null or zero for all."""
    return tuple(sorted(rows, key=SORTS[sort])[: limit or None])


def choose_columns(rows: Sequence[OverviewRow], now_ms: int, width: int | None) -> tuple[TopColumn, ...]:
    """Return the columns that fit the width; the cluster is left out if there is only one."""
    many = len({row.cluster for row in rows}) > 1
    columns = [each for each in COLUMNS if many or each.column.heading != "CLUSTER"]
    while width is not None and sum(_needed(each, rows, now_ms) + _GAP for each in columns) > width:
        last = max(columns, key=lambda each: each.rank)
        if last.rank <= 1:
            break
        columns.remove(last)
    return tuple(columns)


def _needed(column: TopColumn, rows: Sequence[OverviewRow], now_ms: int) -> int:
    heading = column.column.heading
    full = max((Text(safe(column.cell(row, now_ms))).cell_len for row in rows), default=0)
    if column.column.may_shrink:
        full = min(full, _NAME_WIDTH if heading == "GROUP" else _FINDING_WIDTH)
    return max(len(heading), full)


def table_of(rows: Sequence[OverviewRow], now_ms: int, width: int | None) -> RenderableType:
    """Return the table of these rows."""
    columns = choose_columns(rows, now_ms, width)
    return make_table(
        [each.column for each in columns],
        [[each.cell(row, now_ms) for each in columns] for row in rows],
        [{place: each.style(row) for place, each in enumerate(columns)} for row in rows],
        width,
    )


@dataclass(frozen=True, slots=True)
class TopOptions:
    """The options of `top`. A `limit` of null: as many rows as fit, or all."""

    sort: str = "lost"
    limit: int | None = None
    cluster: str | None = None
    clock: Clock = field(default_factory=Clock)


def summary(overview: Overview, clock: Clock) -> str:
    """Return one line on the number of groups and their states."""
    calling = [row for row in overview.groups if not row.is_silenced]
    found = sum(any(severity_rank(each.severity) > 0 for each in row.findings) for row in calling)
    unsettled = sum(row.state is not None and row.state not in SETTLED_STATES for row in overview.groups)
    age = "" if overview.data_age_ms is None else f", data {span(overview.data_age_ms)} old"
    return (
        f"{plural(len(overview.groups), 'group')}: {unsettled} rebalancing now, {found} with a finding to act on; "
        f"{clock.moment(overview.at_ms)}{age}"
    )


def trouble(overview: Overview) -> str | None:
    """Return why the data is not reliable, null if it is."""
    return None if overview.ready else f"NOT UP TO DATE: {overview.ready_text or 'the exporter does not say why'}"


def whole_cluster(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the findings about whole clusters as lines; they are in no group's row."""
    about = [each for each in findings if not each.group]
    about.sort(key=reading_order)
    return tuple(f"[{each.severity.upper()}] cluster {each.cluster}: {each.rule}: {each.summary}" for each in about)


def next_command(rows: Sequence[OverviewRow], access: Access) -> str:
    """Return the command to run next, for the first group that has something to explain."""
    for row in rows:
        if row.findings or row.rebalances_in(WINDOW):
            return f"why: {access.suggest('explain', row.group)}"
    return "nothing to explain: no group rebalanced in the last 15 min"


_LEGEND = "LOST: time not consumed in the last 15 min, added up over the partitions"


@dataclass(frozen=True, slots=True)
class TopFrame:
    """The content at one moment: the overview, its chosen rows, and remarks that belong to no row."""

    overview: Overview
    rows: tuple[OverviewRow, ...]
    remarks: tuple[str, ...]


def look(api: Api, view: TopOptions, height: int | None = None) -> TopFrame:
    """Query the API for the content; with a height, only as many rows as fit."""
    overview = api.overview(view.cluster)
    remarks = tuple(filter(None, [trouble(overview)])) + whole_cluster(
        api.findings(view.cluster, "", FindingState.FIRING)
    )
    limit = view.limit
    if height is not None:
        fitting = max(1, height - _FRAME_LINES - len(remarks))
        limit = min(limit or fitting, fitting)
    return TopFrame(overview, choose_rows(overview.groups, view.sort, limit), remarks)


def show_once(api: Api, view: TopOptions, screen: Screen, print_remark: Callable[[str], None]) -> None:
    """Write the table once; to a pipe only the table, with all remarks going to `print_remark`."""
    frame = look(api, view)
    if screen.is_live:
        screen.show(_render(frame, view, api.access, screen.width))
        return
    for remark in frame.remarks:
        print_remark(remark)
    if not frame.rows:
        print_remark(_none(frame.overview, api.access))
        return
    screen.show(table_of(frame.rows, frame.overview.at_ms, None))
    if len(frame.rows) < len(frame.overview.groups):
        print_remark(f"{len(frame.rows)} of {len(frame.overview.groups)} groups shown: --limit 0 shows all")


def _render(frame: TopFrame, view: TopOptions, access: Access, width: int | None) -> RenderableType:
    overview, rows = frame.overview, frame.rows
    hidden = len(overview.groups) - len(rows)
    more = f"; {hidden} more below: --limit, --sort" if hidden else ""
    body = table_of(rows, overview.at_ms, width) if rows else Text(safe(_none(overview, access)))
    return Group(
        _one_line(summary(overview, view.clock) + more),
        *(_one_line(remark, "bold yellow") for remark in frame.remarks),
        body,
        _one_line(_LEGEND, "dim"),
        _one_line(next_command(rows, access) if rows else "", "dim"),
    )


def _one_line(text: str, style: str = "") -> Text:
    # One line each, because the height of the frame depends on it.
    return Text(safe(text), style=style, no_wrap=True, overflow="ellipsis")


def _none(overview: Overview, access: Access) -> str:
    if not overview.ready:
        return f"no groups yet; see what is awaited with `curl {access.url.rstrip('/')}/-/ready`"
    return "no consumer group has been seen: start a consumer, or name another cluster with --cluster"


def watch(api: Api, view: TopOptions, screen: Screen, stop: threading.Event, every_seconds: float) -> None:
    """Show the table and refresh it until stopped; retries while the exporter is unavailable."""
    shown = _draw(api, view, screen)
    with Live(shown, console=screen.console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        live.refresh()
        while not stop.wait(every_seconds):
            try:
                shown = _draw(api, view, screen)
                live.update(shown, refresh=True)
            except UnreachableError as error:
                # The last table stays visible, because it is more useful than an empty screen.
                live.update(Group(_one_line(f"OLD DATA: {error}", "bold red"), shown), refresh=True)


def _draw(api: Api, view: TopOptions, screen: Screen) -> RenderableType:
    return _render(look(api, view, screen.console.height), view, api.access, screen.width)


def read_json(api: Api, view: TopOptions) -> Overview:
    """Return the overview with its groups sorted and limited."""
    overview = api.overview(view.cluster)
    return replace(overview, groups=choose_rows(overview.groups, view.sort, view.limit))
