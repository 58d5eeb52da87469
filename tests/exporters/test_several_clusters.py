"""One exporter for several clusters, each with its own brokers, topics and stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from exporters.contract_rows import PAYMENTS, diagnosis_row, query_row
from exporters.serving import hash_password
from making_topics import create_topic
from rebalance_contract import DiagnosisStatus, QueryStatus, decode, encode
from rebalance_deploy.counts import fetch
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.ports import find_free_ports
from rebalance_deploy.processes import ChildProcess
from rebalance_exporters.state.view import GROUPS, STATUS, TOPICS, Row
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(1_200)]

PREFIX = "rebalance-monitor."
PATIENCE = {"seconds": 120.0, "every": 0.2}
AUTH = ("alice", "secret")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Stream:
    """Publishes what the stream of a cluster does: a healthy status, and groups."""

    def __init__(self, cluster: str, bootstrap: str) -> None:
        self.cluster, self.bootstrap = cluster, bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def publish(self, *rows: Row) -> None:
        """Write rows to the monitor's topics of the cluster."""
        for row in rows:
            self._producer.produce(PREFIX + row.topic, key=row.key, value=row.value)
        assert self._producer.flush(120) == 0

    def group(self, name: str, generation: int, cluster: str | None = None) -> Row:
        """A group's row."""
        cluster = cluster or self.cluster
        row = replace(PAYMENTS, cluster=cluster, group=name, generation=generation)
        return Row(GROUPS, f"{cluster}/{name}".encode(), encode(row))

    def well(self) -> list[Row]:
        """Return a healthy status of all its parts, as of now."""
        at_ms, rows = now_ms(), []
        for row, kind in (
            (query_row(cluster=self.cluster), QueryStatus),
            (query_row("activity", cluster=self.cluster), QueryStatus),
            (diagnosis_row(cluster=self.cluster), DiagnosisStatus),
        ):
            assert row.value is not None
            reported: Any = decode(row.value, kind)
            changes: dict[str, Any] = {"updated_at_ms": at_ms, "read_until_ms": at_ms}
            changes |= {"probed_at_ms": at_ms} if kind is DiagnosisStatus else {"last_batch_at_ms": at_ms}
            rows.append(Row(STATUS, row.key, encode(replace(reported, **changes))))
        return rows


@contextmanager
def exporting(directory: Path, main: EmbeddedKafka, further: EmbeddedKafka) -> Iterator[str]:
    """Run the exporter's process for two clusters; yield its address."""
    (port,) = find_free_ports(1)
    web, config, log = directory / "web.yml", directory / "config.toml", directory / "export.log"
    web.write_text(f"basic_auth_users: {{{AUTH[0]}: {hash_password(AUTH[1])}}}\n")
    config.write_text(
        f"""
[kafka]
"bootstrap.servers" = "{main.bootstrap}"
[export]
listen_host = "127.0.0.1"
listen_port = {port}
web_config_file = "{web}"
health_without_password = true
stale_after_seconds = 3600
[[export.further_clusters]]
cluster = "west"
kafka = {{"bootstrap.servers" = "{further.bootstrap}"}}
"""
    )
    command = [sys.executable, "-m", "rebalance_deploy", "export", "--config", str(config)]
    with ChildProcess(command, log_path=log) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: fetch(f"{url}/-/healthy")[0] == 200, log.read_text, **PATIENCE)
        yield url
        assert process.is_running, log.read_text()
        assert "Traceback" not in log.read_text()


def log_of(directory: Path) -> Callable[[], str]:
    """Return the exporter's log."""
    return (directory / "export.log").read_text


def generations(url: str) -> dict[tuple[str, str], int]:
    """Return the shown generations by cluster and group."""
    answer = httpx.get(f"{url}/api/v1/groups", auth=AUTH, timeout=60).json()
    return {(each["cluster"], each["group"]): each["generation"] for each in answer["groups"]}


def ready(url: str) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{url}/-/ready", headers={"accept": "application/json"}, timeout=60)
    return answer.status_code, answer.json()


def silence(url: str, cluster: str) -> httpx.Response:
    wanted = {"cluster": cluster, "groups": ["*"], "reason": "upgrade", "duration_ms": 600_000}
    return httpx.post(f"{url}/api/v1/silences", json=wanted, auth=AUTH, timeout=60)


def test_a_cluster_whose_brokers_are_away_leaves_the_other_right(
    tmp_path: Path, make_broker: Callable[..., EmbeddedKafka]
) -> None:
    """At a start or later, it is named and keeps its last state; the other one stays ready, with its silences.

    Rows about the other cluster are ignored, whoever writes them.
    """
    east_broker, west_broker = make_broker(), make_broker()
    for broker in (east_broker, west_broker):
        for name in TOPICS:
            create_topic(broker.bootstrap, PREFIX + name)
    east, west = Stream("east", east_broker.bootstrap), Stream("west", west_broker.bootstrap)
    east.publish(east.group("forged", 66, cluster="west"), east.group("orders", 1), *east.well())
    west.publish(west.group("forged", 66, cluster="east"), west.group("orders", 1), *west.well())
    west_broker.stop()
    with exporting(tmp_path, east_broker, west_broker) as url:
        wait_for(lambda: ready(url)[1]["partly"], lambda: ready(url), **PATIENCE)
        status, reported = ready(url)
        assert status == 200
        assert "[cluster west]" in reported["text"]
        assert generations(url) == {("east", "orders"): 1}

        west_broker.start()
        wait_for(lambda: ready(url)[1]["ready"], lambda: ready(url), **PATIENCE)
        assert generations(url) == {("east", "orders"): 1, ("west", "orders"): 1}

        west_broker.stop()
        east.publish(east.group("orders", 2), east.group("payments", 1), *east.well())
        shown = {("east", "orders"): 2, ("east", "payments"): 1, ("west", "orders"): 1}
        wait_for(lambda: generations(url) == shown, lambda: generations(url), **PATIENCE)
        assert ready(url)[0] == 200
        wait_for(lambda: silence(url, "east").status_code == 201, log_of(tmp_path), **PATIENCE)
        assert silence(url, "west").status_code == 503

        west_broker.start()
        west.publish(west.group("orders", 3), *west.well())
        shown = {**shown, ("west", "orders"): 3}
        wait_for(lambda: generations(url) == shown, lambda: generations(url), **PATIENCE)
        # The producer's own connection may take some seconds longer to reopen.
        wait_for(lambda: silence(url, "west").status_code == 201, log_of(tmp_path), **PATIENCE)
