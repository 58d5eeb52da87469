"""A rebalance on one line."""

from groups.records import Log, member
from rebalance_contract import Rebalance
from rebalance_exporters.terminal.words import describe
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import new_state

A, B = member("a-1", client_id="a"), member("b-1", client_id="b")


def last_of(log: Log) -> Rebalance:
    """Fold a log and return its last rebalance."""
    state = new_state("test", "payments")
    for record in log.records:
        state, found = fold(state, record)
    return found[-1]


def test_who_left_and_who_came():
    """By client id and host, with the minimum duration."""
    text = describe(last_of(Log().write(1, A).write(2, B, sync_ms=250)))
    assert "payments  generation 1 -> 2  members 1 -> 1  swap (left: a@10.0.0.1; joined: b@10.0.0.1)" in text
    assert text.endswith("took at least 250 ms (the log does not show its start)")


def test_one_that_came_back_neither_left_nor_joined():
    """Under a new id, a few seconds later."""
    back = member("a-2", client_id="a")
    text = describe(last_of(Log().write(1, A, B).write(2, B).write(3, back, B, after_ms=4_000)))
    assert "generation 1 -> 3  members 2 -> 2  departure (came back: a@10.0.0.1)" in text


def test_an_exact_duration_is_shown_as_such():
    """The first join of a group that is new to the coordinator."""
    assert describe(last_of(Log().create().write(1, A, after_ms=3_000))).endswith("took 3 s")
