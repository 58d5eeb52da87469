"""The process in which the engine runs: receives rows and ticks as frames, and publishes rows to the monitor's topics.

It is a child process of the driver and ends with it. If it fails or hangs, the counting queries are not affected.
"""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from rebalance_contract import ContractError, Participant
from rebalance_contract.epochs import Fence, RowWriter, decode_writer
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.properties import librdkafka_properties
from rebalance_streaming.brokers.cluster import QUIET
from rebalance_streaming.brokers.publisher import Publisher
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.diagnosis.frames import Done, Failed, InputRow, Rows, Start, Tick, receive, send
from rebalance_streaming.diagnosis.restoring import read_restored
from rebalance_streaming.engine.engine import NOT_UNDERSTOOD, RESTORED_ROW, Engine, EngineConfig
from rebalance_streaming.engine.rows import Output, address, decode_input
from rebalance_streaming.errors import StreamError

#: Maximum number of groups judged per tick, which takes a quarter of a second: at a start all groups are due, and this
#: must not delay their lag.
_JUDGED_AT_ONCE = 250


class RowSink(Protocol):
    """Receives the rows of a worker; implemented by the publisher."""

    def put(self, topic: str, key: str, value: bytes | None) -> None:
        """Queue a row, replacing a waiting one with the same topic and key; a null value is a tombstone."""

    def send(self) -> None:
        """Send the queued rows without blocking."""


class DiagnosisWorker:
    """Feeds one engine from frames and publishes what changes."""

    def __init__(self, start: Start, publisher: RowSink, say: Callable[[str], None]) -> None:
        self._config, self._publisher, self._fence = start.config, publisher, Fence()
        self._engine = Engine(
            EngineConfig(
                cluster=start.config.cluster,
                source_topic=start.config.source_topic,
                detect=start.detect,
                judge_from_ms=start.judge_from_ms,
                reads_committed=reads_committed(start.config),
            ),
            say,
            # The detector must not collect all findings, because the process may run for months.
            partial(Detector, lists_all=False),
        )
        for stage, reason, count in start.quarantined:
            self._engine.quarantine(stage, reason, "it stopped an earlier run", count)

    @property
    def engine(self) -> Engine:
        """The engine of this worker."""
        return self._engine

    def take(self, rows: tuple[InputRow, ...]) -> None:
        """Process rows in the order of their times."""
        now_ms = epoch_ms()
        for row in rows:
            writer = decode_writer(row.writer)
            if writer is not None and not self._fence.admits(row.topic, row.key or b"", writer, row.at_ms):
                # Written by a superseded stream; the exporter counts these rows.
                continue
            try:
                decoded = decode_input(row.topic, row.key, row.value)
            except ContractError as error:
                self._engine.quarantine(row.topic, NOT_UNDERSTOOD, f"offset {row.offset}: {error}")
                continue
            if decoded is not None:
                # Producers may set any timestamp, but no row was written later than now.
                self._engine.apply(decoded, min(row.at_ms, now_ms))

    def tick(self, tick: Tick) -> None:
        """Judge due groups and publish the results; does nothing until the queries have caught up."""
        if not tick.caught_up:
            return
        # First publish lag without judging any group (0), because judging may take longer than everything else.
        for most in (0, _JUDGED_AT_ONCE):
            self._publish(self._engine.advance(tick.now_ms, tick.read_until_ms, most))

    def _publish(self, rows: Iterable[Output]) -> None:
        for row in rows:
            topic, key, value = address(row)
            self._publisher.put(self._config.topic_prefix + topic, key, value)
        self._publisher.send()


def reads_committed(config: StreamConfig) -> Callable[[str], bool]:
    """Return a predicate: whether a group's consumers read only committed records, according to the settings."""
    if not config.read_committed_groups:
        return lambda _: False
    pattern = re.compile(config.read_committed_groups)
    return lambda group: pattern.fullmatch(group) is not None


def run(connection: socket.socket) -> None:
    """Serve frames until the driver closes the connection."""
    start = receive(connection)
    if not isinstance(start, Start):
        return
    said: list[str] = []
    properties = {**librdkafka_properties(start.config.kafka), **QUIET}
    writer = RowWriter(start.config.cluster, Participant.DIAGNOSIS, start.epoch)
    publisher = Publisher(properties, said.append, writer)
    worker = DiagnosisWorker(start, publisher, said.append)
    try:
        for row in read_restored(start.config, partial(worker.engine.quarantine, RESTORED_ROW, NOT_UNDERSTOOD)):
            worker.engine.restore(row, epoch_ms())
    except StreamError as error:
        # With only a part of the published rows, it would replace larger totals by smaller ones.
        send(connection, Failed(str(error)))
        return
    send(connection, Done())
    while (frame := receive(connection)) is not None:
        if isinstance(frame, Rows):
            worker.take(frame.rows)
        elif isinstance(frame, Tick):
            worker.tick(frame)
        send(connection, Done(tuple(said), publisher.waiting()))
        said.clear()
    publisher.close()


def main() -> None:
    """Run on the socket whose file descriptor is the first argument."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # The driver handles signals to the process group, and closes the connection when it has finished.
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            run(connection)
        except (BrokenPipeError, ConnectionResetError):
            return


if __name__ == "__main__":
    main()
