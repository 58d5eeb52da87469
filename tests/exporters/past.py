"""Rebalances at given times, their impact and their findings: rows for tests that look back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exporters.api.test_overview import FINDING
from exporters.contract_rows import NOW_MS, impact_row, rebalance_row
from rebalance_contract import Advice, Rebalance, decode, encode
from rebalance_exporters.state.view import FINDINGS, REBALANCES, Row

DAY_MS = 86_400_000

SESSION = Advice("session.timeout.ms", "10000", "45000", "max(45000)")
RECORDS = Advice("max.poll.records", None, "at most 124", "half")
CODE = Advice("code", None, "hand the batch to a worker pool", "-")


def past_row(rebalance_id: str, started_ms: int, *, took_ms: int | None = 1_000, **changes: Any) -> Row:
    """A rebalance that began at a time; with a duration of null it is still in progress."""
    value = rebalance_row(rebalance_id).value
    assert value is not None
    rebalance = replace(
        decode(value, Rebalance),
        started_before_ms=started_ms,
        completed_at_ms=None if took_ms is None else started_ms + took_ms,
        duration_min_ms=took_ms,
    )
    rebalance = replace(rebalance, **changes)
    return Row(REBALANCES, f"{rebalance.cluster}/{rebalance.group}/{rebalance_id}".encode(), encode(rebalance))


def costly_rows(
    rebalance_id: str, started_ms: int, lost_ms: int, *, took_ms: int | None = 1_000, **changes: Any
) -> list[Row]:
    """The same, with the time for which its partitions had no commits."""
    names = {name: changes[name] for name in ("cluster", "group") if name in changes}
    row = past_row(rebalance_id, started_ms, took_ms=took_ms, **changes)
    return [row, impact_row(rebalance_id, lost_partition_ms=lost_ms, **names)]


def cause_row(*rebalance_ids: str, subject: str = "", **changes: Any) -> Row:
    """A primary finding about these rebalances, with changes, under its key."""
    finding = replace(FINDING, rebalance_ids=rebalance_ids, rebalances=len(rebalance_ids))
    finding = replace(finding, **({"updated_at_ms": NOW_MS} | changes))
    return Row(FINDINGS, f"{finding.cluster}/{finding.group}/{finding.rule}/{subject}".encode(), encode(finding))
