"""The fold of real brokers' records, compared with the logs of these brokers."""

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldens import data_records, key_of, scenarios, timeline, value_of
from rebalance_contract import Rebalance
from rebalance_deploy.broker_log import GroupTruth, read_truth
from rebalance_deploy.counts import Counted, expected
from rebalance_streaming.groups.fold import fold, group_of
from rebalance_streaming.groups.model import FoldState, GroupRecord, dump_state, load_state, new_state
from rebalance_streaming.wire.decode import decode_record

pytestmark = pytest.mark.recordings

#: Groups that were classic for their whole life.
CLASSIC = [name for name in scenarios() if not name.startswith(("new-", "share-", "upgrade", "v40", "v39java-new"))]


def fold_scenario(name: str) -> dict[str, FoldState]:
    """Fold every group record of a recording as if it had been read live."""
    return fold_all(name)[0]


def fold_all(name: str) -> tuple[dict[str, FoldState], list[Rebalance]]:
    """Return the final states by group, and every rebalance's last version in order."""
    return fold_records(group_records(name), {})


@cache
def group_records(name: str) -> tuple[tuple[str, GroupRecord], ...]:
    """Return (group, record) of every group record of a recording, in log order."""
    found = []
    for line in data_records(name):
        record = decode_record(key_of(line), value_of(line))
        group = group_of(record)
        if group is None:
            continue
        at = GroupRecord(
            line["partition"],
            line["offset"],
            line["timestamp_ms"],
            True,
            record.value,
            record.record_type or 0,
            getattr(record.key, "member_id", None),
        )
        found.append((group, at))
    return tuple(found)


def fold_records(
    records: Sequence[tuple[str, GroupRecord]], states: dict[str, FoldState]
) -> tuple[dict[str, FoldState], list[Rebalance]]:
    """Fold records into states, serialised after each."""
    rebalances: dict[tuple[str, str], Rebalance] = {}
    states = dict(states)
    for group, at in records:
        states[group], found = fold(states.get(group) or new_state("c", group), at)
        states[group] = load_state(dump_state(states[group]))
        rebalances |= {(group, each.rebalance_id): each for each in found}
    return states, list(rebalances.values())


def counted(state: FoldState, generation: int) -> Counted:
    """Return the fold's totals in the form of the truth; a deleted group's generation is that of its last life."""
    totals = state.snapshot.counters
    return Counted(
        state.snapshot.generation or generation,
        totals.generations_completed,
        totals.generations_aborted,
    )


@pytest.mark.parametrize("name", CLASSIC)
def test_generations_are_those_the_coordinator_logged(name: str):
    """Completed, aborted and current generations of every group equal the broker's own log lines."""
    truths = read_truth(str(event["text"]) for event in timeline(name) if event["event"] == "broker_log")
    states = fold_scenario(name)
    for group, truth in truths.items():
        if group in states and truth.generation == generation_in_log(states[group], truth):
            assert counted(states[group], truth.generation) == expected(truth), group


def generation_in_log(state: FoldState, truth: GroupTruth) -> int:
    """Return the generation at the end of the recording: some timelines end later."""
    return state.snapshot.generation or truth.generation


def test_most_recordings_are_compared():
    """The comparison above must not pass for lack of data."""
    compared = 0
    for name in CLASSIC:
        truths = read_truth(str(event["text"]) for event in timeline(name) if event["event"] == "broker_log")
        states = fold_scenario(name)
        compared += sum(g in states and t.generation == generation_in_log(states[g], t) for g, t in truths.items())
    assert compared >= 35


def test_static_restarts_are_replacements():
    """Three restarts within the session are three replaced members and no generation (Java and kafka-python alike)."""
    for name in ("static-java-range-restarts", "static-kp3-range-restarts"):
        (state,) = fold_scenario(name).values()
        assert state.snapshot.counters.members_replaced >= 3, name


def test_a_superseded_round_is_seen_in_the_gap():
    """A member that joined during the sync phase made one generation disappear."""
    (state,) = fold_scenario("slow-assignor-java-join-during-sync").values()
    assert state.snapshot.counters.generations_aborted == 1


EPOCHS = [name for name in scenarios() if name.startswith(("new-", "share-", "streams-java", "v40-new", "v39java-new"))]


@pytest.mark.parametrize("name", EPOCHS)
def test_every_group_epoch_is_accounted_for(name: str):
    """Each epoch that the coordinator wrote got an assignment or was superseded, and every rebalance ended."""
    states, rebalances = fold_all(name)
    epochs = {
        line["decoded"]["value"]["epoch"]
        for line in data_records(name)
        if line["decoded"]["type"] in (3, 11, 17) and line["decoded"]["value"]
    }
    (state,) = (state for state in states.values() if state.snapshot.type in ("consumer", "share", "streams"))
    counters = state.snapshot.counters
    assert counters.generations_completed + counters.generations_aborted == len(epochs)
    assert {each.outcome for each in rebalances} == {"completed"}
    assert state.snapshot.members == ()
    assert counters.members_joined == counters.members_left


