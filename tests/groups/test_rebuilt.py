"""A state made from published rows continues like the lost one."""

import pytest

from groups.records import Log, member
from groups.test_fold import counted, run
from rebalance_streaming.groups.model import FoldState
from rebalance_streaming.groups.rebuilt import rebuild_state

A, B, C = (member(f"{name}-1", client_id=name) for name in "abc")


def rebuilt(state: FoldState) -> FoldState:
    """Drop a state, and make one from its published rows."""
    return rebuild_state(state.snapshot, None if state.episode is None else state.episode.rebalance)


def history() -> Log:
    """Return a group that grows, shrinks and empties."""
    return Log().write(1, A).write(2, A, B).write(3, A).write(4, A, B, C).write(5, A).write(6)


@pytest.mark.parametrize("lost_at", range(1, 7))
def test_reading_the_whole_log_again_changes_no_total(lost_at: int):
    """Records included in the row are not counted again; later ones are counted as usual."""
    records = history().records
    before, _ = run(records[:lost_at])
    whole, _ = run(records)
    after, _ = run(records, rebuilt(before))
    assert counted(after) == counted(whole)
    assert after.snapshot.generation == whole.snapshot.generation
    assert after.snapshot.last_rebalance_id == whole.snapshot.last_rebalance_id


def test_a_rebalance_whose_row_is_gone_is_counted_with_its_duration():
    """It does not wait any more for a generation that may follow."""
    state, _ = run(history().records)
    made = rebuild_state(state.snapshot, None)
    assert made.snapshot.settlement is None
    assert sum(made.snapshot.counters.durations) >= sum(state.snapshot.counters.durations)
