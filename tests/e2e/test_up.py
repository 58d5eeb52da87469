"""`rebalance-monitor up`, as a person starts it."""

import sys
import time
from pathlib import Path

import pytest

from rebalance_deploy.broker import EmbeddedBroker
from rebalance_deploy.counts import fetch
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(180)]


def test_up_gets_ready_and_stops_in_order(broker: EmbeddedBroker, tmp_path: Path):
    """One command against any cluster: ready within two minutes, and SIGTERM ends everything with exit code 0."""
    log = tmp_path / "up.log"
    command = [
        *(sys.executable, "-m", "rebalance_deploy", "up", "--bootstrap-server", broker.bootstrap),
        *("--set", "export.listen_host=127.0.0.1", "--set", "export.listen_port=0"),
        *("--set", f"stream.checkpoint={tmp_path / 'checkpoint'}", "--set", "topic_prefix=up."),
    ]
    with ChildProcess(command, log_path=log, grace_seconds=60) as up:
        wait_for(lambda: "serving on " in log.read_text(), log.read_text)
        url = log.read_text().partition("serving on ")[2].split()[0].removesuffix("/metrics")
        wait_for(lambda: fetch(f"{url}/-/ready")[0] == 200, lambda: fetch(f"{url}/-/ready"), 120)
        began = time.monotonic()
        assert up.terminate(60) == 0, log.read_text()
        assert time.monotonic() - began < 60
    assert "Traceback" not in log.read_text()
