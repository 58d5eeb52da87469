"""Fencing by writer epochs: decides which rows count if two streams write the same topics.

Each row names its writer's epoch in a header. At its start a stream takes an epoch for its queries that is higher than
all before, and publishes it in `QueryStatus`. The highest epoch of a query owns the topics: a process that sees a
higher one exits, and readers ignore the rows that it still writes. Rows without the header count, because those of
older versions and of the monitor's other processes have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: The record header; its value is `cluster/query/epoch`.
WRITER_HEADER = "rebalance-monitor-writer"
#: Time after which a superseded stream must have exited: rows of its epoch that are written later never count.
SETTLED_MS = 600_000
#: Exit code of a superseded stream; supervisors must not restart it.
SUPERSEDED_EXIT_CODE = 4
#: Maximum number of (topic, cluster, query) combinations tracked; far more than one reader has. Rows of further
#: combinations count without a check.
_MAX_PLACES = 10_000
#: Maximum number of keys remembered over all combinations, some 10 MB: anyone who may write reports can invent names
#: without limit.
MAX_KEYS = 100_000


class RowWriter(NamedTuple):
    """The query that wrote a row, its cluster, and its epoch: the start in epoch milliseconds, or a larger number."""

    cluster: str
    query: str
    epoch: int


def encode_writer(writer: RowWriter) -> bytes:
    """Return the value of the header."""
    return f"{writer.cluster}/{writer.query}/{writer.epoch}".encode()


def writer_headers(writer: RowWriter) -> dict[str, str | bytes | None]:
    """Return the headers of a writer's records, as the Kafka client takes them."""
    return {WRITER_HEADER: encode_writer(writer)}


def find_writer(headers: Iterable[tuple[str, bytes | None]]) -> RowWriter | None:
    """Return the writer of a row; null if its headers do not contain one, or an invalid one."""
    return next((decode_writer(value) for name, value in headers if name == WRITER_HEADER), None)


def decode_writer(value: bytes | None) -> RowWriter | None:
    """Return the writer that a header's value names; null if it is null or invalid."""
    parts = (value or b"").decode(errors="replace").rsplit("/", 2)
    if len(parts) < len(RowWriter._fields) or not parts[2].isdecimal() or len(parts[2]) > len(str(2**63)):
        return None
    return RowWriter(parts[0], parts[1], int(parts[2]))


class _Epoch:
    """The highest epoch seen of one (topic, cluster, query), when it is settled, and the keys it wrote until then."""

    __slots__ = ("keys", "number", "settled_ms")

    def __init__(self, number: int, since_ms: int) -> None:
        self.number, self.settled_ms = number, since_ms + SETTLED_MS
        self.keys: set[bytes] = set()


class Fence:
    """Separates the rows of the stream that owns its topics from those of a superseded stream.

    After compaction a superseded stream's row may be the only one of its key, so it counts until the owner has written
    the key too. It no longer counts if it was written when no superseded stream can be alive any more, or if too many
    keys would have to be remembered.
    """

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, str, str], _Epoch] = {}
        self._key_count = 0

    def admits(self, topic: str, key: bytes, writer: RowWriter, at_ms: int) -> bool:
        """Whether a row counts. Must be called in the order of the partition. `at_ms`: when the row was written.

        `topic` may be any name that identifies the topic to the caller.
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
