"""Rows and state of older versions, which could not count groups from probes, are read."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from rebalance_contract import CountedFrom, GroupLag, GroupSnapshot, Probe, QueryStatus, Rebalance, decode
from rebalance_streaming.groups.model import UNREADABLE, dump_state, load_state, new_state
from rebalance_streaming.groups.probing import observe

#: Written by the commit before `counted_from`, from the recording classic-kp3-range-join-leave.
KEPT = json.loads((Path(__file__).parents[1] / "golden" / "kept" / "before-counted-from.json").read_text())


@pytest.mark.parametrize(
    ("topic", "kind"), [("groups", GroupSnapshot), ("rebalances", Rebalance), ("status", QueryStatus)]
)
def test_a_row_of_before_was_counted_from_the_log(topic: str, kind: type[GroupSnapshot]):
    """The row has no field for it, and there was no other source."""
    assert "counted_from" not in KEPT[topic]
    assert decode(KEPT[topic].encode(), kind).counted_from == CountedFrom.LOG


def test_its_generations_are_known():
    """A rebalance of the log has the generation it ended with, and a window counts it."""
    row, lag = decode(KEPT["rebalances"].encode(), Rebalance), decode(KEPT["lag"].encode(), GroupLag)
    assert (row.generation_to, row.is_at_least) == (row.generations[-1].generation, False)
    assert lag.windows["15m"].generation_changes == 6


def test_state_of_before_goes_on():
    """A group's state from an older checkpoint takes the next probe, and its totals stay."""
    state = load_state(base64.b64decode(KEPT["state"]))
    assert not state.snapshot.is_at_least
    probe = Probe(probed_at_ms=(state.snapshot.updated_at_ms or 0) + 1, cluster="default", group="g", coordinator_id=7)
    after, rebalances = observe(state, probe)
    assert (after.snapshot.coordinator, rebalances) == (7, ())
    assert after.snapshot.counters == state.snapshot.counters


def test_a_damaged_state_is_unreadable():
    """Whichever byte is wrong or missing: its group is set aside, and any other error is not its state's."""
    blob = dump_state(new_state("prod", "g" * 40))
    damaged = [blob[:at] for at in range(len(blob))]
    damaged += [blob[:at] + b"\xff" + blob[at + 1 :] for at in range(len(blob))]
    damaged += [b"\x78", b"\x78\x9c garbage"]
    found = set[str]()
    for each in damaged:
        try:
            load_state(each)
        except UNREADABLE as error:
            found.add(type(error).__name__)
    assert found == {"DecodeError", "ValidationError", "UnicodeDecodeError", "error"}
