"""Decoding of rows, and checks against the contract and against limits beyond which a row would harm its readers.

Receives keys and values that anyone may have written; returns decoded rows, or raises why a row is refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import rebalance_contract as contract
from rebalance_contract.bounds import MAX_FOREIGN_BYTES, MAX_KEY_BYTES

#: Reasons by which refused rows are counted. `superseded`: another stream has taken over the topics from its writer.
#: `failed`: a defect of the exporter itself.
REFUSALS = ("contract", "key", "text", "number", "time", "size", "limit", "superseded", "failed")

#: The years 1 and 9999: the range that common tools can show as a date.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999

#: Suffixes of the names of timestamps; other times are durations.
_MOMENTS = (
    "at_ms",
    "seen_ms",
    "since_ms",
    "until_ms",
    "after_ms",
    "before_ms",
    "_rebalance_ms",
    "_commit_ms",
    "_unread_ms",
)
#: The names of the timestamps of each class of row.
_times: dict[type, tuple[str, ...]] = {}

_T = TypeVar("_T")


class RefusedError(contract.ContractError):
    """A row that cannot be applied; `reason` is a member of REFUSALS."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def reason_of(error: Exception) -> str:
    """Return why a row was refused, a member of REFUSALS."""
    if isinstance(error, RefusedError):
        return error.reason
    if isinstance(error, UnicodeDecodeError):
        return "text"
    # RecursionError: JSON that is nested more deeply than any row of the contract.
    return "contract" if isinstance(error, contract.ContractError | RecursionError) else "failed"


def check_size(key: bytes, value: bytes | None) -> None:
    """Raise RefusedError for a key or value larger than any that the monitor writes."""
    if len(key) > MAX_KEY_BYTES:
        raise RefusedError("size", f"the key has {len(key)} bytes")
    if value is not None and len(value) > MAX_FOREIGN_BYTES:
        raise RefusedError("size", f"the row has {len(value)} bytes")


def check_key(key: bytes, expected: str) -> None:
    """Raise RefusedError unless the key matches the value; otherwise one group could be stored twice."""
    if key != expected.encode():
        raise RefusedError("key", f"the key is {key[:200]!r} where the value says {expected.encode()[:200]!r}")


def expect_room(held: Mapping[Any, object], key: Hashable, limit: int) -> None:
    """Raise RefusedError if a new key would exceed the limit; existing keys may always change."""
    if len(held) >= limit and key not in held:
        raise RefusedError("limit", f"{limit} are held already")


class KeptBytes:
    """Bytes of all kept text, so that many large rows fill the memory no more than many small ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of: dict[Hashable, int] = {}
        self._total = 0

    def put(self, thing: Hashable, size: int) -> None:
        """Record the present size of a thing. Raises RefusedError, and changes nothing, if the total is too large."""
        total = self._total - self._of.get(thing, 0) + size
        if total > max(self._limit, self._total):
            raise RefusedError("limit", f"rows of {self._total} bytes are held already")
        self._of[thing], self._total = size, total

    def drop(self, thing: Hashable) -> None:
        """Forget a thing, if it is known."""
        self._total -= self._of.pop(thing, 0)


def read_row(value: bytes, kind: Any) -> Any:
    """Decode a row and check its numbers; `kind` is a class of the contract or its Status. Raises ContractError."""
    row = contract.decode_status(value) if kind is contract.Status else contract.decode(value, kind)
    return _checked(row)


def read_impact(value: bytes) -> contract.RebalanceImpact | contract.GroupImpact:
    """Decode a row of the impact topic, of either kind. Raises ContractError."""
    return _checked(contract.decode_impact(value))


def _checked(row: _T) -> _T:
    if not contract.fits_64_bits(row):
        raise RefusedError("number", "a number needs more than 64 bits")
    _check_times(row)
    if isinstance(row, contract.Rebalance):
        for generation in row.generations:
            _check_times(generation)
    return row


def _check_times(row: Any) -> None:
    kind = type(row)
    names = _times.get(kind)
    if names is None:
        names = _times[kind] = tuple(each.name for each in fields(kind) if each.name.endswith(_MOMENTS))
    for name in names:
        at_ms = getattr(row, name)
        if at_ms is not None and not _FIRST_MS <= at_ms <= _LAST_MS:
            raise RefusedError("time", f"{name} is {at_ms}")
