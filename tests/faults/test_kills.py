"""Processes and brokers that die while a group rebalances: counts continue, and everything recovers by itself."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from e2e.replaying import assert_facts_and_causes_agree
from e2e.rig import DEADLINE_SECONDS, KUBERNETES, READY_SECONDS, Rig, running_rig, samples
from faults.churn import churning, groups_of, is_calm
from faults.observing import (
    CONFIG,
    COUNTED_BY_EXPORTERS,
    assert_counted,
    assert_records_counted,
    await_back,
    await_first_row,
    await_judgement,
    causes_of,
    decoded_rows,
    diagnosis_of,
    end_of,
    judged_at_ms,
    jvm_of,
    note_back,
    open_findings,
    parents_of_workers,
    processes,
    rebalances_of,
    resident_bytes,
    restarts,
    running_batch,
    total,
    worker_of,
)
from faults.reporting import IS_FULL, Figures
from rebalance_contract import Finding, GroupLag
from rebalance_contract.topics import LAG
from rebalance_deploy import jars
from rebalance_deploy.counts import fetch
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.embedded import DEFAULT_VERSION
from rebalance_deploy.embedded.kafka import SHORT_SESSION
from rebalance_deploy.jdk import find_java
from rebalance_deploy.local import Supervised
from rebalance_deploy.ports import find_free_port
from rebalance_devtools.bench import fill
from rebalance_streaming.wire.partitioner import partition_for_group
from rebalance_streaming.wire.records import OFFSETS_TOPIC
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_STOP_SECONDS = 45.0
#: Ranges of the random time of a kill: some batches, and a start of the stream.
_SOME_BATCHES_SECONDS, _START_SECONDS = 3.0, 15.0
_OUTAGES_SECONDS = (120.0, 420.0) if IS_FULL else (5.0,)
_BULK_COMMITS = 20_000
#: Longer than the diagnosis waits for a prober.
_AWAY_SECONDS = 45.0
_TRANSACTIONAL, _OPEN_SECONDS, _TOLD_SECONDS = "transactional", 120.0, 30.0
_THROTTLED_SECONDS, _GROWTH_BYTES = 180.0, 150_000_000
#: Per second. The list of faults has 10 kB/s; the rows of one group that rebalances all the time need less than that.
_THROTTLED_BYTES = 1_024

#: Series whose value is calculated at the scrape.
_BY_THE_CLOCK = ("kafka_rebalance_group_commit_age_seconds",)

never = threading.Event()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A broker and a monitor whose parts are killed; each test leaves both complete.

    The exporter has the same port at each of its starts.
    """
    with pytest.MonkeyPatch.context() as environment:
        for name, value in KUBERNETES.items():
            environment.setenv(name, value)
        directory, port = tmp_path_factory.mktemp("kills"), f"export.listen_port={find_free_port()}"
        partitions = {"offsets.topic.num.partitions": str(fill.LOG_PARTITIONS)}
        with running_rig(directory, port, **SHORT_SESSION, **partitions) as running:
            yield running


def start_again(rig: Rig, supervised: Supervised, topic: str, figures: Figures) -> None:
    """Start a process again and wait for the first row that it writes to a topic."""
    before, began = end_of(rig.broker.bootstrap, topic), time.monotonic()
    supervised.start()
    wait_for(lambda: end_of(rig.broker.bootstrap, topic) > before, "the first output", READY_SECONDS, every=0.2)
    note_back(figures, began)


def kill_driver(rig: Rig, *, jvm: bool) -> None:
    """Kill one of the two processes of Spark's driver; the other one must exit too."""
    supervised = rig.monitor.stream.process
    os.kill(jvm_of(rig) if jvm else supervised.pid, signal.SIGKILL)
    # Without its JVM the stream cannot work: the supervisor has to notice.
    assert supervised.wait(60) != 0
    last = supervised.log_path.read_text().splitlines()[-1]
    assert not jvm or last.startswith("rebalance-monitor: Spark's JVM ended"), last
    # It has exited; this cleans up its handles.
    supervised.kill()


def await_moment(chance: random.Random, longest: float) -> None:
    """Wait for a random time, so that kills hit different moments."""
    never.wait(chance.uniform(0, longest))


