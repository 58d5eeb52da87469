"""`rebalance-monitor up`, as started by a user: its pages are right, and it obeys signals.

A start takes a minute, so one serves all tests: each has groups and topics of its own.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e import announcing, hostile_records, lags
from e2e.pages import page
from e2e.rig import READY_SECONDS, Watched
from rebalance_deploy.counts import fetch
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2_400)]

#: The prober logs the same about itself.
SERVING = re.compile(r"export: serving on (\S+)/metrics")


@dataclass
class Up(Watched):
    """A broker, and `rebalance-monitor up` that watches it."""

    process: ChildProcess = field(kw_only=True)
    log: Path = field(kw_only=True)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """It gets ready, and at the end SIGTERM stops everything with exit code 0."""
    directory = tmp_path_factory.mktemp("up")
    log, owners = directory / "up.log", directory / "owners.toml"
    owners.write_text("")
    with EmbeddedKafka() as broker:
        create_topics(broker.bootstrap, {"orders": 4})
        settings = (
            *("export.listen_host=127.0.0.1", "export.listen_port=0", "probe.listen_port=0", "stream.listen_port=0"),
            *(f"stream.checkpoint={directory / 'checkpoint'}", *lags.FLAGS),
        )
        command = [
            *(sys.executable, "-m", "rebalance_deploy", "up", "--bootstrap-server", broker.bootstrap),
            *("--owners.file", str(owners)),
            *(part for each in settings for part in ("--set", each)),
        ]
        with ChildProcess(command, log_path=log, grace_seconds=60) as process:
            found = wait_for(lambda: SERVING.search(log.read_text()), log.read_text, READY_SECONDS)
            url = found[1]
            wait_for(lambda: fetch(f"{url}/-/ready")[0] == 200, lambda: fetch(f"{url}/-/ready"), READY_SECONDS)
            running = Up(broker, url, directory, process=process, log=log)
            try:
                yield running
            finally:
                running.close()
            before = len(log.read_text())
            assert process.terminate(120) == 0, log.read_text()
            # On a busy machine Spark's own workers may have been restarted.
            assert traces(log.read_text()[before:]) == []


def traces(said: str) -> list[str]:
    """Return logged stack traces, without those that py4j logs for a batch interrupted by the stop."""
    entries = re.split(r"^(?=\d{4}-\d\d-\d\dT)", said, flags=re.MULTILINE)
    return [each for each in entries if "Traceback" in each and "(py4j" not in each.partition("\n")[0]]


def test_lag_is_what_the_brokers_say(up: Up):
    """1,000 partitions with various commits; aborted and open transactions; a topic deleted and recreated."""
    lags.hold_lag_is_what_the_brokers_say(up)


def test_hostile_records_are_counted_and_distort_nothing(up: Up):
    """1,000 garbage records: each is counted under its outcome, the monitor stays ready, a healthy group is right."""
    hostile_records.hold_hostile_records_distort_nothing(up, lags.GROUP, lags.TRANSACTIONAL, *announcing.GROUPS)


def test_a_deleted_group_that_returns_goes_on_counting(up: Up):
    """Deletion resets the generation but no total."""
    hostile_records.hold_a_deleted_group_goes_on_counting(up)


def test_a_deploy_is_what_was_announced(up: Up):
    """An announced restart is its cause and sends no notification; other faults are reported."""
    announcing.hold_a_deploy_is_what_was_announced(up)


def test_sighup_reads_the_owner_file_again(up: Up):
    """The exporter reloads it, as the help of `up` says; no process ends."""
    read_ms = last_read(up.url)
    os.kill(up.process.pid, signal.SIGHUP)
    wait_for(lambda: last_read(up.url) > read_ms, up.log.read_text)
    assert up.process.is_running


def last_read(url: str) -> float:
    """Return when the exporter last read the owner file, in seconds since 1970."""
    name = 'kafka_rebalance_monitor_config_reload_success_timestamp_seconds{file="owners"}'
    found = re.search(rf"^{re.escape(name)} (\S+)$", page(f"{url}/metrics"), re.MULTILINE)
    assert found, name
    return float(found[1])
