"""Counts the messages in a log by group and client, with the first and the last time of each.

An event counts once, for the longest message in its lines: a stack trace names its cause several times, and has the
time and the group in the line above it.

Lines may be of any length and number: time is linear, and memory is bounded. Beyond the bound, clients and then groups
are merged; their messages still count.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.messages.events import Continuation, is_wrapped, strip_shipped
from rebalance_exporters.messages.index import Message
from rebalance_exporters.messages.loglines import Origin, read_origin
from rebalance_exporters.messages.matching import TEXT_LIMIT, Hit, Matcher

#: In bytes; a longer line is split into several.
_LONGEST_LINE = 65_536
_WITH_CLIENT, _WITH_GROUP = 2_000, 4_000
_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class Entry:
    """One message of one group and client: its count, its first and last line (from 1), and their times as written."""

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
    """The result of a count. `is_merged`: there were more clients or groups than are counted separately."""

    lines: int
    entries: tuple[Entry, ...]
    is_merged: bool


@dataclass(slots=True)
class _Event:
    """An event: its first line, and the line with the longest message so far; `hits` is empty without a message."""

    head: str
    number: int = 0
    line: str = ""
    hits: list[Hit] = field(default_factory=list)

    def take(self, number: int, line: str, hits: list[Hit]) -> None:
        if not self.hits or hits[0].weight > self.hits[0].weight:
            self.number, self.line, self.hits = number, line, hits

    def origin(self, matcher: Matcher) -> Origin:
        """Return the origin of the event; its first line supplies the time, and names that the message's line lacks."""
        own = read_origin(self.line, self.hits)
        if self.line == self.head:
            return own
        above = read_origin(self.head, matcher.match(self.head))
        return Origin(above.at or own.at, own.group or above.group, own.client or above.client)


def tally(lines: Iterable[str], matcher: Matcher) -> LineTally:
    """Count the messages of a log."""
    counts = _Counts(matcher)
    log, number, above = Continuation(), 0, ""
    event = _Event("")
    for number, line in enumerate(lines, 1):
        text, hits = line, matcher.match(line)
        if not log.is_continued_by(line):
            counts.add(event)
            event = _Event(line)
        elif not hits and is_wrapped(own := strip_shipped(line)):
            text = f"{above[-TEXT_LIMIT:]} {own[:TEXT_LIMIT]}"
            hits = matcher.match(text)
        if hits:
            event.take(number, text, hits)
        above = line
    counts.add(event)
    return counts.result(number)


class _Counts:
    """The entries so far, in bounded memory."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        # Keyed by the text too: a message that ends in another error is another entry.
        self._entries: dict[tuple[str, str, str | None, str | None], Entry] = {}
        self._is_merged = False

    def add(self, event: _Event) -> None:
        if not event.hits:
            return
        entries, number = self._entries, event.number
        origin, message = event.origin(self._matcher), event.hits[0].message
        key = (message.id, message.text, origin.group, origin.client)
        if key not in entries and len(entries) >= _WITH_CLIENT:
            group = origin.group if len(entries) < _WITH_GROUP else None
            key, self._is_merged = (message.id, message.text, group, None), True
        entry = entries.get(key)
        if entry is None:
            entries[key] = Entry(message, key[2], key[3], 1, number, number, origin.at, origin.at)
        else:
            entry.count += 1
            entry.last_line, entry.last_at = number, origin.at or entry.last_at
            entry.first_at = entry.first_at or origin.at

    def result(self, lines: int) -> LineTally:
        ranked = sorted(
            self._entries.values(), key=lambda each: (each.message.meaning.ordinary, -each.count, each.first_line)
        )
        return LineTally(lines, tuple(ranked), self._is_merged)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which may be compressed with gzip. Raises ExporterError if it cannot be read."""
    try:
        with path.open("rb") as file:
            yield from lines_of(file)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ExporterError(f"cannot read {path}: {reason}") from error


def lines_of(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a binary stream, compressed with gzip or not; invalid UTF-8 is replaced by U+FFFD."""
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
    if buffered.peek(2)[:2] != _GZIP:
        yield from _decode(buffered)
        return
    with closing(gzip.GzipFile(fileobj=buffered)) as unpacked:
        yield from _decode(unpacked)


def _decode(file: BinaryIO | gzip.GzipFile) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE):
        yield line.decode("utf-8", "replace").rstrip("\r\n")
