"""The generic decoder: key and value bytes of any record to exactly one of four outcomes.

Receives arbitrary bytes; returns a typed record or the reason why there is none. Must never raise, loop, or allocate
memory according to lengths in the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from rebalance_streaming.wire.errors import BadVersion, DecodeError, TrailingBytes
from rebalance_streaming.wire.primitives import read_int16
from rebalance_streaming.wire.records import RECORD_TYPES, RecordType
from rebalance_streaming.wire.schema import Plan


class Outcome(IntEnum):
    """Result of decoding a record. The numbers are the codes of the vectorised path."""

    DECODED = 0
    TOMBSTONE = 1
    UNSUPPORTED = 2
    CORRUPT = 3


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record, with the parts that could be read.

    `record_type` is null when the key is too short to contain one, `type_name` also for unknown types. `key` is null
    unless it was read; `key_version` is then 0, the only version. `value_version` is null for a tombstone and for a
    value too short to contain one. `error` is the reason why an unsupported or corrupt record could not be read.
    """

    outcome: Outcome
    record_type: int | None = None
    type_name: str | None = None
    key_version: int | None = None
    value_version: int | None = None
    key: Any = None
    value: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class DecodedKey:
    """A key that was read."""

    record_type: RecordType
    key: Any


def decode_key(key: bytes | None) -> DecodedKey | DecodedRecord:
    """Read a key alone. Return a DecodedRecord with the outcome if it cannot be read."""
    if key is None:
        return DecodedRecord(Outcome.CORRUPT, error="the key is null")
    try:
        number, position = read_int16(key, 0)
    except DecodeError:
        return DecodedRecord(Outcome.CORRUPT, error=f"a key of {len(key)} bytes names no record type")
    record_type = RECORD_TYPES.get(number)
    if record_type is None:
        # KIP-915: a coordinator skips types it does not know, so that newer brokers can be rolled back.
        return DecodedRecord(Outcome.UNSUPPORTED, number, error=f"record type {number} is unknown")
    try:
        return DecodedKey(record_type, _read_exactly(record_type.key_plan(), key, position))
    except DecodeError as error:
        return DecodedRecord(Outcome.CORRUPT, number, record_type.name, error=f"key: {error}")


def decode_record(key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Read a record. Never raises.

    A null value is a tombstone. A value must end where its last field ends: previews of Kafka 3.7 to 4.0 reused
    version numbers with other fields, which is detected by the remaining bytes.
    """
    read = decode_key(key)
    if isinstance(read, DecodedRecord):
        return read
    if value is None:
        return _outcome(Outcome.TOMBSTONE, read)
    version: int | None = None
    try:
        version, position = read_int16(value, 0)
        plan = read.record_type.value_plan(version)
        if plan is not None:
            return _outcome(Outcome.DECODED, read, version, value=_read_exactly(plan, value, position))
        if version < 0:
            raise BadVersion(f"version {version}")
    except DecodeError as error:
        return _outcome(Outcome.CORRUPT, read, version, error=f"value: {error}")
    return _outcome(Outcome.UNSUPPORTED, read, version, error=f"value version {version} is unknown")


def _outcome(
    outcome: Outcome, read: DecodedKey, version: int | None = None, *, value: Any = None, error: str | None = None
) -> DecodedRecord:
    record_type = read.record_type
    return DecodedRecord(outcome, record_type.number, record_type.name, 0, version, read.key, value, error)


def _read_exactly(plan: Plan, buffer: bytes, position: int) -> Any:
    value, end = plan.read(buffer, position)
    if end != len(buffer):
        raise TrailingBytes(f"{len(buffer) - end} bytes are left over")
    return value
