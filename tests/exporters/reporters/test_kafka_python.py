"""The reporter of kafka-python, with a consumer that needs no broker."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any, ClassVar

import kafka
import pytest
from kafka.metrics import AnonMeasurable, MetricConfig, Metrics

from exporters.reporters.sending import Sent, threads
from rebalance_exporters.reporters import kafka_python
from rebalance_exporters.reporters.kafka_python import (
    metric_reporter,
    read_client,
    read_config,
    read_metrics,
    report,
)
from rebalance_exporters.reporters.kafka_python_producer import ProducerTransport, make_producer_settings
from rebalance_exporters.reporters.outbox import OutgoingReport
from waiting import wait_for

SETTINGS: dict[str, Any] = {
    **kafka.KafkaConsumer.DEFAULT_CONFIG,
    "client_id": "orders-1",
    "group_id": "orders",
    "bootstrap_servers": ["b:9092"],
    "session_timeout_ms": 6000,
}


class Generation:
    def __init__(self, generation_id: int, member_id: str) -> None:
        self.generation_id = generation_id
        self.member_id = member_id


class Coordinator:
    def __init__(self) -> None:
        self._generation = Generation(-1, "")
        self.state = "<unjoined>"


class PlainConsumer:
    """The attributes of KafkaConsumer in use, the same in all versions; iteration polls inside, as in 2.x and 3.x."""

    def __init__(self, batches: list[list[str]]) -> None:
        self.config = dict(SETTINGS)
        self._coordinator = Coordinator()
        self._metrics = Metrics(MetricConfig(tags={"client-id": "orders-1"}))
        self._batches = batches
        self._left: list[str] = []
        self._closed = False
        self.closed_with: Any = None

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[str, list[str]]:
        assert timeout_ms >= 0
        if not self._batches:
            raise LookupError("nothing left")
        return {"p": self._batches.pop(0)}

    def __iter__(self) -> PlainConsumer:
        return self

    def __next__(self) -> str:
        while not self._left:
            if not self._batches:
                raise StopIteration
            self._left = self.poll(timeout_ms=5)["p"]
        return self._left.pop(0)

    def metrics(self, raw: bool = False) -> Any:
        assert raw
        return self._metrics.metrics

    def close(self, autocommit: bool = True) -> str:
        self.closed_with = autocommit
        self._closed = True
        return "closed"


class SlottedConsumer(PlainConsumer):
    """A class whose instances cannot change their class."""

    @property
    def __class__(self) -> type:
        return SlottedConsumer

    @__class__.setter
    def __class__(self, _: type) -> None:
        raise TypeError("__class__ assignment: object layout differs")


def reported(consumer: Any, sent: Sent, **more: Any) -> Any:
    return report(consumer, interval_seconds=0.02, send=sent, **more)


def test_the_consumer_stays_the_consumer(sent):
    """The same object, apparently of the same class, with the same arguments, results and errors."""
    consumer = PlainConsumer([["a", "b"]])
    same = reported(consumer, sent)
    assert same is consumer
    assert isinstance(same, PlainConsumer)
    assert (type(same).__name__, type(same).__module__) == ("PlainConsumer", __name__)
    assert same.poll(timeout_ms=1, max_records=5) == {"p": ["a", "b"]}
    with pytest.raises(LookupError, match="nothing left"):
        same.poll()
    assert same.close(autocommit=False) == "closed"
    assert same.closed_with is False


def test_reports_go_to_the_topic_under_the_group(sent):
    """By default to rebalance-monitor.client-metrics."""
    consumer = reported(PlainConsumer([]), sent)
    wait_for(lambda: sent.places, "a report")
    consumer.close()
    assert set(sent.places) == {("rebalance-monitor.client-metrics", b"orders")}


def test_another_topic_and_a_consumer_without_group(sent):
    """Then the client's id is the key."""
    consumer = PlainConsumer([])
    consumer.config["group_id"] = None
    reported(consumer, sent, topic="t")
    wait_for(lambda: sent.places, "a report")
    consumer.close()
    assert set(sent.places) == {("t", b"orders-1")}


