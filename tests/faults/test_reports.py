"""Client metrics of a large fleet that were not read for hours."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from confluent_kafka import Producer

from e2e.rig import READY_SECONDS, Rig, running_rig
from faults.observing import CONFIG, jvm_of, report_outcomes, resident_bytes, restarts
from faults.reporting import Figures
from goldens import FOLDER
from rebalance_deploy.counts import fetch
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_CLIENTS, _REPORTS = 100, 720
_REPORT_BYTES = 50_000
_READY_SECONDS = 60.0
_SERVING = re.compile(r"serving on (\S+)/metrics")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A broker and a monitor of its own."""
    with running_rig(tmp_path) as running:
        yield running


@pytest.mark.faults(29, fast=0, full=1)
def test_an_hour_of_reports_delays_no_start(rig: Rig, figures: Figures):
    """100 librdkafka clients reported 50 kB every 5 s while the stream was stopped: it is soon ready, and reads all."""
    stream = rig.monitor.stream
    assert stream.process.terminate(45) == 0
    count, size = write_reports(rig)
    figures.note("reports", size / 1e9, "GB")
    began = time.monotonic()
    log = stream.process.log_path
    assert log is not None
    announced = len(_SERVING.findall(log.read_text()))
    stream.start()
    # The exporter may not have noticed the end of the old stream yet, so the new stream itself is queried.
    url = wait_for(lambda: _own_url(log, announced), "the new stream's own endpoints", READY_SECONDS)
    wait_for(lambda: fetch(f"{url}/-/ready")[0] == HTTPStatus.OK, lambda: fetch(f"{url}/-/ready"), READY_SECONDS)
    rig.monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
    ready_seconds = time.monotonic() - began
    figures.note("ready", ready_seconds, "s")

    def counted() -> int:
        return report_outcomes(rig, CONFIG.metrics_topic).total()

    wait_for(lambda: counted() == count, lambda: f"{count} reports to be counted, not {counted()}", 2_400, every=5)
    figures.note("all counted", time.monotonic() - began, "s")
    figures.note("memory of the JVM", resident_bytes(jvm_of(rig)) / 1e6, "MB")
    assert set(restarts(rig).values()) == {0}
    rig.monitor.check()
    assert ready_seconds <= _READY_SECONDS


def _own_url(log: Path, announced: int) -> str:
    """Return the URL of a stream's endpoints once its log has more than `announced` of them; empty before that."""
    found = _SERVING.findall(log.read_text())
    return found[-1] if len(found) > announced else ""


def write_reports(rig: Rig) -> tuple[int, int]:
    """Write the fleet's reports; return the numbers of messages and bytes."""
    document = json.loads((FOLDER / "client-metrics" / "librdkafka-classic.json").read_bytes())
    document["padding"] = "x" * (_REPORT_BYTES - len(json.dumps(document)))
    producer = Producer(
        {"bootstrap.servers": rig.broker.bootstrap, "linger.ms": 5, "log_level": 0, "compression.type": "lz4"}
    )
    first_ms, count, size = int(time.time() * 1000) - 3_600_000, 0, 0
    for number in range(_REPORTS):
        for client in range(_CLIENTS):
            document |= {"name": f"client-{client}#consumer-1", "client_id": f"client-{client}"}
            document["time"] = (first_ms + number * 5_000) // 1000
            value = json.dumps(document).encode()
            while True:
                try:
                    producer.produce(CONFIG.metrics_topic, value, timestamp=first_ms + number * 5_000)
                    break
                except BufferError:
                    producer.poll(0.1)
            count, size = count + 1, size + len(value)
        producer.poll(0)
    assert producer.flush(300) == 0
    return count, size
