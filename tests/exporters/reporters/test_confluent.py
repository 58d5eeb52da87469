"""The reporter of confluent-kafka, with a consumer class that needs no broker."""

from __future__ import annotations

import gc
import json
import threading
from typing import Any

import confluent_kafka
import pytest

from exporters.reporters.sending import Sent, threads
from rebalance_exporters.reporters.confluent import make_producer_settings, read_config, report
from waiting import wait_for

STATISTICS = '{ "name": "orders-1#consumer-1", "type": "consumer", "brokers": {}, "topics": {}, "replyq": 0 }'


class Message:
    def __init__(self, error: str | None = None) -> None:
        self._error = error

    def error(self) -> str | None:
        return self._error


class PlainConsumer:
    """The used parts of confluent_kafka.Consumer; statistics arrive inside poll, as with librdkafka."""

    def __init__(self, config: dict[str, Any], **kwargs: Any) -> None:
        self.config = config
        self.kwargs = kwargs
        self.answers: list[Any] = []
        self.asked_by: list[str] = []
        self.closed = 0
        self.statistics = STATISTICS

    def poll(self, timeout: float = -1) -> Any:
        self.config["stats_cb"](self.statistics)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        return [*self.answers, *[Message()] * (num_messages - len(self.answers))]

    def memberid(self) -> str:
        self.asked_by.append(threading.current_thread().name)
        return "orders-1-uuid"

    def close(self) -> str:
        self.closed += 1
        return "closed"

    def __enter__(self) -> PlainConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        # Like the C class: with its own close.
        PlainConsumer.close(self)


def reported(sent: Sent, **config: Any) -> Any:
    return report(
        PlainConsumer, {"group.id": "orders", "client.id": "orders-1", **config}, interval_seconds=0.02, send=sent
    )


def test_what_comes_back_is_an_instance_of_the_class(sent):
    """It is made with the user's properties and arguments, and its methods have their own results and errors."""
    users = {"group.id": "orders", "session.timeout.ms": 6000}
    consumer = report(PlainConsumer, users, send=sent, logger="L")
    assert isinstance(consumer, PlainConsumer)
    assert consumer.config.items() >= users.items()
    assert "stats_cb" not in users
    assert consumer.kwargs == {"logger": "L"}
    message = Message()
    consumer.answers = [message, ValueError("no")]
    assert consumer.poll(0.1) is message
    with pytest.raises(ValueError, match="no"):
        consumer.poll()
    assert consumer.close() == "closed"


@pytest.mark.parametrize(
    ("users", "wanted"), [({}, 1000), ({"statistics.interval.ms": 0}, 1000), ({"statistics.interval.ms": "500"}, 500)]
)
def test_statistics_are_turned_on_unless_they_are(sent, users, wanted):
    """librdkafka's shortest interval is a second."""
    consumer = reported(sent, **users)
    assert consumer.config["statistics.interval.ms"] == wanted
    consumer.close()


def test_the_users_callback_is_called_as_before(sent):
    """With the same text, and its exceptions reach the application."""
    seen: list[str] = []

    def stats_cb(text: str) -> None:
        seen.append(text)
        if len(seen) == 2:
            raise KeyError("mine")

    consumer = reported(sent, stats_cb=stats_cb)
    consumer.poll(0)
    with pytest.raises(KeyError, match="mine"):
        consumer.poll(0)
    assert seen == [STATISTICS] * 2
    consumer.close()


def test_a_client_that_never_polled_is_reported_without_statistics(sent):
    """Otherwise a client that hangs from the start would not be visible at all."""
    consumer = reported(sent)
    last = sent.last
    assert (last["schema"], last["client"]["group_id"]) == ("rebalance-monitor/client-metrics/1", "orders")
    assert (last["metrics"], last["app"]["last_poll_return_ms"], "statistics" in last) == ({}, None, False)
    assert sent.keys == {b"orders"}
    consumer.close()


def test_the_last_statistics_are_published_again_and_again_with_their_age(sent):
    """Unchanged, while the application does not poll."""
    consumer = reported(sent)
    consumer.answers = [Message()]
    consumer.poll(0)
    one, other = sent.last, sent.last
    assert one["statistics"] == other["statistics"] == json.loads(STATISTICS)
    assert 0 <= one["statistics_age_ms"] < other["statistics_age_ms"]
    assert one["app"] == other["app"]
    assert (one["app"]["records_in_last_poll"], one["app"]["waiting_since_ms"]) == (1, None)
    consumer.close()


@pytest.mark.parametrize(("answer", "records"), [(None, 0), (Message("end of partition"), 0), (Message(), 1)])
def test_polls_are_counted_by_their_records(sent, answer, records):
    """None, or an error in the place of a record, counts as zero."""
    consumer = reported(sent)
    consumer.answers = [answer]
    consumer.poll(0)
    assert sent.last["app"]["records_in_last_poll"] == records
    consumer.close()


def test_consume_is_a_poll(sent):
    """With the number of its records; errors in a record's place are none."""
    consumer = reported(sent)
    assert len(consumer.consume(5, timeout=1)) == 5
    assert sent.last["app"]["records_in_last_poll"] == 5
    consumer.answers = [Message("end of partition"), Message("unknown topic")]
    assert len(consumer.consume(5, timeout=1)) == 5
    assert sent.last["app"]["records_in_last_poll"] == 3
    consumer.close()