def test_a_member_is_reported_as_the_coordinator_has_it(sent):
    """Null until it joined, and after it left."""
    consumer = PlainConsumer([])
    before = read_client(consumer)
    assert (before["member_id"], before["generation"], before["state"]) == (None, None, "unjoined")
    consumer._coordinator._generation = Generation(18, "orders-1-uuid")
    consumer._coordinator.state = "<stable>"
    assert read_client(consumer) == {
        "library": "kafka-python",
        "version": kafka.__version__,
        "client_id": "orders-1",
        "group_id": "orders",
        "member_id": "orders-1-uuid",
        "instance_id": None,
        "generation": 18,
        "state": "stable",
        "config": read_config(consumer.config),
    }


def test_settings_are_reported_in_numbers():
    """Only those that rules need; disabled or infinite ones are null."""
    noted = read_config({**SETTINGS, "enable_auto_commit": False, "max_poll_interval_ms": float("inf")})
    assert noted == {
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 3000,
        "max_poll_interval_ms": None,
        "max_poll_records": 500,
        "fetch_max_wait_ms": 500,
        "metadata_max_age_ms": 300_000,
        "request_timeout_ms": 30_000,
        "auto_commit_interval_ms": None,
        "group_protocol": "classic",
    }
    assert read_config(SETTINGS)["auto_commit_interval_ms"] == 5000


def make_metrics(**values: float) -> Metrics:
    metrics = Metrics(MetricConfig(tags={"client-id": "c"}))
    for name, value in values.items():
        metric = metrics.metric_name(name.replace("_", "-"), "consumer-coordinator-metrics")
        metrics.add_metric(metric, AnonMeasurable(lambda _config, _now, value=value: value))
    return metrics


def test_metrics_of_a_topic_do_not_overwrite_their_total():
    """Both have the same name; the topic's are in a group of their own."""
    metrics = make_metrics()
    for tags, value in (({"topic": "orders"}, 1.0), ({}, 3.0), ({"topic": "refunds"}, 2.0)):
        name = metrics.metric_name("records-consumed-rate", "consumer-fetch-manager-metrics", tags=tags)
        metrics.add_metric(name, AnonMeasurable(lambda _config, _now, value=value: value))
    assert read_metrics(metrics.metrics) == {
        "consumer-fetch-manager-metrics": {"records-consumed-rate": 3.0},
        "consumer-fetch-manager-metrics,topic=orders": {"records-consumed-rate": 1.0},
        "consumer-fetch-manager-metrics,topic=refunds": {"records-consumed-rate": 2.0},
    }


def test_no_value_and_never_are_two_things():
    """A window without events is null; the age of a heartbeat that was never sent is infinite."""
    metrics = make_metrics(join_time_max=float("-inf"), last_heartbeat_seconds_ago=float("inf"), heartbeat_rate=0.0)
    assert read_metrics(metrics.metrics) == {
        "consumer-coordinator-metrics": {
            "join-time-max": None,
            "last-heartbeat-seconds-ago": "Infinity",
            "heartbeat-rate": 0.0,
        }
    }


def test_a_metric_that_cannot_be_read_takes_no_other_along():
    """The client changes its samples while they are read."""
    metrics = make_metrics(heartbeat_rate=0.3)
    broken = metrics.metric_name("broken", "consumer-coordinator-metrics")
    metrics.add_metric(broken, AnonMeasurable(lambda _config, _now: 1 / 0))
    assert read_metrics(metrics.metrics) == {"consumer-coordinator-metrics": {"heartbeat-rate": 0.3}}


def test_of_too_many_metrics_those_of_topics_are_left_out(monkeypatch):
    """The size of a report stays below the limit of brokers."""
    monkeypatch.setattr(kafka_python, "MOST_METRICS", 2)
    metrics = make_metrics()
    for number in range(5):
        name = metrics.metric_name("rate", "g", tags={"topic": f"t{number}"})
        metrics.add_metric(name, AnonMeasurable(lambda _config, _now: 1.0))
    metrics.add_metric(metrics.metric_name("total", "g"), AnonMeasurable(lambda _config, _now: 6.0))
    assert read_metrics(metrics.metrics) == {"g": {"total": 6.0}}


def test_a_consumer_without_metrics_is_reported(sent, monkeypatch):
    """With metrics_enabled=False of newer versions."""
    consumer = PlainConsumer([])
    monkeypatch.setattr(consumer, "metrics", lambda raw: None)
    reported(consumer, sent)
    assert sent.last["metrics"] == {}
    consumer.close()


