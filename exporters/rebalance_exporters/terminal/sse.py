"""Parses server-sent events from bytes, for any chunking (WHATWG HTML, section 9.2). Pure.

Lines end only at CR, LF or CRLF: `str.splitlines` would also split a name at U+2028 or U+0085.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. `id` is the last id sent so far, null if there was none."""

    event: str
    data: str
    id: str | None


def read_events(chunks: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield events as they become complete; per the standard, one that ends before its empty line is dropped."""
    event, data, last_id = "", list[str](), None
    for line in _lines(chunks):
        if not line:
            if data:
                yield ServerEvent(event or "message", "\n".join(data), last_id)
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        rest += chunk
        # A CR at the end of a chunk may be the first half of CRLF.
        held = b"\r" if rest.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(rest.removesuffix(b"\r"))
        rest += held
        yield from (line.decode("utf-8", "replace") for line in lines)
