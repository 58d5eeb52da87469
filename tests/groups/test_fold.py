"""The fold, as stories of whole groups."""

import dataclasses
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groups.records import Log, member
from rebalance_contract import (
    KEPT_FIRST_GENERATIONS,
    KEPT_LAST_GENERATIONS,
    GroupState,
    Rebalance,
    RebalanceReason,
    counters_at,
)
from rebalance_streaming.groups.classic import read_members
from rebalance_streaming.groups.fold import fold, group_of
from rebalance_streaming.groups.model import FoldDraft, FoldState, GroupRecord, dump_state, load_state, new_state
from rebalance_streaming.groups.rebuilt import rebuild_state
from rebalance_streaming.wire.decode import DecodedRecord, Outcome
from rebalance_streaming.wire.records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    GroupKey,
    GroupMetadataKey,
    GroupMetadataValue,
    TargetAssignmentMetadataValue,
)

A, B, C = (member(f"{name}-1", client_id=name) for name in "abc")


def run(records: Sequence[GroupRecord], state: FoldState | None = None) -> tuple[FoldState, list[Rebalance]]:
    """Fold records one by one, with the state serialised in between; return each rebalance's last version."""
    state = state or new_state("test", "g")
    rebalances: dict[str, Rebalance] = {}
    for record in records:
        state, found = fold(state, record)
        state = load_state(dump_state(state))
        rebalances |= {each.rebalance_id: each for each in found}
    return state, list(rebalances.values())


def reasons(rebalances: Sequence[Rebalance]) -> list[str]:
    """Return why each rebalance began."""
    return [each.reason for each in rebalances]


def counted(state: FoldState) -> dict[str, int]:
    """Return the totals that are not zero, without those of durations."""
    found = dataclasses.asdict(state.snapshot.counters)
    found |= found.pop("rebalances")
    del found["durations"], found["duration_ms"]
    return {name: count for name, count in found.items() if count}


def test_the_state_of_a_large_group_is_compressed_and_what_older_versions_stored_is_read():
    """Every value in Spark's state server exists several times in the heap of its JVM."""
    crowd = [member(f"c-{number:05d}", client_id="crowd") for number in range(2_000)]
    state, _ = run(Log().write(1, *crowd).write(2, *crowd[1:]).records)
    stored, blob = msgspec.msgpack.encode(state), dump_state(state)
    assert load_state(blob) == load_state(stored) == state
    assert len(blob) < len(stored) / 10
    small, _ = run(Log().write(1, A).records)
    assert dump_state(small) == msgspec.msgpack.encode(small)


def test_a_group_is_born_grows_shrinks_and_empties():
    """A usual life: each step is one rebalance with the right reason, and the snapshot follows."""
    log = Log().create().write(1, A).write(2, A, B).write(3, B).write(4)
    state, rebalances = run(log.records)
    assert reasons(rebalances) == ["first_join", "join", "departure", "group_emptied"]
    assert (state.snapshot.state, state.snapshot.generation, state.snapshot.members) == (GroupState.EMPTY, 4, ())
    assert counted(state) == {
        "first_join": 1,
        "join": 1,
        "departure": 1,
        "group_emptied": 1,
        "generations_completed": 4,
        "members_joined": 2,
        "members_left": 2,
    }


def test_a_new_groups_first_rebalance_has_an_exact_start():
    """The creation marker is the only record that shows when a join phase began."""
    log = Log().create().write(1, A, after_ms=3_060, sync_ms=50)
    _, (rebalance,) = run(log.records)
    assert rebalance.duration_min_ms == rebalance.duration_max_ms == 3_060
    assert rebalance.sync_ms == 50


def test_a_later_rebalance_is_timed_between_two_bounds():
    """It began after the previous record and before its join barrier was released."""
    log = Log().write(1, A).write(2, A, B, after_ms=9_000, sync_ms=120)
    _, (_, rebalance) = run(log.records)
    assert (rebalance.duration_min_ms, rebalance.duration_max_ms) == (120, 9_000)
    assert rebalance.started_after_ms == log.records[0].timestamp_ms


def test_skipped_generations_are_aborted_rounds():
    """Generations 3 and 4 passed the join barrier and never got an assignment."""
    state, rebalances = run(Log().write(1, A).write(2, A, B).write(5, A, B, C).records)
    assert rebalances[-1].generations_aborted == 2
    assert counted(state)["generations_aborted"] == 2
    assert counted(state)["generations_completed"] == 3


