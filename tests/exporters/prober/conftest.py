"""What tests of the prober share."""

import pytest


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers take their time to answer: for tests in which the prober has nothing to complain of."""
    for name in ("brokers.REQUEST_SECONDS", "topics.REQUEST_SECONDS"):
        monkeypatch.setattr(f"rebalance_exporters.prober.{name}", 20)
    monkeypatch.setattr("rebalance_kafka.follower._REQUEST_SECONDS", 20)
