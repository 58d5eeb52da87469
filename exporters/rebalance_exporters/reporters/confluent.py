"""Reports of consumers of confluent-kafka.

    from rebalance_exporters.reporters.confluent import report

    consumer = report(Consumer, {"bootstrap.servers": "broker:9092", "group.id": "orders"})

The class may be `Consumer`, `DeserializingConsumer` or the user's own; the result is an instance of it.

librdkafka hands its statistics to the application inside `poll`, so an application that does not poll would stop
reporting just when it matters. Here the last statistics are kept as text, and a separate thread publishes them at every
interval. A report has the native form (see docs/client-metrics.md) with empty `metrics` and two more fields:

    statistics          librdkafka's last statistics, unparsed; missing until the first ones arrive
    statistics_age_ms   time since this process received them

The member id is read after a poll, in the thread that polls: `memberid()` waits for librdkafka's main thread, and
another thread could call it while the consumer is being closed. During a stall it is therefore the id of the last poll.
"""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING

import confluent_kafka

from rebalance_exporters.reporters.librdkafka_statistics import slim_statistics
from rebalance_exporters.reporters.outbox import LARGEST_BYTES, CallTransport, FailureLog, Outbox, OutgoingReport
from rebalance_exporters.reporters.payload import compose_native, encode, encode_key
from rebalance_exporters.reporters.polls import PollTracker
from rebalance_exporters.reporters.reporter import DEFAULT_INTERVAL_SECONDS, DEFAULT_TOPIC, DueReport, Reporter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import Any

    Send = Callable[[str, "bytes | None", bytes], None]

_log = logging.getLogger(__name__)

_WATCH = "_rebalance_monitor_watch"
_MEMBER_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_SHORTEST_STATISTICS_MS = 1_000
#: First librdkafka version whose default session timeout is 45 s; before, it is 10 s.
_LONG_SESSIONS = 0x01070000
#: What librdkafka takes for false, in any case.
_OFF = frozenset({"false", "f", "0"})
# Statistics take about 1 KB per partition and 2 KB per broker.
_LARGEST_STATISTICS = LARGEST_BYTES - 10_000

# Properties with which a producer reaches the same brokers as the same user.
_CONNECTION = ("bootstrap.servers", "metadata.broker.list", "client.dns.lookup", "oauth_cb")
_CONNECTION_PREFIXES = (
    "security.",
    "ssl.",
    "sasl.",
    "enable.ssl.",
    "enable.sasl.",
    "broker.address.",
    "socket.",
    "https.",
)

_PRODUCER = {
    "acks": 1,
    "compression.type": "gzip",
    # The outbox retries reports that are not delivered in this time.
    "message.timeout.ms": 10_000,
    # The partitioner of Java producers, so that a group's reports stay in one partition with any client.
    "partitioner": "murmur2_random",
    "log_level": 2,
}


def report(
    consumer_class: Callable[..., Any],
    config: dict[str, Any],
    *args: Any,
    topic: str = DEFAULT_TOPIC,
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
    producer_settings: dict[str, Any] | None = None,
    send: Send | None = None,
    **kwargs: Any,
) -> Any:
    """Return `consumer_class(config, ...)`, which reports itself to `topic` until it is closed.

    Two properties change: `statistics.interval.ms`, if unset or 0, becomes the interval (at least 1000), and `stats_cb`
    is wrapped and still called. The producer connects as the consumer does; `producer_settings` override its settings.
    `send(topic, key, value)` replaces the producer: it is called from a separate thread, may wait and may raise. Raises
    ValueError if the interval is not a positive number, and any error of the class.
    """
    failures = FailureLog(_log)
    watch = _Watch(config, failures)
    transport = (
        CallTransport(send, topic)
        if send is not None
        else _ProducerTransport(topic, make_producer_settings(config, producer_settings), failures)
    )
    watch.reporter = Reporter(watch.compose, Outbox(transport, failures), failures, interval_seconds)
    consumer = _make_watched(consumer_class)(watch.wrap_config(interval_seconds), *args, **kwargs)
    setattr(consumer, _WATCH, watch)
    # At the interpreter's exit no thread is left that could send a report.
    weakref.finalize(consumer, watch.reporter.abandon).atexit = False
    watch.reporter.start()
    return consumer