def test_a_group_first_seen_above_generation_one_had_aborted_rounds():
    """Everything older was read before, so a group without history began at 1."""
    _, (rebalance,) = run(Log().write(3, A).records)
    assert (rebalance.generation_from, rebalance.generation_to, rebalance.generations_aborted) == (None, 3, 2)


def test_a_static_members_restart_is_no_rebalance():
    """Same generation, new member id of the same instance: replaced, and nothing else is counted."""
    old = member("i1-a", instance="i1", assigned={"orders": [0]})
    new = dataclasses.replace(old, member_id="i1-b")
    state, rebalances = run(Log().write(1, old, B).write(1, new, B).records)
    assert reasons(rebalances) == ["first_join"]
    assert counted(state) == {
        "first_join": 1,
        "generations_completed": 1,
        "members_joined": 2,
        "members_replaced": 1,
    }
    assert {each.member_id for each in state.snapshot.members} == {"i1-b", "b-1"}


def test_a_member_that_comes_back_under_a_new_id_is_replaced_not_new():
    """A dynamic member's restart within one generation step counts as neither join nor leave."""
    back = dataclasses.replace(A, member_id="a-2")
    state, rebalances = run(Log().write(1, A, B).write(2, back, B).records)
    assert rebalances[-1].reason == "replacement"
    assert rebalances[-1].replaced == (("a-1", "a-2"),)
    assert counted(state)["members_replaced"] == 1


@pytest.mark.parametrize(("user_data", "length"), [(None, None), (b"", 0), (b"abcd", 4)], ids=["null", "empty", "some"])
def test_the_form_of_a_subscription_is_kept(user_data: bytes | None, length: int | None):
    """Its version, and the length of the assignor's data: no data is not the same as empty data."""
    state, _ = run(Log().write(1, member("a-1", user_data=user_data)).records)
    (found,) = state.snapshot.members
    assert (found.subscription_version, found.user_data_bytes) == (1, length)


def test_what_is_no_subscription_has_no_form():
    """For bytes truncated before the version, and members of other protocols, both are unknown."""
    state, _ = run(Log().write(1, dataclasses.replace(A, subscription=b"")).records)
    assert [(m.subscription_version, m.user_data_bytes) for m in state.snapshot.members] == [(None, None)]


def test_a_worker_of_connect_says_how_far_it_read_its_config_topic():
    """As in its join request; it is unknown for invalid worker state, and no consumer has one."""
    (record,) = Log().write(1, A).records
    assert isinstance(record.value, GroupMetadataValue)
    for raw, expected in ((bytes.fromhex("00020001780000000000000007ffffffff"), 7), (b"\0\2\xff", None)):
        worker = dataclasses.replace(A, subscription=raw)
        value = dataclasses.replace(record.value, protocol_type="connect", members=(worker,))
        assert [each.config_offset for each in read_members(value)] == [expected]
    assert [each.config_offset for each in read_members(record.value)] == [None]


def test_different_members_in_one_step_are_a_swap():
    """One left and an unrelated one joined."""
    assert reasons(run(Log().write(1, A).write(2, B).records)[1]) == ["first_join", "swap"]


def test_unchanged_members_are_distinguished_by_what_else_changed():
    """Another subscription, a cooperative assignor's second round, otherwise a request of the leader."""
    other_topics = dataclasses.replace(A, subscription=member("x", topics=("orders", "payments")).subscription)
    assert run(Log().write(1, A).write(2, other_topics).records)[1][-1].reason == "subscription_change"
    assert run(Log().write(1, A).write(2, A).records)[1][-1].reason == "leader_rejoin"
    first_round = (
        member("a-1", owned={"orders": [0, 1]}, assigned={"orders": [0]}),
        member("b-1", assigned={}),
    )
    second_round = (
        member("a-1", owned={"orders": [0]}, assigned={"orders": [0]}),
        member("b-1", assigned={"orders": [1]}),
    )
    log = Log().write(1, member("a-1", assigned={"orders": [0, 1]})).write(2, *first_round)
    _, rebalances = run(log.write(3, *second_round, after_ms=20_000).records)
    assert reasons(rebalances) == ["first_join", "join"]
    assert [each.reason for each in rebalances[-1].generations] == ["join", "cooperative_followup"]
    assert rebalances[-1].moves is not None
    assert (rebalances[-1].moves.moved, rebalances[-1].moves.kept) == ({"orders": [1]}, 1)


