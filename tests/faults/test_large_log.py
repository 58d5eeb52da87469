"""The first start on a large log with garbage, by a stream that is killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from e2e.hostile_records import hostile_records, write_to_offsets_topic
from e2e.pages import page
from e2e.rig import Rig, count_log
from faults.observing import CONFIG, end_of, jvm_of, restarts
from faults.reporting import Figures
from faults.test_hostile import ALONE, GARBAGE, name_of, odd_rows, write
from rebalance_contract import topics
from rebalance_contract.api import Overview
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.topics import create_topics
from rebalance_devtools.bench.cluster_log import Shape, Truth, filled_broker
from rebalance_streaming.wire.partitioner import partition_for_group
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_SHAPE = Shape()
_HOSTILE_RECORDS, _HOSTILE_PARTITIONS = 2_000, (5, 15, 25, 35, 45)
_LAST_GROUP = "after"
_KEYS = (b"default/group-00000", b"group-00000", b"\xff")
_RIGHT_SECONDS = 600


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A broker with the log of 5,000 groups x 20 partitions, 2 M commits, and a monitor that has just started."""
    with ExitStack() as stack:
        broker = stack.enter_context(filled_broker(_SHAPE, None))
        create_topics(broker.bootstrap, {"orders": 4})
        monitor = stack.enter_context(Monitor(loopback_sources(broker.bootstrap, tmp_path), tmp_path))
        wait_for(lambda: monitor.url, "the exporter to serve", 120)
        rig = Rig(broker, monitor.url, tmp_path, monitor=monitor)
        stack.callback(rig.close)
        yield rig


@pytest.mark.faults(1, fast=0, full=1)
def test_a_first_start_on_a_large_log_outlives_garbage_and_kills(rig: Rig, figures: Figures):
    """Lag of all groups is right and every record counted once, and a later rebalance is counted too."""
    stream = rig.monitor.stream
    # Its topics exist by then.
    wait_for(lambda: "reading the log up" in (rig.directory / "stream.log").read_text(), "the stream's queries", 120)
    records = hostile_records(seed=3)
    # A coordinator that finds foreign records in its partition stops writing: not in the partition of the last group.
    assert partition_for_group(_LAST_GROUP, _SHAPE.source_partitions) not in _HOSTILE_PARTITIONS
    for partition in _HOSTILE_PARTITIONS:
        write_to_offsets_topic(
            rig.broker.bootstrap,
            [next(records) for _ in range(_HOSTILE_RECORDS // len(_HOSTILE_PARTITIONS))],
            partition,
        )
    for topic in topics.TOPICS:
        write(rig, name_of(topic), ((key, value) for value in (*GARBAGE, *odd_rows()) for key in _KEYS), **ALONE)

    # The first rows of activity are out, and those of groups are about to be: a batch of each is interrupted.
    wait_for(lambda: end_of(rig.broker.bootstrap, CONFIG.activity_topic) > len(_KEYS) * len(GARBAGE), "activity", 300)
    os.kill(jvm_of(rig), signal.SIGKILL)
    assert stream.process.wait(60) != 0
    stream.process.kill()
    stream.start()
    wait_for(lambda: end_of(rig.broker.bootstrap, CONFIG.groups_topic) > _SHAPE.groups // 2, "half of the groups", 300)
    stream.process.kill()
    stream.start()

    lags = Truth(_SHAPE).group_lags
    wait_for(
        lambda: shown_lags(rig).items() >= lags.items(),
        lambda: f"right lag, not of {sum(shown_lags(rig).get(group) != lag for group, lag in lags.items())} groups",
        _RIGHT_SECONDS,
        every=2,
    )
    wanted = count_log(rig.broker.bootstrap)
    assert sum(wanted.values()) > _SHAPE.commits
    wait_for(lambda: not wanted - rig.record_totals(), lambda: f"{wanted - rig.record_totals()} to be counted", 120)
    figures.note("records", sum(wanted.values()), "")
    rig.start(ConsumerSpec("confluent-kafka", _LAST_GROUP, "orders", "after-a", session_timeout_ms=6_000))
    wait_for(
        lambda: rig.counts().get(_LAST_GROUP) == rig.expected_counts()[_LAST_GROUP], "the group to be counted", 180
    )
    # No record was counted twice: the log has at least as many records as the counts.
    reported = rig.record_totals()
    assert not reported - count_log(rig.broker.bootstrap)
    assert set(restarts(rig).values()) == {0}
    rig.monitor.check()


def shown_lags(rig: Rig) -> dict[str, int]:
    """Return the lag shown on the page, by group."""
    overview = msgspec.json.decode(page(f"{rig.url}/api/v1/overview"), type=Overview)
    return {row.group: row.lag for row in overview.groups if row.lag is not None}
