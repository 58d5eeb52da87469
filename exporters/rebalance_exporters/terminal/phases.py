"""The phases of a rebalance as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_contract.api import PhaseText
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.report import Column, Grid
from rebalance_exporters.text.figures import UNKNOWN

_COLUMNS = (Column("PHASE"), Column("DURATION", right=True), Column("UNTIL"))


def describe_phases(phases: Iterable[PhaseText], clock: Clock) -> Grid:
    """Return one row per phase, in order of time."""
    rows = ((each.what, each.took, UNKNOWN if each.until_ms is None else clock.time(each.until_ms)) for each in phases)
    return Grid("Phases", _COLUMNS, tuple(rows))