def story(name: str) -> list[tuple[str, int, int, str]]:
    """Return (reason, generation from, to, moved/kept/ping-ponged) of a recording's rebalances."""
    found = []
    for each in fold_all(name)[1]:
        moves = each.moves
        moved = (
            "-"
            if moves is None
            else "/".join(str(n) for n in (count(moves.moved), moves.kept, count(moves.ping_ponged)))
        )
        found.append((each.reason, each.generation_from or 0, each.generation_to, moved))
    return found


def count(partitions: dict[str, list[int]]) -> int:
    """Return the number of partitions."""
    return sum(map(len, partitions.values()))


def test_a_consumer_groups_joins_and_leaves():
    """m1, m2, m3 join, m2, m3 and m1 leave: six epochs, six rebalances, and no unnecessary moves."""
    assert story("new-java-uniform-join-leave") == [
        ("first_join", 0, 2, "0/0/0"),
        ("join", 2, 3, "3/3/0"),
        ("join", 3, 4, "2/4/0"),
        ("departure", 4, 5, "2/4/0"),
        ("departure", 5, 6, "3/3/0"),
        ("group_emptied", 6, 7, "0/0/0"),
    ]


def test_a_poll_overrun_of_a_consumer_group_brings_everything_back():
    """The Java member leaves and returns with its own id: half of the partitions move temporarily, none permanently."""
    assert story("new-java-maxpoll")[1] == ("departure", 3, 5, "0/6/3")


def test_a_member_fenced_in_revocation_is_distinguished_from_one_that_left():
    """It did not give up partitions within its rebalance time-out."""
    _, rebalances = fold_all("new-java-fenced-in-revocation")
    fenced = [member for each in rebalances for step in each.generations for member in step.fenced]
    assert len(fenced) == 1


def test_an_upgrade_and_a_downgrade_are_one_history():
    """Classic to KIP-848 and back: generations continue, no deletion, no invented round, members are kept."""
    states, rebalances = fold_all("upgrade-downgrade-rdk-range")
    (state,) = states.values()
    assert (state.snapshot.type, state.snapshot.generation, state.snapshot.counters.resets) == ("classic", 10, 0)
    assert (state.snapshot.counters.conversions, state.snapshot.counters.generations_aborted) == (2, 0)
    assert [each.type for each in rebalances] == ["classic", *["consumer"] * 3, *["classic"] * 3]
    assert [(each.generation_from, each.generation_to) for each in rebalances[1:]] == [
        (1, 3),
        (3, 5),
        (5, 7),
        (7, 8),
        (8, 9),
        (9, 10),
    ]


def test_a_static_members_upgrade_is_a_replacement():
    """The newcomer has the instance id of a classic member: no epoch, one replaced."""
    states, _ = fold_all("upgrade-java-static")
    (state,) = states.values()
    assert state.snapshot.counters.members_replaced == 2
    assert (state.snapshot.type, state.snapshot.counters.resets) == ("consumer", 0)


def test_static_restarts_of_a_consumer_group_are_replacements():
    """-2, then the same instance under a new id: no epoch. The replaced member is recorded, as for classic groups."""
    states, _ = fold_all("new-java-static-restarts")
    (snapshot,) = (state.snapshot for state in states.values())
    assert snapshot.counters.members_replaced == 1
    (replaced,) = snapshot.replacements
    assert replaced.group_instance_id
    assert replaced.old_member_id != replaced.new_member_id
    assert replaced.old_host == replaced.new_host != ""


def test_topics_of_a_consumer_group_have_names():
    """Its records have ids; with one subscribed topic, or a broker that writes type 4, the name is known."""
    for name in ("new-java-uniform-join-leave", "v40-new-java-join-leave", "new-rdk-range-join-leave"):
        _, rebalances = fold_all(name)
        topics = {topic for each in rebalances for m in each.members_after for topic in m.partitions or {}}
        assert topics == {f"t-{name}"}, name


@given(st.sampled_from(scenarios()), st.data())
def test_a_restart_anywhere_changes_nothing(name: str, data: st.DataObject):
    """Stopped after any record and started again from any earlier one: the same states, the same rebalances."""
    records = group_records(name)
    cut = data.draw(st.integers(0, len(records)))
    back = data.draw(st.integers(0, cut))
    states, first = fold_records(records[:cut], {})
    states, again = fold_records(records[back:], states)
    rows = {(each.group, each.rebalance_id): each for each in (*first, *again)}
    expected_states, expected_rows = fold_records(records, {})
    assert states == expected_states
    assert list(rows.values()) == expected_rows


@pytest.mark.parametrize("name", scenarios())
def test_generations_go_back_only_with_a_reset(name: str):
    """For any type of group, and across conversions."""
    states: dict[str, FoldState] = {}
    highest: dict[str, int] = {}
    for group, at in group_records(name):
        before = states.get(group) or new_state("c", group)
        states[group], _ = fold(before, at)
        now = states[group].snapshot
        if now.generation is not None:
            if now.generation < highest.get(group, 0):
                assert now.counters.resets == before.snapshot.counters.resets + 1
            highest[group] = now.generation