def spec(group: str, name: str) -> ConsumerSpec:
    """Return the specification of a consumer."""
    return ConsumerSpec("confluent-kafka", group, "orders", f"{group}-{name}", session_timeout_ms=6_000)


@pytest.mark.faults(1, fast=0, full=20)
def test_a_driver_that_is_killed_loses_nothing(rig: Rig, rounds: int, figures: Figures):
    """Python's half or the JVM, during batches or at a start: the other half exits too, and the next run continues."""
    chance, group = random.Random(1), "driver-kills"
    with churning(rig, group) as churn:
        for number in range(rounds):
            await_moment(chance, _SOME_BATCHES_SECONDS)
            kill_driver(rig, jvm=number % 2 == 1)
            if number % 4 == 3:
                rig.monitor.stream.start()
                await_moment(chance, _START_SECONDS)
                rig.monitor.stream.process.kill()
            churn.await_cycles()
            start_again(rig, rig.monitor.stream, CONFIG.groups_topic, figures)
    assert_counted(rig, *groups_of(group))
    assert_facts_and_causes_agree(rig, is_calm)
    rig.monitor.check()


@pytest.mark.faults(2, fast=0, full=20)
def test_python_workers_that_are_killed_cost_no_count(rig: Rig, rounds: int, figures: Figures):
    """Whatever a worker was doing, its task is retried: no query ends, no rebalance and no record is lost.

    All are forked from one process, which uses as much memory as two of them.
    """
    before, group = restarts(rig), "worker-kills"
    for _ in range(rounds):
        with churning(rig, group) as churn:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker_of(rig), signal.SIGKILL)
            await_back(rig, churn, figures)
        # Spark notices a dead worker when it needs one. Four at once would exceed a task's attempts.
        assert_counted(rig, *groups_of(group))
    assert restarts(rig) == before
    assert len(parents_of_workers(rig)) == 1
    assert_facts_and_causes_agree(rig, is_calm)


