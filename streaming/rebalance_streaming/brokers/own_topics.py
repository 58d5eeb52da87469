"""Reads the rows published to the monitor's own topics completely, or fails, because totals continue from them.

With only a part of the rows, counters would decrease permanently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import KafkaException

from rebalance_contract import ContractError, UnknownKindError, split_key
from rebalance_kafka.follower import Record, UnreadError, keep_latest, read_to_end
from rebalance_kafka.reachability import UNREACHABLE
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError, StreamError

_Row = TypeVar("_Row")


def read_rows(config: StreamConfig, topics: Collection[str], *, name: str) -> Iterator[Record]:
    """Yield the records of topics up to their ends. Raises StreamError if these cannot be reached."""
    with _explained(topics):
        yield from read_to_end(config.kafka, topics, name=name)


def read_latest_rows(config: StreamConfig, topics: Collection[str], *, name: str) -> dict[tuple[str, bytes], bytes]:
    """Return the last value of each (topic, key) of this cluster, without tombstones.

    Raises StreamError like `read_rows`.
    """
    return latest_of(config.cluster, read_rows(config, topics, name=name))


def latest_of(cluster: str, records: Iterable[Record]) -> dict[tuple[str, bytes], bytes]:
    """Return the last value of each (topic, key) of one cluster, without tombstones."""
    latest = keep_latest(records)
    return {place: value for place, value in latest.items() if split_key(place[1])[0] == cluster}


def decode_rows(
    topic: str, values: Iterable[bytes], decode_row: Callable[[bytes], _Row], warn: Callable[[str], None]
) -> Iterator[_Row]:
    """Yield the rows of an own topic; those that cannot be decoded are left out, and counted in one warning."""
    unreadable, first = 0, ""

    def note(reason: str) -> None:
        nonlocal unreadable, first
        unreadable, first = unreadable + 1, first or reason

    yield from decode_each(values, decode_row, note)
    if unreadable:
        warn(
            f"{topic}: {unreadable} published rows cannot be read and are left out, with the totals in them; "
            f"the first one is {first}"
        )


def decode_each(
    values: Iterable[bytes], decode_row: Callable[[bytes], _Row], on_unreadable: Callable[[str], None]
) -> Iterator[_Row]:
    """Yield decoded rows; `on_unreadable` receives why a row cannot be decoded.

    Rows of unknown kinds, which a newer version may have written, are left out without.
    """
    for value in values:
        try:
            row = decode_row(value)
        except UnknownKindError:
            continue
        except ContractError as error:
            on_unreadable(str(error))
        else:
            yield row


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
