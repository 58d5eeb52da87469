"""The reader: follows the stream's topics in a thread of its own, from their beginning, and hands rows to the view."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from rebalance_exporters.config import ExportConfig
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.health import ReadProgress
from rebalance_exporters.view import SILENCES, TOPICS, Row, View
from rebalance_kafka.follower import Follower, Record

_REACH_SECONDS = 10.0
_JOIN_SECONDS = 20.0
_EXPIRE_SECONDS = 10.0
_REPEAT_LOG_SECONDS = 30.0

_log = logging.getLogger(__name__)


class TopicReader:
    """Fills a view until it is stopped."""

    def __init__(self, config: ExportConfig, view: View, clock_ms: Callable[[], int]) -> None:
        """Make the Kafka client; raises ExporterError when it refuses its properties."""
        self._view = view
        self._clock_ms = clock_ms
        self._topics = {config.topic_prefix + topic: topic for topic in TOPICS}
        self._servers = config.kafka.get("bootstrap.servers", "")
        self._kafka_errors = 0
        self._logged: dict[int, float] = {}
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._progress = ReadProgress(missing_topics=())
        self._thread = threading.Thread(target=self._run, name="topic-reader", daemon=True)
        try:
            self._follower = Follower(config.kafka, self._topics, name="export", on_error=self._note_error)
        except KafkaException as error:
            raise ExporterError(f"the Kafka client refuses its properties: {error.args[0].str()}") from error

    @property
    def progress(self) -> ReadProgress:
        """How far the reading is; replaced as a whole, so any thread may look."""
        return self._progress

    def check_reachable(self, timeout_seconds: float = _REACH_SECONDS) -> None:
        """Ask the brokers for their topics once; raises ExporterError when none answers in time."""
        try:
            self._follower.look(timeout_seconds)
        except KafkaException as error:
            reason = self._follower.error or error.args[0]
            raise ExporterError(
                f"no Kafka broker answered at {self._servers} within {timeout_seconds:g} s ({reason.str()}): "
                "check kafka.bootstrap.servers and the security settings"
            ) from error

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the reading and close the client; safe to call whether or not it was started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=_JOIN_SECONDS)
        else:
            self._follower.close()

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:
            # Whatever it was, the page must say so: a dead thread behind healthy pages would be a blind monitor.
            _log.exception("the reader stopped")
            self._failure = f"{type(error).__name__}: {error}"
            self._publish()
        finally:
            self._follower.close()

    def _read(self) -> None:
        next_expiry = 0.0
        while not self._stopping.is_set():
            records, now_ms = self._follower.poll(), self._clock_ms()
            if records:
                self._view.apply([self._row(record, now_ms) for record in records])
            if time.monotonic() >= next_expiry:
                next_expiry = time.monotonic() + _EXPIRE_SECONDS
                self._view.forget_expired(self._clock_ms())
            self._publish()

    def _row(self, record: Record, now_ms: int) -> Row:
        # Its writer's clock may be ahead, which must not outlast the record.
        written_ms = None if record.timestamp_ms is None else min(record.timestamp_ms, now_ms)
        return Row(self._topics[record.topic], record.key, record.value, written_ms)

    def _note_error(self, error: KafkaError, _topic: str | None) -> None:
        self._kafka_errors += 1
        if time.monotonic() - self._logged.get(error.code(), -_REPEAT_LOG_SECONDS) >= _REPEAT_LOG_SECONDS:
            self._logged[error.code()] = time.monotonic()
            _log.warning("Kafka: %s", error.str())

    def _publish(self) -> None:
        follower = self._follower
        # A stream of before silences has not made their topic; all that it does is shown.
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
