"""The monitor's own topics are deleted, recreated, or grow while it runs: later rows are read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from e2e.rig import read_topic
from faults.observing import CONFIG, all_statuses, total
from faults.reporting import Figures
from faults.written_log import PARTITIONS, WATCHED, WrittenLog, now_ms, running_log
from rebalance_contract import DiagnosisStatus, GroupSnapshot, Probe, ReportTotals, decode, topics
from rebalance_contract.topics import Topic
from rebalance_devtools.bench import fill
from rebalance_streaming.groups.episodes import MERGE_WITHIN_MS
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

_FIRST_ROW_SECONDS, _BACK_SECONDS = 60.0, 240.0
_APART_SECONDS = MERGE_WITHIN_MS / 1000 + 2


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WrittenLog]:
    """A log written by the test, and a monitor whose topics the test damages."""
    with running_log(tmp_path) as running:
        yield running


def report(client: str, group: str) -> bytes:
    """Return a client's report of its heartbeats."""
    metrics = {"consumer-coordinator-metrics": {"last-heartbeat-seconds-ago": 1.5, "assigned-partitions": 2}}
    document = {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": now_ms(),
        "client": {"client_id": client, "group_id": group, "member_id": "member-0"},
        "metrics": metrics,
    }
    return json.dumps(document).encode()


def name_of(topic: Topic) -> str:
    """Return a topic's full name."""
    return topic.full_name(CONFIG.topic_prefix)


# --- Recreated topics ---


@pytest.mark.faults(13, fast=0, full=1)
def test_rows_come_back_when_own_topics_are_made_anew(log: WrittenLog, figures: Figures):
    """All at once, as in a clean-up: each has rows again once a group continues, and no process ends.

    Only silences come from users, who have to request them again.
    """
    group = "returns"
    await_rows(log, group)
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 0})
    names = [name_of(each) for each in topics.TOPICS]
    for future in admin.delete_topics(names).values():
        future.result(30)
    wait_for(lambda: not admin.list_topics(timeout=30).topics.keys() & set(names), "the topics to be gone")
    anew = [NewTopic(name_of(each), 1, 1, config=dict(each.settings)) for each in topics.TOPICS]
    for future in admin.create_topics(anew).values():
        future.result(30)
    began = time.monotonic()
    await_rows(log, group)
    figures.note("rows in every topic", time.monotonic() - began, "s")
    log.await_generations(group)
    log.rig.monitor.check()


def await_rows(log: WrittenLog, group: str) -> None:
    """Let a group continue until every topic has a row of it, with separate rebalances."""
    missing = [each for each in topics.TOPICS if each != topics.SILENCES]

    def all_are_there() -> bool:
        act(log, group)
        missing[:] = [each for each in missing if not mentions(log, each, group)]
        return not missing

    wait_for(all_are_there, lambda: f"rows of {[each.name for each in missing]}", _BACK_SECONDS, every=_APART_SECONDS)


def act(log: WrittenLog, group: str) -> None:
    """Let a group rebalance and commit, and one of its clients report."""
    log.write_generations(group)
    partition = log.partition_of(group)
    log.write([(partition, fill.commit_key(group, "orders", 0), fill.commit_value(log.generations[group], now_ms()))])
    log.write([(0, b"", report("client", group))], CONFIG.metrics_topic)


def mentions(log: WrittenLog, topic: Topic, group: str) -> bool:
    """Return whether a topic has a row of a group, or any row at all if its rows have no group."""
    rows = read_topic(log.bootstrap, name_of(topic))
    if topic in (topics.STATUS,):
        return any(True for _ in rows)
    return any(group.encode() in (key or b"") + (value or b"") for key, value in rows)


# --- Growth ---


@pytest.mark.faults(14, fast=0, full=1)
def test_new_partitions_of_every_input_are_read(log: WrittenLog, figures: Figures):
    """One more of the log and of each own topic, all at once: each query and the exporter read them."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 0})
    log.write_generations("before", 2)
    log.await_generations("before")
    grown = {WATCHED: PARTITIONS + 1, **{name_of(each): 2 for each in topics.TOPICS}}
    for future in admin.create_partitions([NewPartitions(name, count) for name, count in grown.items()]).values():
        future.result(30)
    for name, count in grown.items():
        wait_for(lambda: len(admin.list_topics(timeout=30).topics[name].partitions) == count, f"{name} to grow")  # noqa: B023
    began = time.monotonic()
    log.write([log.generation("in-a-new-partition", partition=PARTITIONS)])
    probe = Probe(probed_at_ms=now_ms(), cluster=CONFIG.cluster, group="probed", coordinator_id=7)
    log.write([(1, b"probed", msgspec.json.encode(probe))], CONFIG.probes_topic)
    log.write([(1, b"", report("client", "reported"))], CONFIG.metrics_topic)
    for topic in topics.TOPICS:
        if not topic.foreign or "exporter" in topic.readers:
            log.write([(1, b"odd", b"no row")], name_of(topic))
    for what, seen in first_rows(log).items():
        wait_for(seen, what, max(1.0, _FIRST_ROW_SECONDS + began - time.monotonic()), every=0.2)
        figures.note("first row", time.monotonic() - began, "s")
    log.await_generations("before", "in-a-new-partition")
    log.rig.monitor.check()


def first_rows(log: WrittenLog) -> dict[str, Callable[[], object]]:
    """Return checks by reader that a row of each new partition was read."""
    rig = log.rig

    def positions() -> set[str]:
        return {place for each in all_statuses(rig) if isinstance(each, ReportTotals) for place in each.positions}

    def groups() -> set[str]:
        rows = dict(read_topic(log.bootstrap, CONFIG.groups_topic)).items()
        return {decode(value, GroupSnapshot).group for key, value in rows if value and key != b"odd"}

    def diagnosed() -> set[str]:
        reported = [one for each in all_statuses(rig) if isinstance(each, DiagnosisStatus) for one in each.quarantined]
        return {each.stage for each in reported if each.count}

    def is_diagnosed(topic: str) -> bool:
        return topic in diagnosed()

    def refused(topic: str) -> float:
        return total(rig, "contract_errors_total", topic=topic)

    found: dict[str, Callable[[], object]] = {
        "membership to read the log": lambda: "in-a-new-partition" in groups(),
        "membership to read probes": lambda: "probed" in groups(),
        "activity to read probes": lambda: f"{CONFIG.probes_topic}/1" in positions(),
        "activity to read client metrics": lambda: f"{CONFIG.metrics_topic}/1" in positions(),
    }
    for name in ("groups", "rebalances", "activity"):
        found[f"the diagnosis to read {name}"] = partial(is_diagnosed, name)
    for topic in topics.TOPICS:
        if "exporter" in topic.readers:
            found[f"the exporter to read {topic.name}"] = partial(refused, topic.name)
    return found
