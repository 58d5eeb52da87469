"""What tests of the prober share."""

import gc
from collections.abc import Iterator

import pytest

#: Longer than a busy machine gives brokers no time to answer.
PATIENCE_SECONDS = 120


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers take their time to answer; a test of those that do not sets times of its own."""
    for name in ("brokers.REQUEST_SECONDS", "brokers._START_SECONDS", "topics.REQUEST_SECONDS"):
        monkeypatch.setattr(f"rebalance_exporters.prober.{name}", PATIENCE_SECONDS)
    monkeypatch.setattr("rebalance_kafka.follower._REQUEST_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def collect_sockets() -> Iterator[None]:
    """Let what a test left behind be collected in the test itself, not in one that minds."""
    yield
    gc.collect()
