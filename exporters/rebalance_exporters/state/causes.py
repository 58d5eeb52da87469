"""The cause of each rebalance and the advice for it, kept for longer than the finding itself.

Receives findings; returns immutable values. A finding names only its latest rebalances and is dropped some time after
it resolved, while the rebalances that it explained are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_contract import Advice, Finding
from rebalance_exporters.state.kept import GroupKey

#: Limits on the kept advice of a finding, above what any rule writes: others may be able to write to the topic.
_MAX_ADVICE, _MAX_TEXT = 8, 300


@dataclass(frozen=True, slots=True)
class PrimaryCause:
    """The kept part of a primary finding. `advice` is in the order in which to try it."""

    finding_id: str
    rule: str
    updated_at_ms: int
    confidence: float
    advice: tuple[Advice, ...]

    @property
    def age(self) -> tuple[int, str]:
        """Sort key, largest for the latest finding; the id breaks ties, so that two exporters keep the same one."""
        return self.updated_at_ms, self.finding_id


class Causes:
    """The causes of rebalances of all groups, at most `limit`; those reported first are dropped first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._causes: dict[tuple[GroupKey, str], PrimaryCause] = {}

    def note(self, finding: Finding) -> None:
        """Store a finding as the cause of the rebalances that it names; a finding that is not primary is ignored."""
        if not finding.primary or not finding.rebalance_ids:
            return
        group, cause = (finding.cluster, finding.group), _make_cause(finding)
        for rebalance_id in finding.rebalance_ids[-self._limit :] if self._limit else ():
            known = self._causes.get((group, rebalance_id))
            # A newer cause may be read before the one that it replaces.
            if known is None or cause.age >= known.age:
                self._causes[group, rebalance_id] = cause
        while len(self._causes) > self._limit:
            del self._causes[next(iter(self._causes))]

    def withdraw(self, finding: Finding) -> None:
        """Remove a withdrawn finding as the cause of its rebalances."""
        finding_id = _cut(finding.finding_id)
        for rebalance_id in finding.rebalance_ids:
            key = ((finding.cluster, finding.group), rebalance_id)
            known = self._causes.get(key)
            if known is not None and known.finding_id == finding_id:
                del self._causes[key]

    def of(self, group: GroupKey, rebalance_id: str) -> PrimaryCause | None:
        """Return the cause of a rebalance, or null if none is known."""
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
