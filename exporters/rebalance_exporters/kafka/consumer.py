"""The reader: a thread that reads the stream's topics from their beginning and passes the rows to the view."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from rebalance_contract.epochs import find_writer
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import SILENCES, TOPICS, Row, View
from rebalance_kafka.follower import Follower, Record
from rebalance_kafka.reachability import NoAnswerError, Reachability
from rebalance_kafka.refusals import refusals_as

_JOIN_SECONDS = 20.0
_EXPIRE_SECONDS = 10.0
_REPEAT_LOG_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a reader finds the topics of a stream, and of which clusters it accepts rows.

    `cluster` is the only accepted cluster; empty: all clusters except those in `others`, which are read elsewhere.
    """

    kafka: Mapping[str, str]
    topic_prefix: str
    cluster: str = ""
    others: frozenset[str] = frozenset()

    def takes(self, key: bytes | None) -> bool:
        """Return whether a row with this key is of an accepted cluster: the keys of all topics begin with its name."""
        name = (key or b"").partition(b"/")[0].decode(errors="replace")
        return name == self.cluster if self.cluster else name not in self.others


class TopicReader:
    """Fills a view until it is stopped."""

    def __init__(self, source: Source, view: View, clock_ms: Callable[[], int]) -> None:
        """Create the Kafka client. Raises ExporterError if it refuses its properties."""
        self._source = source
        self._view = view
        self._clock_ms = clock_ms
        self._topics = {source.topic_prefix + topic: topic for topic in TOPICS}
        self._foreign = 0
        self._since_ms: int | None = None
        self._kafka_errors = 0
        self._logged: dict[int, float] = {}
        self._failure: str | None = None
        self._unreached: NoAnswerError | None = None
        self._logged_unreached: set[str] = set()
        self._on_refusal: Callable[[], None] = lambda: None
        self._stopping = threading.Event()
        self._progress = ReadProgress(missing_topics=())
        self._thread = threading.Thread(target=self._run, name=f"topic-reader {source.cluster}".strip(), daemon=True)
        with refusals_as(ExporterError):
            self._follower = Follower(source.kafka, self._topics, name="export", on_error=self._note_error)

    @property
    def progress(self) -> ReadProgress:
        """How far the reader is; replaced as a whole, so any thread may read it."""
        return self._progress

    @property
    def refusal(self) -> str | None:
        """Why brokers and client have rejected each other so far; null if they did not, or if no broker answered."""
        return None if self._unreached is None or not self._unreached.is_lasting else str(self._unreached)

    def start(self, on_refusal: Callable[[], None] = lambda: None) -> None:
        """Start to read as soon as a broker answers; `on_refusal` is called when `refusal` is set."""
        self._on_refusal = on_refusal
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop reading and close the client; safe to call even if it was not started."""
        self.begin_stop()
        if self._thread.ident is not None:
            self._thread.join(timeout=_JOIN_SECONDS)
        else:
            self._follower.close()

    def _run(self) -> None:
        try:
            if self._reach():
                self._read()
        except Exception as error:
            # Report any error on the health page: otherwise a dead reader would go unnoticed behind healthy pages.
            _log.exception("the reader stopped")
            self._failure = f"{type(error).__name__}: {error}"
            self._publish()
        finally:
            self._follower.close()

    def _reach(self) -> bool:
        """Wait for a broker that answers; return false if the reader is stopped before."""
        # Not kept: a client whose events are not read collects its errors without bound.
        reachability = Reachability(self._source.kafka, "export")
        if reachability.ask_until_answered(self._stopping, self._note_unreached) is None:
            return False
        self._unreached = None
        self._logged_unreached.clear()
        return True

    def _note_unreached(self, error: NoAnswerError) -> None:
        self._follower.listen()
        self._unreached = error
        self._progress = ReadProgress(unreached=str(error), kafka_errors=self._kafka_errors)
        # With several brokers the error names now one, now another: log each text once.
        if str(error) not in self._logged_unreached:
            self._logged_unreached.add(str(error))
            _log.warning("%s", error)
        if error.is_lasting:
            self._on_refusal()

    def _read(self) -> None:
        next_expiry = 0.0
        while not self._stopping.is_set():
            records, now_ms = self._follower.poll(), self._clock_ms()
            if records:
                if self._since_ms is None:
                    self._since_ms = now_ms
                self._view.apply([self._row(record, now_ms) for record in records if self._is_own(record)])
            if time.monotonic() >= next_expiry:
                next_expiry = time.monotonic() + _EXPIRE_SECONDS
                self._view.forget_expired(self._clock_ms())
            self._publish()

    def _is_own(self, record: Record) -> bool:
        if self._source.takes(record.key):
            return True
        if not self._foreign:
            # Log only the first: there are usually many such rows.
            _log.warning("a row of topic %s is of a cluster that is not read there, and is left out", record.topic)
        self._foreign += 1
        return False

    def _row(self, record: Record, now_ms: int) -> Row:
        # The writer's clock may be ahead: the time is capped at now.
        written_ms = None if record.timestamp_ms is None else min(record.timestamp_ms, now_ms)
        writer = find_writer(record.headers)
        was_there = self._follower.positions.was_there((record.topic, record.partition), record.offset)
        topic = self._topics[record.topic]
        return Row(topic, record.key, record.value, written_ms, writer, self._since_ms, was_there)

    def _note_error(self, error: KafkaError, _topic: str | None) -> None:
        self._kafka_errors += 1
        if time.monotonic() - self._logged.get(error.code(), -_REPEAT_LOG_SECONDS) >= _REPEAT_LOG_SECONDS:
            self._logged[error.code()] = time.monotonic()
            _log.warning("Kafka: %s", error.str())

    def _publish(self) -> None:
        follower = self._follower
        # A stream older than silences has not created their topic; it is complete without it.
        missing = tuple(name for name in follower.missing if self._topics[name] != SILENCES)
        self._progress = ReadProgress(
            missing_topics=missing,
            read=follower.positions.read,
            wanted=follower.positions.wanted,
            loaded=not missing and follower.at_end,
            kafka_error=None if follower.error is None else follower.error.str(),
            kafka_errors=self._kafka_errors,
            failure=self._failure,
        )
