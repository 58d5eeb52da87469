"""The order in which findings are read."""

from __future__ import annotations

from rebalance_contract import FindingState, Severity
from rebalance_contract.api import FindingMark, reading_order

ORDER = (4, 1, 5, 2, 0, 3)


def mark(name: str, severity: Severity, confidence: float, started_at_ms: int, *, primary: bool = True) -> FindingMark:
    """Return an open finding."""
    return FindingMark(name, name, severity, "", confidence, FindingState.FIRING, started_at_ms, primary)


def test_what_calls_for_action_comes_first_then_causes_then_the_surest_then_the_oldest() -> None:
    """An unknown severity is ordered like a page."""
    expected = [
        mark("page", Severity.PAGE, 0.6, 9),
        mark("sure", Severity.TICKET, 0.9, 8),
        mark("sure and newer", Severity.TICKET, 0.9, 9),
        mark("less sure", Severity.TICKET, 0.6, 1),
        mark("follows", Severity.TICKET, 0.98, 1, primary=False),
        mark("info", Severity.INFO, 0.98, 1),
    ]
    shuffled = [expected[each] for each in ORDER if each < len(expected)]
    assert sorted(shuffled, key=reading_order) == expected


def test_of_information_the_latest_comes_first() -> None:
    """Recent informational findings come first: how a group formed is certain, but hours old."""
    expected = [
        mark("restarted", Severity.INFO, 0.4, 9),
        mark("formed", Severity.INFO, 0.98, 1),
        mark("no cause", Severity.INFO, 0.98, 10, primary=False),
    ]
    shuffled = [expected[each] for each in ORDER if each < len(expected)]
    assert sorted(shuffled, key=reading_order) == expected
