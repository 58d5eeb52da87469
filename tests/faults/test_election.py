"""A log whose newest records are lost in an election, on three real brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from e2e.rig import READY_SECONDS, Rig
from faults.observing import end_of, total
from faults.written_log import WATCHED, WrittenLog, create
from rebalance_deploy.embedded.kafka import SHORT_SESSION, EmbeddedKafka
from rebalance_deploy.monitor import Monitor, loopback_sources
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

#: Broker 1 is the controller and has the monitor's own topics; the log is on the other two.
_LEADER, _FOLLOWER = 2, 3
_CUT, _NEW = 10, 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """Three brokers, with the monitor's topics on each."""
    config = {
        **SHORT_SESSION,
        "default.replication.factor": "3",
        # Spark's source queries the coordinator of its own group for the start offset: no broker that dies may be it.
        "offsets.topic.replication.factor": "3",
        "min.insync.replicas": "1",
        "replica.lag.time.max.ms": "2000",
        "controlled.shutdown.enable": "true",
    }
    with EmbeddedKafka(tmp_path / "brokers", brokers=3, config=config) as running:
        yield running


def _ends_at(cluster: EmbeddedKafka, end: int) -> bool:
    """Whether the log ends there; during an election brokers may not answer (UNKNOWN_LEADER_EPOCH)."""
    try:
        return end_of(cluster.bootstrap, WATCHED) == end
    except (KafkaException, TimeoutError):
        return False


@pytest.fixture
def log(cluster: EmbeddedKafka, tmp_path: Path) -> Iterator[WrittenLog]:
    """A log of one partition, with five generations that a monitor has counted."""
    create(cluster.bootstrap, [[_LEADER, _FOLLOWER]], **{"unclean.leader.election.enable": "true"})
    flags = (f"stream.source_topic={WATCHED}", "stream.topic_replication_factor=3")
    sources = loopback_sources(cluster.bootstrap, tmp_path, *flags)
    with Monitor(sources, tmp_path) as monitor:
        monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
        written = WrittenLog(cluster.bootstrap, Rig(cluster, monitor.url, tmp_path, monitor=monitor), partitions=1)
        written.write_generations("lasting", 5)
        written.await_generations("lasting")
        yield written


def cut(cluster: EmbeddedKafka, log: WrittenLog, *, is_stopped: bool) -> None:
    """Let the follower miss the newest records, then lead; if the stream was stopped meanwhile, start it again."""
    stream = log.rig.monitor.stream
    cluster.kill(_FOLLOWER)
    log.write_generations("lasting", _CUT)
    log.await_generations("lasting")
    end = end_of(cluster.bootstrap, WATCHED)
    if is_stopped:
        assert stream.process.terminate(45) == 0
    cluster.kill(_LEADER)
    cluster.start(_FOLLOWER)
    wait_for(lambda: _ends_at(cluster, end - _CUT), "the follower to lead", 120)
    if is_stopped:
        stream.start()


def check_counted(cluster: EmbeddedKafka, log: WrittenLog) -> None:
    """Check that the truncation is reported once, all later generations are counted, none is reported as skipped."""
    for query in ("membership", "activity"):
        wait_for(lambda: total(log.rig, "log_rewinds_total", query=query, topic=WATCHED) == 1, "a rewind", 120)  # noqa: B023
    log.write_generations("lasting", _NEW)
    log.await_generations("lasting")
    for query in ("membership", "activity"):
        assert total(log.rig, "log_lost_positions_total", query=query, topic=WATCHED) == _CUT
    cluster.start(_LEADER)
    log.write_generations("lasting", 2)
    log.await_generations("lasting")
    for query in ("membership", "activity"):
        assert total(log.rig, "log_rewinds_total", query=query, topic=WATCHED) == 1
        assert total(log.rig, "log_skipped_positions_total", query=query, topic=WATCHED) == 0
    log.rig.monitor.check()


@pytest.mark.faults(10, fast=0, full=1)
def test_a_tail_that_an_election_cut_is_told_and_later_rebalances_count(cluster: EmbeddedKafka, log: WrittenLog):
    """The follower misses the newest records, the leader dies, the follower leads: one rewind, then all is counted."""
    cut(cluster, log, is_stopped=False)
    check_counted(cluster, log)


@pytest.mark.faults(10, fast=0, full=1)
def test_a_tail_that_was_cut_while_the_stream_was_stopped_costs_nothing(cluster: EmbeddedKafka, log: WrittenLog):
    """The queries continue with the new era at once; records from before the start look like old ones."""
    cut(cluster, log, is_stopped=True)
    check_counted(cluster, log)
