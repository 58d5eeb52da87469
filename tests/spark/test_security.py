"""Each authentication method, with each client that the three processes use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from rebalance_exporters.prober.brokers import Brokers
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_kafka.checks import refused_by_librdkafka
from rebalance_kafka.properties import java_properties, librdkafka_properties
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.session import start_session
from rebalance_streaming.spark.source import source_options
from spark.securing import KEY_PASSWORD, PASSWORD, Secured, secured
from waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.broker]

TOPIC, RECORDS = "t", 3
WAYS = (
    "mTLS",
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER unsecured",
    "OAUTHBEARER OIDC",
    "OAUTHBEARER function",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker with all listeners, and a topic with some records."""
    with secured(tmp_path_factory.mktemp("secured")) as running:
        servers = {"bootstrap.servers": running.broker.bootstrap}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        producer = Producer(servers)
        for _ in range(RECORDS):
            producer.produce(TOPIC, b"x")
        assert producer.flush(120) == 0
        yield running


def read_by_java(spark: SparkSession, kafka: Mapping[str, str]) -> int:
    """Read the topic as the stream's queries do."""
    # Set by the stream in the JVM when it starts Spark.
    start_session(StreamConfig(kafka=kafka, master="local[2]"))
    options = source_options(java_properties(kafka), {TOPIC: {0: 0}})
    return spark.read.format("kafka").options(**options).load().count()


def read_by_librdkafka(_spark: SparkSession, kafka: Mapping[str, str]) -> int:
    """Query like the stream's start, and read like stream, exporter and prober."""
    Cluster(StreamConfig(kafka=kafka)).check_reachable()
    settings = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    with contextlib.closing(Consumer({**librdkafka_properties(kafka), **settings})) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        read: list[Message] = []

        def is_read() -> bool:
            # An error is delivered like a message; a configuration error is permanent.
            read.extend(each for each in consumer.consume(RECORDS, timeout=1) if each.error() is None)
            return len(read) >= RECORDS

        wait_for(is_read, lambda: f"{RECORDS} records, not {read}")
        return len(read)


def ask_by_kafka_python(_spark: SparkSession, kafka: Mapping[str, str]) -> int:
    """Query like the prober; the broker's list of itself is sufficient."""
    with contextlib.closing(Brokers(kafka)) as brokers:
        return RECORDS if brokers.ids == [1] else 0


CLIENTS = (read_by_java, read_by_librdkafka, ask_by_kafka_python)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_each_client_gets_in_each_way(
    spark: SparkSession, place: Secured, way: str, client: Callable[[SparkSession, Mapping[str, str]], int]
):
    """One [kafka] table is sufficient for all: it has no errors, and every client reads the records."""
    kafka = place.ways_in()[way]
    assert StreamConfig(kafka=kafka).validate() == ProbeConfig(kafka=kafka).validate() == []
    assert refused_by_librdkafka(kafka) == []
    assert client(spark, kafka) == RECORDS


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_an_encrypted_key_opens_with_its_password(
    spark: SparkSession, place: Secured, client: Callable[[SparkSession, Mapping[str, str]], int]
):
    """In the only encryption format that all clients read."""
    kafka = place.with_key("client.encrypted.key", KEY_PASSWORD)
    assert StreamConfig(kafka=kafka).validate() == []
    assert client(spark, kafka) == RECORDS


def test_the_listeners_ask_for_what_they_should(place: Secured):
    """Otherwise the test above would prove nothing."""
    certificate = ("ssl.certificate.location", "ssl.key.location")
    without = {name: value for name, value in place.ways_in()["mTLS"].items() if name not in certificate}
    wrong = place.ways_in()["PLAIN"] | {"sasl.password": "wrong"}
    # With TLS 1.3 a client believes it is connected when the broker closes the connection.
    await_error(without, KafkaError._SSL, KafkaError._TRANSPORT)
    await_error(wrong, KafkaError._AUTHENTICATION)


def await_error(kafka: Mapping[str, str], *codes: int) -> None:
    """Wait until a client gets one of these errors."""
    reported: list[int] = []
    admin = AdminClient({**kafka, "log_level": 0, "error_cb": lambda error: reported.append(error.code())})

    def is_reported() -> bool:
        admin.poll(0.1)
        return not set(codes).isdisjoint(reported)

    wait_for(is_reported, lambda: reported)


def test_plans_and_settings_hold_no_secret(spark: SparkSession, place: Secured):
    """Spark's printed plan of a query, and the session settings on Spark's own pages."""
    ways = place.ways_in()
    texts = [spark.conf.get("spark.redaction.regex")]
    for way in ("mTLS", "PLAIN", "OAUTHBEARER OIDC"):
        options = source_options(java_properties(ways[way]), {TOPIC: {0: 0}})
        log = spark.read.format("kafka").options(**options).load()
        texts.append(log._jdf.queryExecution().toString())
    key = (place.certificates / "client.key").read_text().splitlines()[3]
    for secret in (PASSWORD, "s3cret", key):
        assert not [text for text in texts if secret in text]
