"""Decodes records in JSON lines and adds the result to each line: the filter behind `rebalance-monitor decode`.

Depends on the wire formats and JSON, not on files, clusters or the command line. An invalid line yields a line with the
error, so that input and output have the same number of lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rebalance_contract import CONSUMER_PROTOCOL
from rebalance_streaming.wire.assignment import Opaque, Versioned, read_assignment, read_subscription
from rebalance_streaming.wire.decode import DecodedRecord, Outcome, decode_record
from rebalance_streaming.wire.kafka_json import to_json
from rebalance_streaming.wire.records import ConsumerGroupMemberMetadataValue, GroupMetadataValue


class _BadLineError(ValueError):
    """A line contains no record; the text names the problem."""


def decode_stream(lines: Iterable[str]) -> Iterator[str]:
    """Yield one JSON line per non-blank line, without a line end. Never raises for the content of a line."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield decode_line(line, number)


def decode_line(line: str, number: int) -> str:
    """Return a line's object with outcome, type, versions, key and value added; `number` is used in the error's text.

    Input fields: `key_hex` and `value_hex` (null or absent: a tombstone); any other fields are kept.
    """
    given: dict[str, Any] = {}
    try:
        given = _object_in(line)
        record = _record_in(given)
    except _BadLineError as error:
        record = DecodedRecord(Outcome.CORRUPT, error=f"line {number}: {error}")
    # Escaped to ASCII, because a lone surrogate in a field that is passed on could not be printed.
    return json.dumps(given | _described(record), separators=(",", ":"))


def _record_in(given: dict[str, Any]) -> DecodedRecord:
    if given.get("control") is True:
        # Present only in dumps of log segments. Its key would look like the start of a key of type 0 or 1.
        return DecodedRecord(Outcome.UNSUPPORTED, error="a transaction marker, not a record")
    if "key_hex" not in given:
        raise _BadLineError("key_hex is missing")
    return decode_record(_bytes_in(given, "key_hex"), _bytes_in(given, "value_hex"))


def _object_in(line: str) -> dict[str, Any]:
    try:
        read = json.loads(line)
        # Raises RecursionError here for JSON that is nested too deeply to be written again.
        json.dumps(read)
    except (ValueError, RecursionError) as error:
        raise _BadLineError(f"not JSON: {error}") from None
    if not isinstance(read, dict):
        raise _BadLineError("not a JSON object")
    return read


def _bytes_in(given: dict[str, Any], name: str) -> bytes | None:
    text = given.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise _BadLineError(f"{name} is not a string")
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise _BadLineError(f"{name} is not hexadecimal: {error}") from None


def _described(record: DecodedRecord) -> dict[str, Any]:
    """Return the fields that describe a record; `error` and embedded structures only if there are any."""
    version = record.value_version
    described = {
        "outcome": record.outcome.name.lower(),
        "type": record.record_type,
        "type_name": record.type_name,
        "key_version": record.key_version,
        "value_version": version,
        "key": to_json(record.key, 0),
        "value": None if version is None else to_json(record.value, version),
    }
    if record.error is not None:
        described["error"] = record.error
    return described | _embedded(record.value, described["value"])


def _embedded(value: Any, as_json: Any) -> dict[str, Any]:
    """Return the decoded subscriptions and assignments of classic members; delete the raw bytes from `as_json`."""
    if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL:
        for member in as_json["members"]:
            del member["subscription"], member["assignment"]
        members = [
            {
                "memberId": member.member_id,
                "subscription": _read(read_subscription(member.subscription)),
                "assignment": _read(read_assignment(member.assignment)),
            }
            for member in value.members
        ]
        return {"members": members}
    if isinstance(value, ConsumerGroupMemberMetadataValue) and value.classic_member_metadata is not None:
        protocols = [
            {"name": each.name, "subscription": _read(read_subscription(each.metadata))}
            for each in value.classic_member_metadata.supported_protocols
        ]
        return {"classic_protocols": protocols}
    return {}


def _read(embedded: Versioned | Opaque) -> dict[str, Any]:
    if isinstance(embedded, Opaque):
        return {"error": embedded.error, "raw": to_json(embedded.raw, 0)}
    data = to_json(embedded.data, embedded.version)
    return {"version": embedded.version, "data": data, "bytes_left": embedded.bytes_left}
