"""How sure something is said: the four steps of the scale."""

from __future__ import annotations

#: How sure the catalogue's labels are: certain, strong inference, plausible, hint.
CERTAIN, STRONG, PLAUSIBLE, HINT = 0.97, 0.9, 0.75, 0.4
#: From here on a confidence is a claim; below it a hint, which wakes nobody and takes over nothing.
CLAIMED = 0.55
SCALE = {"certain": CERTAIN, "strong": STRONG, "plausible": PLAUSIBLE, "hint": HINT}


def one_down(confidence: float) -> float:
    """Return the next lower step of the scale: where a source is missing, or an effect stands for its cause."""
    return max((each for each in SCALE.values() if each < confidence), default=HINT)
