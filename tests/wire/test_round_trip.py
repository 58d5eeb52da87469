"""Any valid record, written by an independent encoder, is decoded unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_streaming.wire.assignment import (
    Assignment,
    Opaque,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from rebalance_streaming.wire.decode import DecodedRecord, Outcome, decode_key, decode_record
from rebalance_streaming.wire.records import RecordType
from wire.encoding import encode_key, encode_value, encode_versioned
from wire.generated import hostile_records, legal_records, mutated, structures

pytestmark = pytest.mark.generated

EMBEDDED = (
    (Subscription, 3, decode_subscription),
    (Assignment, 3, decode_assignment),
)


@settings(max_examples=500)
@given(legal_records())
def test_a_record_survives_the_round_trip(record: tuple[RecordType, Any, int, Any]) -> None:
    """Key and value of every type and version decode to what was encoded."""
    record_type, key, version, value = record
    read = decode_record(encode_key(record_type, key), encode_value(record_type, value, version))
    assert read == DecodedRecord(
        Outcome.DECODED, record_type.number, record_type.name, 0, version, key, value, error=None
    )


@settings(max_examples=200)
@given(legal_records(flexible=True), st.dictionaries(st.integers(4, 2**32 - 1), st.binary(max_size=200), max_size=3))
def test_unknown_tagged_fields_are_skipped(record: tuple[RecordType, Any, int, Any], unknown: dict[int, bytes]) -> None:
    """Newer brokers may add tagged fields to any flexible value (KIP-915): they change nothing else."""
    record_type, key, version, value = record
    raw = encode_value(record_type, value, version, unknown_tags=unknown)
    read = decode_record(encode_key(record_type, key), raw)
    assert (read.outcome, read.value) == (Outcome.DECODED, value)


@settings(max_examples=200)
@given(st.sampled_from(EMBEDDED), st.data())
def test_an_embedded_structure_survives_the_round_trip(embedded: tuple[Any, int, Any], data: st.DataObject) -> None:
    """Every version of subscriptions and assignments decodes to what was encoded."""
    of, newest, decode = embedded
    version = data.draw(st.integers(0, newest))
    structure = data.draw(structures(of, version))
    assert decode(encode_versioned(structure, version)) == structure


@settings(max_examples=1000)
@given(hostile_records())
def test_any_bytes_have_one_outcome(record: tuple[bytes | None, bytes | None]) -> None:
    """There are no exceptions; unreadable records have an error, others have none; a key reads the same alone."""
    read = decode_record(*record)
    assert isinstance(read.outcome, Outcome)
    assert (read.error is None) == (read.outcome in (Outcome.DECODED, Outcome.TOMBSTONE))
    alone = decode_key(record[0])
    assert read == alone if isinstance(alone, DecodedRecord) else read.key == alone.key


@settings(max_examples=500)
@given(st.sampled_from([decode for _, _, decode in EMBEDDED]), st.data())
def test_any_embedded_bytes_give_an_answer(decode: Any, data: st.DataObject) -> None:
    """Member bytes come from clients: damaged or foreign ones are kept as opaque, without exceptions."""
    of, version, _ = data.draw(st.sampled_from(EMBEDDED))
    raw = encode_versioned(data.draw(structures(of, version)), version)
    found = decode(data.draw(st.just(raw) | mutated(raw) | st.binary(max_size=60)))
    assert isinstance(found, Subscription | Assignment | Opaque)
