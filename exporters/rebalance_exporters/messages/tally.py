"""Counts the messages in a log: which, how often, of which group and client, the first and the last time.

Takes lines of any length and number: time is linear, and memory has a bound, beyond which clients and then groups are
no longer told apart (never lost from the counts).
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.messages.index import Message
from rebalance_exporters.messages.loglines import read_origin
from rebalance_exporters.messages.matching import Matcher

#: A longer line is taken for several.
_LONGEST_LINE = 65_536
_WITH_CLIENT, _WITH_GROUP = 2_000, 4_000
_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class Entry:
    """One message of one group and client: how often, in which lines (from 1), and at which times as written."""

    message: Message
    group: str | None
    client: str | None
    count: int
    first_line: int
    last_line: int
    first_at: str | None
    last_at: str | None


@dataclass(frozen=True, slots=True)
class LineTally:
    """What was counted. `is_merged`: there were more clients or groups than are told apart."""

    lines: int
    entries: tuple[Entry, ...]
    is_merged: bool


def tally(lines: Iterable[str], matcher: Matcher) -> LineTally:
    """Count the messages of a log; a line with several counts for the longest."""
    entries: dict[tuple[str, str | None, str | None], Entry] = {}
    number, is_merged = 0, False
    for number, line in enumerate(lines, 1):
        hits = matcher.match(line)
        if not hits:
            continue
        origin, message = read_origin(line, hits), hits[0].message
        key = (message.id, origin.group, origin.client)
        if key not in entries and len(entries) >= _WITH_CLIENT:
            key, is_merged = (message.id, origin.group if len(entries) < _WITH_GROUP else None, None), True
        entry = entries.get(key)
        if entry is None:
            entries[key] = Entry(message, key[1], key[2], 1, number, number, origin.at, origin.at)
        else:
            entry.count += 1
            entry.last_line, entry.last_at = number, origin.at or entry.last_at
            entry.first_at = entry.first_at or origin.at
    ranked = sorted(entries.values(), key=lambda each: (each.message.meaning.ordinary, -each.count, each.first_line))
    return LineTally(number, tuple(ranked), is_merged)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which may be packed with gzip. Raises ExporterError where it cannot be read."""
    try:
        with path.open("rb") as file:
            yield from lines_of(file)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ExporterError(f"cannot read {path}: {reason}") from error


def lines_of(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a binary stream, packed or not; what is no UTF-8 is shown as such."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
    if buffered.peek(2)[:2] != _GZIP:
        yield from _decode(buffered)
        return
    with closing(gzip.GzipFile(fileobj=buffered)) as unpacked:
        yield from _decode(unpacked)


def _decode(file: BinaryIO | gzip.GzipFile) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE):
        yield line.decode("utf-8", "replace").rstrip("\r\n")
