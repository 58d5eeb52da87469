"""Measures the time from a consumer's failure to its page: expiry, diagnosis, scrape, rule, Alertmanager."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rebalance_deploy.counts import fetch
from rebalance_deploy.demo import workload
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.observability import PrometheusOptions, alerting, alerts_of, receiving
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from rebalance_devtools.bench import fill

_ALERT = "KafkaRebalanceFinding"
_PATIENCE_SECONDS = 300.0
_LOST = re.compile("has left group|has failed, removing it")


def measure() -> Iterator[str]:
    """Yield the table's lines: one run per interval, everything else as shipped."""
    yield "| Prometheus scrapes and evaluates every | expiry to finding on /metrics | expiry to the webhook's page |"
    yield "|---|---:|---:|"
    for seconds, name in ((15.0, "15 s (as shipped)"), (5.0, "5 s")):
        finding, page = _run(seconds)
        yield f"| {name} | {finding:.0f} s | {page:.0f} s |"


def _run(scrape_seconds: float) -> tuple[float, float]:
    """Return the time from the sick consumer's first removal to its finding and to its page, in seconds."""
    paged: list[float] = []

    def on_body(path: str, body: Any) -> None:
        for labels in (alert["labels"] for alert in alerts_of(path, body)):
            if labels["alertname"] == _ALERT and labels.get("group") == workload.SICK.group:
                paged.append(time.monotonic())

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        config = {"offsets.topic.num.partitions": str(fill.LOG_PARTITIONS)}
        broker = stack.enter_context(EmbeddedKafka(directory / "kafka", config=config))
        create_topics(broker.bootstrap, workload.TOPICS)
        monitor = stack.enter_context(Monitor(loopback_sources(broker.bootstrap, directory), directory))
        monitor.wait_until_ready(threading.Event(), lambda _: None)
        phone = stack.enter_context(receiving(on_body))
        stack.enter_context(alerting(directory, monitor.url, phone, PrometheusOptions(scrape_seconds=scrape_seconds)))
        for name, command in _clients(broker.bootstrap).items():
            stack.enter_context(ChildProcess(command, log_path=directory / f"{name}.log"))
        lost = _await(lambda: _is_lost(broker), "the sick consumer to be lost")
        found = _await(lambda: _is_found(monitor.url), "the finding")
        _await(lambda: bool(paged), "the page")
        return found - lost, paged[0] - lost


def _clients(bootstrap: str) -> dict[str, list[str]]:
    members = [spec for spec in workload.CONSUMERS if spec.group == workload.SICK.group]
    return {"producer": workload.producer_command(bootstrap)} | {
        spec.client_id: workload.command(bootstrap, spec) for spec in members
    }


def _is_lost(broker: EmbeddedKafka) -> bool:
    with broker.log_path.open(errors="replace") as lines:
        return any(workload.SICK.group in line and _LOST.search(line) for line in lines)


def _is_found(url: str) -> bool:
    start = f'kafka_rebalance_finding_active{{cluster="default",group="{workload.SICK.group}",rule="poll_overrun"'
    return any(line.startswith(start) for line in fetch(f"{url}/metrics")[1].splitlines())


def _await(condition: Callable[[], bool], what: str) -> float:
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise UserError(f"waited {_PATIENCE_SECONDS:.0f} s in vain for {what}")
        pause.wait(0.1)
    return time.monotonic()