def test_more_partitions_under_unchanged_members_are_a_change_of_the_topic():
    """No subscription changed, but there are more partitions."""
    few, more = (member("a-1", assigned={"orders": list(range(n))}) for n in (3, 6))
    assert run(Log().write(1, few).write(2, more).records)[1][-1].reason == "topic_metadata_change"


def test_a_cascade_is_one_rebalance():
    """Three members leave, each before the group was stable for two heartbeats."""
    log = Log().write(1, A, B, C).write(2, A, B).write(3, A, after_ms=3_000).write(4, after_ms=3_000)
    state, rebalances = run(log.records)
    assert reasons(rebalances) == ["first_join", "departure"]
    (_, cascade) = rebalances
    assert (cascade.generation_from, cascade.generation_to, len(cascade.generations)) == (1, 4, 3)
    assert (len(cascade.members_before), cascade.members_after, len(cascade.left)) == (3, (), 3)
    assert cascade.duration_min_ms == 6_000 + 20
    assert counted(state)["departure"] == 1
    assert counted(state)["generations_completed"] == 4


def test_a_rebalance_without_an_end_does_not_grow_for_ever():
    """Of very many generations the first and the last are listed, all are counted, and the state stays bounded."""
    log, named = Log().write(1, A).write(2, A, B), KEPT_FIRST_GENERATIONS + KEPT_LAST_GENERATIONS
    for generation in range(3, 3 * named):
        log.write(generation, *((A, B) if generation % 2 else (A,)), after_ms=3_000)
    whole, (_, rebalance) = run(log.records)
    part, _ = run(log.records[: 2 * named])
    assert (rebalance.generation_from, rebalance.generation_to) == (1, 3 * named - 1)
    assert rebalance.all_generations == 3 * named - 2
    assert [each.generation for each in rebalance.generations] == [
        *range(2, 2 + KEPT_FIRST_GENERATIONS),
        *range(3 * named - KEPT_LAST_GENERATIONS, 3 * named),
    ]
    assert counted(whole)["generations_completed"] == 3 * named - 1
    assert len(dump_state(whole)) <= 1.01 * len(dump_state(part))


def test_epochs_that_are_not_named_any_more_are_counted_as_aborted_once():
    """A thousand members join a group of the newer protocol before it has a target assignment."""
    epochs = 2 * (KEPT_FIRST_GENERATIONS + KEPT_LAST_GENERATIONS)

    def at(epoch: int, offset: int, *, target: bool = False) -> GroupRecord:
        value = TargetAssignmentMetadataValue(epoch) if target else ConsumerGroupMetadataValue(epoch)
        return GroupRecord(7, offset, 1_000 * offset, live=True, value=value, record_type=6 if target else 3)

    who = ConsumerGroupMemberMetadataValue(None, None, "a", "/10.0.0.1", ("orders",), None, 300_000, None)
    records = [GroupRecord(7, 0, 0, live=True, value=who, record_type=5, member_id="a-1")]
    records += [at(epoch, epoch) for epoch in range(1, epochs + 1)]
    records += [at(epochs, epochs + 1, target=True), at(epochs + 1, epochs + 2), at(epochs + 2, epochs + 3)]
    records += [at(epochs + 2, epochs + 4, target=True)]
    state, (rebalance,) = run(records)
    assert rebalance.all_generations == epochs + 2
    assert counted(state)["generations_aborted"] == rebalance.generations_aborted == epochs
    assert counted(state)["generations_completed"] == 2
    made = rebuild_state(state.snapshot, rebalance)
    after, _ = run([at(epochs + 3, epochs + 5), at(epochs + 3, epochs + 6, target=True)], made)
    assert counted(after)["generations_aborted"] == epochs


def test_a_group_that_was_stable_in_between_had_two_rebalances():
    """The barrier was released more than two heartbeats after the last assignment."""
    log = Log().write(1, A, B).write(2, A).write(3, A, C, after_ms=6_021)
    assert reasons(run(log.records)[1]) == ["first_join", "departure", "join"]


