"""Which diagnosis was the cause of a rebalance, and what it advises, for longer than its finding is kept.

Receives findings; hands on immutable values. A finding names the latest rebalances only, and is forgotten some time
after it resolved, while the rebalances that it explained are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_contract import Advice, Finding
from rebalance_exporters.state.kept import GroupKey

#: No rule advises more, nor with longer words; whoever may write to the topic may write anything.
_MAX_ADVICE, _MAX_TEXT = 8, 300


@dataclass(frozen=True, slots=True)
class PrimaryCause:
    """What is kept of a primary finding. `advice` is in the order in which it is to be tried."""

    finding_id: str
    rule: str
    updated_at_ms: int
    confidence: float
    advice: tuple[Advice, ...]

    @property
    def age(self) -> tuple[int, str]:
        """What the latest has most of. Findings of one time have an order too, so that two exporters keep the same."""
        return self.updated_at_ms, self.finding_id


class Causes:
    """The causes of rebalances of all groups, no more than `limit`; those that were reported first go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._causes: dict[tuple[GroupKey, str], PrimaryCause] = {}

    def note(self, finding: Finding) -> None:
        """Process the cause of the rebalances that a finding names; one that is not primary is the cause of none."""
        if not finding.primary or not finding.rebalance_ids:
            return
        group, cause = (finding.cluster, finding.group), _make_cause(finding)
        for rebalance_id in finding.rebalance_ids[-self._limit :] if self._limit else ():
            known = self._causes.get((group, rebalance_id))
            # A better explanation may be read before the one that it replaces.
            if known is None or cause.age >= known.age:
                self._causes[group, rebalance_id] = cause
        while len(self._causes) > self._limit:
            del self._causes[next(iter(self._causes))]

    def withdraw(self, finding: Finding) -> None:
        """Forget what turned out not to be the cause."""
        finding_id = _cut(finding.finding_id)
        for rebalance_id in finding.rebalance_ids:
            key = ((finding.cluster, finding.group), rebalance_id)
            known = self._causes.get(key)
            if known is not None and known.finding_id == finding_id:
                del self._causes[key]

    def of(self, group: GroupKey, rebalance_id: str) -> PrimaryCause | None:
        """Return the cause of a rebalance, null when none is known."""
        return self._causes.get((group, rebalance_id))


def _make_cause(finding: Finding) -> PrimaryCause:
    advice = tuple(map(_shorten, finding.advice[:_MAX_ADVICE]))
    return PrimaryCause(_cut(finding.finding_id), _cut(finding.rule), finding.updated_at_ms, finding.confidence, advice)


def _shorten(advice: Advice) -> Advice:
    current = None if advice.current is None else _cut(advice.current)
    return replace(
        advice,
        parameter=_cut(advice.parameter),
        current=current,
        proposed=_cut(advice.proposed),
        formula=_cut(advice.formula),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
