"""Reports of consumers of kafka-python 1.4.3 to 3.0; earlier versions do not run on Python 3.7 and later.

    from rebalance_exporters.reporters.kafka_python import report

    consumer = report(KafkaConsumer("orders", group_id="orders", bootstrap_servers="broker:9092"))

The consumer stays an instance of its class and is used as before. `metric_reporter` is for programs that can pass
settings to a consumer but have no access to it; kafka-python's metric reporters know neither member nor polls.

Everything is read without the client's locks, which a starving client holds: settings, metrics and the attributes in
which the coordinator keeps member and generation. `group_metadata()` of 3.x would take the coordinator's lock. Reports
are sent by a separate producer with its own connections.
"""

from __future__ import annotations

import logging
import math
import weakref
from typing import TYPE_CHECKING, TypeVar

import kafka

from rebalance_exporters.reporters.kafka_python_producer import make_producer_settings, make_transport
from rebalance_exporters.reporters.outbox import FailureLog, Outbox, OutgoingReport
from rebalance_exporters.reporters.payload import as_json_number, compose_native, encode, encode_key
from rebalance_exporters.reporters.polls import PollTracker
from rebalance_exporters.reporters.reporter import (
    DEFAULT_INTERVAL_SECONDS,
    DEFAULT_TOPIC,
    DueReport,
    Reporter,
    check_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rebalance_exporters.reporters.kafka_python_producer import Send
    from rebalance_exporters.reporters.outbox import Transport

Consumer = TypeVar("Consumer")

_log = logging.getLogger(__name__)

#: Maximum number of metrics in a report; if there are more, those of single topics are left out first.
MOST_METRICS = 2_000
_WATCH = "_rebalance_monitor_watch"

_CONFIG = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "max_poll_records",
    "fetch_max_wait_ms",
    "metadata_max_age_ms",
    "request_timeout_ms",
)


def report(
    consumer: Consumer,
    *,
    topic: str = DEFAULT_TOPIC,
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
    producer_settings: dict[str, Any] | None = None,
    send: Send | None = None,
) -> Consumer:
    """Return the same consumer, which from now on reports itself to `topic` until it is closed.

    The producer connects as the consumer does; `producer_settings` override its settings. `send(topic, key, value)`
    replaces the producer: it is called from a separate thread, may wait and may raise. Raises ValueError if the
    interval is not a positive number, and nothing else.
    """
    check_interval(interval_seconds)
    failures = FailureLog(_log)
    try:
        if hasattr(consumer, _WATCH):
            failures.note("a consumer is reported already", "the second call changes nothing")
        else:
            settings = dict(getattr(consumer, "config", {}))
            transport = make_transport(topic, send, lambda: make_producer_settings(settings, producer_settings))
            _start(consumer, transport, failures, interval_seconds)
    except Exception as error:
        failures.note("this consumer is not reported", error)
    return consumer


def _start(consumer: Any, transport: Transport, failures: FailureLog, interval_seconds: float) -> None:
    composer = _Composer(consumer)
    reporter = Reporter(composer.compose, Outbox(transport, failures), failures, interval_seconds)
    try:
        _watch(consumer, composer.polls, reporter)
    except Exception as error:
        failures.note("polls of this consumer are not seen", error)
    reporter.start()


def metric_reporter(
    *,
    group_id: str,
    bootstrap_servers: str | list[str] = "localhost",
    topic: str = DEFAULT_TOPIC,
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
    producer_settings: dict[str, Any] | None = None,
    send: Send | None = None,
) -> type:
    """Return a class for `KafkaConsumer(metric_reporters=[...])`.

    Its reports lack member, generation, settings and polls. kafka-python passes neither group nor servers to reporters,
    so they are parameters here; `producer_settings` override the servers. Raises ValueError if the interval is not a
    positive number.
    """

    check_interval(interval_seconds)

    def make_settings() -> dict[str, Any]:
        return make_producer_settings({"bootstrap_servers": bootstrap_servers}, producer_settings)

    def make(compose: Callable[[DueReport], OutgoingReport | None]) -> Reporter:
        failures = FailureLog(_log)
        outbox = Outbox(make_transport(topic, send, make_settings), failures)
        return Reporter(compose, outbox, failures, interval_seconds)

    return type("RebalanceMonitorReporter", (_MetricReporter,), {"group_id": group_id, "make": staticmethod(make)})


class _MetricReporter:
    """Reporter that kafka-python creates for each consumer and calls through these methods."""

    group_id: str
    make: Callable[[Callable[[DueReport], OutgoingReport | None]], Reporter]

    def __init__(self) -> None:
        self._metrics: dict[Any, Any] = {}
        self._reporter = self.make(self._compose)

    def configure(self, configs: object) -> None:
        """Do nothing; kafka-python never calls it."""

    def init(self, metrics: Iterable[Any]) -> None:
        """Start reporting. kafka-python passes an empty list, and each metric later."""
        for metric in metrics:
            self.metric_change(metric)
        self._reporter.start()

    def metric_change(self, metric: Any) -> None:
        """Note a metric."""
        self._metrics[metric.metric_name] = metric

    def metric_removal(self, metric: Any) -> None:
        """Forget a metric."""
        self._metrics.pop(metric.metric_name, None)

    def close(self) -> None:
        """Stop, because the consumer closes."""
        self._reporter.announce_close()
        self._reporter.await_end()

    def _compose(self, tick: DueReport) -> OutgoingReport:
        metrics = dict(self._metrics)
        client_id = next((tags["client-id"] for name in metrics if "client-id" in (tags := name.tags or {})), None)
        client = {"library": "kafka-python", "version": kafka.__version__, "client_id": client_id}
        client["group_id"] = self.group_id
        return OutgoingReport(
            encode_key(self.group_id, client_id), encode(compose_native(tick, client, {}, read_metrics(metrics)))
        )