def test_a_partition_that_came_back_to_its_owner_ping_ponged():
    """The member left and returned under a new id before anything settled."""
    a = member("a-1", client_id="a", assigned={"orders": [0, 1]})
    both = member("b-1", client_id="b", assigned={"orders": [2, 3]})
    alone = member("b-1", client_id="b", assigned={"orders": [0, 1, 2, 3]})
    back = member("a-2", client_id="a", assigned={"orders": [0, 1]})
    log = Log().write(1, a, both).write(2, alone).write(3, back, both, after_ms=2_000)
    (_, rebalance) = run(log.records)[1]
    assert rebalance.replaced == (("a-1", "a-2"),)
    assert rebalance.moves is not None
    assert (rebalance.moves.moved, rebalance.moves.kept) == ({}, 4)
    assert rebalance.moves.ping_ponged == {"orders": [0, 1]}


def test_durations_and_moves_are_counted_once_no_generation_can_follow():
    """Not while the rebalance may still grow, once afterwards, and not again for its repetitions."""
    a, b = (member(f"{name}-1", client_id=name, assigned={"orders": [0]}) for name in "ab")
    log = Log().create().write(1, a, after_ms=3_000).write(2, b)
    state, (_, swap) = run(log.records)
    assert state.snapshot.counters.duration_ms == 3_000
    assert sum(state.snapshot.counters.durations) == 1
    assert swap.completed_at_ms is not None
    due = state.snapshot.settlement
    assert due is not None
    assert due.at_ms == swap.completed_at_ms + 20_000
    assert counters_at(state.snapshot, due.at_ms - 1) == state.snapshot.counters
    later = counters_at(state.snapshot, due.at_ms)
    assert (later.partitions_moved, sum(later.durations)) == (1, 2)


def test_what_readers_have_counted_is_not_counted_again():
    """A record after that moment finds the totals as readers show them."""
    a, b = (member(f"{name}-1", client_id=name, assigned={"orders": [0]}) for name in "ab")
    log = Log().create().write(1, a, after_ms=3_000).write(2, b)
    state, _ = run(log.records)
    due = state.snapshot.settlement
    assert due is not None
    shown = counters_at(state.snapshot, due.at_ms)
    after, _ = run(log.write(2, b, after_ms=60_000).records)
    assert after.snapshot.settlement is None
    assert (after.snapshot.counters.durations, after.snapshot.counters.partitions_moved) == (
        shown.durations,
        shown.partitions_moved,
    )


def test_the_one_who_set_it_off_is_named():
    """The only one that left; none if two did; the leader if nothing else changed."""
    _, rebalances = run(Log().write(1, A, B, C).write(2, A, B).write(3, C).write(4, C).records)
    assert [each.first_offender for each in rebalances] == [None, "c-1", None, "c-1"]


def test_what_was_there_before_the_monitor_is_state_and_not_history():
    """Compacted records set the snapshot and count nothing; later ones count."""
    log = Log(live=False).write(4, A).write(9, A, B)
    state, rebalances = run(log.records)
    assert (rebalances, counted(state)) == ([], {})
    assert (state.snapshot.state, state.snapshot.generation, len(state.snapshot.members)) == (GroupState.STABLE, 9, 2)
    log.live = True
    state, rebalances = run(log.write(10, A).records)
    assert reasons(rebalances) == ["departure"]
    assert rebalances[0].generations_aborted == 0


def test_a_deleted_group_keeps_its_totals_and_starts_over():
    """Counters never decrease; the new life's first generation is 1 again, which is no gap."""
    log = Log().write(1, A).write(2).delete()
    state, _ = run(log.records)
    assert (state.snapshot.state, state.snapshot.generation) == (GroupState.DELETED, None)
    state, rebalances = run(log.create().write(1, A).records)
    assert reasons(rebalances)[-1] == "first_join"
    assert counted(state)["first_join"] == 2
    assert counted(state)["resets"] == 1
    assert "generations_aborted" not in counted(state)


def test_a_generation_below_the_known_one_is_a_reset_and_no_gap():
    """A coordinator that started over gives no information about the generations between."""
    state, rebalances = run(Log().write(7, A).write(2, A, B).records)
    assert rebalances[-1].generations_aborted == 0
    assert (rebalances[-1].generation_from, state.snapshot.generation) == (None, 2)
    assert counted(state)["resets"] == 1


def test_a_tombstone_of_an_unknown_group_is_harmless():
    """The old coordinator writes none for groups that only stored offsets; compaction may leave a tombstone alone."""
    state, rebalances = run(Log().delete().records)
    assert (rebalances, state.snapshot.state) == ([], GroupState.DELETED)