class _Watch:
    """State of one consumer. The application's thread writes, the reporting thread reads; neither waits."""

    reporter: Reporter

    def __init__(self, config: dict[str, Any], failures: FailureLog) -> None:
        self.polls = PollTracker()
        self._config = config
        self._failures = failures
        self._settings = read_config(config)
        #: Text and time of arrival in seconds, replaced together.
        self._statistics: tuple[str, float] | None = None
        self._member_id: str | None = None
        self._ask_member_at = 0.0

    def wrap_config(self, interval_seconds: float) -> dict[str, Any]:
        """Return the user's properties with statistics enabled, and received here before the user's `stats_cb`."""
        users: Any = self._config.get("stats_cb")

        def stats_cb(text: str) -> Any:
            self._keep_statistics(text)
            return users(text) if users is not None else None

        wanted = max(_SHORTEST_STATISTICS_MS, round(interval_seconds * 1000))
        interval_ms = _as_int(self._config.get("statistics.interval.ms")) or wanted
        return {**self._config, "statistics.interval.ms": interval_ms, "stats_cb": stats_cb}

    def _keep_statistics(self, text: str) -> None:
        """Keep the part of the statistics that fits into a report, so that a text of several MB is not held in memory.

        Takes up to 2 ms of the poll for 5,000 partitions. Never raises, because it runs inside the application's poll.
        """
        try:
            self._statistics = (slim_statistics(text, _LARGEST_STATISTICS), time.monotonic())
        except Exception as error:
            self._failures.note("statistics cannot be reported", error)

    def note_member(self, consumer: Any) -> None:
        """Read the member id, at most once a second; called by the thread that polls."""
        now = time.monotonic()
        if now < self._ask_member_at:
            return
        self._ask_member_at = now + _MEMBER_SECONDS
        try:
            self._member_id = consumer.memberid() or None
        except Exception as error:
            self._failures.note("the member's id is not reported", error)

    def compose(self, tick: DueReport) -> OutgoingReport:
        """Return a report in the form described at the top of this module."""
        client, statistics = self._read_client(), self._statistics
        key = encode_key(client["group_id"], client["client_id"])
        report = compose_native(tick, client, self.polls.read(), {})
        if statistics is None:
            return OutgoingReport(key, encode(report))
        text, arrived = statistics
        report["statistics_age_ms"] = round((time.monotonic() - arrived) * 1000)
        return OutgoingReport(key, join_statistics(report, text))

    def _read_client(self) -> dict[str, Any]:
        return {
            "library": "confluent-kafka",
            "version": confluent_kafka.__version__,
            "client_id": self._config.get("client.id", "rdkafka"),
            "group_id": self._config.get("group.id"),
            "member_id": self._member_id,
            "instance_id": self._config.get("group.instance.id"),
            "config": self._settings,
        }


def join_statistics(report: dict[str, Any], text: str) -> bytes:
    """Return a report with the statistics text appended unparsed: it is already strict JSON, and large."""
    return encode(report)[:-1] + b',"statistics":' + text.encode() + b"}"


def read_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that rules need; null if the broker decides, or if automatic commits are off."""
    protocol = str(config.get("group.protocol", "classic")).lower()
    session_ms = 45_000 if confluent_kafka.libversion()[1] >= _LONG_SESSIONS else 10_000
    classic = protocol == "classic"
    commits = str(config.get("enable.auto.commit", True)).lower() not in _OFF
    return {
        "session_timeout_ms": _as_int(config.get("session.timeout.ms", session_ms)) if classic else None,
        "heartbeat_interval_ms": _as_int(config.get("heartbeat.interval.ms", 3_000)) if classic else None,
        "max_poll_interval_ms": _as_int(config.get("max.poll.interval.ms", 300_000)),
        "fetch_max_wait_ms": _as_int(config.get("fetch.wait.max.ms", 500)),
        "auto_commit_interval_ms": _as_int(config.get("auto.commit.interval.ms", 5_000)) if commits else None,
        "group_protocol": protocol,
    }


def _as_int(value: Any) -> int | None:
    """Return a property as a number, null if it is none; librdkafka also takes numbers as text."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def make_producer_settings(consumer: dict[str, Any], own: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return properties for a producer that connects as a consumer does; `own` overrides all others."""
    shared = {
        key: value for key, value in consumer.items() if key in _CONNECTION or key.startswith(_CONNECTION_PREFIXES)
    }
    client_id = "{}-rebalance-reporter".format(consumer.get("client.id", "rdkafka"))
    return {**shared, "client.id": client_id, **_PRODUCER, **(own or {})}


class _ProducerTransport:
    """Sends through a producer, which the sending thread creates at the first report."""

    def __init__(self, topic: str, settings: dict[str, Any], failures: FailureLog) -> None:
        self._topic = topic
        self._settings = {"error_cb": lambda error: failures.note("publishing reports", str(error)), **settings}
        self._producer: Any = None

    def send(self, report: OutgoingReport, given_up: threading.Event) -> None:
        if self._producer is None:
            self._producer = confluent_kafka.Producer(self._settings)
        errors: list[Any] = []
        self._producer.produce(
            self._topic, key=report.key, value=report.value, on_delivery=lambda error, _: errors.append(error)
        )
        # librdkafka itself gives up at `message.timeout.ms`.
        while not errors and not given_up.is_set():
            self._producer.poll(_LOOK_SECONDS)
        if not errors:
            raise TimeoutError("the consumer was closed first")
        if errors[0] is not None:
            raise confluent_kafka.KafkaException(errors[0])

    def close(self) -> None:
        self._producer = None


def _make_watched(base: Any) -> Any:
    """Return a subclass that notifies its instance's watch of every poll and of the close.

    An instance has no watch while it is created, when the user's own class may poll or close already.
    """

    def noting(method: Callable[..., Any], count: Callable[[Any], int]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            watch: _Watch | None = self.__dict__.get(_WATCH)
            if watch is None:
                return method(self, *args, **kwargs)
            watch.polls.enter_poll()
            found = 0
            try:
                records = method(self, *args, **kwargs)
                found = count(records)
            finally:
                watch.polls.leave_poll(found)
            watch.note_member(self)
            return records

        return call

    def ending(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            watch: _Watch | None = self.__dict__.get(_WATCH)
            if watch is None:
                return method(self, *args, **kwargs)
            reporter = watch.reporter
            reporter.announce_close()
            try:
                return method(self, *args, **kwargs)
            finally:
                reporter.await_end()

        return call

    methods = {"poll": noting(base.poll, _count_message), "consume": noting(base.consume, _count_messages)}
    methods.update({name: ending(getattr(base, name)) for name in ("close", "__exit__") if hasattr(base, name)})
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), {**names, **methods})


def _count_message(message: Any) -> int:
    """Return 1 for a record; 0 for null or a message that carries an error."""
    return int(message is not None and message.error() is None)


def _count_messages(messages: list[Any]) -> int:
    return sum(map(_count_message, messages))
