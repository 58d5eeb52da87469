"""A pykafka BalancedConsumer, which keeps its membership in ZooKeeper.

python -m rebalance_devtools.stories.programs.consume_pykafka '{"name": …, "topic": …, "settings": {…}, …}'
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from typing import Any

from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException, PartitionOwnedError

from rebalance_devtools.stories.programs.event_log import EventLog, Stopped, stop_on_sigterm


@dataclass
class Spec:
    """Options of the program; `settings` are those of BalancedConsumer."""

    name: str
    bootstrap: str
    group: str
    topic: str
    settings: dict[str, Any]


class Listener:
    """Logs the partitions of a consumer after each of its rebalances."""

    def __init__(self, event_log: EventLog) -> None:
        """Write events to `event_log`."""
        self._event_log = event_log

    def __call__(self, consumer: Any, _before: Any, after: Any) -> None:
        """Log the new partitions; returns None, so that offsets are not changed."""
        self._event_log.write("assigned", partitions=sorted(after), member_id=read_member_id(consumer))


def read_member_id(consumer: Any) -> str:
    """Return the consumer's id in ZooKeeper."""
    found = consumer._consumer_id
    return found.decode() if isinstance(found, bytes) else str(found)


def consume(consumer: Any, event_log: EventLog) -> None:
    """Consume until stopped, or until the consumer stops itself."""
    while True:
        try:
            message = consumer.consume()
        except (ConsumerStoppedException, PartitionOwnedError) as error:
            event_log.write(
                "gave_up", error=type(error).__name__, text=str(error)[:300], member_id=read_member_id(consumer)
            )
            return
        if message is not None:
            topic, partition = consumer.topic.name, message.partition_id
            name = topic.decode() if isinstance(topic, bytes) else topic
            event_log.write_records([(name, partition, message.offset)])


def main(text: str) -> None:
    """Run until SIGTERM or until the consumer stops itself."""
    spec = Spec(**json.loads(text))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    event_log = EventLog(spec.name)
    stop_on_sigterm()
    consumer: Any = None
    try:
        client = KafkaClient(hosts=spec.bootstrap, broker_version="0.10.2")
        event_log.write("started")
        consumer = client.topics[spec.topic.encode()].get_balanced_consumer(
            consumer_group=spec.group.encode(),
            post_rebalance_callback=Listener(event_log),
            auto_start=False,
            **spec.settings,
        )
        event_log.write("joins", member_id=read_member_id(consumer))
        consumer.start()
        event_log.write("in", member_id=read_member_id(consumer), partitions=sorted(consumer.partitions))
        consume(consumer, event_log)
        event_log.write("closed")
    except Stopped:
        event_log.write("closed")


if __name__ == "__main__":
    main(sys.argv[1])
