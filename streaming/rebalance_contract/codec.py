"""The codec of every row: JSON in UTF-8 with snake_case keys, times as epoch milliseconds (`*_ms`).

`null` always means "cannot be known from what was read", never zero. A reader ignores fields that it does not know and
a writer never changes the meaning of one, so components of different versions understand each other; a change that
breaks this increments `SCHEMA_VERSION`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

SCHEMA_VERSION = 1

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder()
# MessagePack integers have at most 64 bits, JSON integers have no limit. Larger ones would later overflow a float, or
# Prometheus.
_sixty_four_bits = msgspec.msgpack.Encoder()


class ContractError(ValueError):
    """A value does not follow the contract; the text names the field and what was expected."""


def encode(event: Any) -> bytes:
    """Return the JSON text of any row of the contract."""
    return _encoder.encode(event)


def decode(text: bytes, kind: type[_T]) -> _T:
    """Return the row that a JSON text contains. Raises ContractError if it is not a valid row of this type."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Deeply nested text (RecursionError) is an invalid row like any other.
        raise ContractError(f"not a valid {kind.__name__}: {error}") from error


class UnknownKindError(ContractError):
    """A row is of a kind that this version does not know, perhaps of a newer one."""


class _Tagged(msgspec.Struct):
    kind: str


def decode_tagged(text: bytes, rows: Mapping[str, type[_T]], what: str) -> _T:
    """Return the row that a JSON text contains, of the type that its field `kind` names in `rows`.

    Raises UnknownKindError for another kind, ContractError if it is not valid; `what` names the rows in the texts.
    """
    try:
        kind = decode(text, _Tagged).kind
    except ContractError as error:
        raise ContractError(f"not a row of {what}: {error.__cause__}") from error
    if kind not in rows:
        raise UnknownKindError(f"a row of {what} of the unknown kind {kind[:40]!r}: its writer may be newer than this")
    return decode(text, rows[kind])


def fits_64_bits(row: object) -> bool:
    """Whether every integer of a row has at most 64 bits. JSON has no limit, but sums, divisions and arrays do."""
    try:
        _sixty_four_bits.encode(row)
    except OverflowError:
        return False
    return True
