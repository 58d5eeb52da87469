"""The process in which the engine runs: frames of rows and ticks in, rows to the monitor's topics out.

It is the driver's child and ends with it. Whatever happens to it, no query that counts has to wait.
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
from rebalance_streaming.cluster import QUIET
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.diagnosis.frames import Done, Failed, InputRow, Rows, Start, Tick, receive, send
from rebalance_streaming.diagnosis.restoring import read_restored
from rebalance_streaming.engine.engine import NOT_UNDERSTOOD, Engine, EngineConfig
from rebalance_streaming.engine.rows import Output, address, decode_input
from rebalance_streaming.errors import StreamError
from rebalance_streaming.publisher import Publisher

#: Groups judged per tick, a quarter of a second's work: at a start all are due, and their lag is not to wait for that.
_JUDGED_AT_ONCE = 250


class RowSink(Protocol):
    """What takes the rows of a worker: the publisher, which sends them."""

    def put(self, topic: str, key: str, value: bytes | None) -> None:
        """Take a row of (topic, key), in the place of any that waits there; a null value is a tombstone."""

    def send(self) -> None:
        """Send what waits, without waiting."""


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
            # Nobody reads a list at its end: it may run for months.
            partial(Detector, lists_all=False),
        )
        for stage, reason, count in start.set_aside:
            self._engine.quarantine(stage, reason, "it stopped an earlier run", count)

    @property
    def engine(self) -> Engine:
        """What is fed."""
        return self._engine

    def take(self, rows: tuple[InputRow, ...]) -> None:
        """Process rows in the order of their times."""
        now_ms = epoch_ms()
        for row in rows:
            writer = decode_writer(row.writer)
            if writer is not None and not self._fence.admits(row.topic, row.key or b"", writer, row.at_ms):
                # Of a stream that lost its topics; the exporter counts such rows.
                continue
            try:
                decoded = decode_input(row.topic, row.key, row.value)
            except ContractError as error:
                self._engine.quarantine(row.topic, NOT_UNDERSTOOD, f"offset {row.offset}: {error}")
                continue
            if decoded is not None:
                # Any time can be given to a record by who writes it, and no row was written later than now.
                self._engine.apply(decoded, min(row.at_ms, now_ms))

    def tick(self, tick: Tick) -> None:
        """Judge what is due; publish it, unless the log is still being read up."""
        if not tick.caught_up:
            return
        # Lag is looked at all the time, and judging may take longer than everything before it.
        for most in (0, _JUDGED_AT_ONCE):
            self._publish(self._engine.advance(tick.now_ms, tick.read_until_ms, most))

    def _publish(self, rows: Iterable[Output]) -> None:
        for row in rows:
            topic, key, value = address(row)
            self._publisher.put(self._config.topic_prefix + topic, key, value)
        self._publisher.send()


def reads_committed(config: StreamConfig) -> Callable[[str], bool]:
    """Return whether a group's consumers read committed records only, as configured."""
    if not config.read_committed_groups:
        return lambda _: False
    pattern = re.compile(config.read_committed_groups)
    return lambda group: pattern.fullmatch(group) is not None


def run(connection: socket.socket) -> None:
    """Serve frames until the driver ends the connection."""
    start = receive(connection)
    if not isinstance(start, Start):
        return
    said: list[str] = []
    properties = {**librdkafka_properties(start.config.kafka), **QUIET}
    writer = RowWriter(start.config.cluster, Participant.DIAGNOSIS, start.epoch)
    publisher = Publisher(properties, said.append, writer)
    worker = DiagnosisWorker(start, publisher, said.append)
    try:
        for row in read_restored(start.config):
            worker.engine.restore(row, epoch_ms())
    except StreamError as error:
        # With a part of what was published, it would publish smaller totals over larger ones.
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
    """Run on the socket whose number is the first argument."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A signal to the whole group is the driver's to obey; it ends the connection when it is done.
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            run(connection)
        except (BrokenPipeError, ConnectionResetError):
            return


if __name__ == "__main__":
    main()
