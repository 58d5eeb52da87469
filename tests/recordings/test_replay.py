"""A replay prints the rows that a stream publishes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_contract import GroupTiming, MemberTiming, bounds
from rebalance_devtools.bench import fill
from rebalance_streaming.recordings.recording import ReplayError
from rebalance_streaming.recordings.replay import Replay, replay


def test_a_row_that_is_too_large_is_cut_as_in_its_topic():
    """Timing has a row of each member."""
    members = tuple(MemberTiming(f"member-{n}", "client" * 40, "host", None, 1) for n in range(5_000))
    row = GroupTiming("prod", "payments", 1, {}, members)
    engine = SimpleNamespace(advance=lambda _now_ms: [], finish=lambda _now_ms: [row])
    [printed] = Replay(engine=engine).finish()
    assert printed["kind"] == "timing"
    assert printed["is_truncated"]
    assert 0 < len(printed["members"]) < len(members)
    assert len(bounds.encode_timing(row)) <= bounds.MAX_ROW_BYTES


def _commit_line(**changes: Any) -> bytes:
    key, value = fill.commit_key("g", "t", 0).hex(), fill.commit_value(5, 1_800_000_000_000).hex()
    line = {"partition": 0, "offset": 1, "timestamp_ms": 1_800_000_000_000, "key_hex": key, "value_hex": value}
    return json.dumps(line | changes).encode() + b"\n"


def test_a_number_that_no_record_has_is_reported_with_its_line():
    """Kafka's partitions have 31 bits, offsets 63, times 64 with a sign."""
    wrong = {
        "partition": (-1, 2**31, 2**40, 2**63),
        "offset": (-1, 2**63, 2**64),
        "timestamp_ms": (-(2**63) - 1, 2**63, 2**64),
        "received_at_ms": (2**63, -(2**70)),
    }
    for name, numbers in wrong.items():
        for number in numbers:
            with pytest.raises(ReplayError, match=r"^the input line 2: .*; a recording has partition, offset"):
                list(replay([[_commit_line(), _commit_line(**{name: number}), _commit_line()]], output="all"))


def test_the_extreme_numbers_of_a_record_are_replayed():
    """A producer may set any time."""
    for changes in (
        {"partition": 2**31 - 1, "offset": 2**63 - 1},
        *({"timestamp_ms": each, "received_at_ms": each} for each in (-(2**63), -1, 2**63 - 1)),
    ):
        assert list(replay([[_commit_line(**changes), _commit_line()]], output="all"))
