"""Lines of files that may be compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_GZIP, _GZIP_WINDOW, _READ_BYTES = b"\x1f\x8b", 31, 1 << 16


def uncompressed(file: Iterable[bytes | str], name: str, damaged: Callable[[str], Exception]) -> Iterable[bytes | str]:
    """Return the lines of a file, of what gzip made of it if its first bytes say so.

    Raises what `damaged` makes of a sentence for a file that gzip did not make so.
    """
    peek = getattr(file, "peek", None)
    return _unzipped(file, name, damaged) if peek is not None and peek(2)[:2] == _GZIP else file


def _unzipped(file: Any, name: str, damaged: Callable[[str], Exception]) -> Iterator[bytes]:
    """Yield lines as far as they can be had: unlike the gzip module up to the last byte of a file that was cut."""
    rest, stream = b"", zlib.decompressobj(_GZIP_WINDOW)
    while data := file.read(_READ_BYTES):
        while data:
            try:
                *lines, rest = (rest + stream.decompress(data)).split(b"\n")
            except zlib.error as error:
                raise damaged(f"{name} is damaged: {error}") from None
            yield from (line + b"\n" for line in lines)
            data = stream.unused_data
            if stream.eof:
                stream = zlib.decompressobj(_GZIP_WINDOW)
    if rest:
        yield rest
