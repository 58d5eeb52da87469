"""Requests from the API all data for a report about one rebalance."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_contract import FindingState
from rebalance_contract.api import RebalanceRow
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.client import Api
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.explain import Facts, choose_rebalance, distance_ms
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.text.figures import span


@dataclass(frozen=True, slots=True)
class Question:
    """Selects a rebalance: by id, or by a time as typed, or the latest one if both are null."""

    group: str
    cluster: str | None = None
    at: str | None = None
    rebalance_id: str | None = None
    clock: Clock = field(default_factory=Clock)


def gather(api: Api, question: Question) -> Facts:
    """Return the facts about the selected rebalance."""
    snapshot = api.group(question.group, question.cluster)
    cluster = snapshot.cluster
    overview = api.overview(cluster)
    rebalance_id, choice = question.rebalance_id, None
    if rebalance_id is None:
        chosen, choice = _choose(api, question, cluster, overview.at_ms)
        rebalance_id = None if chosen is None else chosen.rebalance_id
    answer = None if rebalance_id is None else api.rebalance(question.group, rebalance_id, cluster)
    return Facts(
        now_ms=overview.at_ms,
        snapshot=snapshot,
        rows=overview.groups,
        rebalance=None if answer is None else answer.rebalance,
        findings=() if answer is None else answer.findings,
        standing=api.findings(cluster, question.group, FindingState.FIRING),
        choice=choice,
        trouble=None if overview.ready else f"the data is not up to date: {overview.ready_text}",
        clock=question.clock,
    )


def read_time(text: str, now_ms: int, clock: Clock) -> int:
    """Return the time that a user typed, in epoch ms. Raises ExporterError."""
    try:
        return clock.read(text, now_ms)
    except ValueError as error:
        raise ExporterError(safe(str(error))) from error


def _choose(api: Api, question: Question, cluster: str, now_ms: int) -> tuple[RebalanceRow | None, str | None]:
    """Return the rebalance to explain, null if none is kept, and a note on the choice, null if not needed."""
    if question.at is None:
        return next(iter(api.rebalances(question.group, cluster, limit=1)), None), None
    at_ms = read_time(question.at, now_ms, question.clock)
    kept = api.rebalances(question.group, cluster)
    if not kept:
        return None, None
    chosen = choose_rebalance(kept, at_ms)
    off_ms = distance_ms(chosen, at_ms)
    if not off_ms:
        return chosen, None
    side = "later" if at_ms < chosen.started_before_ms else "earlier"
    when = question.clock.moment(at_ms)
    return chosen, f"no rebalance is known to have gone on at {when}: the nearest was {span(off_ms)} {side}"
