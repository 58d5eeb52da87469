"""Fixtures shared by tests of the prober."""

import gc
from collections.abc import Iterator

import pytest

#: Longer than any time for which a busy machine stalls brokers.
PATIENCE_SECONDS = 120


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give brokers a long time to answer; tests of brokers that do not answer set their own time-outs."""
    for name in (
        *("brokers.REQUEST_SECONDS", "brokers._START_SECONDS", "topics.REQUEST_SECONDS"),
        *("publisher._FLUSH_SECONDS", "zookeeper._TIMEOUT_SECONDS"),
    ):
        monkeypatch.setattr(f"rebalance_exporters.prober.{name}", PATIENCE_SECONDS)
    for name in ("follower._REQUEST_SECONDS", "reachability._REACH_SECONDS"):
        monkeypatch.setattr(f"rebalance_kafka.{name}", PATIENCE_SECONDS)


@pytest.fixture
def collect_sockets() -> Iterator[None]:
    """Collect the garbage of a test within the test itself, not in a later one that would fail for it."""
    yield
    gc.collect()