def test_polls_are_reported(sent):
    """Their number of records, and the time of the last return, which is constant while the application works."""
    consumer = reported(PlainConsumer([["a", "b"], ["c"]]), sent)
    consumer.poll()
    one, other = sent.last["app"], sent.last["app"]
    assert one == other
    assert (one["records_in_last_poll"], one["records_done"], one["waiting_since_ms"]) == (2, None, None)
    consumer.poll()
    assert sent.last["app"]["records_in_last_poll"] == 1
    consumer.close()


def test_iteration_is_reported(sent):
    """The size of the batch and the number of processed records; the consumer is its own iterator."""
    consumer = reported(PlainConsumer([["a", "b", "c"]]), sent)
    seen = []
    for _ in consumer:
        app = sent.last["app"]
        seen.append((app["records_in_last_poll"], app["records_done"], app["waiting_since_ms"]))
    assert seen == [(3, 0, None), (3, 1, None), (3, 2, None)]
    consumer.close()


def test_closing_the_consumer_ends_the_reporter(sent):
    """With one last report, made before the close; closing twice is no error."""
    before = threads()
    consumer = reported(PlainConsumer([]), sent)
    assert len(threads() - before) == 2
    consumer._coordinator._generation = Generation(3, "m")
    consumer.close()
    consumer.close()
    assert threads() <= before
    assert (sent.reports[-1]["closing"], sent.reports[-1]["client"]["member_id"]) == (True, "m")


def test_a_forgotten_consumer_is_not_kept_alive(sent):
    """Its reporter ends without a message."""
    before = threads()
    consumer = reported(PlainConsumer([]), sent)
    assert sent.last["client"]["client_id"] == "orders-1"
    del consumer
    gc.collect()
    wait_for(lambda: threads() <= before, "the end of the threads")
    assert "closing" not in sent.reports[-1]


def test_a_consumer_closed_behind_the_reporters_back_is_noticed(sent):
    """With a reference to the class's own close."""
    before = threads()
    consumer = reported(PlainConsumer([]), sent)
    PlainConsumer.close(consumer)
    wait_for(lambda: threads() <= before, "the end of the threads")


def test_a_consumer_whose_class_is_fixed_is_reported_without_polls(sent, caplog):
    """It works as before."""
    consumer = reported(SlottedConsumer([["a"]]), sent)
    assert consumer.poll() == {"p": ["a"]}
    assert sent.last["app"]["records_in_last_poll"] is None
    assert "polls of this consumer are not seen" in caplog.text
    consumer.close()


def test_what_is_no_consumer_comes_back_as_it_was(caplog):
    """For another object the program gets a warning and continues; an invalid interval is an error at once."""
    thing = ("no", "consumer")
    assert report(thing) is thing
    assert "this consumer is not reported" in caplog.text
    with pytest.raises(ValueError, match="must be above 0"):
        report(PlainConsumer([]), interval_seconds=0)
    with pytest.raises(ValueError, match="must be above 0"):
        metric_reporter(group_id="g", interval_seconds=0)


def test_a_second_report_changes_nothing(sent, caplog):
    """One consumer has one reporter."""
    consumer = reported(PlainConsumer([]), sent)
    alone = threads()
    assert reported(consumer, sent) is consumer
    assert threads() <= alone
    assert "reported already" in caplog.text
    consumer.close()


@pytest.mark.waits
def test_errors_of_the_reporter_stay_with_it(sent, caplog, monkeypatch):
    """Sends that always fail, and a coordinator without the expected attributes, are logged once each."""

    def refuse(topic: str, key: bytes | None, value: bytes) -> None:
        sent(topic, key, value)
        raise ConnectionError("no")

    consumer = report(PlainConsumer([["a"]]), interval_seconds=0.02, send=refuse)
    wait_for(lambda: len(sent.reports) > 1, "two tries")
    monkeypatch.setattr(consumer, "config", None)
    assert consumer.poll() == {"p": ["a"]}
    wait_for(lambda: "a report cannot be made" in caplog.text, lambda: caplog.text)
    consumer.close()
    assert caplog.text.count("reports cannot be sent") == 1


