import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from exporters.contract_rows import diagnosis_row, group_row, impact_row, lag_row, query_row, rebalance_row
from rebalance_deploy.topics import create_topics
from rebalance_exporters.config import ExportConfig, FurtherCluster
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.kafka import consumer
from rebalance_exporters.kafka.consumer import Source, TopicReader
from rebalance_exporters.server import run
from rebalance_exporters.state.view import GROUPS, LAG, TOPICS, Row, View
from rebalance_kafka import reachability
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.reachability import NoAnswerError
from waiting import wait_for

DEADLINE_SECONDS = 120
_QUERIES = ("membership", "activity")


@contextmanager
def serving(config: ExportConfig) -> Iterator[httpx.Client]:
    """Run the exporter in a thread until the block ends, and yield a client for it."""
    stop, listening = threading.Event(), threading.Event()
    ports: list[int] = []
    errors: list[BaseException] = []

    def note_port(_: str, port: int) -> None:
        ports.append(port)
        listening.set()

    def serve() -> None:
        try:
            run(config, stop=stop, on_listening=note_port)
        except BaseException as error:
            errors.append(error)
            listening.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert listening.wait(DEADLINE_SECONDS)
        assert not errors, errors
        with httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=DEADLINE_SECONDS, verify=False) as client:
            yield client
    finally:
        stop.set()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert not errors


def make_config(bootstrap: str, prefix: str) -> ExportConfig:
    """Return settings for this machine and any free port; rows of the stream stay valid on a slow machine."""
    fixed = {"listen_host": "127.0.0.1", "listen_port": 0, "stale_after_seconds": 3_600.0}
    return ExportConfig(kafka={"bootstrap.servers": bootstrap}, topic_prefix=prefix, **fixed)


def create_own_topics(bootstrap: str, prefix: str, partitions: int = 2) -> None:
    """Create the stream's topics as the stream would."""
    create_topics(bootstrap, {prefix + name: partitions for name in TOPICS})


def produce(bootstrap: str, prefix: str, *rows: Row, **properties: str) -> None:
    """Write rows, in one transaction if the properties have a transactional id."""
    producer = Producer({"bootstrap.servers": bootstrap, **properties})
    if "transactional.id" in properties:
        producer.init_transactions()
        producer.begin_transaction()
    for row in rows:
        producer.produce(prefix + row.topic, key=row.key, value=row.value)
    if "transactional.id" in properties:
        producer.commit_transaction()
    assert producer.flush(DEADLINE_SECONDS) == 0


def fresh_status() -> list[Row]:
    """The status of a stream whose parts all report now."""
    now = {"updated_at_ms": epoch_ms(), "read_until_ms": epoch_ms()}
    queries = [query_row(name, started_at_ms=epoch_ms(), last_batch_at_ms=None, **now) for name in _QUERIES]
    return [*queries, diagnosis_row(probed_at_ms=epoch_ms(), **now)]


