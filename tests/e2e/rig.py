"""The whole chain as separate processes, and operations on it."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from e2e.pages import page
from polling import next_message
from rebalance_deploy.broker_log import GroupTruth, read_truth
from rebalance_deploy.counts import Counted, counts_in, expected
from rebalance_deploy.demo import workload
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from rebalance_exporters.metrics.monitor import RECORD_TYPES
from rebalance_streaming.groups.counts import counted_as
from rebalance_streaming.wire.decode import decode_record
from rebalance_streaming.wire.records import OFFSETS_TOPIC
from waiting import wait_for

#: May include a start of Spark.
DEADLINE_SECONDS = 300.0
READY_SECONDS = 300.0

#: Variables that Kubernetes sets in a container for services whose names start like the monitor's own settings.
KUBERNETES = {
    "REBALANCE_MONITOR_KAFKA_SERVICE_HOST": "10.0.0.1",
    "REBALANCE_MONITOR_KAFKA_SERVICE_PORT": "9092",
    "REBALANCE_MONITOR_KAFKA_SERVICE_PORT_TCP_CLIENT": "9092",
    "REBALANCE_MONITOR_KAFKA_PORT": "tcp://10.0.0.1:9092",
    "REBALANCE_MONITOR_KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
    "REBALANCE_MONITOR_KAFKA_PORT_9092_TCP_PROTO": "tcp",
    "REBALANCE_MONITOR_KAFKA_PORT_9092_TCP_PORT": "9092",
    "REBALANCE_MONITOR_KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
    "REBALANCE_MONITOR_SERVICE_HOST": "10.0.0.2",
    "REBALANCE_MONITOR_SERVICE_PORT": "9308",
    "REBALANCE_MONITOR_PORT": "tcp://10.0.0.2:9308",
    "REBALANCE_MONITOR_EXPORT_SERVICE_HOST": "10.0.0.3",
    "REBALANCE_MONITOR_EXPORT_PORT": "tcp://10.0.0.3:9308",
}

#: Labels of a record count: query, type, version, outcome.
RecordKind = tuple[str, str, str, str]


@dataclass
class Watched:
    """A broker watched by a monitor, the URL of its exporter, and clients that tests start and stop."""

    broker: EmbeddedKafka
    url: str
    directory: Path
    clients: dict[str, ChildProcess] = field(default_factory=dict)

    def start(self, spec: ConsumerSpec) -> None:
        """Start a consumer process and wait until its group has completed a generation with it."""
        before = self.truth(spec.group).completed.copy()
        self.clients[spec.client_id] = self.spawn(spec)
        if spec.group_instance_id is None or not before:
            self.await_generation(spec.group, before)

    def spawn(self, spec: ConsumerSpec) -> ChildProcess:
        """Start a consumer process."""
        log = self.directory / f"{spec.client_id}.log"
        return ChildProcess(workload.command(self.broker.bootstrap, spec), log_path=log)

    def leave(self, spec: ConsumerSpec) -> None:
        """Stop a consumer cleanly and wait until its group has continued without it, unless it is static."""
        before = self.truth(spec.group).completed.copy()
        self.clients.pop(spec.client_id).terminate(60)
        if spec.group_instance_id is None:
            self._await_departure(spec, before)

    def kill(self, spec: ConsumerSpec) -> None:
        """Kill a consumer and wait until its session has expired."""
        before = self.truth(spec.group).completed.copy()
        self.clients.pop(spec.client_id).kill()
        self._await_departure(spec, before)

    def _await_departure(self, spec: ConsumerSpec, before: set[int]) -> None:
        """Wait until the group has completed a generation without a member.

        If the member's session expired before it was stopped, that generation may exist already: the group is then
        stable or empty without the member.
        """
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})

        def goes_on_without() -> bool:
            try:
                group = admin.describe_consumer_groups([spec.group])[spec.group].result()
            except KafkaException:
                return False
            is_out = spec.client_id not in [each.client_id for each in group.members]
            return is_out and group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)

        def has_gone_on() -> bool:
            return bool(self.truth(spec.group).completed - before) or goes_on_without()

        wait_for(has_gone_on, lambda: self._report_on(spec.group), DEADLINE_SECONDS)

    def await_generation(self, group: str, before: set[int]) -> None:
        """Wait until the broker's log shows a new completed generation."""
        wait_for(lambda: self.truth(group).completed - before, lambda: self._report_on(group), DEADLINE_SECONDS)

    def _report_on(self, group: str) -> str:
        """Print the broker's and the clients' reports when a group makes no progress."""
        ended = [name for name, client in self.clients.items() if not client.is_running]
        of_coordinator = re.compile(
            rf"{re.escape(group)}|__consumer_offsets.*(ERROR|WARN)|(ERROR|WARN).*__consumer_offsets"
        )
        lines = [
            line
            for line in self.broker.log_path.read_text(errors="replace").splitlines()
            if of_coordinator.search(line)
        ]
        return "\n".join((f"a new generation of {group}; clients that ended: {ended}", *lines[-20:]))

    def truth(self, group: str) -> GroupTruth:
        """Return the facts about a group in the broker's log."""
        return self.truths().get(group, GroupTruth())

    def truths(self) -> dict[str, GroupTruth]:
        """Return the facts about all groups in the broker's log."""
        with self.broker.log_path.open(errors="replace") as lines:
            return read_truth(lines)

    def expected_counts(self) -> dict[str, Counted]:
        """Return the expected counts on /metrics."""
        return {group: expected(truth) for group, truth in self.truths().items()}

    def counts(self) -> dict[str, Counted]:
        """Return the counts on /metrics, as soon as it answers."""
        return counts_in(page(f"{self.url}/metrics"))

    def await_counts(self) -> dict[str, Counted]:
        """Wait until /metrics agrees with the broker's log, and return the counts of both."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (counts := self.counts()) != (wanted := self.expected_counts()):
            assert time.monotonic() < deadline, f"/metrics {counts} is not what the broker's log says: {wanted}"
            threading.Event().wait(0.2)
        return counts

    def record_totals(self) -> Counter[RecordKind]:
        """Return the monitor's own record counts by kind."""
        found: Counter[RecordKind] = Counter()
        for name, labels, value in samples(self.url):
            if name == "kafka_rebalance_monitor_records_total":
                found[labels["query"], labels["type"], labels["version"], labels["outcome"]] += int(value)
        return found

    def close(self) -> None:
        """Stop every running client."""
        for client in self.clients.values():
            client.request_stop()
        for client in self.clients.values():
            client.terminate(15)
        self.clients.clear()


