"""Ownership of a query's output by the process with the highest epoch, which it takes at its start.

Processes coordinate through the status topic: each publishes the status of its queries, with its epoch, every two
seconds, and follows the statuses that others publish for the same queries. A new process takes a higher epoch than all
known ones, so that it always wins: it was started by a deploy, while the previous one may hang.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing

from confluent_kafka import KafkaException

from rebalance_contract import ContractError, QueryStatus, Status, decode_status, query_key
from rebalance_kafka.follower import Follower, Record
from rebalance_kafka.positions import Bounds, Place
from rebalance_streaming.background import repeat_until
from rebalance_streaming.brokers.own_topics import decode_rows, read_latest_rows
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError, SupersededError

#: Number of records before the end of the status topic to read at a start: minutes of statuses, so that two processes
#: that start at the same time see each other's.
_BACK = 1_000
_POLL_SECONDS, _AGAIN_SECONDS = 0.5, 1.0
#: A process that has published nothing for this long has ended or cannot reach the brokers; maximum wait for that.
_SILENT_SECONDS, _HANDOVER_SECONDS = 5.0, 20.0
#: Maximum wait for the end of the status topic if it must be known whether another process still writes; poll interval.
_KNOWN_SECONDS, _LOOK_SECONDS = 60.0, 0.1
_STOP_SECONDS = 1.0


def read_statuses(config: StreamConfig, warn: Callable[[str], None]) -> list[Status]:
    """Return the last row of each key of this cluster in the status topic; `warn` is told of unreadable rows.

    Raises StreamError if the topic cannot be read to its end.
    """
    latest = read_latest_rows(config, [config.status_topic], name="status")
    rows = decode_rows(config.status_topic, latest.values(), decode_status, warn)
    return [each for each in rows if each.cluster == config.cluster]


class QueryOwnership:
    """The epoch of this process, and which other process owns its queries, if any."""

    def __init__(self, config: StreamConfig, known: Iterable[Status], now_ms: int) -> None:
        """Take an epoch; `known` are the last published statuses of all processes."""
        self.host, self.pid = socket.gethostname(), os.getpid()
        self._config = config
        self._keys = {query_key(config.cluster, query).encode() for query in config.queries}
        of_before = [each for each in known if isinstance(each, QueryStatus) and each.query in config.queries]
        self.epoch = max([now_ms, *(each.epoch + 1 for each in of_before)])
        self._lost_to: QueryStatus | None = None
        #: The latest status of an earlier process that still writes, and when it was received.
        self._other: tuple[QueryStatus, float] | None = None
        #: Time since which the topic is followed without errors; null until its end is reached.
        self._followed_since: float | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, warn: Callable[[str], None]) -> None:
        """Start following the statuses of other processes; `warn` is told of unexpected errors."""
        following = self._stopping, self._try_to_follow, "following the statuses of other streams", warn
        self._thread = threading.Thread(target=repeat_until, args=following, name="ownership", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; if it is waiting for brokers, it ends with the process."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def await_handover(self, stop: threading.Event) -> bool:
        """Wait up to 20 s until earlier processes have stopped writing; return whether there was one."""
        deadline = time.monotonic() + _HANDOVER_SECONDS
        waited = False
        while self.other() is not None and time.monotonic() < deadline:
            waited = True
            if stop.wait(_POLL_SECONDS):
                break
        return waited

    def other(self) -> QueryStatus | None:
        """Return the status of an earlier process that has written within the last 5 s; null if there is none."""
        if self._other is None or time.monotonic() >= self._other[1] + _SILENT_SECONDS:
            return None
        return self._other[0]

    def other_for_certain(self, stop: threading.Event) -> QueryStatus | None:
        """Return the same as `other`, but wait until any process that still writes must have been seen.

        Raises StreamError if the topic cannot be read to its end within a minute, or if `stop` is set before.
        """
        deadline = time.monotonic() + _KNOWN_SECONDS
        while (other := self.other()) is None:
            now, since = time.monotonic(), self._followed_since
            if since is not None and now >= since + _SILENT_SECONDS:
                return None
            if (since is None and now >= deadline) or stop.wait(_LOOK_SECONDS):
                raise StreamError(
                    f"whether another stream still writes is not known, as {self._config.status_topic} cannot be read "
                    "to its end: start this one again when the brokers answer"
                )
        return other

    def refuse_beside_another(self, why: str, stop: threading.Event) -> None:
        """Raise StreamError if another stream is still publishing, because its rows would be counted twice.

        `why` is the reason for the new checkpoint. Also raises StreamError like `other_for_certain`.
        """
        if (other := self.other_for_certain(stop)) is not None:
            raise StreamError(
                f"{why}: another stream still writes (host {other.host}, process {other.pid}): stop it first"
            )

    def is_lost(self) -> bool:
        """Whether another process now owns a query of this one."""
        return self._lost_to is not None

    def check(self) -> None:
        """Raise SupersededError, which names the other process, if this one has lost a query."""
        if (owner := self._lost_to) is not None:
            raise SupersededError(
                f"another stream (host {owner.host}, process {owner.pid}) took over the {owner.query} query of cluster "
                f"{owner.cluster}: this one ends. Run one stream per cluster; if both are wanted, give one of them a "
                "stream.topic_prefix or a stream.cluster of its own"
            )

    def take(self, records: Iterable[Record], *, is_new: bool) -> None:
        """Process records of the status topic; `is_new`: they were written since this process began to follow it."""
        # Host and process id break the tie between two processes that started in the same millisecond.
        own = self.epoch, self.host, self.pid
        for record in records:
            if record.key not in self._keys or record.value is None:
                continue
            try:
                status = decode_status(record.value)
            except ContractError:
                continue
            if not isinstance(status, QueryStatus):
                continue
            theirs = status.epoch, status.host, status.pid or 0
            if theirs > own:
                self._lost_to = self._lost_to or status
            elif theirs < own and is_new:
                self._other = status, time.monotonic()

    def _try_to_follow(self) -> None:
        try:
            self._follow()
        except KafkaException:
            # Unavailable brokers do not mean that there is another stream.
            self._stopping.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        try:
            with closing(
                Follower(self._config.kafka, [self._config.status_topic], name="ownership", start=_start_lately)
            ) as follower:
                while not self._stopping.is_set():
                    is_new = follower.at_end
                    if follower.error is not None:
                        # Records published since then may not have been received.
                        self._followed_since = None
                    elif is_new and self._followed_since is None:
                        self._followed_since = time.monotonic()
                    self.take(follower.poll(_POLL_SECONDS), is_new=is_new)
        finally:
            self._followed_since = None


def _start_lately(bounds: Mapping[Place, Bounds]) -> Mapping[Place, int]:
    return {place: max(each.beginning, each.end - _BACK) for place, each in bounds.items()}
