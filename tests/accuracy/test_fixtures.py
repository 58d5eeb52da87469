"""Diagnoses from the log alone, with real clients: the right cause where it is visible, and none for healthy groups."""

from __future__ import annotations

import pytest

from accuracy.fixtures import EXPECTED, HARMLESS, diagnose

pytestmark = pytest.mark.recordings


@pytest.mark.parametrize(("name", "rule"), EXPECTED.items(), ids=EXPECTED)
def test_the_log_shows_the_cause(name: str, rule: str) -> None:
    """The diagnosis is the primary cause of a rebalance, or of a problem without a rebalance."""
    assert rule in {each.rule for each in diagnose(name) if each.primary}


@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_is_complained_of_where_nothing_is_wrong(name: str) -> None:
    """Members join, leave and restart, topics grow and go, transactions abort: at most informational findings."""
    assert {each.rule: each.summary for each in diagnose(name) if each.severity != "info"} == {}