def list_groups(bootstrap: str) -> set[str]:
    """The groups known to the brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return {group.group_id for group in admin.list_consumer_groups().result().valid}


def read_log_keys(bootstrap: str) -> list[bytes]:
    """The keys of all records in `__consumer_offsets`, which does not exist before the first group."""
    properties = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(properties | {"enable.partition.eof": True})
    try:
        log = consumer.list_topics(timeout=DEADLINE_SECONDS).topics.get("__consumer_offsets")
        unread = set(log.partitions if log else ())
        consumer.assign([TopicPartition("__consumer_offsets", number, 0) for number in unread])
        keys = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while unread:
            assert time.monotonic() < deadline, unread
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    keys.append(message.key() or b"")
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unread.discard(message.partition())
        return keys
    finally:
        consumer.close()


@pytest.fixture
def prefix() -> str:
    """A prefix of topics for one test."""
    return f"exporter-test-{uuid.uuid4().hex[:8]}."


@pytest.mark.broker
def test_rows_become_series_over_real_http(broker: Any, prefix: str) -> None:
    """Rows in Kafka appear in /metrics a moment later, tombstones and broken rows included."""
    create_own_topics(broker.bootstrap, prefix)
    committed_ms = epoch_ms() - 60_000
    rows = [
        group_row(),
        group_row(group="gone"),
        Row(GROUPS, b"prod/gone", None),
        Row(GROUPS, b"prod/broken", b"}"),
        rebalance_row("1"),
        impact_row("1", lag_peak=5),
        lag_row(1, committed_ms),
        Row(LAG, None, b"no key"),
        *fresh_status(),
    ]
    produce(broker.bootstrap, prefix, *rows)
    with serving(make_config(broker.bootstrap, prefix)) as client:
        wait_for(lambda: client.get("/-/ready").status_code == 200, lambda: client.get("/-/ready").text)
        text = client.get("/metrics").text
        assert 'kafka_rebalance_rebalances_total{cluster="prod",group="payments",reason="join"} 4\n' in text
        assert 'kafka_rebalance_monitor_contract_errors_total{reason="contract",topic="groups"} 1.0\n' in text
        assert 'kafka_rebalance_monitor_contract_errors_total{reason="key",topic="lag"} 1.0\n' in text
        assert "kafka_rebalance_monitor_ready 1.0\n" in text
        assert 'group="gone"' not in text
        (age,) = [line for line in text.splitlines() if line.startswith("kafka_rebalance_group_commit_age_seconds{")]
        assert 60 <= float(age.split()[-1]) <= (epoch_ms() - committed_ms) / 1000
        (rebalance,) = client.get("/api/v1/groups/payments/rebalances").json()["rebalances"]
        assert rebalance["impact"]["lag_peak"] == 5

        produce(broker.bootstrap, prefix, group_row(generation=8))
        expected = 'kafka_rebalance_group_generation{cluster="prod",group="payments"} 8\n'
        wait_for(lambda: expected in client.get("/metrics").text, lambda: client.get("/metrics").text)


@pytest.mark.broker
def test_missing_topics_are_waited_for(broker: Any, prefix: str) -> None:
    """An exporter that starts before the stream names the missing topics, creates none, and goes on once they exist."""
    with serving(make_config(broker.bootstrap, prefix)) as client:
        wait_for(
            lambda: client.get("/-/ready").text.startswith(f"waiting for topic {prefix}groups"),
            lambda: client.get("/-/ready").text,
        )
        assert client.get("/-/healthy").status_code == 200
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert not [name for name in admin.list_topics(timeout=DEADLINE_SECONDS).topics if name.startswith(prefix)]
        create_own_topics(broker.bootstrap, prefix)
        produce(broker.bootstrap, prefix, *fresh_status())
        wait_for(lambda: client.get("/-/ready").status_code == 200, lambda: client.get("/-/ready").text)


@pytest.mark.broker
def test_topics_made_anew_are_read_anew(broker: Any, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the topics are deleted, readiness says so, the last snapshot stays, and new topics replace it."""
    monkeypatch.setattr("rebalance_kafka.follower._LOOK_FOR_GROWTH_SECONDS", 0.2)
    create_own_topics(broker.bootstrap, prefix, partitions=1)
    produce(broker.bootstrap, prefix, group_row(), *fresh_status())
    with serving(make_config(broker.bootstrap, prefix)) as client:
        wait_for(lambda: client.get("/-/ready").status_code == 200, lambda: client.get("/-/ready").text)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.delete_topics([prefix + name for name in TOPICS]).values():
            future.result()
        wait_for(lambda: "waiting for topic" in client.get("/-/ready").text, lambda: client.get("/-/ready").text)
        assert client.get("/api/v1/groups/payments").json()["generation"] == 7
        create_own_topics(broker.bootstrap, prefix, partitions=1)
        produce(broker.bootstrap, prefix, group_row(generation=8), *fresh_status())
        # The old snapshot may be gone a moment before the new one is there.
        wait_for(lambda: client.get("/api/v1/groups/payments").json().get("generation") == 8, "it to be read anew")
        wait_for(lambda: client.get("/-/ready").status_code == 200, lambda: client.get("/-/ready").text)


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(broker: Any, prefix: str, number: signal.Signals) -> None:
    """SIGTERM and SIGINT make run() return: exit code 0, and no error."""
    program = (
        "import sys; from rebalance_exporters.config import ExportConfig; from rebalance_exporters.server import run;"
        "run(ExportConfig(kafka={'bootstrap.servers': sys.argv[1]}, listen_port=0, topic_prefix=sys.argv[2]),"
        " on_listening=lambda host, port: print(port, flush=True))"
    )
    command = [sys.executable, "-c", program, broker.bootstrap, prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert (
            httpx.get(f"http://127.0.0.1:{port}/-/healthy", timeout=DEADLINE_SECONDS, verify=False).status_code == 200
        )
        process.send_signal(number)
        _, complaints = process.communicate(timeout=DEADLINE_SECONDS)
    # A Kafka client may log complaints on a busy machine.
    assert process.returncode == 0, complaints
    assert "Traceback" not in complaints


@pytest.mark.broker
def test_the_exporter_leaves_no_consumer_group(broker: Any, prefix: str) -> None:
    """The monitor must not use groups itself: brokers list none of its own, and the offsets topic has no record."""
    create_own_topics(broker.bootstrap, prefix)
    produce(broker.bootstrap, prefix, group_row(), *fresh_status())
    name = f"{prefix}exporter"
    config = make_config(broker.bootstrap, prefix)
    with serving(replace(config, kafka={**config.kafka, "group.id": name})) as client:
        wait_for(lambda: client.get("/-/ready").status_code == 200, lambda: client.get("/-/ready").text)
        assert name not in list_groups(broker.bootstrap)
    assert name not in list_groups(broker.bootstrap)
    assert not any(name.encode() in key for key in read_log_keys(broker.bootstrap))


def test_wrong_settings_are_reported_together() -> None:
    """The exporter does not start, and one error has all of them."""
    with pytest.raises(ExporterError, match=r"bootstrap\.servers.*listen_port"):
        run(ExportConfig(listen_port=-1))


def test_a_port_in_use_is_reported_at_once() -> None:
    """The error is one sentence with host and port, before any broker is queried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = ExportConfig(kafka={"bootstrap.servers": "127.0.0.1:1"}, listen_host="127.0.0.1", listen_port=port)
        with pytest.raises(ExporterError, match=f"cannot listen on 127.0.0.1 port {port} .*listen_port"):
            run(config)


@pytest.mark.waits
def test_brokers_that_are_away_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It serves: healthy, not ready, with the servers, the reason and what to check; the log has each reason once."""
    monkeypatch.setattr(reachability, "_REACH_SECONDS", 0.1)
    monkeypatch.setattr(reachability, "_FIRST_PAUSE_SECONDS", 0.01)
    config = ExportConfig(kafka={"bootstrap.servers": "127.0.0.1:1"}, listen_host="127.0.0.1", listen_port=0)
    with serving(config) as client:
        wait_for(
            lambda: client.get("/-/ready").text.startswith("no Kafka broker answers at 127.0.0.1:1 ("),
            lambda: client.get("/-/ready").text,
        )
        assert client.get("/-/ready").status_code == 503
        assert client.get("/-/healthy").status_code == 200
        assert "kafka_rebalance_monitor_ready 0.0" in client.get("/metrics").text
    logged = [each for each in caplog.messages if "no Kafka broker answers" in each]
    assert logged
    # The first attempt may end before the client knows why.
    assert len(logged) == len(set(logged))


class _Refused:
    """Brokers that reject the client."""

    def __init__(self, kafka: Mapping[str, str], _name: str) -> None:
        self._servers = kafka["bootstrap.servers"]

    def ask_until_answered(self, stop: threading.Event, on_failure: Callable[[NoAnswerError], None]) -> None:
        is_lasting = self._servers.startswith("refused")
        on_failure(NoAnswerError(f"{self._servers} did not", is_lasting=is_lasting))
        stop.wait(DEADLINE_SECONDS)


def test_a_refused_login_ends_it_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting does not fix settings."""
    monkeypatch.setattr(consumer, "Reachability", _Refused)
    config = ExportConfig(kafka={"bootstrap.servers": "refused:1"}, listen_host="127.0.0.1", listen_port=0)
    with pytest.raises(ExporterError, match=r"^refused:1 did not$"):
        run(config)


def test_one_refused_login_of_several_takes_no_cluster_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named; the others are shown or waited for."""
    monkeypatch.setattr(consumer, "Reachability", _Refused)
    west = FurtherCluster("west", {"bootstrap.servers": "refused:1"})
    config = ExportConfig(
        kafka={"bootstrap.servers": "away:1"}, listen_host="127.0.0.1", listen_port=0, further_clusters=(west,)
    )
    with serving(config) as client:
        wait_for(lambda: "away:1 did not" in client.get("/-/ready").text, lambda: client.get("/-/ready").text)
        assert client.get("/-/healthy").status_code == 200


def test_unknown_client_properties_are_reported() -> None:
    """An unknown property is an error at the start that names it."""
    config = ExportConfig(kafka={"bootstrap.servers": "127.0.0.1:1", "session.timeout": "1"})
    with pytest.raises(ExporterError, match=r"session\.timeout"):
        TopicReader(
            Source(config.kafka, config.topic_prefix), View(group_expiry_seconds=1, keep_rebalances=0), epoch_ms
        )
