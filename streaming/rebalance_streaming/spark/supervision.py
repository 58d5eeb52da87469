"""Supervision of queries: each one is restarted independently, with back-off."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_contract import QueryStatus
from rebalance_kafka.backoff import Backoff
from rebalance_kafka.grants import grant, grant_producer_id
from rebalance_streaming.diagnosis.process import DiagnosisError, EndingError
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.progress import CatchUp, QueryWatch

#: The Python exception: the line after the indented ones of a traceback.
_PYTHON_ERROR = re.compile(r"^.*Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
#: Errors for checkpoint files that were changed, truncated or lost, from Hadoop's ChecksumFileSystem, Spark's
#: HDFSMetadataLog and OffsetSeqLog, and the error classes of its StateStore providers.
_DAMAGED = re.compile(
    r"Checksum error: |Checksum file not a length multiple|Incomplete log file|"
    r"\[(?:CANNOT_LOAD_STATE_STORE|STDS_FAILED_TO_READ|STREAMING_CHECKPOINT_MISSING|"
    r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY\])|"
    r"File \S*/(?:state|offsets|commits|sources)/\S* does not exist"
)
#: Start of Py4J's own line before the Java error.
_CALLED = "An error occurred while calling "
#: How the JVM, RocksDB and Python report a full disk, or a quota that is used up.
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")
#: Spark's error for state that cannot be written, which does not name the reason.
_STATE_NOT_WRITTEN = "CANNOT_WRITE_STATE_STORE"
#: The Java client's errors for a user who may not use a topic, and for one who may write to none.
_TOPIC_DENIED, _NO_PRODUCER_ID = "TopicAuthorizationException", "ClusterAuthorizationException"
#: Free space below which a disk counts as full, because a file may be larger than the rest.
_LITTLE_BYTES = 16 * 1024 * 1024
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
#: Maximum wait for the running batch of a query before it is restarted.
_RENEW_SECONDS = 5.0
#: Running time after which a query has recovered, and the back-off is reset.
_RECOVERED_SECONDS = 300.0


class SupervisedQuery:
    """One query, running or waiting for its restart.

    `start` is called with true to optimise for many rows per batch, until the query has caught up, and then with false.
    `places` are the local directories to which the query writes, `topic_prefix` is that of the topics.
    """

    def __init__(
        self,
        status: QueryStatus,
        catch_up: CatchUp | None,
        start: Callable[[bool], StreamingQuery],
        notify: Callable[[str], None],
        *,
        topic_prefix: str,
        in_bulk: bool = False,
        places: Sequence[str] = (),
    ) -> None:
        self.name = status.query
        self.watch = QueryWatch(status, catch_up)
        self._start, self._notify, self._in_bulk = start, notify, in_bulk
        self._places, self._topic_prefix = places, topic_prefix
        self._query: StreamingQuery | None = None
        self._next_start = self._started = 0.0
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)

    @property
    def status(self) -> QueryStatus:
        """The status to publish."""
        return self.watch.status

    def tend(self, now_ms: int, stall_seconds: float) -> None:
        """Check the query once: start it if due, handle its end, and restart it if it hangs."""
        if self._query is None:
            if time.monotonic() >= self._next_start:
                self._try_start()
        elif not self._query.isActive:
            error: StreamingQueryException | None = self._query.exception()
            self._failed("without an error" if error is None else self._cause(error))
        else:
            with suppress(Py4JError):
                # The query may end meanwhile; the next call handles that.
                self.watch.look(self._query, now_ms)
            if self.watch.busy_seconds() > stall_seconds:
                self.watch.status = replace(self.watch.status, is_stalled=True)
                self.restart(f"a batch made no progress for {stall_seconds:.0f} s")
            elif self._in_bulk and self.status.caught_up and self.is_between_batches():
                self._in_bulk = False
                self.renew()

    def restart(self, reason: str) -> None:
        """Stop the query; it is restarted after a pause."""
        if self._query is not None:
            self.stop_now()
            self._failed(reason)

    def renew(self) -> None:
        """Restart the query, because its inputs have changed or it has caught up.

        Waits a short time for the end of the running batch: an interrupted batch would be repeated with the new inputs.
        """
        if self._query is not None:
            stop_between_batches(self, time.monotonic() + _RENEW_SECONDS)
            self._query = None
        self.watch.begin()

    def is_between_batches(self) -> bool:
        """Whether the query can be stopped without interrupting a batch."""
        return self._query is None or not self._query.isActive or not self._query.status["isTriggerActive"]

    def stop_now(self) -> None:
        """Stop the query, even in the middle of a batch, which is then repeated at the next start."""
        if self._query is not None:
            try:
                self._query.stop()
            except (Py4JError, PySparkException) as error:
                self._notify(f"the {self.name} query does not stop: {root_cause(str(error))}")

    def _try_start(self) -> None:
        self._started = time.monotonic()
        try:
            self.watch.begin()
            self._query = self._start(self._in_bulk)
        except EndingError:
            # The caller ends this query too.
            self._query = None
        except ConnectionError:
            # Spark's JVM is gone, so no query can be started any more.
            raise
        except (Py4JError, PySparkException, StreamError, DiagnosisError) as error:
            self._failed(self._cause(error))
        except KafkaException as error:
            self._failed(f"Kafka does not say what it starts from: {error.args[0].str()}")
        except Exception as error:
            # Whatever it is, it must not end the other queries.
            self._failed(f"it cannot be started ({type(error).__name__}: {error}); please report this")
        else:
            self.watch.status = replace(self.watch.status, error=None, is_stalled=False)

    def _failed(self, reason: str) -> None:
        ran = time.monotonic() - self._started
        self._query = None
        self.watch.begin()
        if ran > _RECOVERED_SECONDS:
            self._backoff.succeed()
        pause = self._backoff.fail()
        self._next_start = time.monotonic() + pause
        self.watch.status = replace(self.watch.status, restarts=self.status.restarts + 1, error=reason)
        self._notify(f"the {self.name} query ended: {reason}; it is restarted in {pause:.0f} s")

    def _cause(self, error: Exception) -> str:
        text = str(error)
        return (
            describe_full_disk(text, self._places)
            or describe_damage(text)
            or describe_denial(text, self._topic_prefix)
            or root_cause(text)
        )


def stop_between_batches(query: SupervisedQuery, deadline: float) -> None:
    """Stop a query between two batches, or in the middle of one once `deadline` (monotonic time) has passed."""
    while time.monotonic() < deadline and not query.is_between_batches():
        time.sleep(0.02)
    query.stop_now()


def describe_damage(text: str) -> str | None:
    """Return what to do about a checkpoint that Spark cannot read; null for another error.

    Some damage is not recognised: an empty file may show as an internal error of Spark.
    """
    if _DAMAGED.search(text) is None:
        return None
    return (
        f"{root_cause(text)} (its checkpoint is damaged, or cannot be read now: if that stays so, stop the stream and "
        "start it once with --rebuild --set-aside, or with a new value of stream.rebuild)"
    )


def describe_denial(text: str, topic_prefix: str) -> str | None:
    """Return an error for which the query's user may not write, with what to grant; null for another error."""
    cause = root_cause(text).rstrip(".")
    if _NO_PRODUCER_ID in cause:
        return f"{cause}; {grant_producer_id([topic_prefix], is_prefix=True)}"
    if _TOPIC_DENIED in cause and topic_prefix in cause:
        return f"{cause}; {grant('Read', 'Write', topic=topic_prefix, is_prefix=True)}"
    return None


def describe_full_disk(text: str, places: Sequence[str]) -> str | None:
    """Return an error that names the directories on a full disk, or all if that is unknown; null for another error."""
    is_stated = _NO_ROOM.search(text) is not None
    if not places or not (is_stated or _STATE_NOT_WRITTEN in text):
        return None
    full = [place for place in places if _has_little_room(place)]
    if not (is_stated or full):
        return None
    return f"there is no room on the disk of {' or '.join(full or places)}"


def _has_little_room(place: str) -> bool:
    try:
        return shutil.disk_usage(place).free < _LITTLE_BYTES
    except OSError:
        return False


def root_cause(text: str) -> str:
    """Return the line of a Spark error with its root cause, without the stack trace."""
    if raised := _PYTHON_ERROR.findall(text):
        return str(raised[-1])[:500]
    stripped = (line.strip().removeprefix(": ") for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith(("at ", "===", _CALLED))]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["unknown"])[-1 if causes else 0][:500]