@pytest.mark.faults(3, fast=0, full=20)
@pytest.mark.parametrize("query", ["membership", "activity"])
def test_a_batch_that_was_written_and_not_committed_counts_once(rig: Rig, rounds: int, query: str, figures: Figures):
    """The JVM is killed at the first row that a batch writes; kills after its commit do not count."""
    topic = {"membership": CONFIG.groups_topic, "activity": CONFIG.activity_topic}[query]
    group, hits, tries = f"aimed-{query}", 0, 0
    # Half of the rounds for each half.
    wanted = -(-rounds // 2)
    with churning(rig, group):
        while hits < wanted:
            tries += 1
            assert tries <= 4 * wanted, f"{hits} of {tries} kills hit"
            await_first_row(rig, topic)
            os.kill(jvm_of(rig), signal.SIGKILL)
            hits += running_batch(rig, query) is not None
            rig.monitor.stream.process.wait(60)
            rig.monitor.stream.process.kill()
            start_again(rig, rig.monitor.stream, CONFIG.groups_topic, figures)
    figures.note("kills for each hit", tries / hits, "")
    assert_counted(rig, *groups_of(group))
    assert_facts_and_causes_agree(rig, is_calm)


@pytest.mark.slow
def test_a_diagnosis_that_is_killed_comes_back_alone(rig: Rig):
    """Membership and activity continue meanwhile; open findings are open again, with the same ids."""
    rig.start(spec("judged", "a"))
    wait_for(lambda: open_findings(rig), "something to be found")
    before, found = restarts(rig), open_findings(rig)
    killed = diagnosis_of(rig)
    os.kill(killed, signal.SIGKILL)
    rig.start(spec("judged", "b"))
    assert_counted(rig, "judged")
    back_ms = wait_for(lambda: killed not in processes(rig, "diagnosis.worker") and judged_at_ms(rig), "it to be gone")
    assert diagnosis_of(rig) != killed
    wait_for(lambda: judged_at_ms(rig) > back_ms, "the diagnosis to judge again")
    assert found.items() <= open_findings(rig).items()
    after = wait_for(lambda: (now := restarts(rig)) != before and now, "the restart to be told")
    assert after == {**before, "diagnosis": before["diagnosis"] + 1}
    for name in "ab":
        rig.leave(spec("judged", name))


@pytest.mark.faults(5, fast=0, full=20)
def test_a_prober_that_is_killed_makes_nothing_up(rig: Rig, rounds: int, figures: Figures):
    """A steady group has no findings, and the causes of rebalances are those of a replay."""
    group, steady = "prober-kills", "steady"
    # With settings that give no findings either.
    members = [replace(spec(steady, name), session_timeout_ms=45_000) for name in "ab"]
    for each in members:
        rig.start(each)
    chance, probe = random.Random(5), rig.monitor.probe
    assert_counted(rig, steady)
    # Its own rebalances have their causes by then: later findings are due to the kills.
    wait_for(lambda: causes_of(rig, steady) == rebalances_of(rig, steady), "causes of its beginning", 240, every=1)
    first_ms = int(time.time() * 1000)
    with churning(rig, group) as churn:
        for number in range(rounds):
            await_moment(chance, _SOME_BATCHES_SECONDS)
            os.kill(probe.process.pid, signal.SIGKILL)
            assert probe.process.wait(60) != 0
            probe.process.kill()
            if number % 5 == 4:
                await_moment(chance, _AWAY_SECONDS)
            churn.await_cycles()
            start_again(rig, probe, CONFIG.probes_topic, figures)
    assert_counted(rig, steady, *groups_of(group))
    await_judgement(rig)
    made_up = {
        (each.group, each.rule)
        for each in decoded_rows(rig, CONFIG.findings_topic, Finding)
        if each.detected_at_ms >= first_ms and each.group not in groups_of(group)
    }
    assert made_up == set()
    assert_facts_and_causes_agree(rig, is_calm)
    rig.monitor.check()
    for each in members:
        rig.leave(each)


@pytest.mark.faults(21, fast=0, full=10)
def test_two_probers_and_two_exporters_show_the_same(rig: Rig, rounds: int, figures: Figures, tmp_path: Path):
    """After any of them was killed, once the log has been read no series of any group differs.

    Except the time in states and the number of findings, which each exporter counts from its own start.
    """
    group, chance = "doubled", random.Random(21)
    port = find_free_port()
    sources = replace(
        rig.monitor.export.sources, flags=(*rig.monitor.export.sources.flags, f"export.listen_port={port}")
    )
    probe, export = Supervised("probe", sources, tmp_path), Supervised("export", sources, tmp_path)
    pair = (rig.monitor.url, f"http://127.0.0.1:{port}")
    with ExitStack() as stack:
        for each in (probe, export):
            each.start()
            stack.callback(lambda each=each: each.process.terminate(45))
        for number in range(rounds):
            with churning(rig, group) as churn:
                await_moment(chance, _SOME_BATCHES_SECONDS)
                killed = (probe, export, rig.monitor.probe, rig.monitor.export)[number % 4]
                os.kill(killed.process.pid, signal.SIGKILL)
                killed.process.wait(60)
                killed.process.kill()
                churn.await_cycles()
                began = time.monotonic()
                killed.start()
                for url in pair:
                    wait_for(lambda: fetch(f"{url}/-/ready")[0] == 200, lambda: fetch(f"{url}/-/ready"), READY_SECONDS)  # noqa: B023
                if killed.name == "export":
                    note_back(figures, began)
            assert_counted(rig, *groups_of(group))
            wait_for(lambda: not differing(*pair), lambda: differing(*pair), DEADLINE_SECONDS, every=0.5)
            figures.note("series", len(series_of(pair[0])), "")
    rig.monitor.check()


def series_of(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return an exporter's series about groups, except those that begin with it."""
    return {
        (name, tuple(sorted(labels.items()))): value
        for name, labels, value in samples(url)
        if "group" in labels and name not in COUNTED_BY_EXPORTERS
    }


def differing(one: str, other: str) -> dict[object, tuple[float | None, float | None]]:
    """Return the differing series of groups; those that grow with the clock may differ by the time between scrapes."""
    began = time.monotonic()
    first, second = series_of(one), series_of(other)
    passed = time.monotonic() - began
    return {
        series: (first.get(series), second.get(series))
        for series in first.keys() | second.keys()
        if abs(first.get(series, -1e9) - second.get(series, -1e9)) > (passed if series[0] in _BY_THE_CLOCK else 0)
    }


@pytest.mark.faults(15, fast=0, full=1)
def test_an_open_transaction_delays_no_rebalance(rig: Rig, figures: Figures):
    """Rebalances beside it, in the same partition of the log, are reported at once; aborted commits never count.

    It is open for two minutes; the duration makes no difference to readers of uncommitted records.
    """
    settings = {"bootstrap.servers": rig.broker.bootstrap, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "open", "transaction.timeout.ms": 600_000})
    partition = partition_for_group(_TRANSACTIONAL, fill.LOG_PARTITIONS)
    names = (f"beside-{number}" for number in itertools.count())
    group = next(each for each in names if partition_for_group(each, fill.LOG_PARTITIONS) == partition)
    consumer = Consumer({**settings, "group.id": _TRANSACTIONAL})
    producer.init_transactions(60)
    producer.begin_transaction()
    place = TopicPartition("orders", 0, 5)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 60)
    ends = time.monotonic() + _OPEN_SECONDS
    rig.start(spec(group, "stays"))
    while time.monotonic() < ends:
        for change in (rig.start, rig.leave):
            change(spec(group, "passes"))
            began = time.monotonic()
            wait_for(lambda: rig.counts().get(group) == rig.expected_counts()[group], group, DEADLINE_SECONDS)
            figures.note("told after", time.monotonic() - began, "s")
            assert time.monotonic() - began <= _TOLD_SECONDS
    producer.abort_transaction(60)
    consumer.close()
    rig.leave(spec(group, "stays"))
    assert_counted(rig, group)
    # Probes see the group, as its coordinator does, but none of its commits.
    reported = [
        each.topics
        for each in decoded_rows(rig, LAG.full_name(CONFIG.topic_prefix), GroupLag)
        if each.group == _TRANSACTIONAL
    ]
    assert not any(reported), reported
    assert_facts_and_causes_agree(rig, is_calm)


