"""A truncated or recreated log: events of its next era are counted, and earlier ones stay counted."""

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groups.records import Log, member
from groups.test_fold import counted, logs, reasons, run
from groups.test_fold_goldens import group_records
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import GroupRecord, dump_state, load_state, new_state

A, B, C = (member(f"{name}-1", client_id=name) for name in "abc")
#: Between two eras: longer than any rebalance.
PAUSE_MS = 3_600_000


def in_era(era: int, records: list[GroupRecord]) -> list[GroupRecord]:
    """Return the same records, as if the log had been truncated or recreated this many times before them."""
    return [later(dataclasses.replace(each, log_era=era), era * PAUSE_MS) for each in records]


def later(record: GroupRecord, by_ms: int) -> GroupRecord:
    """Shift a record's times."""
    value = record.value
    if getattr(value, "current_state_timestamp", -1) >= 0:
        value = dataclasses.replace(value, current_state_timestamp=value.current_state_timestamp + by_ms)
    return dataclasses.replace(record, timestamp_ms=record.timestamp_ms + by_ms, value=value)


def test_five_generations_at_lower_offsets_are_five_rebalances():
    """The topic was recreated after the group had advanced far: all its records are new, and totals continue."""
    old = Log().write(1, A).write(2, A, B).write(3, A).write(4, A, B).write(5, A).write(6, A, B).write(7, A)
    new = in_era(1, Log().write(1, A).write(2, A, B).write(3, A).write(4, A, B).write(5, A).records)
    state, _ = run(old.records)
    state, rebalances = run(new, state)
    assert len(rebalances) == 5
    assert counted(state)["generations_completed"] == 12
    assert counted(state)["resets"] == 1
    assert "generations_aborted" not in counted(state)
    assert (state.snapshot.log_era, state.snapshot.log_offset, state.snapshot.generation) == (1, 12, 5)


def test_the_same_offset_in_another_era_is_another_rebalance():
    """Ids stay unique, and those of the first era are unchanged."""
    state, first = run(Log().write(1, A).records)
    _, second = run(in_era(2, Log().write(1, B).records), state)
    assert [each.rebalance_id for each in (*first, *second)] == ["7-0", "7-0-e2"]


def test_a_record_of_a_lower_era_changes_nothing():
    """It was read again from a batch before the truncation."""
    state, _ = run(in_era(1, Log().write(1, A).records))
    for record in Log().write(1, A).write(2, A, B).write(3, B).records:
        assert fold(state, record) == (state, ())


def test_the_number_that_was_known_may_complete_another_generation():
    """The coordinator uses the lost number again; without a new era this would be no rebalance."""
    log = Log().write(4, A).write(5, A, B)
    state, _ = run(log.records)
    again = Log().write(4, A).write(5, A, C).records[1]
    state, rebalances = run(in_era(1, [again]), state)
    assert reasons(rebalances) == ["swap"]
    assert counted(state)["resets"] == 1
    assert rebalances[0].generations_aborted == 0


def test_a_group_whose_records_survived_the_cut_goes_on():
    """Its last record may still be in the log: no reset, and the rounds between the generations are known."""
    log = Log().write(4, A).write(5, A, B)
    state, _ = run(log.records)
    log.write(8, A)
    state, rebalances = run([dataclasses.replace(log.records[-1], log_era=1)], state)
    assert reasons(rebalances) == ["departure"]
    assert "resets" not in counted(state)
    assert rebalances[0].generations_aborted == 2


def test_history_in_a_new_era_is_state():
    """Records that were in the log before the first look describe the group, and count nothing."""
    state, _ = run(Log().write(4, A).write(5, A, B).records)
    before = counted(state)
    history = [dataclasses.replace(each, live=False) for each in in_era(1, Log().write(2, C).records)]
    state, rebalances = run(history, state)
    assert (rebalances, counted(state)) == ([], before)
    assert [each.member_id for each in state.snapshot.members] == ["c-1"]


