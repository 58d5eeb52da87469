"""Queries that are started again: each alone, after a pause that grows, so that none takes another with it."""

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
from rebalance_streaming.diagnosis.process import DiagnosisError
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.progress import CatchUp, QueryWatch

#: What Python raised: the line after the indented ones of a traceback.
_PYTHON_ERROR = re.compile(r"^.*Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
#: What Hadoop's checksummed files and Spark's logs and state stores say of a checkpoint whose files were changed, cut
#: or lost: ChecksumFileSystem, HDFSMetadataLog, OffsetSeqLog, and the classes of errors of StateStore's providers.
_DAMAGED = re.compile(
    r"Checksum error: |Checksum file not a length multiple|Incomplete log file|"
    r"\[(?:CANNOT_LOAD_STATE_STORE|STDS_FAILED_TO_READ|STREAMING_CHECKPOINT_MISSING|"
    r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY\])|"
    r"File \S*/(?:state|offsets|commits|sources)/\S* does not exist"
)
#: What Py4J says before the error of Java itself.
_CALLED = "An error occurred while calling "
#: How the JVM, RocksDB and Python report a full disk, or a quota that is used up.
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")
#: Of state that cannot be written Spark does not say why.
_STATE_NOT_WRITTEN = "CANNOT_WRITE_STATE_STORE"
#: What is left on a disk that is full: a file may be too large for it.
_LITTLE_BYTES = 16 * 1024 * 1024
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
#: How long a query that is to be started anew may take for the batch that it is at.
_RENEW_SECONDS = 5.0
#: A query that ran for this long had recovered: its next failure is a new one.
_RECOVERED_SECONDS = 300.0


class SupervisedQuery:
    """One query: running, or waiting to be started again.

    `start` is called with whether it is to be fast with many rows, until the log has been read up once, or with few.
    `places` are the directories of this machine to which it writes.
    """

    def __init__(
        self,
        status: QueryStatus,
        catch_up: CatchUp | None,
        start: Callable[[bool], StreamingQuery],
        notify: Callable[[str], None],
        *,
        in_bulk: bool = False,
        places: Sequence[str] = (),
    ) -> None:
        self.name = status.query
        self.watch = QueryWatch(status, catch_up)
        self._start, self._notify, self._in_bulk = start, notify, in_bulk
        self._places = places
        self._query: StreamingQuery | None = None
        self._next_start = self._started = 0.0
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)

    @property
    def status(self) -> QueryStatus:
        """What is published of it."""
        return self.watch.status

    def tend(self, now_ms: int, stall_seconds: float) -> None:
        """Look after the query once: start it, notice its end, end it when it hangs."""
        if self._query is None:
            if time.monotonic() >= self._next_start:
                self._try_start()
        elif not self._query.isActive:
            error: StreamingQueryException | None = self._query.exception()
            self._failed("without an error" if error is None else self._cause(error))
        else:
            with suppress(Py4JError):
                # A query may end while it is looked at; the next look finds out.
                self.watch.look(self._query, now_ms)
            if self.watch.busy_ms(now_ms) > stall_seconds * 1000:
                self.watch.status = replace(self.watch.status, is_stalled=True)
                self.restart(f"a batch made no progress for {stall_seconds:.0f} s")
            elif self._in_bulk and self.status.caught_up and self.is_between_batches():
                self._in_bulk = False
                self.renew()

    def restart(self, reason: str) -> None:
        """End the query; it starts again after a pause."""
        if self._query is not None:
            self.stop_now()
            self._failed(reason)

    def renew(self) -> None:
        """Start the query again: what it reads is no longer what it was started with.

        A batch that is soon over is not cut: it would be run again, with what the query is started with then.
        """
        if self._query is not None:
            stop_between_batches(self, time.monotonic() + _RENEW_SECONDS)
            self._query = None

    def is_between_batches(self) -> bool:
        """Whether the query can be stopped without a batch being cut."""
        return self._query is None or not self._query.isActive or not self._query.status["isTriggerActive"]

    def stop_now(self) -> None:
        """Stop the query, in the middle of a batch if need be; a cut batch is run again at the next start."""
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
        except (Py4JError, PySparkException, StreamError, DiagnosisError) as error:
            self._failed(self._cause(error))
        except KafkaException as error:
            self._failed(f"Kafka does not say what it starts from: {error.args[0].str()}")
        else:
            self.watch.status = replace(self.watch.status, error=None, is_stalled=False)

    def _failed(self, reason: str) -> None:
        ran = time.monotonic() - self._started
        self._query = None
        if ran > _RECOVERED_SECONDS:
            self._backoff.succeed()
        pause = self._backoff.fail()
        self._next_start = time.monotonic() + pause
        self.watch.status = replace(self.watch.status, restarts=self.status.restarts + 1, error=reason)
        self._notify(f"the {self.name} query ended: {reason}; it is restarted in {pause:.0f} s")

    def _cause(self, error: Exception) -> str:
        text = str(error)
        return describe_full_disk(text, self._places) or describe_damage(text) or root_cause(text)


def stop_between_batches(query: SupervisedQuery, deadline: float) -> None:
    """Stop a query between two batches if it gets there by a monotonic time, and in the middle of one if not."""
    while time.monotonic() < deadline and not query.is_between_batches():
        time.sleep(0.02)
    query.stop_now()


def describe_damage(text: str) -> str | None:
    """Return what to do about a checkpoint that Spark cannot read; null if the error is another.

    Not every damage is reported so: a file without any content may show as an internal error of Spark.
    """
    if _DAMAGED.search(text) is None:
        return None
    return (
        f"{root_cause(text)} (its checkpoint is damaged, or cannot be read now: if that stays so, stop the stream and "
        "start it once with --rebuild --set-aside, or with a new value of stream.rebuild)"
    )


def describe_full_disk(text: str, places: Sequence[str]) -> str | None:
    """Return which of these directories have no room, all where that is unknown; null if the error is another."""
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
    """Return the line of a Spark error that says what happened, not the ones that say where."""
    if raised := _PYTHON_ERROR.findall(text):
        return str(raised[-1])[:500]
    stripped = (line.strip().removeprefix(": ") for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith(("at ", "===", _CALLED))]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["unknown"])[-1 if causes else 0][:500]
