"""Reads lines of files that may be compressed with gzip."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_GZIP, _GZIP_WINDOW, _READ_BYTES = b"\x1f\x8b", 31, 1 << 16


def uncompressed(file: Iterable[bytes | str], name: str, damaged: Callable[[str], Exception]) -> Iterable[bytes | str]:
    """Return the lines of a file, decompressed if it begins with gzip's magic number.

    Raises the error that `damaged` returns for a sentence if the compressed data are invalid.
    """
    peek = getattr(file, "peek", None)
    return _unzipped(file, name, damaged) if peek is not None and peek(2)[:2] == _GZIP else file


def _unzipped(file: Any, name: str, damaged: Callable[[str], Exception]) -> Iterator[bytes]:
    """Yield decompressed lines; unlike the gzip module, all available bytes of a truncated file."""
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
