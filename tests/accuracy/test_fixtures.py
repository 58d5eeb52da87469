"""What the log alone shows of real clients: the right cause where it shows one, and none where nothing is wrong."""

from __future__ import annotations

import pytest

from accuracy.fixtures import EXPECTED, HARMLESS, diagnose

pytestmark = pytest.mark.recordings


@pytest.mark.parametrize(("name", "rule"), EXPECTED.items(), ids=EXPECTED)
def test_the_log_shows_the_cause(name: str, rule: str) -> None:
    """The diagnosis is there, as the primary cause of a rebalance or of a trouble without one."""
    assert rule in {each.rule for each in diagnose(name) if each.primary}


@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_is_complained_of_where_nothing_is_wrong(name: str) -> None:
    """Members come, go and restart, topics grow and go, transactions abort: at most information."""
    assert {each.rule: each.summary for each in diagnose(name) if each.severity != "info"} == {}
