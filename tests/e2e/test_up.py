"""`rebalance-monitor up`, as a person starts it."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from e2e.pages import page
from rebalance_deploy.counts import fetch
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(600)]

#: The prober says the same of itself.
SERVING = re.compile(r"export: serving on (\S+)/metrics")


def test_up_gets_ready_and_stops_in_order(broker: EmbeddedKafka, tmp_path: Path):
    """Ready within two minutes, SIGHUP reads the owner file again, and SIGTERM ends everything with exit code 0."""
    log = tmp_path / "up.log"
    owners = tmp_path / "owners.toml"
    owners.write_text("")
    command = [
        *(sys.executable, "-m", "rebalance_deploy", "up", "--bootstrap-server", broker.bootstrap),
        *("--set", "export.listen_host=127.0.0.1", "--set", "export.listen_port=0", "--set", "probe.listen_port=0"),
        *("--owners.file", str(owners)),
        *("--set", f"stream.checkpoint={tmp_path / 'checkpoint'}", "--set", "topic_prefix=up."),
    ]
    with ChildProcess(command, log_path=log, grace_seconds=60) as up:
        found = wait_for(lambda: SERVING.search(log.read_text()), log.read_text)
        url = found[1]
        wait_for(lambda: fetch(f"{url}/-/ready")[0] == 200, lambda: fetch(f"{url}/-/ready"), 300)
        read_ms = last_read(url)
        os.kill(up.pid, signal.SIGHUP)
        wait_for(lambda: last_read(url) > read_ms, log.read_text)
        before = len(log.read_text())
        assert up.terminate(60) == 0, log.read_text()
    # Spark's own workers may have had to be started again on a busy machine.
    assert "Traceback" not in log.read_text()[before:]


def last_read(url: str) -> float:
    """Return when the exporter last read the owner file, in seconds since 1970."""
    name = 'kafka_rebalance_monitor_config_reload_success_timestamp_seconds{file="owners"}'
    found = re.search(rf"^{re.escape(name)} (\S+)$", page(f"{url}/metrics"), re.MULTILINE)
    assert found, name
    return float(found[1])
