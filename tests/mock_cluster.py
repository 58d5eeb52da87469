"""librdkafka's mock cluster in this process: needs no broker, and its answers can be chosen.

It calls functions of librdkafka directly, as its own tests do, because the Python client does not expose them.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from polling import next_message

PRODUCE, INIT_PRODUCER_ID = 0, 22


class MockCluster:
    """One broker, and the client that owns it."""

    def __init__(self) -> None:
        self._owner = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        self._library = _library()
        self._library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._library.rd_kafka_handle_mock_cluster(_client(self._owner)))
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self.bootstrap = self._library.rd_kafka_mock_cluster_bootstraps(self._handle).decode()

    def answer_after(self, milliseconds: int) -> None:
        """Delay each answer of the broker."""
        self._library.rd_kafka_mock_broker_set_rtt(self._handle, ctypes.c_int32(1), ctypes.c_int(milliseconds))

    def create(self, topic: str) -> None:
        """Create a topic of one partition."""
        assert not self._library.rd_kafka_mock_topic_create(self._handle, topic.encode(), 1, 1)

    def refuse(self, *errors: int, request: int = PRODUCE) -> None:
        """Answer the next requests of a kind with these errors, 0 for success."""
        codes = (ctypes.c_int * len(errors))(*errors)
        count = ctypes.c_size_t(len(errors))
        self._library.rd_kafka_mock_push_request_errors_array(self._handle, ctypes.c_int16(request), count, codes)

    def relent(self, request: int = PRODUCE) -> None:
        """Remove the errors that have not been sent yet."""
        self._library.rd_kafka_mock_clear_request_errors(self._handle, ctypes.c_int16(request))

    def take_leader(self, topic: str) -> None:
        """Leave partition 0 of a topic without a leader."""
        self._lead(topic, -1)

    def give_leader(self, topic: str) -> None:
        """Make the broker the leader of partition 0 of a topic again."""
        self._lead(topic, 1)

    def _lead(self, topic: str, broker: int) -> None:
        self._library.rd_kafka_mock_partition_set_leader(
            self._handle, topic.encode(), ctypes.c_int32(0), ctypes.c_int32(broker)
        )

    def records(self, topic: str) -> list[tuple[bytes | None, bytes | None, Mapping[str, bytes | None]]]:
        """Return key, value and headers of all records of a topic."""
        found = []
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = next_message(consumer, f"the end of {topic}")
            error = message.error()
            if error is None:
                headers: Any = message.headers() or ()
                found.append((message.key(), message.value(), dict(headers)))
            elif error.code() == KafkaError._PARTITION_EOF:
                break
        consumer.close()
        return found


def break_down(producer: Producer) -> None:
    """Put a client into a fatal error state, in which it accepts no more records, as some broker errors do."""
    _library().rd_kafka_test_fatal_error(_client(producer), ctypes.c_int(45), b"by the test")


def _client(producer: Producer) -> ctypes.c_void_p:
    # The first field of the object, after its reference count and type.
    return ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)


def _library() -> ctypes.CDLL:
    found = re.search(r"/\S*librdkafka\S*\.so\S*", Path("/proc/self/maps").read_text())
    assert found is not None
    return ctypes.CDLL(found.group())
