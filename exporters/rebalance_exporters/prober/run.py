"""Assembles the prober and runs it until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober import watch_committed, watch_groups, watch_offsets, watch_zookeeper
from rebalance_exporters.prober.brokers import Brokers
from rebalance_exporters.prober.committed import CommittedAsker
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.groups import GroupAsker
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.offsets import OffsetAsker
from rebalance_exporters.prober.publisher import ProbePublisher
from rebalance_exporters.prober.reader import InterestReader
from rebalance_exporters.prober.tasks import EarlyCycle, ErrorLog, Say, Task
from rebalance_exporters.prober.topics import TopicRegistry, ensure_probes_topic
from rebalance_exporters.prober.watch_committed import CommittedWatch
from rebalance_exporters.prober.watch_groups import GroupWatch
from rebalance_exporters.prober.watch_offsets import OffsetWatch
from rebalance_exporters.prober.watch_zookeeper import ZookeeperWatch
from rebalance_exporters.prober.zookeeper import ZooKeeperClient
from rebalance_exporters.web.own_pages import Web, serving_pages
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.properties import librdkafka_properties
from rebalance_kafka.reachability import NoAnswerError, Reachability
from rebalance_kafka.refusals import refusals_as

_JOIN_SECONDS = 20.0
_READ_PERIOD_SECONDS = 0.25

_log = logging.getLogger(__name__)


def run(
    config: ProbeConfig,
    stop: threading.Event,
    say: Say,
    *,
    warn: Say | None = None,
    reload: threading.Event | None = None,
) -> None:
    """Probe until `stop` is set; `say` gets a line once it serves, `warn` one for each problem.

    Without `warn`, `say` gets the problems too. Setting `reload` reads the web config file again. Waits for brokers
    that do not answer, with readiness reporting it. Raises ExporterError for wrong settings, a port that cannot be
    opened, or brokers that do not accept the client.
    """
    problems = config.validate()
    if problems:
        raise ExporterError("; ".join(problems))
    # The prober reports these clients' errors itself, once each, and counts them.
    for name in ("kafka", "kazoo"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    metrics = ProbeMetrics()
    web = Web("probe", config.listen_host, config.listen_port, config.web_config_file, config.health_without_password)
    with contextlib.ExitStack() as stack:
        pages = serving_pages(web, metrics.health, metrics.registry, epoch_ms, reload or threading.Event())
        url = stack.enter_context(pages)
        error_log = ErrorLog(metrics, warn or say)
        say(f"probe: serving on {url}/metrics")
        if not _await_brokers(config, stop, metrics, error_log):
            return
        publisher = stack.enter_context(contextlib.closing(ProbePublisher(config, metrics, error_log)))
        tasks = _make_tasks(config, publisher, metrics, error_log, stack)
        _run_all([publisher.serve, *(task.run for task in tasks)], stop)


def _await_brokers(config: ProbeConfig, stop: threading.Event, metrics: ProbeMetrics, error_log: ErrorLog) -> bool:
    """Wait for a broker that answers; return whether one did before `stop` was set.

    Raises ExporterError if none ever can. kafka-python, which sends the later requests, does not say why it was
    refused.
    """

    def note(error: NoAnswerError) -> None:
        if error.is_lasting:
            raise ExporterError(str(error))
        metrics.health.wait_for(str(error))
        error_log.note("brokers", str(error))

    with refusals_as(ExporterError):
        reachability = Reachability(config.kafka, "probe")
    return reachability.ask_until_answered(stop, note) is not None


def _make_tasks(
    config: ProbeConfig,
    publisher: ProbePublisher,
    metrics: ProbeMetrics,
    error_log: ErrorLog,
    stack: contextlib.ExitStack,
) -> list[Task]:
    brokers = stack.enter_context(contextlib.closing(Brokers(config.kafka)))
    admin = _make_admin(config)
    problem = ensure_probes_topic(admin, brokers, config)
    if problem is not None:
        error_log.note("publish", problem)
    interests = Interests(config.cluster)
    reader = stack.enter_context(contextlib.closing(InterestReader(config, interests, error_log)))
    groups = GroupWatch(
        config,
        asker=GroupAsker(brokers),
        interests=interests,
        publish=publisher.publish,
        metrics=metrics,
        error_log=error_log,
    )
    offsets = OffsetWatch(
        config,
        topics=TopicRegistry(brokers),
        asker=OffsetAsker(brokers, config.starts_seconds),
        interests=interests,
        publish=publisher.publish,
        metrics=metrics,
        error_log=error_log,
    )
    committed = CommittedWatch(
        config,
        asker=CommittedAsker(brokers, reads_log=config.reads_log),
        interests=interests,
        publish=publisher.publish,
        error_log=error_log,
    )
    early_cycle = EarlyCycle(interests.is_fresh, offsets.cycle_fresh)
    tasks = [
        Task("interests", _READ_PERIOD_SECONDS, reader.read, metrics, error_log),
        Task(watch_groups.WHAT, config.period_seconds, groups.cycle, metrics, error_log),
        Task(watch_offsets.WHAT, config.offsets_seconds, offsets.cycle, metrics, error_log, early_cycle=early_cycle),
        Task(watch_committed.WHAT, config.offsets_seconds, committed.cycle, metrics, error_log),
    ]
    if config.zookeeper:
        zookeeper = stack.enter_context(contextlib.closing(ZooKeeperClient(config.zookeeper)))
        watch = ZookeeperWatch(config.cluster, zookeeper, publisher.publish, error_log)
        tasks.append(Task(watch_zookeeper.WHAT, config.period_seconds, watch.cycle, metrics, error_log))
    return tasks


def _make_admin(config: ProbeConfig) -> AdminClient:
    with refusals_as(ExporterError):
        return AdminClient({**librdkafka_properties(config.kafka), "log_level": 2}, logger=_log)


def _run_all(loops: list[Callable[[threading.Event], None]], stop: threading.Event) -> None:
    threads = [threading.Thread(target=loop, args=(stop,), daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    stop.wait()
    deadline = time.monotonic() + _JOIN_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