def test_the_members_id_is_asked_by_the_thread_that_polls(sent):
    """Rarely, because it is a request to librdkafka's main thread."""
    consumer = reported(sent)
    for _ in range(100):
        consumer.poll(0)
    assert sent.last["client"]["member_id"] == "orders-1-uuid"
    assert set(consumer.asked_by) == {threading.current_thread().name}
    assert len(consumer.asked_by) < 100
    consumer.close()


def test_a_member_id_that_is_not_known_is_no_error(sent, caplog):
    """For example of a consumer that was closed within a callback."""
    consumer = reported(sent)
    consumer.memberid = lambda: 1 / 0
    consumer.poll(0)
    assert sent.last["client"]["member_id"] is None
    assert "the member's id is not reported" in caplog.text
    consumer.close()


@pytest.mark.parametrize("way", ["close", "with"])
def test_closing_the_consumer_ends_the_reporter(sent, way):
    """With close() or as a context manager, with one last report."""
    before = threads()
    consumer = reported(sent)
    if way == "close":
        consumer.close()
    else:
        with consumer:
            pass
    assert consumer.closed == 1
    assert threads() <= before
    assert sent.reports[-1]["closing"] is True


def test_a_forgotten_consumer_is_not_kept_alive(sent):
    """Its reporter ends with it."""
    before = threads()
    consumer = reported(sent)
    assert sent.last
    del consumer
    gc.collect()
    wait_for(lambda: threads() <= before, "the end of the threads")


def test_an_error_of_the_class_is_the_users_to_see(sent):
    """It leaves no thread behind."""

    def refuse(config: dict[str, Any]) -> None:
        raise confluent_kafka.KafkaException("no such property")

    before = threads()
    broken = type("Broken", (PlainConsumer,), {"__init__": lambda self, config: refuse(config)})
    with pytest.raises(confluent_kafka.KafkaException, match="no such property"):
        report(broken, {}, send=sent)
    assert threads() <= before


@pytest.mark.parametrize("method", ["poll", "consume", "close", "__exit__"])
def test_a_class_may_use_its_methods_while_it_is_created(sent, method):
    """Before there is a watch they are the class's own; later polls are reported."""

    class Eager(PlainConsumer):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            getattr(self, method)()

    consumer = report(Eager, {"group.id": "orders"}, interval_seconds=0.02, send=sent)
    consumer.answers = [Message()]
    consumer.poll(0)
    assert sent.last["app"]["records_in_last_poll"] == 1
    consumer.close()
    assert sent.reports[-1]["closing"] is True


def test_statistics_too_large_for_a_record_are_reported_without_their_topics(sent):
    """The user's own callback gets them complete; unreadable ones do not break polling."""
    whole: list[str] = []
    consumer = reported(sent, stats_cb=whole.append)
    large = STATISTICS.replace('"topics": {}', '"topics": {"orders": "%s"}' % ("x" * 1_000_000))
    for consumer.statistics in (large, large[:-1]):
        consumer.poll(0)
    assert whole == [large, large[:-1]]
    assert sent.last["statistics"] == json.loads(STATISTICS)
    consumer.close()


def test_settings_are_reported_with_librdkafkas_defaults():
    """Numbers may be given as text; without automatic commits there is no interval."""
    assert read_config({}) == {
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 300_000,
        "fetch_max_wait_ms": 500,
        "auto_commit_interval_ms": 5_000,
        "group_protocol": "classic",
    }
    noted = read_config({"session.timeout.ms": "6000", "enable.auto.commit": "false"})
    assert (noted["session_timeout_ms"], noted["auto_commit_interval_ms"]) == (6000, None)


@pytest.mark.parametrize("off", [False, 0, "0", "f", "F", "false", "FALSE"])
def test_automatic_commits_are_off_as_librdkafka_reads_it(off):
    """It also takes f and 0."""
    confluent_kafka.Consumer({"group.id": "orders", "enable.auto.commit": off}).close()
    assert read_config({"enable.auto.commit": off})["auto_commit_interval_ms"] is None


@pytest.mark.parametrize("on", [True, 1, "1", "t", "true"])
def test_automatic_commits_are_on_as_librdkafka_reads_it(on):
    confluent_kafka.Consumer({"group.id": "orders", "enable.auto.commit": on}).close()
    assert read_config({"enable.auto.commit": on})["auto_commit_interval_ms"] == 5_000


def test_under_the_new_protocol_the_broker_decides_on_sessions():
    """They are not reported."""
    noted = read_config({"group.protocol": "consumer"})
    assert (noted["session_timeout_ms"], noted["heartbeat_interval_ms"]) == (None, None)
    assert (noted["max_poll_interval_ms"], noted["group_protocol"]) == (300_000, "consumer")


def test_the_producer_connects_as_the_consumer_does():
    """Servers and security settings, but no consumer-only settings; librdkafka accepts all of it."""
    consumer = {
        "bootstrap.servers": "b:9092",
        "group.id": "g",
        "client.id": "orders-1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "auto.offset.reset": "earliest",
        "stats_cb": print,
    }
    settings = make_producer_settings(consumer, {"acks": "all"})
    assert settings["sasl.username"] == "u"
    assert (settings["acks"], settings["client.id"]) == ("all", "orders-1-rebalance-reporter")
    assert not settings.keys() & {"group.id", "auto.offset.reset", "stats_cb"}
    confluent_kafka.Producer({**settings, "error_cb": lambda _: None})