@pytest.mark.faults(37, fast=0, full=1)
def test_a_monitor_that_may_hardly_write_catches_up(rig: Rig, figures: Figures):
    """With a quota for each producer, for three minutes: memory is stable, the delay is reported, then all is counted.

    Its alert fires when readiness has reported a delay for three minutes (deploy/prometheus/tests/monitor.yml).
    """
    group, pid, reported = "throttled", jvm_of(rig), Counter[int]()
    with churning(rig, group) as churn:
        before = resident_bytes(pid)
        limit_producers(rig, "--add-config", f"producer_byte_rate={_THROTTLED_BYTES}")
        try:
            ends = time.monotonic() + _THROTTLED_SECONDS
            while time.monotonic() < ends:
                churn.await_cycles()
                figures.note("JVM grew by", (resident_bytes(pid) - before) / 1e6, "MB")
                reported[fetch(f"{rig.monitor.url}/-/ready")[0]] += 1
        finally:
            limit_producers(rig, "--delete-config", "producer_byte_rate")
        began = time.monotonic()
    assert_counted(rig, *groups_of(group))
    figures.note("all counted", time.monotonic() - began, "s")
    figures.note("delay told", 100 * reported[503] / reported.total(), "% of the time")
    assert reported[503] > 0, reported
    assert resident_bytes(pid) - before <= _GROWTH_BYTES
    assert jvm_of(rig) == pid
    assert_facts_and_causes_agree(rig, is_calm)
    rig.monitor.check()


