"""What all tests of reporters share."""

import pytest

from exporters.reporters.sending import Sent
from rebalance_exporters.reporters import reporter


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a close wait for its last report, however busy the machine; what gives up is tested with its own limits."""
    monkeypatch.setattr(reporter, "CLOSE_SECONDS", 20)


@pytest.fixture
def sent() -> Sent:
    return Sent()
