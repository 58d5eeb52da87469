"""Turns a Kafka client's rejection of its properties into a readable error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException


@contextmanager
def refusals_as(make_error: Callable[[str], Exception]) -> Iterator[None]:
    """Re-raise a KafkaException of the block, which creates a client, as the error that `make_error` returns."""
    try:
        yield
    except KafkaException as error:
        raise make_error(f"the Kafka client refuses its properties: {error.args[0].str()}") from error
