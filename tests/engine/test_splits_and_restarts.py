"""The whole engine: for any batch boundaries and restarts the final output is the same.

The compared output, and its parts that depend on when the engine looked, are defined by `driving.outcome`.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from engine.driving import differences, gone_on, interrupted, lived_once, recorded_inputs, split, undisturbed
from rebalance_contract import Finding, FindingState

pytestmark = pytest.mark.recordings

#: Of both protocols and ZooKeeper; with all sources, and without client metrics; incidents, scenes, and calm.
CHOSEN = (
    "crash_loop-1",
    "healthy_confluent-1",
    "held_interpreter-sick-2",
    "idle_lock-sick-3-4.3.1-no-metrics",
    "idle_lock_upgraded-cured-4",
    "join_barrier-sick-1",
    "long_batches-sick-5",
    "mixed_clients_crash-54",
    "owner_lock-sick-6",
    "poll_overrun-1",
    "reconciliation_stuck-1",
    "rolling_deploy-1",
    "scale_in-1",
    "static_id_conflict-1",
)


@given(name=st.sampled_from(CHOSEN), share=st.sampled_from((0.02, 0.1, 0.5, 1.0)), chance=st.randoms())
@limits(max_examples=40)
def test_batches_may_end_anywhere(name: str, share: float, chance: random.Random):
    """Whether the engine looks after each row, after every fiftieth, or each second: the last rows are the same."""
    inputs = recorded_inputs(name)
    after = {place for place in range(len(inputs)) if chance.random() < share}
    assert differences(undisturbed(name), split(inputs, after)) == {}


@given(name=st.sampled_from(CHOSEN), missed=st.sampled_from((0, 0, 1, 5)), chance=st.randoms())
@limits(max_examples=60)
def test_a_start_in_the_middle_changes_nothing(name: str, missed: int, chance: random.Random):
    """Stopped before any row, and started then or some rows later: the last rows are those of one whole run.

    This applies to all fields of lag with its windows, impact, timing and totals, and of findings except those that
    `driving.outcome` leaves out, by rule; an open finding keeps its id. Not guaranteed: causes that need commits, of
    rebalances judged neither before the stop nor within a minute; the number of records processed twice, which is
    counted from commits that are kept for a minute; and in the windows, the largest lag and its slope if a partition
    was first committed to in the look-back: the row of lag does not contain this time.
    """
    inputs = recorded_inputs(name)
    before, run = interrupted(inputs, chance.randrange(1, len(inputs)), missed)
    assert differences(undisturbed(name), run) == {}
    for key, row in before.items():
        if isinstance(row, Finding) and row.state == FindingState.FIRING:
            now = run.topics[key]
            assert isinstance(now, Finding)
            assert now.finding_id == row.finding_id


@pytest.mark.parametrize("name", CHOSEN)
def test_a_start_minutes_after_an_incident_takes_nothing_back(name: str):
    """The earlier commits are no longer in memory: open findings keep their causes, but not all of their evidence."""
    inputs = gone_on(recorded_inputs(name), 5)
    _, run = interrupted(inputs, len(inputs) - 4)
    unlike = differences(lived_once(inputs), run)
    assert {key: fields for key, fields in unlike.items() if not set(fields) <= {"rests_on", "evidence"}} == {}
