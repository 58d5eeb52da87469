"""Puts silences into their topic: the one thing that an exporter writes, and only when somebody asks for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from rebalance_contract import AlertSilence, encode
from rebalance_exporters.errors import ExporterError
from rebalance_kafka.properties import librdkafka_properties

_DELIVERY_SECONDS = 10.0
#: What the client needs beyond its own time-out to say what became of a message.
_REPORT_SECONDS = 5.0

_log = logging.getLogger(__name__)


class SilenceWriter:
    """Writes one silence at a time, for several threads; its client is made for the first one."""

    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def write(self, silence: AlertSilence) -> None:
        """Write a silence, and return once the brokers have it. Raises ExporterError that says why they do not."""
        told: list[KafkaError | None] = []

        def note(error: KafkaError | None, _: Message) -> None:
            told.append(error)

        with self._lock:
            producer = self._connected()
            key = f"{silence.cluster}/{silence.silence_id}".encode()
            try:
                producer.produce(self._topic, key=key, value=encode(silence), on_delivery=note)
                producer.flush(_DELIVERY_SECONDS + _REPORT_SECONDS)
            except (BufferError, KafkaException) as error:
                raise ExporterError(f"the silence could not be written to {self._topic}: {error}") from error
        if not told:
            raise ExporterError(f"no broker said in time whether {self._topic} took the silence: look, and try again")
        if told[0] is not None:
            raise ExporterError(self._explain(told[0]))

    def _connected(self) -> Producer:
        if self._producer is None:
            properties: dict[str, object] = {
                "client.id": "rebalance-monitor-export",
                **librdkafka_properties(self._kafka),
                "log_level": 2,
                "message.timeout.ms": int(_DELIVERY_SECONDS * 1000),
                # A topic that is not there is to be told of before that time is over.
                "topic.metadata.propagation.max.ms": 3_000,
            }
            try:
                self._producer = Producer(properties, logger=_log)
            except KafkaException as error:
                raise ExporterError(f"the Kafka client refuses its properties: {error.args[0].str()}") from error
        return self._producer

    def _explain(self, error: KafkaError) -> str:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return (
                f"the exporter may not write to {self._topic}; grant it: kafka-acls --add --operation Write "
                f"--topic {self._topic} --allow-principal User:..."
            )
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return f"topic {self._topic} is missing: `rebalance-monitor stream` of this version creates it at its start"
        return f"the silence could not be written to {self._topic}: {error.str()}"
