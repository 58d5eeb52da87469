"""Reads the rows published to the monitor's own topics completely, or fails, because totals continue from them.

With only a part of the rows, counters would decrease permanently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException

from rebalance_kafka.follower import Record, UnreadError, read_latest, read_to_end
from rebalance_kafka.reachability import UNREACHABLE
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError, StreamError


def read_rows(config: StreamConfig, topics: Collection[str], *, name: str) -> Iterator[Record]:
    """Yield the records of topics up to their ends. Raises StreamError if these cannot be reached."""
    with _explained(topics):
        yield from read_to_end(config.kafka, topics, name=name)


def read_latest_rows(config: StreamConfig, topics: Collection[str], *, name: str) -> dict[tuple[str, bytes], bytes]:
    """Return the last value of each (topic, key), without tombstones. Raises StreamError like `read_rows`."""
    with _explained(topics):
        return read_latest(config.kafka, topics, name=name)


@contextmanager
def _explained(topics: Collection[str]) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        names = ", ".join(sorted(topics))
        raise (BrokersUnreachableError if error.args[0].code() in UNREACHABLE else StreamError)(
            f"{names} cannot be read ({error.args[0].str()}); what was published there is needed before the stream "
            "starts: start it again when the brokers answer"
        ) from None
    except UnreadError as error:
        raise StreamError(
            f"{error}; what was published there is needed before the stream starts: start it again then"
        ) from None
