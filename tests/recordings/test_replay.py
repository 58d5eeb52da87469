"""A replay prints the rows that a stream publishes."""

from __future__ import annotations

from types import SimpleNamespace

from rebalance_contract import GroupTiming, MemberTiming, bounds
from rebalance_streaming.recordings.replay import Replay


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