@dataclass
class Rig(Watched):
    """The same, with access to the monitor's processes."""

    monitor: Monitor = field(kw_only=True)


def family(ancestor: int) -> list[int]:
    """Return a process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit():
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [ancestor]
    for each in found:
        found += children.get(each, [])
    return found


def samples(url: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield (name, labels, value) of every sample of a /metrics page."""
    for family in text_string_to_metric_families(page(f"{url}/metrics") + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def kind_of(query: str, key: bytes | None, value: bytes | None) -> RecordKind:
    """Return the labels under which a record must be counted, by the generic decoder."""
    record = decode_record(key, value)
    record_type, version = counted_as(record.record_type), counted_as(record.value_version)
    name = RECORD_TYPES.get(record_type, str(record_type))
    return query, name, "none" if version is None else str(version), record.outcome.name.lower()


def query_of(key: bytes | None) -> str:
    """Return which of the two queries on the log counts records with this key."""
    return "activity" if key is not None and key[:2] in (b"\x00\x00", b"\x00\x01") else "membership"


def read_topic(
    bootstrap: str, topic: str, *, isolation: str = "read_uncommitted"
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield key and value of every record currently in a topic."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
    }
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        left = set(partitions)
        while left:
            message = next_message(consumer, f"{topic}'s partitions {left} to be read to their end")
            if error := message.error():
                # Other errors, such as a broker that does not answer for a moment, are ignored.
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
            else:
                yield message.key(), message.value()
    finally:
        consumer.close()


def count_log(bootstrap: str) -> Counter[RecordKind]:
    """Count the log's records by kind as both queries must: commits in read-committed mode, others uncommitted."""
    found: Counter[RecordKind] = Counter()
    for query, isolation in (("membership", "read_uncommitted"), ("activity", "read_committed")):
        found.update(
            kind_of(query, key, value)
            for key, value in read_topic(bootstrap, OFFSETS_TOPIC, isolation=isolation)
            if query_of(key) == query
        )
    return found


@contextmanager
def running_rig(
    directory: Path, *flags: str, prepare: Callable[[str], None] = lambda _: None, **broker_settings: str
) -> Iterator[Rig]:
    """Start a broker and the monitor, and wait until the monitor is ready.

    `prepare` is given the broker's address before the monitor starts.
    """
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedKafka(config=broker_settings))
        create_topics(broker.bootstrap, {"orders": 4, "payments": 4})
        prepare(broker.bootstrap)
        sources = loopback_sources(broker.bootstrap, directory, *flags)
        monitor = stack.enter_context(Monitor(sources, directory))
        monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
        rig = Rig(broker, monitor.url, directory, monitor=monitor)
        stack.callback(rig.close)
        yield rig
