"""Real brokers' records compared with the output of Kafka's own classes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldens import all_data_records, data_records, key_of, records, scenarios, value_of
from rebalance_streaming.recordings.decode_lines import decode_stream
from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.kafka_json import to_json

pytestmark = pytest.mark.recordings


@pytest.mark.parametrize("scenario", scenarios())
def test_every_golden_record_reads_as_kafka_reads_it(scenario: str) -> None:
    """Type, versions, key, value and embedded structures equal those of Kafka's classes and converters."""
    expected = [record["decoded"] for record in data_records(scenario)]
    lines = list(decode_stream(json.dumps(record) for record in data_records(scenario)))
    assert [
        {name: json.loads(line).get(name) for name in want} for line, want in zip(lines, expected, strict=True)
    ] == (expected)


@pytest.mark.parametrize("scenario", scenarios())
def test_a_golden_record_is_decoded_or_a_tombstone(scenario: str) -> None:
    """No record of a released Kafka is unsupported or corrupt, and exactly the null values are tombstones."""
    for record in data_records(scenario):
        outcome = decode_record(key_of(record), value_of(record)).outcome
        assert outcome is (Outcome.TOMBSTONE if record["value_hex"] is None else Outcome.DECODED)


def test_embedded_structures_appear_only_where_kafka_shows_them() -> None:
    """`members` and `classic_protocols` exist for exactly the records in which the recording has them."""

    def names(decoded: dict[str, Any]) -> set[str]:
        return decoded.keys() & {"members", "classic_protocols"}

    for record in all_data_records():
        assert names(json.loads(next(decode_stream([json.dumps(record)])))) == names(record["decoded"])


def test_fields_of_other_versions_are_left_out() -> None:
    """A value shows the fields of its version and its tagged fields, as Kafka's converters do."""
    for record in all_data_records():
        read = decode_record(key_of(record), value_of(record))
        if read.record_type == 1 and read.value_version is not None:
            assert to_json(read.value, read.value_version).keys() == record["decoded"]["value"].keys()


def test_transaction_markers_are_not_taken_for_records() -> None:
    """A marker's key would pass for the start of an offset commit's key; marked as control, it is unsupported."""
    markers = [record for scenario in scenarios() for record in records(scenario) if record["control"]]
    assert markers
    for line in decode_stream(map(json.dumps, markers)):
        assert json.loads(line)["outcome"] == "unsupported"
