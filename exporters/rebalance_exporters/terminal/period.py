"""`report`: the cost of rebalances in a period, as text and tables for the terminal and for Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract.api_reports import (
    PeriodCause,
    PeriodGroup,
    PeriodReport,
    PeriodSetting,
    PeriodSums,
    PeriodWorth,
)
from rebalance_contract.diagnoses import with_trait
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.report import Column, Grid, Hint, Passage, TextReport
from rebalance_exporters.text.avoided import saved
from rebalance_exporters.text.figures import UNKNOWN, amount, length, plural, span

#: Maximum number of entries in each list, so that the report fits on one page.
SHOWN_GROUPS, SHOWN_CAUSES, SHOWN_WORTH, SHOWN_SETTINGS, SHOWN_CHANGES = 10, 8, 5, 3, 6

#: Causes that do not say why.
_UNEXPLAINED = with_trait("unexplained")

_GROUP = (
    Column("GROUP", may_shrink=True),
    Column("LOST", right=True),
    Column("BEFORE", right=True),
    Column("REBALANCES", right=True),
    Column("SLOWEST", right=True),
    Column("CAUSES", may_shrink=True),
)
_CAUSE = (
    Column("CAUSE", may_shrink=True),
    Column("LOST", right=True),
    Column("BEFORE", right=True),
    Column("REBALANCES", right=True),
    Column("GROUPS", right=True),
)
_CHANGE = (
    Column("GROUP", may_shrink=True),
    Column("LOST", right=True),
    Column("BEFORE", right=True),
    Column("CHANGE", right=True),
    Column("REBALANCES", right=True),
)
_BEFORE = "BEFORE"
_NAMED_CAUSES, _NAMED_GROUPS, _NAMED_WITH_VALUE = 3, 3, 2


def describe_period(report: PeriodReport, clock: Clock, access: Access) -> TextReport:
    """Return the report."""
    worst = next(iter(report.groups), None)
    hints = () if worst is None else (Hint("why", access.command_line("explain", worst.group)),)
    return TextReport(verdict(report), None, tuple(_passages(report, clock)), tuple(_grids(report)), hints)


def verdict(report: PeriodReport) -> str:
    """Return the period's result in one line."""
    where = "" if report.cluster is None else f"{report.cluster}: "
    took = span(report.until_ms - report.since_ms)
    if not report.sums.rebalances:
        return f"{where}no rebalance in {took}"
    rebalances, groups = plural(report.sums.rebalances, "rebalance"), plural(report.rebalanced_groups, "group")
    worst = next(iter(report.groups), None)
    most = ""
    if report.sums.lost_partition_ms and report.rebalanced_groups > 1 and worst is not None:
        most = f", {share(worst.sums, report.sums):.0%} of it in {worst.group}"
    return f"{where}{rebalances} of {groups} in {took}, {lost(report.sums)} lost{most}"


def dates(report: PeriodReport, clock: Clock) -> str:
    """Return the start and the end of the period."""
    return f"{clock.moment(report.since_ms)} to {clock.moment(report.until_ms)}"


def lost(sums: PeriodSums) -> str:
    """Return the time that partitions were without commits, as far as it was reported."""
    if sums.rebalances and sums.uncosted == sums.rebalances:
        return UNKNOWN
    return length(sums.lost_partition_ms)


def change(now: int, before: int) -> str:
    """Return the change of a duration."""
    if now == before:
        return "same"
    return f"{'+' if now > before else '-'}{span(abs(now - before))}"


def change_of_count(now: int, before: int) -> str:
    """Return the change of a count."""
    return "same" if now == before else f"{'+' if now > before else '-'}{amount(abs(now - before))}"


def gravest_change(now: PeriodSums, before: PeriodSums) -> str:
    """Return the change of the time lost or, if it did not change, of the first other value that did."""
    if now.lost_partition_ms != before.lost_partition_ms:
        return change(now.lost_partition_ms, before.lost_partition_ms)
    if now.rebalances != before.rebalances:
        sign = "+" if now.rebalances > before.rebalances else "-"
        return f"{sign}{plural(abs(now.rebalances - before.rebalances), 'rebalance')}"
    return f"{change(now.rebalancing_ms, before.rebalancing_ms)} rebalancing"


