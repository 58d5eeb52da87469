"""Fixtures shared by all tests of reporters."""

import pytest

from exporters.reporters.sending import Sent
from rebalance_exporters.reporters import reporter


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a close wait for its last report on a busy machine; tests of abandoned reports set their own limits."""
    monkeypatch.setattr(reporter, "CLOSE_SECONDS", 20)


@pytest.fixture
def sent() -> Sent:
    return Sent()
