"""Turns evidence for and against a diagnosis into a confidence; no other module does.

A confidence is a probability; observations add to its log-odds or subtract from them, as independent ones do (Good,
1950: weight of evidence). A candidate that is merely possible is a hint; a single observation raises it to the step of
its strength: moderate to plausible, strong to strong, decisive to certain. The published value is the step nearest to
the sum, because more digits would suggest false precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rebalance_contract import Evidence, EvidenceSource, EvidenceStrength
from rebalance_streaming.observed.confidence import SCALE

WEAK, MODERATE, STRONG, DECISIVE = EvidenceStrength

#: Log-odds that an observation adds, or subtracts if it is against. From a hint (0.4) they lead to the steps above.
WEIGHTS: Mapping[str, float] = MappingProxyType({WEAK: 0.4, MODERATE: 1.5, STRONG: 2.6, DECISIVE: 3.9})


def _log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


_STEPS = tuple((_log_odds(each), each) for each in SCALE.values())


def weigh(confidence: float, evidence: Iterable[Evidence]) -> float:
    """Return a confidence after further evidence, each with its strength; evidence without strength is ignored."""
    weights = [
        -WEIGHTS[each.strength] if each.against else WEIGHTS[each.strength] for each in evidence if each.strength
    ]
    if not weights:
        return confidence
    total = _log_odds(confidence) + sum(weights)
    return min(_STEPS, key=lambda step: abs(step[0] - total))[1]


def strength_of(confidence: float) -> EvidenceStrength:
    """Return the strength of a single observation that results in this confidence."""
    steps = sorted(SCALE.values())
    return list(EvidenceStrength)[max(place for place, each in enumerate(steps) if each <= confidence or place == 0)]


def observe(
    source: EvidenceSource,
    field: str,
    value: str,
    rule: str,
    strength: EvidenceStrength | None = None,
    *,
    span: tuple[int | None, int | None] = (None, None),
    against: bool = False,
) -> Evidence:
    """Return an observation, with its span in epoch milliseconds."""
    return Evidence(source, field, value, rule, *span, strength, against)


def seconds(milliseconds: float) -> str:
    """Return a duration as text in seconds."""
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 100_000 else f"{milliseconds / 1000:.0f} s"
