"""The four steps of the confidence scale."""

from __future__ import annotations

#: Values of the catalogue's labels: certain, strong inference, plausible, hint. Close to the share of correct findings
#: per label in recordings that rules may be tuned to, with all kinds of sources (96, 99, 92 and 49 % of 2,332).
CERTAIN, STRONG, PLAUSIBLE, HINT = 0.98, 0.93, 0.85, 0.4
#: From this confidence on a finding is a claim; below it is a hint, which wakes nobody and supersedes nothing.
CLAIMED = 0.55
SCALE = {"certain": CERTAIN, "strong": STRONG, "plausible": PLAUSIBLE, "hint": HINT}


def one_step_lower(confidence: float) -> float:
    """Return the next lower step of the scale, for when a source is missing or an effect stands for its cause."""
    return max((each for each in SCALE.values() if each < confidence), default=HINT)
