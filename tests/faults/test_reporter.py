"""The cost of a reporter for its program while no broker is available."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import MakeBroker
from faults.reporting import Figures
from making_topics import create_topics
from rebalance_exporters.reporters.outbox import CAPACITY
from waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.timeout(3_600)]

_CLIENT = Path(__file__).with_name("polling_client.py")
_TOPIC, _PARTITIONS = "wide", 5_000
_INTERVAL_SECONDS = 1.0
#: In each of these the outbox is filled to its limit: an hour would show no more than three minutes.
_PERIODS, _PERIOD_SECONDS = 3, CAPACITY * _INTERVAL_SECONDS
_ASSIGNED_SECONDS = 600.0
_MEMORY_BYTES, _POLL_MS = 10_000_000, 1.0


class PollingClient:
    """A process that polls, and reports its resource use."""

    def __init__(self, bootstrap: str, wanted: str, log: Path) -> None:
        self._log = log
        spec = {
            "bootstrap": bootstrap,
            "group": f"with-{wanted}",
            "topic": _TOPIC,
            "interval_seconds": _INTERVAL_SECONDS,
            "with": wanted,
        }
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", _CLIENT, json.dumps(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def ask(self, order: str = "") -> Any:
        """Return its current measurements; earlier ones are reset."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    @property
    def errors(self) -> str:
        """The output on standard error."""
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def polling(bootstrap: str, directory: Path) -> Iterator[dict[str, PollingClient]]:
    """Run a client of each kind while the block runs."""
    clients = {
        wanted: PollingClient(bootstrap, wanted, directory / f"{wanted}.log")
        for wanted in ("nothing", "statistics", "reporter")
    }
    try:
        yield clients
    finally:
        for each in clients.values():
            each.close()


def percentile_99(values: list[float]) -> float:
    """Return the 99th percentile of sorted values."""
    return values[99 * len(values) // 100]


@pytest.mark.faults(40, fast=0, full=1)
def test_a_reporter_costs_little_while_brokers_are_away(make_broker: MakeBroker, tmp_path: Path, figures: Figures):
    """With 5,000 partitions: memory and polls are compared with those of the same consumer without a reporter.

    That consumer has librdkafka's statistics enabled, as the reporter needs them: their cost is not the reporter's, and
    is measured with a third consumer without them.
    """
    broker = make_broker()
    create_topics(broker.bootstrap, {_TOPIC: _PARTITIONS, "rebalance-monitor.client-metrics": 1})
    with polling(broker.bootstrap, tmp_path) as clients:
        wait_for(
            lambda: {each.ask()["assigned"] for each in clients.values()} == {_PARTITIONS},
            f"{_PARTITIONS} partitions for each",
            _ASSIGNED_SECONDS,
            every=2.0,
        )
        # While statistics are largest, and reports are sent.
        threading.Event().wait(10 * _INTERVAL_SECONDS)
        broker.kill()
        for each in clients.values():
            each.ask()
        longer_ms = []
        for _ in range(_PERIODS):
            threading.Event().wait(_PERIOD_SECONDS)
            reported = {wanted: each.ask() for wanted, each in clients.items()}
            polls_ms = {wanted: percentile_99(found["polls_ms"]) for wanted, found in reported.items()}
            longer_ms.append(polls_ms["reporter"] - polls_ms["statistics"])
        child = clients["reporter"].ask("fork")["child"]
        said = clients["reporter"].errors
    taken = {wanted: found["bytes"] for wanted, found in reported.items()}
    figures.note("memory added", (taken["reporter"] - taken["statistics"]) / 1e6, "MB")
    figures.note("memory added by librdkafka's statistics", (taken["statistics"] - taken["nothing"]) / 1e6, "MB")
    figures.note("99 % of polls, added", min(longer_ms), "ms")
    assert taken["reporter"] - taken["statistics"] <= _MEMORY_BYTES, taken
    # A busy machine slows down polls too, in any of the processes.
    assert min(longer_ms) <= _POLL_MS, longer_ms
    assert child == 0
    assert "Traceback" not in said, said
