"""What fails the task of the membership query, and what sets a group aside."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from rebalance_streaming.spark import membership
from spark.test_membership import Query, group_row, neighbour_in


@pytest.mark.parametrize("call", ["getValue", "updateValue"])
@pytest.mark.parametrize("error", [OSError("connection reset"), PySparkRuntimeError("no state server"), MemoryError()])
def test_a_failed_call_to_the_state_fails_the_task(monkeypatch: pytest.MonkeyPatch, call: str, error: Exception):
    """Spark repeats the task with the same rows, from the state before it: nothing is lost, and nothing set aside."""
    query = Query()
    query.take([group_row("g", 1, 1)])
    state = query.store.buckets[membership.bucket_of("g")].groups

    def fail(*_: Any) -> Any:
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(state, call, fail)
    with pytest.raises(type(error)):
        query.take([group_row("g", 2, 2)])
    query.take([group_row("g", 2, 2)])
    assert (query.group("g").generation, query.group("g").counters.generations_completed) == (2, 2)
    assert query.quarantined() == {}


@pytest.mark.parametrize("function", ["load_state", "fold", "dump_state"])
def test_a_worker_without_memory_fails_the_task(monkeypatch: pytest.MonkeyPatch, function: str):
    """It says nothing about the record or the group at which memory ran out."""
    query = Query()
    query.take([group_row("g", 1, 1)])

    def fail(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(membership, function, fail)
    with pytest.raises(MemoryError):
        query.take([group_row("g", 2, 2)])


def test_a_group_whose_state_cannot_be_written_is_set_aside(monkeypatch: pytest.MonkeyPatch):
    """A retry would not help; its bucket continues."""
    dump = membership.dump_state

    def dump_or_fail(state: Any) -> bytes:
        if state.snapshot.group == "g" and state.snapshot.generation == 2:
            raise OverflowError
        return dump(state)

    monkeypatch.setattr(membership, "dump_state", dump_or_fail)
    query, neighbour = Query(), neighbour_in(membership.bucket_of("g"))
    query.take([group_row("g", 1, 1), group_row("g", 2, 2), group_row(neighbour, 1, 3)])
    assert query.groups() == {neighbour}
    assert query.quarantined() == {("group", "OverflowError"): 1}