class _Composer:
    """Composes the reports of a consumer without keeping it alive."""

    def __init__(self, consumer: Any) -> None:
        self.polls = PollTracker()
        self._consumer = weakref.ref(consumer)

    def compose(self, tick: DueReport) -> OutgoingReport | None:
        consumer = self._consumer()
        if consumer is None or (getattr(consumer, "_closed", False) and not tick.closing):
            return None
        client = read_client(consumer)
        metrics = read_metrics(consumer.metrics(raw=True) or {})
        value = encode(compose_native(tick, client, self.polls.read(), metrics))
        return OutgoingReport(encode_key(client["group_id"], client["client_id"]), value)


def read_client(consumer: Any) -> dict[str, Any]:
    """Return a consumer's names, its place in the group (null if it has none), and its settings."""
    settings = consumer.config
    coordinator = getattr(consumer, "_coordinator", None)
    # The client replaces this object as a whole, so member id and generation id belong together.
    generation = getattr(coordinator, "_generation", None)
    number = getattr(generation, "generation_id", -1)
    return {
        "library": "kafka-python",
        "version": kafka.__version__,
        "client_id": settings.get("client_id"),
        "group_id": settings.get("group_id"),
        "member_id": getattr(generation, "member_id", None) or None,
        "instance_id": settings.get("group_instance_id"),
        "generation": number if number >= 0 else None,
        "state": _read_state(coordinator),
        "config": read_config(settings),
    }


def _read_state(coordinator: Any) -> str | None:
    state = getattr(coordinator, "state", None)
    return None if state is None else str(getattr(state, "value", state)).strip("<>").lower()


def read_config(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that rules need; null if not set, not a number, or if automatic commits are off."""
    commits = settings.get("auto_commit_interval_ms") if settings.get("enable_auto_commit") else None
    found = {name: _as_whole(settings.get(name)) for name in _CONFIG}
    return dict(found, auto_commit_interval_ms=_as_whole(commits), group_protocol="classic")


def _as_whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def read_metrics(raw: dict[Any, Any]) -> dict[str, dict[str, Any]]:
    """Return the metrics as group -> name -> value.

    Metrics of one topic have the names of their totals and differ only in tags: they go into a separate group, such as
    `consumer-fetch-manager-metrics,topic=orders`. A metric that cannot be read is left out.
    """
    found: dict[str, dict[str, Any]] = {}
    tagged = [(_read_tags(name), name, metric) for name, metric in dict(raw).items()]
    for tags, name, metric in sorted(tagged, key=lambda each: each[0])[:MOST_METRICS]:
        if name.group != "kafka-metrics-count":
            try:
                found.setdefault(name.group + tags, {})[name.name] = as_json_number(metric.value())
            except Exception:  # noqa: S112 - the client may be changing the very samples that are read
                continue
    return found


def _read_tags(name: Any) -> str:
    """Return the tags but the client's, as they follow a group's name; empty, which sorts first, if none."""
    return "".join(f",{key}={value}" for key, value in sorted((name.tags or {}).items()) if key != "client-id")


class _Watch:
    """Reporting state that is attached to a consumer."""

    def __init__(self, polls: PollTracker, reporter: Reporter) -> None:
        self.polls = polls
        self.reporter = reporter


def _watch(consumer: Any, polls: PollTracker, reporter: Reporter) -> None:
    """Change a consumer's class to a subclass that notes polls; `for` looks up `__next__` only in the class."""
    setattr(consumer, _WATCH, _Watch(polls, reporter))
    consumer.__class__ = _make_watched(type(consumer))
    # At the interpreter's exit no thread is left that could send a report.
    weakref.finalize(consumer, reporter.abandon).atexit = False


def _make_watched(base: Any) -> type:
    """Return a subclass that notifies its instance's watch of every poll and of the close."""

    def poll(self: Any, *args: Any, **kwargs: Any) -> Any:
        polls, found = self.__dict__[_WATCH].polls, 0
        polls.enter_poll()
        try:
            records = base.poll(self, *args, **kwargs)
            found = count_records(records)
        finally:
            polls.leave_poll(found)
        return records

    def next_(self: Any) -> Any:
        polls, found = self.__dict__[_WATCH].polls, False
        polls.enter_next()
        try:
            record = base.__next__(self)
            found = True
        finally:
            polls.leave_next(found=found)
        return record

    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        reporter = self.__dict__[_WATCH].reporter
        reporter.announce_close()
        try:
            return base.close(self, *args, **kwargs)
        finally:
            reporter.await_end()

    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), dict(names, poll=poll, __next__=next_, close=close))


def count_records(records: Any) -> int:
    """Return the number of records in the result of a poll, which is by partition; 0 for anything else."""
    try:
        return sum(map(len, records.values()))
    except Exception:
        return 0
