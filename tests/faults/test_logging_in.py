"""The whole monitor with a broker that requires a certificate, a password or a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.reporting import Figures
from rebalance_deploy.counts import fetch
from rebalance_deploy.local import PROCESSES
from rebalance_deploy.monitor import Monitor, loopback_sources
from spark.securing import secured
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(3_600)]

WAYS = ("mTLS", "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER OIDC")
_SERVING = "serving on "


@pytest.mark.faults(35, fast=0, full=1)
def test_all_three_processes_get_in_each_way(tmp_path: Path, figures: Figures):
    """Each method has a listener of its own, which rejects clients without it; stream, prober, exporter get ready."""
    let_in: list[tuple[str, str]] = []
    (place_directory := tmp_path / "secured").mkdir()
    with secured(place_directory) as place:
        for way in WAYS:
            kafka = dict(place.ways_in()[way])
            bootstrap, logs = kafka.pop("bootstrap.servers"), tmp_path / way.split()[0].lower()
            logs.mkdir()
            flags = ("stream.topic_replication_factor=1", f"topic_prefix={logs.name}.")
            with pytest.MonkeyPatch.context() as environment:
                for name, value in kafka.items():
                    environment.setenv(f"REBALANCE_MONITOR_KAFKA_{name.upper().replace('.', '_')}", value)
                with Monitor(loopback_sources(bootstrap, logs, *flags), logs):
                    let_in += [(way, name) for name in PROCESSES if gets_ready(logs / f"{name}.log")]
    figures.note("processes ready", len(let_in), "of 12")
    assert let_in == [(way, name) for way in WAYS for name in PROCESSES]


def gets_ready(log: Path) -> bool:
    """Wait until a process reports at its own port that it is ready."""

    def url() -> str:
        said = [line for line in log.read_text().splitlines() if _SERVING in line] if log.exists() else []
        return said[0].partition(_SERVING)[2].removesuffix("/metrics") if said else ""

    def is_ready() -> bool:
        return bool(url()) and fetch(f"{url()}/-/ready")[0] == 200

    return wait_for(is_ready, lambda: log.read_text()[-2_000:] if log.exists() else log, 300, every=0.5)