def limit_producers(rig: Rig, *change: str) -> None:
    """Change the default quota of all clients."""
    jar_paths = jars.classpath(f"broker-{DEFAULT_VERSION}")
    command = [find_java().executable, "-Xmx128m", "-cp", jar_paths, "kafka.admin.ConfigCommand", "--alter", *change]
    command += ["--bootstrap-server", rig.broker.bootstrap, "--entity-type", "clients", "--entity-default"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.faults(6, fast=0, full=2)
def test_brokers_that_are_away_for_minutes_cost_nothing(rig: Rig, figures: Figures):
    """No process ends; after the outage everything is counted, and findings from meanwhile are delivered."""
    group = "outage"
    for seconds in _OUTAGES_SECONDS:
        with churning(rig, group) as churn:
            rig.broker.stop()
            # The outage itself.
            never.wait(seconds)
            rig.broker.start()
            await_back(rig, churn, figures)
        assert_counted(rig, *groups_of(group))
        await_judgement(rig)
        rig.monitor.check()
    assert_facts_and_causes_agree(rig, is_calm)


@pytest.mark.faults(7, fast=0, full=3)
def test_a_stop_is_obeyed_while_brokers_are_away(rig: Rig, rounds: int, figures: Figures):
    """At once and later in an outage: stream, prober and exporter stop in time, and continue afterwards."""
    group = "stopped"
    for number in range(rounds):
        with churning(rig, group) as churn:
            rig.broker.stop()
            # How long the brokers have been down when the signal is sent.
            never.wait(20.0 * number)
            for name, seconds in stop_all(rig).items():
                figures.note(name, seconds, "s")
                assert seconds <= _STOP_SECONDS, f"{name} took {seconds:.0f} s to stop"
            rig.broker.start()
            for each in all_processes(rig):
                each.start()
            rig.monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
            churn.await_cycles()
        assert_counted(rig, *groups_of(group))
    assert_facts_and_causes_agree(rig, is_calm)


def all_processes(rig: Rig) -> tuple[Supervised, ...]:
    """Return the monitor's three processes."""
    return rig.monitor.stream, rig.monitor.probe, rig.monitor.export


def stop_all(rig: Rig) -> dict[str, float]:
    """Send SIGTERM to all three processes, and return the time each took to exit."""
    began = time.monotonic()
    for each in all_processes(rig):
        each.process.request_stop()
    found = {}
    for each in all_processes(rig):
        wait_for(lambda: not each.process.is_running, f"{each.name} to end", 2 * _STOP_SECONDS)  # noqa: B023
        found[f"{each.name} stopped"] = time.monotonic() - began
        assert each.process.terminate() == 0, each.name
    return found


@pytest.mark.faults(8, fast=0, full=10)
def test_a_broker_that_dies_in_the_middle_of_a_batch_costs_nothing(rig: Rig, rounds: int, figures: Figures):
    """The batch is repeated; a log whose end is temporarily unknown is not taken for a truncated one."""
    group = "broker-kills"
    with churning(rig, group) as churn:
        for number in range(rounds):
            # Commits of a separate group, enough to make a batch slow.
            write_commits(rig, f"bulk-{number}")
            query = ("activity", "membership")[number % 2]
            wait_for(lambda: running_batch(rig, query) is not None, "a batch", every=0)  # noqa: B023
            rig.broker.kill()
            rig.broker.start()
            await_back(rig, churn, figures)
    # The broker may have logged a generation that it did not write any more, so the offsets topic is the truth here.
    assert_records_counted(rig)
    assert_facts_and_causes_agree(rig, is_calm)
    assert total(rig, "log_rewinds_total") == total(rig, "log_skipped_positions_total") == 0
    rig.monitor.check()


def write_commits(rig: Rig, group: str) -> None:
    """Let a group without members commit very often."""
    settings = {
        "bootstrap.servers": rig.broker.bootstrap,
        "client.id": "__admin_client",
        "queue.buffering.max.messages": 2 * _BULK_COMMITS,
        "log_level": 0,
    }
    producer, now_ms = Producer(settings), int(time.time() * 1000)
    partition = partition_for_group(group, fill.LOG_PARTITIONS)
    for number in range(_BULK_COMMITS):
        key = fill.commit_key(group, "orders", number % 4)
        producer.produce(OFFSETS_TOPIC, fill.commit_value(number, now_ms), key, partition)
    assert producer.flush(60) == 0


@pytest.mark.faults(39, fast=0, full=1)
def test_services_of_kubernetes_are_no_settings(rig: Rig):
    """All three processes run with the environment variables that a container gets for services with similar names."""
    for each in all_processes(rig):
        environment = Path(f"/proc/{each.process.pid}/environ").read_bytes().split(b"\0")
        assert {f"{name}={value}".encode() for name, value in KUBERNETES.items()} <= set(environment)
    rig.monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
    rig.monitor.check()
