"""`advise`: what settings would have avoided in a group's rebalances, as text and a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract.api_reports import AdviceAnswer, PeriodSums, SettingEstimate
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.report import Column, Grid, Hint, Passage, TextReport
from rebalance_exporters.text.avoided import between, saved
from rebalance_exporters.text.figures import UNKNOWN, length, plural

_COLUMNS = (
    Column("SETTING", may_shrink=True),
    Column("NOW", right=True),
    Column("TO", may_shrink=True),
    Column("REBALANCES", right=True),
    Column("LOST", right=True),
    Column("REBALANCING", right=True),
)
_HOW_TO_READ = (
    "a range is from what the rebalances' own rows show to what they leave open; several settings may avoid the same "
    "rebalance, so they do not add up"
)


def describe_advice(answer: AdviceAnswer, clock: Clock, access: Access) -> TextReport:
    """Return the report."""
    best = next(iter(answer.estimates), None)
    shown = None if best is None else next(iter(best.rebalance_ids), None)
    hints = [Hint("see them", access.command_line("history", answer.group))]
    if shown is not None:
        hints.insert(0, Hint("one of them", access.command_line("explain", answer.group, "--rebalance", shown)))
    return TextReport(
        verdict(answer, clock), None, tuple(_passages(answer, clock)), tuple(_grids(answer)), tuple(hints)
    )


def verdict(answer: AdviceAnswer, clock: Clock) -> str:
    """Return one line on the setting that would have avoided most."""
    since = clock.moment(answer.since_ms)
    if not answer.sums.rebalances:
        return f"{answer.group}: no rebalance since {since}"
    happened = f"{answer.group}: {plural(answer.sums.rebalances, 'rebalance')} since {since}"
    best = next(iter(answer.estimates), None)
    if best is None:
        return f"{happened}, and no setting that would have avoided any"
    return f"{happened}; {best.setting} would have avoided {saved(best.avoided)}"


def _passages(answer: AdviceAnswer, clock: Clock) -> Iterator[Passage]:
    if answer.sums.rebalances:
        yield Passage("Happened", (_describe_sums(answer.sums),))
    if answer.estimates:
        yield Passage("Costs", tuple(f"{each.setting}: {each.cost}" for each in answer.estimates))
        yield Passage("Basis", tuple(f"{each.setting}: {each.basis}" for each in answer.estimates))
    if answer.useless and answer.sums.rebalances:
        yield Passage("Avoids none", (", ".join(answer.useless),))
    found = tuple(_notes(answer, clock))
    if found:
        yield Passage("Note", found)


def _describe_sums(sums: PeriodSums) -> str:
    lost = UNKNOWN if sums.uncosted == sums.rebalances else length(sums.lost_partition_ms)
    return f"{plural(sums.rebalances, 'rebalance')}, {lost} lost, {length(sums.rebalancing_ms)} rebalancing"


def _notes(answer: AdviceAnswer, clock: Clock) -> Iterator[str]:
    if answer.estimates:
        yield _HOW_TO_READ
    if not answer.ready:
        yield f"the data is not up to date: {answer.ready_text}"
    if answer.dropped_until_ms is not None and answer.dropped_until_ms >= answer.since_ms:
        yield (
            f"incomplete: the exporter had no room for rebalances that began until "
            f"{clock.moment(answer.dropped_until_ms)}; raise export.keep_rebalances"
        )
    if answer.sums.uncosted:
        yield f"of {plural(answer.sums.uncosted, 'rebalance')} it is not known what was lost"


def _grids(answer: AdviceAnswer) -> Iterator[Grid]:
    if answer.estimates:
        yield Grid("What would have been avoided", _COLUMNS, tuple(map(_describe, answer.estimates)))


def _describe(of: SettingEstimate) -> tuple[str, ...]:
    avoided = of.avoided
    return (
        of.setting,
        UNKNOWN if of.current is None else of.current,
        of.proposed,
        between(avoided.rebalances),
        between(avoided.lost_partition_ms, length),
        between(avoided.rebalancing_ms, length),
    )
