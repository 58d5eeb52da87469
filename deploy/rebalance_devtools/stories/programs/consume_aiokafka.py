"""An aiokafka consumer, whose heartbeats share an event loop with the application; settings are passed through.

python -m rebalance_devtools.stories.programs.consume_aiokafka '{"name": …, "topic": …, "settings": {…}, …}'
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from rebalance_devtools.stories.programs.event_log import EventLog


@dataclass
class Spec:
    """Options of the program.

    SIGUSR1 makes the program block the event loop for `stall_ms` or, with `stall_awaits`, await that long before it
    requests records again.
    """

    name: str
    topic: str
    settings: dict[str, Any]
    stall_ms: int = 0
    stall_awaits: bool = False


class Listener(ConsumerRebalanceListener):
    """Logs assignments with the member id."""

    def __init__(self, event_log: EventLog, consumer: Any) -> None:
        """Write events to `event_log`."""
        self._event_log, self._consumer = event_log, consumer

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Log the assignment."""
        # aiokafka has no public API for generation and member id.
        coordinator = self._consumer._coordinator
        places = sorted([each.topic, each.partition] for each in assigned)
        self._event_log.write(
            "assigned", partitions=places, generation=coordinator.generation, member_id=coordinator.member_id
        )

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Log the revocation."""
        self._event_log.write("revoked", partitions=sorted([each.topic, each.partition] for each in revoked))


def stall(spec: Spec, event_log: EventLog) -> None:
    """Block the event loop."""
    event_log.write("stalls", milliseconds=spec.stall_ms)
    time.sleep(spec.stall_ms / 1000)


async def consume(spec: Spec, event_log: EventLog) -> None:
    """Consume until SIGTERM."""
    loop, stopped, awaited = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    if spec.stall_awaits:
        loop.add_signal_handler(signal.SIGUSR1, awaited.set)
    else:
        loop.add_signal_handler(signal.SIGUSR1, stall, spec, event_log)
    consumer = AIOKafkaConsumer(**spec.settings)
    consumer.subscribe([spec.topic], listener=Listener(event_log, consumer))
    await consumer.start()
    event_log.write("started")
    while not stopped.is_set():
        found = await consumer.getmany(timeout_ms=200)
        event_log.write_records((each.topic, each.partition, each.offset) for batch in found.values() for each in batch)
        if awaited.is_set():
            awaited.clear()
            event_log.write("stalls", milliseconds=spec.stall_ms)
            await asyncio.sleep(spec.stall_ms / 1000)
    await consumer.stop()
    event_log.write("closed")


def main(text: str) -> None:
    """Run until SIGTERM."""
    spec = Spec(**json.loads(text))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(consume(spec, EventLog(spec.name)))


if __name__ == "__main__":
    main(sys.argv[1])
