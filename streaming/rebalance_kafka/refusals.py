"""A Kafka client that refuses its properties, as an error for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException


@contextmanager
def refusals_as(make_error: Callable[[str], Exception]) -> Iterator[None]:
    """Make a Kafka client in the block: what it raises then is raised as the error that is made of a sentence."""
    try:
        yield
    except KafkaException as error:
        raise make_error(f"the Kafka client refuses its properties: {error.args[0].str()}") from error
