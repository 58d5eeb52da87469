"""Writes silences to their topic: the only thing that an exporter writes, and only on request.

It asks the brokers in advance whether it may write, so that the page does not offer a form only to refuse the input.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from rebalance_contract import AlertSilence, encode, silence_key
from rebalance_exporters.errors import ExporterError
from rebalance_kafka.grants import grant
from rebalance_kafka.properties import librdkafka_properties
from rebalance_kafka.refusals import refusals_as

_DELIVERY_SECONDS = 10.0
#: Time that the client needs, after its own time-out, to report the outcome of a message.
_REPORT_SECONDS = 5.0
#: How long the brokers' answer on whether the exporter may write is cached (each list of silences needs it), and how
#: long to wait for it.
_ALLOWED_SECONDS, _ASK_SECONDS = 60.0, 5.0

#: Errors that last until somebody fixes the topic or the rights.
_LASTING = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)

_log = logging.getLogger(__name__)


class SilenceWriter:
    """Writes one silence at a time; thread-safe. Its producer is created for the first one."""

    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._producer: Producer | None = None
        self._admin: AdminClient | None = None
        self._refusal: str | None = None
        self._asked_at: float | None = None

    def write(self, silence: AlertSilence) -> None:
        """Write a silence and wait until the brokers have it. Raises ExporterError that says why they do not."""
        outcomes: list[KafkaError | None] = []

        def note(error: KafkaError | None, _: Message) -> None:
            outcomes.append(error)

        with self._lock:
            producer = self._connected()
            key = silence_key(silence.cluster, silence.silence_id).encode()
            try:
                producer.produce(self._topic, key=key, value=encode(silence), on_delivery=note)
                producer.flush(_DELIVERY_SECONDS + _REPORT_SECONDS)
            except (BufferError, KafkaException) as error:
                raise ExporterError(f"the silence could not be written to {self._topic}: {error}") from error
        if not outcomes:
            raise ExporterError(f"no broker said in time whether {self._topic} took the silence: look, and try again")
        if outcomes[0] is not None:
            raise ExporterError(self._explain(outcomes[0]))

    def refusal(self) -> str | None:
        """Return why nothing can be written, by the brokers' last answer; null if they gave no reason.

        One caller a minute waits a few seconds at most; others get the last answer meanwhile, null before the first. If
        the brokers do not answer, an error appears only on a write.
        """
        if self._asking.acquire(blocking=False):
            try:
                asked_at = self._asked_at
                if asked_at is None or time.monotonic() - asked_at >= _ALLOWED_SECONDS:
                    self._refusal, self._asked_at = self._ask(), time.monotonic()
            finally:
                self._asking.release()
        return self._refusal

    def _ask(self) -> str | None:
        try:
            self._admin = self._admin or AdminClient(self._properties(), logger=_log)
            (asked,) = self._admin.describe_topics(
                TopicCollection([self._topic]), include_authorized_operations=True, request_timeout=_ASK_SECONDS
            ).values()
            operations = asked.result(_ASK_SECONDS).authorized_operations
        except KafkaException as error:
            code = error.args[0].code()
            return self._explain(error.args[0]) if code in _LASTING else None
        except (TimeoutError, ValueError):
            return None
        # Brokers that have no authorizer allow everything; those before 2.3 do not return operations.
        if operations is None or not {AclOperation.WRITE, AclOperation.ALL, AclOperation.ANY}.isdisjoint(operations):
            return None
        return self._not_allowed()

    def _connected(self) -> Producer:
        if self._producer is None:
            properties: dict[str, str | int | float | bool] = {
                **self._properties(),
                "message.timeout.ms": int(_DELIVERY_SECONDS * 1000),
                # Needs a further permission, and the client ends without it. A repeated row does no harm.
                "enable.idempotence": False,
                # Report a missing topic before that time-out.
                "topic.metadata.propagation.max.ms": 3_000,
            }
            with refusals_as(ExporterError):
                self._producer = Producer(properties, logger=_log)
        return self._producer

    def _properties(self) -> dict[str, str | int | float | bool]:
        return {"client.id": "rebalance-monitor-export", **librdkafka_properties(self._kafka), "log_level": 2}

    def _not_allowed(self) -> str:
        return f"the exporter may not write to {self._topic}; {grant('Write', topic=self._topic)}"

    def _explain(self, error: KafkaError) -> str:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return self._not_allowed()
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return f"topic {self._topic} is missing: `rebalance-monitor stream` of this version creates it at its start"
        return f"the silence could not be written to {self._topic}: {error.str()}"
