"""Decoding of the diagnosis's input rows: values that the monitor never writes are rejected, with the field's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from histories import GROUP, T0, member, packed, probe, rebalance, report, snapshot
from rebalance_contract import ContractError, ProbeActivity, encode
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.engine.rows import decode_input

A = member("a-1", [0, 1])
FAR = 10**400

#: Topic, a valid row, and the place of a number that gets too many digits.
TOO_LARGE: dict[str, tuple[str, object, tuple[str | int, ...]]] = {
    "the age of a last poll": (
        "activity",
        packed(report(T0, A, {POLL_AGE: 1})),
        ("samples", 0, "poll_age_ms"),
    ),
    "a client's session timeout": ("activity", packed(report(T0, A)), ("config", "session_timeout_ms")),
    "a probe's time": ("activity", ProbeActivity(probe(T0, "Stable")), ("probe", "probed_at_ms")),
    "a member's session timeout": ("groups", snapshot(T0, A), ("members", 0, "session_timeout_ms")),
    "a rebalance's end": ("rebalances", rebalance(T0, [A], [A]), ("completed_at_ms",)),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_number_that_needs_more_than_64_bits_is_refused(what: str):
    """JSON has no largest number, but rules divide, and arrays have 64 bits."""
    topic, row, (*way, last) = TOO_LARGE[what]
    document: Any = json.loads(encode(row))
    place = document
    for step in way:
        place = place[step]
    assert decode_input(topic, GROUP.encode(), json.dumps(document).encode()) == row
    place[last] = FAR
    with pytest.raises(ContractError, match="64 bits"):
        decode_input(topic, GROUP.encode(), json.dumps(document).encode())