def share(part: PeriodSums, whole: PeriodSums) -> float:
    """Return the share, 0 to 1, of the time lost or, if none was, of the time rebalancing, else of the rebalances."""
    name = _measure(whole)
    total = getattr(whole, name)
    return float(getattr(part, name) / total) if total else 0.0


def _measure(whole: PeriodSums) -> str:
    """Return the field that shares are shares of: the first that is not 0."""
    return next((name for name in ("lost_partition_ms", "rebalancing_ms") if getattr(whole, name)), "rebalances")


def explained(report: PeriodReport) -> float | None:
    """Return the share with a known cause, 0 to 1, rounded down; null if there was no rebalance."""
    if not report.sums.rebalances:
        return None
    uncaused = [report.unexplained, *(each.sums for each in report.causes if each.rule in _UNEXPLAINED)]
    name = _measure(report.sums)
    total: int = getattr(report.sums, name)
    without: int = sum(getattr(each, name) for each in uncaused)
    # In whole numbers: 1 - 0.9 is less than 0.1, which would be rounded down to 9 %.
    return 100 * (total - without) // total / 100


def causes_of(group: PeriodGroup) -> str:
    """Return a group's causes with their shares."""
    if len(group.causes) == 1 and group.causes[0].sums.rebalances == group.sums.rebalances:
        return group.causes[0].rule
    shares = [(each.rule, f"{share(each.sums, group.sums):.0%}") for each in group.causes]
    return ", ".join(f"{rule} {text}" for rule, text in shares if text != "0%") or UNKNOWN


def notes(report: PeriodReport, clock: Clock) -> Iterator[str]:
    """Yield the notes that are needed to interpret the numbers."""
    if not report.ready:
        yield f"the data is not up to date: {report.ready_text}"
    if report.dropped_until_ms is not None and report.dropped_until_ms >= report.since_ms:
        yield (
            f"incomplete: the exporter had no room for rebalances that began until "
            f"{clock.moment(report.dropped_until_ms)}; raise export.keep_rebalances"
        )
    if report.before is None:
        known = "none" if report.kept_since_ms is None else f"the earliest began {clock.moment(report.kept_since_ms)}"
        yield f"the period before is not compared: of the rebalances that the exporter keeps, {known}"
    if report.sums.uncosted:
        yield f"of {plural(report.sums.uncosted, 'rebalance')} it is not known what was lost"


def other_settings(report: PeriodReport) -> tuple[PeriodSetting, ...]:
    """Return the settings that findings advise, except those shown with what they would have avoided."""
    shown = {each.setting for each in report.worth[:SHOWN_WORTH]}
    return tuple(each for each in report.settings if each.parameter not in shown)[:SHOWN_SETTINGS]


def setting_title(setting: PeriodSetting) -> str:
    """Return the title of a setting: its name, current and proposed value."""
    return f"{setting.parameter}: {'' if setting.current is None else f'{setting.current} -> '}{setting.proposed}"


def groups_of(setting: PeriodSetting) -> str:
    """Return the names of the groups that a setting concerns."""
    shown = [each.group for each in setting.groups[:_NAMED_GROUPS]]
    more = setting.group_count - len(shown)
    return f"{', '.join(shown)}{f' and {more} more' if more else ''}"


def explained_by(setting: PeriodSetting) -> str:
    """Return the rebalances because of which a setting is advised, as text."""
    rebalances = plural(setting.sums.rebalances, "rebalance")
    return f"{lost(setting.sums)} lost in {rebalances}, by {', '.join(setting.rules)}"


