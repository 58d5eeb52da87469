"""How sure something is said: the four steps of the scale."""

from __future__ import annotations

#: How sure the catalogue's labels are: certain, strong inference, plausible, hint. Close to how often what was said so
#: was right in recordings that rules may be tuned to, with all kinds of sources (100, 99, 86 and 47 % of 1,325).
CERTAIN, STRONG, PLAUSIBLE, HINT = 0.98, 0.93, 0.85, 0.4
#: From here on a confidence is a claim; below it a hint, which wakes nobody and takes over nothing.
CLAIMED = 0.55
SCALE = {"certain": CERTAIN, "strong": STRONG, "plausible": PLAUSIBLE, "hint": HINT}


def one_down(confidence: float) -> float:
    """Return the next lower step of the scale: where a source is missing, or an effect stands for its cause."""
    return max((each for each in SCALE.values() if each < confidence), default=HINT)
