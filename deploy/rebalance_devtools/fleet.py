"""Runs a fleet for viewing dashboards: calm groups that commit, sick groups, the monitor, and a Prometheus.

Takes the number of groups of each kind and a duration; leaves a Prometheus database with their history. The calm groups
are those of `bench/cluster_log.py`: they exist on a real broker, and real requests commit for them. The sick ones are
copies of the demo's sick group under other names, with real clients. The monitor runs with default settings.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka import Producer

from rebalance_deploy.demo import show, workload
from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.observability import prometheus, write_prometheus_config
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from rebalance_devtools.bench import commit_load
from rebalance_devtools.bench.cluster_log import Shape, Truth, filled_broker

#: Names of the sick groups, without the prefix `payments-`.
SICK = ("enricher", "fraud", "ledger", "mailer", "search")
_PARTITIONS = 4
#: Interval at which every calm group gets a record in each partition and commits it.
_TURN_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Number of groups, duration (counted from when all of them run), and ports of Prometheus and the exporter.

    `directory` keeps the logs and the data of Prometheus.
    """

    directory: Path
    calm: int = 300
    sick: int = 0
    duration_seconds: float = 930.0
    port: int = 9642
    prometheus_port: int = 9090


def run(options: FleetOptions, stop: threading.Event, say: Say) -> None:
    """Run the fleet until its time is up, or until `stop`. Raises UserError if a process of it ended by itself."""
    options.directory.mkdir(parents=True, exist_ok=True)
    shape = shape_of(options.calm)
    with ExitStack() as stack:
        # The broker's own directory is removed at the end.
        broker = stack.enter_context(filled_broker(shape, None))
        create_topics(broker.bootstrap, workload.TOPICS)
        monitor = stack.enter_context(_monitor(broker.bootstrap, options))
        if not monitor.wait_until_ready(stop, say):
            return
        server = stack.enter_context(_scraping(monitor.url, options))
        clients = [
            stack.enter_context(ChildProcess(command, log_path=options.directory / f"{name}.log"))
            for name, command in sick_clients(broker.bootstrap, options.sick).items()
        ]
        stack.enter_context(_writing(broker.bootstrap, Truth(shape)))
        clients.append(stack.enter_context(_committing(broker.bootstrap, shape, options)))
        say(f"{options.calm} calm groups, {options.sick} sick ones; Prometheus: {server}")
        _watch(monitor, clients, options.duration_seconds, stop)
        say(
            f"the history ends at {time.time():.0f}; it can be looked at again: prometheus"
            f" --storage.tsdb.path={options.directory / 'prometheus-data'}"
            f" --config.file={options.directory / 'empty.yml'}"
        )


def shape_of(calm: int) -> Shape:
    """Return the shape of a log of calm groups: one commit per partition, at the end of the topic."""
    return Shape(groups=calm, partitions=_PARTITIONS, commits=calm * _PARTITIONS, caught_up=True)


def sick_clients(bootstrap: str, groups: int) -> dict[str, list[str]]:
    """Return command lines by client name: both members of each sick group, and the producer; empty for 0 groups."""
    members = [spec for spec in workload.CONSUMERS if spec.group == workload.SICK.group]
    specs = [
        replace(spec, group=f"payments-{name}", client_id=f"{name}-{number}")
        for name in SICK[:groups]
        for number, spec in enumerate(members, 1)
    ]
    consumers = {spec.client_id: workload.command(bootstrap, spec) for spec in specs}
    return {"producer": workload.producer_command(bootstrap)} | consumers if consumers else {}


def _monitor(bootstrap: str, options: FleetOptions) -> Monitor:
    owners = options.directory / "owners.toml"
    owners.write_text(show.OWNERS)
    # Always a new checkpoint: an old one belongs to another log.
    checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=options.directory)
    sources = loopback_sources(
        bootstrap,
        Path(checkpoint),
        f"export.owners_file={owners}",
        port=options.port,
        environment=dict(os.environ),
    )
    return Monitor(sources, options.directory)


@contextmanager
def _scraping(exporter_url: str, options: FleetOptions) -> Iterator[str]:
    """Run Prometheus as shipped and yield its URL; its data and a configuration to serve them are kept."""
    config = write_prometheus_config(options.directory / "metrics", targets=[urlsplit(exporter_url).netloc])
    (options.directory / "empty.yml").write_text("{}\n")
    with prometheus(options.directory, config, options.prometheus_port) as server:
        yield server.url


@contextmanager
def _writing(bootstrap: str, truth: Truth) -> Iterator[None]:
    """Write a record to every partition of the calm groups' topics in each interval, one interval before its commit."""
    stop = threading.Event()
    topics = sorted(set(truth.topics.values()))
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def write() -> None:
        began, turns = time.monotonic(), 0
        while not stop.is_set():
            for topic in topics:
                for partition in range(truth.shape.partitions):
                    producer.produce(topic, value=b"x" * 100, partition=partition)
            producer.flush(5)
            turns += 1
            stop.wait(began + turns * _TURN_SECONDS - time.monotonic())

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _committing(bootstrap: str, shape: Shape, options: FleetOptions) -> ChildProcess:
    """Start the commits of the calm groups, one per interval, for one interval longer than the fleet is watched."""
    load = commit_load.Load(bootstrap, shape, shape.keys / _TURN_SECONDS, options.duration_seconds + _TURN_SECONDS)
    return commit_load.start(load, str(options.directory / "commits.json"))


def _watch(monitor: Monitor, clients: Collection[ChildProcess], seconds: float, stop: threading.Event) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not stop.wait(1):
        monitor.check()
        for client in clients:
            if not client.is_running:
                raise UserError(f"{' '.join(client.command[:5])} ended by itself; its log: {client.log_path}")
