"""A kafka-python consumer for any version from 1.4.6 to 3.0; settings are passed through.

python -m rebalance_devtools.stories.programs.consume_kafka_python '{"name": …, "topic": …, "settings": {…}, …}'
"""

from __future__ import annotations

import ctypes
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError

from rebalance_devtools.stories.programs.event_log import EventLog, Stopped, stop_on_sigterm


@dataclass
class Spec:
    """Options of the program.

    `loop` is `iterate` (for message in consumer) or `poll`. `hold_ms` is spent on each record; `hold` is where: in a C
    call that holds the interpreter lock (`gil`), in one that releases it (`sleep`), or in another process (`process`).
    With `hold_marked` only records with the value `hold` are held, the first time this process gets them. With `commit`
    each batch is committed, with `replays` everything is read again after each assignment. `poll_for_ms` after the
    first assignment the program stops polling; None means never. `metrics_topic` is the topic to which the project's
    reporter sends the client's metrics; None for no reporter.
    """

    name: str
    topic: str
    settings: dict[str, Any]
    loop: str = "iterate"
    hold: str = "sleep"
    hold_ms: int = 0
    hold_marked: bool = False
    commit: bool = False
    replays: bool = False
    poll_for_ms: int | None = None
    metrics_topic: str | None = None


class Listener(ConsumerRebalanceListener):
    """Logs assignments with generation and member id."""

    def __init__(self, event_log: EventLog, *, replays: bool = False) -> None:
        """Write events to `event_log`; with `replays` read from the beginning after each assignment."""
        self.event_log, self._replays = event_log, replays
        self.consumer: Any = None
        self.assigned_at: float | None = None

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Log the assignment."""
        self.assigned_at = self.assigned_at or time.monotonic()
        generation, member_id = read_identity(self.consumer)
        places = sorted([each.topic, each.partition] for each in assigned)
        self.event_log.write("assigned", partitions=places, generation=generation, member_id=member_id)
        if self._replays and assigned:
            self.consumer.seek_to_beginning(*assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Log the revocation."""
        self.event_log.write("revoked", partitions=sorted([each.topic, each.partition] for each in revoked))


def read_identity(consumer: Any) -> tuple[int | None, str | None]:
    """Return generation and member id, which are not in the public API before version 3.0."""
    if hasattr(consumer, "group_metadata"):
        metadata = consumer.group_metadata()
        return metadata.generation_id, metadata.member_id
    generation = consumer._coordinator._generation
    return generation.generation_id, generation.member_id


def make_hold(spec: Spec) -> Callable[[], None]:
    """Return the function that is called to hold a record."""
    seconds = spec.hold_ms / 1000
    if spec.hold == "gil":
        library = ctypes.PyDLL(None)
        return lambda: hold_interpreter(library, spec.hold_ms)
    if spec.hold == "process":
        return lambda: hold_process(seconds)
    return lambda: time.sleep(seconds)


def hold_process(seconds: float) -> None:
    """Wait for another process that sleeps, as for work that was moved there."""
    subprocess.run([sys.executable, "-c", f"import time; time.sleep({seconds})"], check=True)


def hold_interpreter(library: ctypes.PyDLL, milliseconds: int) -> None:
    """Sleep in C without releasing the interpreter lock, as a careless extension does."""
    # usleep need not accept a second or more.
    library.sleep(milliseconds // 1000)
    library.usleep(milliseconds % 1000 * 1000)


def batches(consumer: Any, spec: Spec) -> Iterator[list[Any]]:
    """Yield lists of records; an empty list if a poll returned none."""
    if spec.loop == "iterate":
        while True:
            for message in consumer:
                yield [message]
    while True:
        found = consumer.poll(timeout_ms=500)
        yield [message for messages in found.values() for message in messages]


def work(consumer: Any, spec: Spec, event_log: EventLog, listener: Listener) -> None:
    """Consume until stopped; after the time to poll, wait without polling."""
    hold, had = make_hold(spec), set[tuple[int, int]]()
    for messages in batches(consumer, spec):
        event_log.write_records((each.topic, each.partition, each.offset) for each in messages)
        held = [each for each in messages if is_held(spec, each, had)]
        for each in held:
            hold()
            had.add((each.partition, each.offset))
        if held:
            event_log.write("processed", count=len(held))
        if messages and spec.commit:
            commit(consumer, event_log)
        if is_over(spec, listener):
            event_log.write("stops_polling")
            while True:
                time.sleep(3600)


def is_held(spec: Spec, message: Any, had: set[tuple[int, int]]) -> bool:
    """Return whether a record is to be held."""
    if not spec.hold_marked:
        return spec.hold_ms > 0
    return message.value == b"hold" and (message.partition, message.offset) not in had


def is_over(spec: Spec, listener: Listener) -> bool:
    """Return whether the program must stop polling."""
    return (
        spec.poll_for_ms is not None
        and listener.assigned_at is not None
        and time.monotonic() >= listener.assigned_at + spec.poll_for_ms / 1000
    )


def commit(consumer: Any, event_log: EventLog) -> None:
    """Commit the current offsets, and log the result."""
    try:
        consumer.commit()
    except KafkaError as error:
        event_log.write("commit_failed", error=type(error).__name__, text=str(error)[:300])
    else:
        event_log.write("committed")


def open_consumer(spec: Spec) -> Any:
    """Return the consumer, with a reporter if there is a `metrics_topic`."""
    consumer = KafkaConsumer(**spec.settings)
    if spec.metrics_topic is None:
        return consumer
    from rebalance_exporters.reporters.kafka_python import report  # noqa: PLC0415 - without it no reporter is needed

    return report(consumer, topic=spec.metrics_topic)


def main(text: str) -> None:
    """Run until SIGTERM."""
    spec = Spec(**json.loads(text))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    event_log = EventLog(spec.name)
    stop_on_sigterm()
    listener = Listener(event_log, replays=spec.replays)
    consumer = listener.consumer = open_consumer(spec)
    consumer.subscribe([spec.topic], listener=listener)
    event_log.write("started")
    try:
        work(consumer, spec, event_log, listener)
    except Stopped:
        consumer.close()
        event_log.write("closed")


if __name__ == "__main__":
    main(sys.argv[1])
