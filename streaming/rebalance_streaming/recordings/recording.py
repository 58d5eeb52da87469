"""Recordings: JSON lines written by `rebalance-monitor record`, several merged in the order of their times.

A recording has one JSON object per line: `topic` (absent: the offsets topic), `partition`, `offset`, `timestamp_ms`,
`key_hex`, `value_hex` (null: a tombstone), and `received_at_ms`, the recorder's clock, if it was noted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec

from rebalance_streaming.recordings.compressed import uncompressed
from rebalance_streaming.wire.records import OFFSET_COMMIT_PREFIXES, OFFSETS_TOPIC

_COMMIT_KEYS = tuple(each.hex() for each in OFFSET_COMMIT_PREFIXES)


class ReplayError(ValueError):
    """A recording cannot be read; the text names the line and the problem."""


_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class RecordedLine(msgspec.Struct):
    """One line of a recording. `control` and `read_committed` exist in recordings made from log segments.

    Numbers have the ranges of Kafka's records. `timestamp_ms` and `received_at_ms` are milliseconds since 1970;
    `received_at_ms` is null if the recorder's clock was not noted.
    """

    partition: _Partition
    offset: _Offset
    timestamp_ms: _Long
    key_hex: str | None
    value_hex: str | None
    topic: str = OFFSETS_TOPIC
    received_at_ms: _Long | None = None
    control: bool = False
    read_committed: bool = True
    headers: dict[str, str | None] | list[Any] | None = None

    @property
    def key(self) -> bytes | None:
        """The record's key; null if it has none."""
        return _bytes(self.key_hex)

    @property
    def value(self) -> bytes | None:
        """The record's value; null for a tombstone."""
        return _bytes(self.value_hex)

    @property
    def is_commit(self) -> bool:
        """Whether the record commits or deletes an offset of a group."""
        key = self.key_hex
        return key is not None and key[:4] in _COMMIT_KEYS and self.topic == OFFSETS_TOPIC

    def named_headers(self) -> dict[str, bytes | None]:
        """Return the headers by name, with their hexadecimal values decoded."""
        pairs = self.headers.items() if isinstance(self.headers, dict) else self.headers or ()
        found: dict[str, bytes | None] = {}
        for pair in pairs:
            if isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str):
                found[pair[0]] = _bytes(pair[1]) if isinstance(pair[1], str) else None
        return found


_line_decoder = msgspec.json.Decoder(RecordedLine)


def read_lines(
    files: Iterable[Iterable[bytes | str]],
    until_ms: int | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[RecordedLine]:
    """Return the lines of recordings, which may be compressed with gzip, merged by time, up to `until_ms` inclusive.

    A truncated last line is left out and reported to `notify`. Raises ReplayError for any other invalid line.
    """
    readings = [_parse(file, notify) for file in files]
    lines = readings[0] if len(readings) == 1 else heapq.merge(*readings, key=lambda line: line.timestamp_ms)
    return (line for line in lines if until_ms is None or line.timestamp_ms <= until_ms)


def _parse(file: Iterable[bytes | str], notify: Callable[[str], None]) -> Iterator[RecordedLine]:
    name = getattr(file, "name", "the input")
    numbered = enumerate(uncompressed(file, name, ReplayError), start=1)
    for number, text in numbered:
        if not text.strip():
            continue
        try:
            yield _checked(_line_decoder.decode(text))
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
            if not text.endswith(_line_end(text)) and next(numbered, None) is None:
                notify(f"{name} line {number} is cut off and left out; the recorder was stopped while it wrote")
                return
            raise ReplayError(
                f"{name} line {number}: {error}; a recording has partition, offset, timestamp_ms, key_hex and value_hex"
            ) from None
        except ReplayError as error:
            raise ReplayError(f"{name} line {number}: {error}") from None


def _line_end(text: bytes | str) -> Any:
    return b"\n" if isinstance(text, bytes) else "\n"


def _checked(line: RecordedLine) -> RecordedLine:
    """Return the line. Raises ReplayError for invalid hexadecimal text, here where the line number is known."""
    for text in (line.key_hex, line.value_hex):
        _bytes(text)
    if line.headers:
        line.named_headers()
    return line


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ReplayError(f"key_hex or value_hex is not hexadecimal: {error}") from None
