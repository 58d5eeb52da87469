"""The generic decoder with bytes that are incomplete, too long, too new, or hostile."""

from __future__ import annotations

import tracemalloc

import pytest

from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.records import RECORD_TYPES
from wire.encoding import tagged_section, uvarint
from wire.generated import distinct_goldens

COMMIT_KEY = bytes.fromhex("00010002673100066f726465727300000003")
COMMIT_V4 = bytes.fromhex("0004000000000000006400000007010000019b76daa80000")
EPOCH_KEY = bytes.fromhex("000300026731")
#: ConsumerGroupMetadata of epoch 5, without its tagged section.
EPOCH_UNTAGGED = bytes.fromhex("000000000005")
GROUP_KEY = bytes.fromhex("000200026731")
#: GroupMetadata v3 up to the count of members.
GROUP_UNCOUNTED = bytes.fromhex("00030008636f6e73756d657200000006ffffffff0000019b76daa800")
TARGET_KEY = bytes.fromhex("00070002673100026d31")


def test_every_truncation_of_a_golden_value_is_corrupt() -> None:
    """A value that ends early is never decoded, for any type and version, and there are no exceptions."""
    for key, value in distinct_goldens():
        for size in range(len(value)):
            assert decode_record(key, value[:size]).outcome is Outcome.CORRUPT, (key, value[:size])


def test_every_truncation_of_a_golden_key_is_corrupt() -> None:
    """A key that ends early is never decoded, and its value is ignored."""
    for key, value in distinct_goldens():
        for size in range(len(key)):
            read = decode_record(key[:size], value)
            assert (read.outcome, read.key, read.value) == (Outcome.CORRUPT, None, None)


def test_a_trailing_byte_is_corrupt() -> None:
    """Previews of Kafka 3.7 to 4.0 reused version numbers with other fields: these are detected by left-over bytes."""
    for key, value in distinct_goldens():
        assert decode_record(key, value + b"\0").outcome is Outcome.CORRUPT
        assert decode_record(key + b"\0", value).outcome is Outcome.CORRUPT


def test_the_early_access_format_of_share_groups_is_corrupt() -> None:
    """A 4.0 share group's epoch record lacks the hash: it is counted, and never guessed."""
    assert decode_record(bytes.fromhex("000b00027367"), bytes.fromhex("00000000000200")).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("number", [-1, 18, 24, 32_767])
def test_an_unknown_record_type_is_unsupported(number: int) -> None:
    """Newer brokers add types; a coordinator skips them (KIP-915), as does the decoder, which keeps the number."""
    read = decode_record(number.to_bytes(2, "big", signed=True) + b"\0\2g1", b"\0\0")
    assert (read.outcome, read.record_type, read.type_name) == (Outcome.UNSUPPORTED, number, None)


@pytest.mark.parametrize("number", sorted(RECORD_TYPES))
def test_the_version_behind_the_newest_is_unsupported(number: int) -> None:
    """For a future version of a known type the result has key and version; a negative version is corrupt."""
    key = next((key for key, _ in distinct_goldens() if key[:2] == number.to_bytes(2, "big")), None)
    if key is None:
        key = number.to_bytes(2, "big") + (COMMIT_KEY[2:] if number == 0 else b"\0\2g1")
    newer = decode_record(key, (RECORD_TYPES[number].newest + 1).to_bytes(2, "big") + b"\xff" * 20)
    assert (newer.outcome, newer.value_version) == (Outcome.UNSUPPORTED, RECORD_TYPES[number].newest + 1)
    assert newer.key is not None
    assert decode_record(key, b"\xff\xff").outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("section", "outcome"),
    [
        pytest.param(tagged_section({}), Outcome.DECODED, id="none"),
        pytest.param(tagged_section({0: bytes(8), 3: b"?"}), Outcome.DECODED, id="one known, one not"),
        pytest.param(tagged_section({2**32 - 1: b""}), Outcome.DECODED, id="the largest tag"),
        pytest.param(bytes([2, 5, 0, 4, 0]), Outcome.CORRUPT, id="descending"),
        pytest.param(bytes([2, 4, 0, 4, 0]), Outcome.CORRUPT, id="repeated"),
        pytest.param(bytes([2, 4, 0]), Outcome.CORRUPT, id="fewer than counted"),
        pytest.param(tagged_section({0: bytes(7)}), Outcome.CORRUPT, id="known one too short"),
        pytest.param(tagged_section({0: bytes(9)}), Outcome.CORRUPT, id="known one too long"),
        pytest.param(bytes([1, 4, 5]), Outcome.CORRUPT, id="reaches past the end"),
        pytest.param(uvarint(2**32 - 1), Outcome.CORRUPT, id="a huge count"),
    ],
)
def test_tagged_sections(section: bytes, outcome: Outcome) -> None:
    """Unknown tags are skipped by their size; order, sizes and bounds must be as Kafka writes them (KIP-482)."""
    assert decode_record(EPOCH_KEY, EPOCH_UNTAGGED + section).outcome is outcome


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(GROUP_KEY, GROUP_UNCOUNTED + b"\x7f\xff\xff\xff" + bytes(50), id="int32 count of 2^31 - 1"),
        pytest.param(GROUP_KEY, GROUP_UNCOUNTED + b"\xff\xff\xff\xff" + bytes(50), id="null where it is not allowed"),
        pytest.param(GROUP_KEY, GROUP_UNCOUNTED + b"\x80\x00\x00\x00" + bytes(50), id="negative count"),
        pytest.param(TARGET_KEY, b"\0\0" + uvarint(2**32 - 1) + bytes(50), id="compact count of 2^32 - 2"),
        pytest.param(TARGET_KEY, b"\0\0" + b"\xff" * 50, id="a varint that does not end"),
        pytest.param(COMMIT_KEY, COMMIT_V4[:14] + uvarint(2**31) + bytes(50), id="a string of 2 GiB"),
        pytest.param(COMMIT_KEY, COMMIT_V4[:14] + b"\0" + bytes(50), id="a null string where it is not allowed"),
        pytest.param(COMMIT_KEY, COMMIT_V4[:14] + b"\2\xff" + COMMIT_V4[15:], id="a string that is not UTF-8"),
    ],
)
def test_a_hostile_length_is_corrupt_and_allocates_nothing(key: bytes, value: bytes) -> None:
    """Claimed lengths are compared with the available bytes before memory is allocated."""
    decode_record(key, value)
    tracemalloc.start()
    try:
        outcome = decode_record(key, value).outcome
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome is Outcome.CORRUPT
    assert peak_bytes < 20_000
