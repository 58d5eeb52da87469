"""Numbers in readable form, for the terminal and for the sentences that the API carries."""

from __future__ import annotations

UNKNOWN = "-"

#: Bounds at most this far apart come from probes and are worth showing.
TIGHT_MS = 6_000

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_EXACT_BELOW = 10_000


def span(milliseconds: float | None) -> str:
    """Return a duration with one unit and at most three digits."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < _SECOND:
        return f"{milliseconds:.0f} ms"
    for unit, size, limit in (("s", _SECOND, _MINUTE), ("min", _MINUTE, _HOUR), ("h", _HOUR, 2 * _DAY)):
        if milliseconds < limit:
            return f"{_short(milliseconds / size)} {unit}"
    return f"{_short(milliseconds / _DAY)} d"


def length(milliseconds: int) -> str:
    """Return a duration, with `0 s` for zero."""
    return span(milliseconds) if milliseconds else "0 s"


def bounds(low_ms: int | None, high_ms: int | None) -> str:
    """Return a duration between two bounds as text; a lower bound of null means that it has not ended."""
    if low_ms is None:
        return "goes on"
    if high_ms == low_ms:
        return span(low_ms)
    if high_ms is not None and high_ms - low_ms <= TIGHT_MS:
        return f"{_short(low_ms / _SECOND)} to {_short(high_ms / _SECOND)} s"
    # The upper bound reaches back to the group's previous record, which can be hours; only the lower one is useful.
    return f"at least {span(low_ms)}"


def amount(number: float | None) -> str:
    """Return a count: exact below ten thousand, then with k, M or G."""
    if number is None:
        return UNKNOWN
    if abs(number) < _EXACT_BELOW:
        return f"{number:.0f}"
    for suffix, size in (("k", 1e3), ("M", 1e6)):
        if abs(number) < size * 1e3:
            return f"{_short(number / size)}{suffix}"
    return f"{_short(number / 1e9)}G"


def plural(number: int, noun: str) -> str:
    """Return the number with its noun."""
    return f"{amount(number)} {noun}{'' if number == 1 else 's'}"


def _short(number: float) -> str:
    # At most one decimal below 100, none above.
    return f"{number:.1f}".removesuffix(".0") if abs(number) < 99.95 else f"{number:.0f}"