def test_other_protocol_types_are_counted_with_their_bytes_left_alone():
    """A Connect group's members have no partitions, but count as members."""
    log = Log().write(1, A)
    record = log.records[0]
    assert record.value is not None
    connect = dataclasses.replace(record, value=dataclasses.replace(record.value, protocol_type="connect"))
    state, rebalances = run([connect])
    assert reasons(rebalances) == ["first_join"]
    assert state.snapshot.members[0].partitions is None


def test_every_reason_is_in_the_contract():
    """A reason outside the published list would be a series that starts at 1."""
    state, _ = run(Log().write(1, A).records)
    assert set(state.snapshot.counters.rebalances) == set(RebalanceReason)


MEMBERS = [A, B, C, dataclasses.replace(A, member_id="a-2")]


@st.composite
def logs(draw: st.DrawFn) -> list[GroupRecord]:
    """Draw a group's log: mostly increasing generations, random members, deletions and markers in between."""
    log, generation = Log(), 0
    for step in draw(st.lists(st.sampled_from(["next", "same", "gap", "back", "delete", "create"]), max_size=12)):
        if step in ("delete", "create"):
            generation = 0
            log = log.delete() if step == "delete" else log.create()
            continue
        after_ms = draw(st.sampled_from([500, 5_000, 60_000]))
        generation = max(1, generation + {"next": 1, "same": 0, "gap": 3, "back": -2}[step])
        log.write(generation, *draw(st.lists(st.sampled_from(MEMBERS), unique=True, max_size=3)), after_ms=after_ms)
    return log.records


@pytest.mark.generated
@given(logs(), st.data())
def test_replaying_any_stretch_again_changes_nothing(records: list[GroupRecord], data: st.DataObject):
    """After a crash Spark repeats a batch: state, totals and rebalances are unchanged."""
    expected = run(records)
    cut = data.draw(st.integers(0, len(records)))
    back = data.draw(st.integers(0, cut))
    state, first = run(records[:cut])
    state, again = run(records[back:], state)
    by_id = {each.rebalance_id: each for each in (*first, *again)}
    assert (state, list(by_id.values())) == expected


@pytest.mark.generated
@given(logs())
def test_generations_add_up(records: list[GroupRecord]):
    """Every completed generation is part of one rebalance; totals, and the omitted generations, only grow."""
    state, rebalances = new_state("test", "g"), {}
    for record in records:
        before, generation = counted(state), state.snapshot.generation
        state, found = fold(state, record)
        rebalances |= {each.rebalance_id: each for each in found}
        after = counted(state)
        assert all(after.get(name, 0) >= count for name, count in before.items())
        if generation is not None and state.snapshot.generation is not None and state.snapshot.generation < generation:
            assert after["resets"] == before.get("resets", 0) + 1
    counters = state.snapshot.counters
    assert sum(counters.rebalances.values()) == len(rebalances)
    assert counters.generations_completed == sum(len(each.generations) for each in rebalances.values())
    assert counters.generations_aborted == sum(each.generations_aborted for each in rebalances.values())
    assert sum(pane.generations_completed for pane in state.snapshot.windows.panes) <= counters.generations_completed


def test_a_draft_has_what_a_state_has():
    """In the same order, and a state converted to a draft and back is unchanged."""
    assert tuple(each.name for each in dataclasses.fields(FoldDraft)) == FoldState.__struct_fields__
    state = msgspec.structs.replace(new_state("c", "g"), last_generation=3, topic_names={"id": "orders"})
    assert FoldDraft.of(state).state() == state


@pytest.mark.parametrize(
    ("record", "group"),
    [
        (DecodedRecord(Outcome.DECODED, 2, key=GroupMetadataKey("classic")), "classic"),
        (DecodedRecord(Outcome.TOMBSTONE, 3, key=GroupKey("consumer")), "consumer"),
        (DecodedRecord(Outcome.UNSUPPORTED, 2, key=GroupMetadataKey("newer")), None),
        (DecodedRecord(Outcome.CORRUPT), None),
        (DecodedRecord(Outcome.DECODED, 1), None),
    ],
)
def test_a_record_names_its_group_if_it_is_folded(record: DecodedRecord, group: str | None):
    """Commits, and unreadable records, are not part of a group's history."""
    assert group_of(record) == group
