"""Two streams of one cluster: the newcomer takes over, the other one exits soon, and every rebalance counts once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.rig import Rig, read_topic, running_rig
from faults.churn import churning, groups_of
from faults.observing import CONFIG, assert_counted, await_back, watching_counters
from faults.reporting import Figures
from rebalance_contract import QueryStatus, decode_status
from rebalance_contract.epochs import SUPERSEDED_EXIT_CODE
from rebalance_deploy.embedded.kafka import SHORT_SESSION
from rebalance_deploy.local import Supervised
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_END_SECONDS = 10.0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A broker and a monitor."""
    with running_rig(tmp_path, **SHORT_SESSION) as running:
        yield running


@pytest.mark.faults(20, fast=0, full=5)
def test_a_newcomer_takes_over_and_the_other_stream_ends(rig: Rig, rounds: int, figures: Figures):
    """Both have the same checkpoint, as when a pod is replaced whose node is unreachable."""
    group = "two-streams"
    with churning(rig, group) as churn, watching_counters(rig):
        for number in range(rounds):
            churn.await_cycles()
            loser = rig.monitor.stream
            directory = rig.directory / f"newcomer-{number}"
            directory.mkdir()
            rig.monitor.stream = Supervised("stream", loser.sources, directory)
            rig.monitor.stream.start()
            wait_for(lambda: is_claimed(rig), "the newcomer to take over", every=0.2)
            began = time.monotonic()
            assert loser.process.wait(60) == SUPERSEDED_EXIT_CODE
            figures.note("ended after", time.monotonic() - began, "s")
            assert loser.process.log_path is not None
            last = loser.process.log_path.read_text().splitlines()[-1]
            assert f"process {rig.monitor.stream.process.pid}) took over the " in last, last
            assert "Run one stream per cluster" in last, last
            # It has exited; this cleans up its handles.
            loser.process.kill()
            await_back(rig, churn, figures)
            churn.await_cycles()
    assert_counted(rig, *groups_of(group))
    seconds, _ = figures.worst["ended after"]
    assert seconds <= _END_SECONDS


def is_claimed(rig: Rig) -> bool:
    """Whether the last started stream has published a status."""
    pid = rig.monitor.stream.process.pid
    statuses = (decode_status(value) for _, value in read_topic(rig.broker.bootstrap, CONFIG.status_topic) if value)
    return any(isinstance(each, QueryStatus) and each.pid == pid for each in statuses)