def test_the_producer_connects_as_the_consumer_does():
    """Servers and security settings; no consumer-only settings, and none that this version does not know."""
    consumer = {
        **SETTINGS,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "ssl_cafile": "/ca",
        "ssl_of_another_version": "x",
        "api_version": (4, 3),
    }
    settings = make_producer_settings(consumer, {"ssl_cafile": "/other"})
    assert settings["bootstrap_servers"] == ["b:9092"]
    assert (settings["security_protocol"], settings["sasl_plain_username"]) == ("SASL_SSL", "u")
    assert (settings["ssl_cafile"], settings["client_id"]) == ("/other", "orders-1-rebalance-reporter")
    assert settings.keys() <= kafka.KafkaProducer.DEFAULT_CONFIG.keys()
    assert "api_version" not in settings
    assert make_producer_settings({**SETTINGS, "api_version": (0, 9)})["api_version"] == (0, 9)


class Future:
    """The future of a send: completed, failed, or pending forever."""

    def __init__(self, fate: str) -> None:
        self.is_done = fate != "silence"
        self._fate = fate

    def get(self, timeout: float) -> None:
        assert timeout == 0
        if self._fate != "success":
            raise ConnectionError(self._fate)


class PlainProducer:
    """A stand-in for KafkaProducer that counts creations and closes."""

    DEFAULT_CONFIG = kafka.KafkaProducer.DEFAULT_CONFIG
    made: ClassVar[list[PlainProducer]] = []
    fate = "success"

    def __init__(self, **settings: Any) -> None:
        self.closed = False
        self.made.append(self)

    def send(self, topic: str, key: bytes | None, value: bytes) -> Future:
        return Future(self.fate)

    def close(self, timeout: float) -> None:
        self.closed = timeout == 0


@pytest.mark.parametrize(
    ("fate", "producers"), [("success", [False]), ("refused", [False]), ("silence", [True, True])], ids=str
)
def test_a_producer_that_never_answers_is_replaced(monkeypatch, fate, producers):
    """A producer that answers is kept, whatever its answer; only success counts as sent."""
    monkeypatch.setattr(PlainProducer, "made", [])
    monkeypatch.setattr(PlainProducer, "fate", fate)
    monkeypatch.setattr(kafka, "KafkaProducer", PlainProducer)
    transport = ProducerTransport("t", dict, longest_seconds=0.01)
    for _ in range(2):
        with contextlib.nullcontext() if fate == "success" else pytest.raises(ConnectionError, match=fate):
            transport.send(OutgoingReport(b"k", b"v"), threading.Event())
    assert [each.closed for each in PlainProducer.made] == producers


def test_a_report_that_is_given_up_does_not_wait_for_its_producer(monkeypatch):
    """Because the consumer was closed."""
    monkeypatch.setattr(PlainProducer, "made", [])
    monkeypatch.setattr(PlainProducer, "fate", "silence")
    monkeypatch.setattr(kafka, "KafkaProducer", PlainProducer)
    given_up = threading.Event()
    given_up.set()
    with pytest.raises(ConnectionError):
        ProducerTransport("t", dict, longest_seconds=3600).send(OutgoingReport(b"k", b"v"), given_up)


def test_a_plain_reporter_sends_group_and_metrics(sent):
    """kafka-python creates it without arguments and passes only metrics to it."""
    before = threads()
    made = metric_reporter(group_id="orders", interval_seconds=0.02, send=sent)
    metrics = Metrics(MetricConfig(tags={"client-id": "orders-1"}), [made()])
    name = metrics.metric_name("heartbeat-rate", "consumer-coordinator-metrics")
    metrics.add_metric(name, AnonMeasurable(lambda _config, _now: 0.3))
    assert sent.last["metrics"] == {"consumer-coordinator-metrics": {"heartbeat-rate": 0.3}}
    metrics.remove_metric(name)
    last = sent.last
    assert (last["metrics"], last["app"]) == ({}, {})
    assert last["client"] == {
        "library": "kafka-python",
        "version": kafka.__version__,
        "client_id": "orders-1",
        "group_id": "orders",
    }
    assert len(threads() - before) == 2
    metrics.close()
    assert threads() <= before
    assert sent.reports[-1]["closing"] is True
