"""The fold on records of real brokers, held against what those brokers logged at the time."""

import pytest

from goldens import data_records, key_of, scenarios, timeline, value_of
from rebalance_deploy.broker_log import GroupTruth, read_truth
from rebalance_deploy.counts import Counted, expected
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import GroupRecord, GroupState, new_state
from rebalance_streaming.wire.decode import decode_record
from rebalance_streaming.wire.records import GroupMetadataValue

GROUP_METADATA = 2
#: Groups that were classic for their whole life.
CLASSIC = [name for name in scenarios() if not name.startswith(("new-", "share-", "upgrade", "v40", "v39java-new"))]


def fold_scenario(name: str) -> dict[str, GroupState]:
    """Fold every group record of a recording as if it had been read live."""
    states: dict[str, GroupState] = {}
    for line in data_records(name):
        record = decode_record(key_of(line), value_of(line))
        if record.record_type == GROUP_METADATA:
            group = record.key.group
            value = record.value if isinstance(record.value, GroupMetadataValue) else None
            at = GroupRecord(line["partition"], line["offset"], line["timestamp_ms"], True, value)
            states[group], _ = fold(states.get(group) or new_state("c", group), at)
    return states


def counted(state: GroupState, generation: int) -> Counted:
    """Return the fold's totals in the form of the truth; a deleted group's generation is that of its last life."""
    totals = state.picture.counters
    return Counted(
        state.picture.generation or generation,
        totals.generations_completed,
        totals.generations_aborted,
        sum(totals.rebalances.values()),
    )


@pytest.mark.parametrize("name", CLASSIC)
def test_generations_are_those_the_coordinator_logged(name: str):
    """Completed, aborted and present generation of every group equal the broker's own log lines."""
    truths = read_truth(str(event["text"]) for event in timeline(name) if event["event"] == "broker_log")
    states = fold_scenario(name)
    for group, truth in truths.items():
        if group in states and truth.generation == generation_in_log(states[group], truth):
            assert counted(states[group], truth.generation) == expected(truth), group


def generation_in_log(state: GroupState, truth: GroupTruth) -> int:
    """Return the generation the recording ends with: some timelines end after their recording."""
    return state.picture.generation or truth.generation


def test_most_recordings_are_compared():
    """The comparison above must not pass because it found nothing to compare."""
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
        assert state.picture.counters.members_replaced >= 3, name


def test_a_superseded_round_is_seen_in_the_gap():
    """A member that joined during the sync phase made one generation vanish."""
    (state,) = fold_scenario("slow-assignor-java-join-during-sync").values()
    assert state.picture.counters.generations_aborted == 1
