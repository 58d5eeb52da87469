"""Summaries of a rebalance's row."""

from __future__ import annotations

from dataclasses import replace

from histories import T0, member, rebalance
from rebalance_contract import Generation

A, B, C = member("a-1", [0]), member("b-1", [1]), member("c-1")


def test_every_coming_and_going_is_a_change():
    """Including a member that joined and left in between, which the net change leaves out."""
    first, second = (
        Generation(2, "join", joined=("c-1", "d-1"), left=("b-1",)),
        Generation(3, "departure", left=("c-1",)),
    )
    assert rebalance(T0, [A, B], [A], generations=(first, second)).changes == 4
    assert rebalance(T0, [A], [A]).changes == 0


def test_everybody_is_listed_once_as_last_known():
    """Members from before, during and after: those that stayed have their partitions from after."""
    after = replace(A, partitions={"orders": [0, 1]})
    found = rebalance(T0, [A, B], [after], passing=(C,)).all_members()
    assert found == {"a-1": after, "b-1": B, "c-1": C}