def _passages(report: PeriodReport, clock: Clock) -> Iterator[Passage]:
    yield Passage("When", (dates(report, clock),))
    if report.before is not None:
        yield Passage("Before", (_describe_before(report.sums, report.before),))
    if report.sums.rebalances:
        yield Passage("Why", (", ".join(_shares(report)),))
    busiest = max(report.parts, key=lambda each: each.sums.lost_partition_ms, default=None)
    if busiest is not None and busiest.sums.lost_partition_ms:
        part_ms = (report.until_ms - report.since_ms) // len(report.parts)
        at = f"the {span(part_ms)} from {clock.moment(busiest.from_ms)}"
        yield Passage("Worst", (f"{lost(busiest.sums)} lost in {at}",))
    if report.worth:
        yield Passage("Set", tuple(map(_describe_worth, report.worth[:SHOWN_WORTH])), numbered=True)
    others = other_settings(report)
    if others:
        lines = (f"{setting_title(each)}; in {groups_of(each)} ({explained_by(each)})" for each in others)
        yield Passage("Advised", tuple(lines), numbered=True)
    found = tuple(notes(report, clock))
    if found:
        yield Passage("Note", found)


def worth_title(worth: PeriodWorth) -> str:
    """Return the name of a setting, with its value if only one group is concerned."""
    first = worth.groups[0]
    return f"{worth.setting}: {first.proposed}" if worth.group_count == 1 else worth.setting


def worth_groups(worth: PeriodWorth) -> str:
    """Return the groups that would benefit from a setting, each with its value if there are several."""
    shown = worth.groups[:_NAMED_WITH_VALUE]
    more = worth.group_count - len(shown)
    names = [each.group if worth.group_count == 1 else f"{each.group} ({each.proposed})" for each in shown]
    return f"{', '.join(names)}{f' and {more} more' if more else ''}"


def _describe_worth(worth: PeriodWorth) -> str:
    return f"{worth_title(worth)}; in {worth_groups(worth)}: would have avoided {saved(worth.avoided)}"


def _describe_before(now: PeriodSums, before: PeriodSums) -> str:
    lost_more = change(now.lost_partition_ms, before.lost_partition_ms)
    more = change_of_count(now.rebalances, before.rebalances)
    return f"{plural(before.rebalances, 'rebalance')} ({more}), {lost(before)} lost ({lost_more})"


def _shares(report: PeriodReport) -> Iterator[str]:
    for each in report.causes[:_NAMED_CAUSES]:
        yield f"{each.rule} {share(each.sums, report.sums):.0%}"
    if report.unexplained.rebalances:
        yield f"no finding that is kept {share(report.unexplained, report.sums):.0%}"


def _grids(report: PeriodReport) -> Iterator[Grid]:
    if report.groups:
        rows = tuple(map(_describe_group, report.groups[:SHOWN_GROUPS]))
        more = report.rebalanced_groups - len(rows)
        note = f"and {plural(more, 'group')} more that rebalanced" if more else ""
        yield _grid(report, "Groups by time lost", _GROUP, rows, note)
    if report.causes:
        yield _grid(report, "Causes", _CAUSE, tuple(map(_describe_cause, report.causes[:SHOWN_CAUSES])))
    if report.changed:
        yield _grid(report, "What changed most", _CHANGE, tuple(map(_describe_change, report.changed[:SHOWN_CHANGES])))


def _grid(
    report: PeriodReport, title: str, columns: tuple[Column, ...], rows: tuple[tuple[str, ...], ...], note: str = ""
) -> Grid:
    """Return a table, without the column BEFORE if there is no previous period."""
    kept = [place for place, each in enumerate(columns) if report.before is not None or each.heading != _BEFORE]
    cells = tuple(tuple(row[place] for place in kept) for row in rows)
    return Grid(title, tuple(columns[place] for place in kept), cells, note)


def _describe_group(group: PeriodGroup) -> tuple[str, ...]:
    return (
        group.group,
        lost(group.sums),
        _lost_before(group.before),
        amount(group.sums.rebalances),
        span(group.slowest_ms),
        causes_of(group),
    )


def _describe_cause(cause: PeriodCause) -> tuple[str, ...]:
    counts = (amount(cause.sums.rebalances), amount(cause.groups))
    return (cause.rule, lost(cause.sums), _lost_before(cause.before), *counts)


def _describe_change(group: PeriodGroup) -> tuple[str, ...]:
    before = group.before or PeriodSums()
    return (
        group.group,
        lost(group.sums),
        lost(before),
        gravest_change(group.sums, before),
        amount(group.sums.rebalances),
    )


def _lost_before(before: PeriodSums | None) -> str:
    return UNKNOWN if before is None else lost(before)
