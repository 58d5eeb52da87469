"""Whose rows count where two streams write the same topics: each row names the epoch of its writer, in a header.

A stream takes an epoch for its queries at its start, which is higher than every one before, and publishes it in
`QueryStatus`. Of a query the highest epoch owns the topics: a process that learns of a higher one ends, and what it
still writes is passed over by the readers. Rows without the header are taken, as those of older versions and of the
monitor's other processes have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: The record header; its value is `cluster/query/epoch`.
WRITER_HEADER = "rebalance-monitor-writer"
#: A stream that lost its topics is gone long before: rows of its epoch from later on count for no key.
SETTLED_MS = 600_000
#: What a stream ends with that lost its topics: whoever starts processes again leaves it as it is.
SUPERSEDED_EXIT_CODE = 4
#: More clusters, queries and topics than one reader has: what else there is comes from nowhere.
_MAX_PLACES = 10_000
#: Keys remembered of all places together, some 10 MB: whoever may report can make up as many as there are names.
MAX_KEYS = 100_000


class RowWriter(NamedTuple):
    """The query that wrote a row, of which cluster, and in which epoch: milliseconds since 1970 or more."""

    cluster: str
    query: str
    epoch: int


def encode_writer(writer: RowWriter) -> bytes:
    """Return the header's value."""
    return f"{writer.cluster}/{writer.query}/{writer.epoch}".encode()


def writer_headers(writer: RowWriter) -> dict[str, str | bytes | None]:
    """Return the headers of a writer's records, as the Kafka client takes them."""
    return {WRITER_HEADER: encode_writer(writer)}


def find_writer(headers: Iterable[tuple[str, bytes | None]]) -> RowWriter | None:
    """Return who wrote a row; null where its headers do not say, or say nonsense."""
    return next((decode_writer(value) for name, value in headers if name == WRITER_HEADER), None)


def decode_writer(value: bytes | None) -> RowWriter | None:
    """Return what the header's value says; null for none, and for nonsense."""
    parts = (value or b"").decode(errors="replace").rsplit("/", 2)
    if len(parts) < len(RowWriter._fields) or not parts[2].isdecimal() or len(parts[2]) > len(str(2**63)):
        return None
    return RowWriter(parts[0], parts[1], int(parts[2]))


class _Epoch:
    """The highest epoch seen at one place, when it is settled, and the keys that it wrote before."""

    __slots__ = ("keys", "number", "settled_ms")

    def __init__(self, number: int, since_ms: int) -> None:
        self.number, self.settled_ms = number, since_ms + SETTLED_MS
        self.keys: set[bytes] = set()


class Fence:
    """Separates rows of the stream that owns its topics from those of one that lost them.

    Compaction may leave a loser's row as the only one of its key, so such a row counts until the owner wrote the key
    too; rows that come when no loser can be alive any more, or when too many keys would have to be remembered, do not.
    """

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, str, str], _Epoch] = {}
        self._key_count = 0

    def admits(self, topic: str, key: bytes, writer: RowWriter, at_ms: int) -> bool:
        """Whether a row counts; rows are to be asked for in the order of their partition. `at_ms`: when it was written.

        The topic's name has the meaning that its reader gives it.
        """
        place = (topic, writer.cluster, writer.query)
        known = self._epochs.get(place)
        if known is None or writer.epoch > known.number:
            if known is None and len(self._epochs) >= _MAX_PLACES:
                return True
            self._forget_keys(known)
            known = self._epochs[place] = _Epoch(writer.epoch, at_ms)
        is_settled = at_ms > known.settled_ms
        if writer.epoch < known.number:
            return not is_settled and key not in known.keys
        if is_settled:
            self._forget_keys(known)
        elif key not in known.keys:
            self._remember(known, key, at_ms)
        return True

    def _remember(self, epoch: _Epoch, key: bytes, at_ms: int) -> None:
        if self._key_count >= MAX_KEYS:
            epoch.settled_ms = at_ms
            return
        epoch.keys.add(key)
        self._key_count += 1

    def _forget_keys(self, epoch: _Epoch | None) -> None:
        if epoch is not None:
            self._key_count -= len(epoch.keys)
            epoch.keys.clear()