def test_a_state_from_before_there_were_eras_is_in_the_first():
    """State is kept over an upgrade."""
    state, _ = run(Log().write(1, A).records)
    assert load_state(dump_state(state)).snapshot.log_era == 0


@pytest.mark.parametrize(
    "name",
    [
        "new-java-uniform-join-leave",
        "new-rdk-range-join-leave",
        "new-rdk-all-killed",
        "share-java-join-leave-delete",
        "streams-java-join-leave-delete",
        "classic-java-coop-join-leave",
        "classic-rdk-range-join-leave",
        "v39-java-default-join-leave",
    ],
)
def test_a_whole_life_in_a_log_made_anew_counts_as_much_as_the_first(name: str):
    """Real records of every kind of group, again in the next era: the same rebalances, no member left over."""
    for group in {group for group, _ in group_records(name)}:
        records = [record for of, record in group_records(name) if of == group]
        state, first = run(records)
        once, members = counted(state), state.snapshot.members
        state, second = run(in_era(1, records), state)
        assert len(second) == len(first), group
        assert not {each.rebalance_id for each in first} & {each.rebalance_id for each in second}
        assert counted(state).get("generations_completed", 0) == 2 * once.get("generations_completed", 0)
        assert [each.member_id for each in state.snapshot.members] == [each.member_id for each in members]


@pytest.mark.parametrize("name", ["new-java-uniform-join-leave", "streams-java-join-leave-delete"])
def test_members_whose_end_the_log_lost_do_not_stay(name: str):
    """Their tombstones are missing: after a truncated life, the next one is as if it were the first."""
    for group in {group for group, _ in group_records(name)}:
        records = [record for of, record in group_records(name) if of == group]
        alone, expected = run(in_era(1, records))
        for cut in range(2, len(records), 3):
            state, _ = run(records[:cut])
            had = state.snapshot.members
            ghosts = [dataclasses.replace(each, member_id=f"old-{each.member_id}") for each in had]
            state = msgspec.structs.replace(state, snapshot=dataclasses.replace(state.snapshot, members=tuple(ghosts)))
            state, found = run(in_era(1, records), state)
            of_old = [each for each in found if not each.rebalance_id.endswith("-e1")]
            assert [each.outcome for each in of_old] in ([], ["aborted"])
            assert reasons([each for each in found if each not in of_old]) == reasons(expected)
            assert state.snapshot.members == alone.snapshot.members
            assert state.snapshot.state == alone.snapshot.state


@pytest.mark.generated
@given(st.lists(logs(), min_size=2, max_size=3), st.data())
def test_replaying_any_stretch_over_any_number_of_eras_changes_nothing(
    eras: list[list[GroupRecord]], data: st.DataObject
):
    """Spark repeats a batch after a crash, whether or not the log was truncated meanwhile: nothing is counted twice."""
    records = [each for era, log in enumerate(eras) for each in in_era(era, log)]
    expected = run(records)
    cut = data.draw(st.integers(0, len(records)))
    back = data.draw(st.integers(0, cut))
    state, first = run(records[:cut])
    state, again = run(records[back:], state)
    by_id = {each.rebalance_id: each for each in (*first, *again)}
    assert (state, list(by_id.values())) == expected


@pytest.mark.generated
@given(st.lists(logs(), min_size=2, max_size=3))
def test_totals_never_fall_at_a_new_era(eras: list[list[GroupRecord]]):
    """Every total continues, rebalances have different ids, and each is counted once."""
    state, ids = new_state("test", "g"), set()
    for record in (each for era, log in enumerate(eras) for each in in_era(era, log)):
        before = counted(state)
        state, found = fold(state, record)
        ids |= {each.rebalance_id for each in found}
        assert all(counted(state).get(name, 0) >= count for name, count in before.items())
    assert sum(state.snapshot.counters.rebalances.values()) == len(ids)
