"""Writes probes to the probes topic."""

from __future__ import annotations

import logging
import threading

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from rebalance_contract import Probe
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.bounds import encode_bounded
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.tasks import ErrorLog, describe_kafka
from rebalance_kafka.grants import grant
from rebalance_kafka.properties import librdkafka_properties
from rebalance_kafka.refusals import refusals_as

_FLUSH_SECONDS = 5.0
_POLL_SECONDS = 0.5
_WHAT = "publish"

_log = logging.getLogger(__name__)


class ProbePublisher:
    """Sends probes in the background; thread-safe. Probes that cannot be sent are counted and dropped."""

    def __init__(self, config: ProbeConfig, metrics: ProbeMetrics, error_log: ErrorLog) -> None:
        """Make the Kafka client. Raises ExporterError if it refuses its properties."""
        self._topic = config.probes_topic
        self._metrics = metrics
        self._error_log = error_log
        properties: dict[str, object] = {
            "client.id": "rebalance-monitor-probe",
            "linger.ms": 5,
            "compression.type": "lz4",
            # Older probes are useless.
            "message.timeout.ms": 20_000,
            # A minute of probes in the largest clusters; the queue must not fill the memory while brokers are away.
            "queue.buffering.max.kbytes": 131_072,
            "queue.buffering.max.messages": 100_000,
            # The partitioner of Java producers, so that a group's probes stay in one partition with any client.
            "partitioner": "murmur2_random",
            **librdkafka_properties(config.kafka),
            # Needs a further permission, and the client ends without it. A repeated probe does no harm.
            "enable.idempotence": False,
            "log_level": 2,
            "error_cb": self._note_error,
        }
        with refusals_as(ExporterError):
            self._producer = Producer(properties, logger=_log)

    def publish(self, probe: Probe) -> None:
        """Send a probe, in parts if it is too large for a record; never waits.

        If the queue is full, the probe is counted as an error and dropped: everything is reported again after a while.
        """
        for text in encode_bounded(probe):
            try:
                self._producer.produce(
                    self._topic, key=probe.group.encode(), value=text, on_delivery=self._note_delivery
                )
            except BufferError:
                self._error_log.note(_WHAT, "probes are dropped because Kafka does not take them fast enough")
            except KafkaException as error:
                self._error_log.note(_WHAT, f"a probe was not published: {describe_kafka(error.args[0])}")

    def serve(self, stop: threading.Event) -> None:
        """Poll for delivery reports until `stop` is set; meant for a separate thread."""
        while not stop.is_set():
            self._producer.poll(_POLL_SECONDS)

    def close(self) -> None:
        """Send the queued probes, for at most some seconds."""
        self._producer.flush(_FLUSH_SECONDS)

    def _note_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._metrics.published.inc()
            self._metrics.last_success.labels(_WHAT).set_to_current_time()
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._error_log.note(
                _WHAT,
                f"writing to {self._topic} is not allowed for this client; "
                f"{grant('Write', 'Describe', topic=self._topic)}",
            )
        else:
            self._error_log.note(_WHAT, f"a probe was not published: {error.str()}")

    def _note_error(self, error: KafkaError) -> None:
        self._error_log.note(_WHAT, f"publishing: {describe_kafka(error)}")
