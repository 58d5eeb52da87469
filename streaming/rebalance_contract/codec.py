"""The codec of every row: JSON in UTF-8 with snake_case keys, times as epoch milliseconds (`*_ms`).

`null` always means "cannot be known from what was read", never zero. A reader ignores fields it does not know and a
writer never changes the meaning of one, so old and new parts of a deployment understand each other; a change that
breaks this raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

SCHEMA_VERSION = 1

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder()
# Its integers end at 64 bits, where those of JSON do not: what it refuses overflows a float, or Prometheus, later.
_sixty_four_bits = msgspec.msgpack.Encoder()


class ContractError(ValueError):
    """A value that does not follow the contract; the text names the field and what was expected."""


def encode(event: Any) -> bytes:
    """Return the JSON text of any event of this module."""
    return _encoder.encode(event)


def decode(text: bytes, kind: type[_T]) -> _T:
    """Read one event back. Raises ContractError when the text is not one."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Text that is nested 100,000 deep is a row like any other that is none.
        raise ContractError(f"not a valid {kind.__name__}: {error}") from error


def fits_64_bits(row: object) -> bool:
    """Whether every whole number of a row has at most 64 bits. JSON has no limit; sums, divisions and arrays do."""
    try:
        _sixty_four_bits.encode(row)
    except OverflowError:
        return False
    return True
