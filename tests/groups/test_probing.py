"""Information that probes add to the log: the start of a classic rebalance, and names of topics."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groups.records import Log, member
from rebalance_contract import Member, Probe, Rebalance
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import FoldState, GroupRecord, dump_state, load_state, new_state
from rebalance_streaming.groups.probing import observe
from rebalance_streaming.wire.kafka_json import uuid_text
from rebalance_streaming.wire.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    OwnedTopicPartitions,
    TargetAssignmentMetadataValue,
)

A, B = member("a-1", client_id="a"), member("b-1", client_id="b")


def probe(at_ms: int, state: str | None = None, **fields: Any) -> Probe:
    """A probe of group g."""
    more = fields if state is None else {"state": state, **fields}
    return Probe(probed_at_ms=at_ms, cluster="test", group="g", **more)


def run(*steps: GroupRecord | Probe) -> tuple[FoldState, dict[str, Rebalance]]:
    """Take records and probes as they come; return each rebalance's last version."""
    state, rebalances = new_state("test", "g"), dict[str, Rebalance]()
    for step in steps:
        state, found = observe(state, step) if isinstance(step, Probe) else fold(state, step)
        rebalances |= {each.rebalance_id: each for each in found}
    return state, rebalances


def story() -> tuple[list[GroupRecord], list[Probe]]:
    """A join whose barrier took 20 s, seen every 2 s: stable until 3 s into it, preparing from 5 s on."""
    first, second = Log().write(1, A).write(2, A, B, after_ms=60_000, sync_ms=100).records
    barrier_ms = second.timestamp_ms - 20_000
    seen = [
        probe(barrier_ms + at, "stable" if at <= 3_000 else "PREPARINGREBALANCE") for at in range(-9_000, 19_000, 2_000)
    ]
    return [first, second], seen


def test_a_probe_bounds_the_start():
    """Between the last probe that saw it stable and the first that did not."""
    (first, second), seen = story()
    _, rebalances = run(first, *seen, second)
    found = list(rebalances.values())[-1]
    assert found.started_before_ms - (found.started_after_ms or 0) == 2_000
    assert (found.duration_min_ms, found.duration_max_ms) == (15_000, 17_000)


@pytest.mark.generated
@given(st.data())
def test_bounds_do_not_depend_on_what_arrives_first(data: st.DataObject):
    """Probes come from another topic and may be late by any number of records."""
    (first, second), seen = story()
    late = data.draw(st.integers(0, len(seen)))
    prompt, in_time = run(first, *seen, second)
    tardy, mixed = run(first, *seen[:late], second, *seen[late:])
    assert list(mixed.values())[-1] == list(in_time.values())[-1]
    assert tardy.snapshot.windows == prompt.snapshot.windows


@pytest.mark.generated
@given(st.data())
def test_what_is_one_rebalance_does_not_depend_on_what_arrives_first(data: st.DataObject):
    """The second barrier was seen 3 s after the first rebalance and released 17 s later: two, by the log alone."""
    records = Log().write(1, A).write(2, A, B, after_ms=20_000).records
    end_ms = records[0].timestamp_ms
    seen = [probe(end_ms + at, "PreparingRebalance") for at in range(3_000, 20_000, 2_000)]
    late = data.draw(st.integers(0, len(seen)))
    state, rebalances = run(records[0], *seen[:late], records[1], *seen[late:])
    assert len(rebalances) == 2
    assert sum(state.snapshot.counters.rebalances.values()) == 2


def test_a_running_rebalance_shows():
    """The snapshot shows it with its beginning, until the record or a probe that saw it end."""
    (first, second), seen = story()
    running, _ = run(first, *seen)
    assert (running.snapshot.state, running.snapshot.rebalancing_since_ms) == (
        "PreparingRebalance",
        seen[7].probed_at_ms,
    )
    over, _ = run(first, *seen, second)
    assert (over.snapshot.state, over.snapshot.rebalancing_since_ms) == ("Stable", None)
    given_up, _ = run(first, *seen, probe(seen[-1].probed_at_ms + 1, "Stable"))
    assert (given_up.snapshot.state, given_up.snapshot.rebalancing_since_ms) == ("Stable", None)


def test_an_old_probe_changes_nothing():
    """A repeated row, or one overtaken by a newer one."""
    (first, _), seen = story()
    state, _ = run(first, *seen)
    assert observe(state, seen[-1]) == (state, ())
    assert observe(state, seen[0]) == (state, ())


def test_probes_of_offsets_only_say_nothing_of_the_state():
    """Absent is not null: values that were not queried are kept."""
    (first, _), seen = story()
    state, _ = run(first, *seen[:-1])
    after, found = observe(state, probe(seen[-1].probed_at_ms, end_offsets={}))
    assert (after.snapshot, found) == (state.snapshot, ())


def test_a_probe_names_topics():
    """A KIP-848 group's records have ids; with several topics only a probe, or an old broker, has the names."""
    orders, refunds = UUID(int=1), UUID(int=2)
    described = ConsumerGroupMemberMetadataValue(None, None, "c", "/h", ("orders", "refunds"), "", 300_000, None)
    owned = tuple(OwnedTopicPartitions(topic, (0, 1)) for topic in (orders, refunds))
    records = [
        (5, "m", described),
        (3, None, ConsumerGroupMetadataValue(2, 7)),
        (6, None, TargetAssignmentMetadataValue(2)),
        (8, "m", ConsumerGroupCurrentMemberAssignmentValue(2, 0, 0, owned, ())),
    ]
    log = [GroupRecord(7, at, 1_000, True, value, kind, who) for at, (kind, who, value) in enumerate(records)]
    state, _ = run(*log)
    ids = [uuid_text(orders), uuid_text(refunds)]
    assert state.snapshot.members[0].partitions == {ids[0]: [0, 1], ids[1]: [0, 1]}
    state, _ = observe(state, probe(2_000, topic_ids={"orders": ids[0], "refunds": ids[1]}))
    assert state.snapshot.members[0].partitions == {"orders": [0, 1], "refunds": [0, 1]}


def test_topics_that_a_group_has_nothing_to_do_with_any_more_are_forgotten():
    """A group that reads a pattern may have a thousand topics a day that exist for an hour; so has a stored state."""
    ids = {f"job-{number}": uuid_text(UUID(int=100 + number)) for number in range(1_000)}
    state = new_state("test", "g")
    for at, (name, topic_id) in enumerate(ids.items()):
        state, _ = observe(state, probe(1_000 + at, topic_ids={name: topic_id}))
    assert state.topic_names == {ids["job-999"]: "job-999"}
    stored = msgspec.structs.replace(state, topic_names={topic_id: name for name, topic_id in ids.items()})
    state, _ = observe(load_state(dump_state(stored)), probe(9_000, topic_ids={"job-7": ids["job-7"]}))
    assert state.topic_names == {ids["job-7"]: "job-7"}


def test_topics_that_members_read_or_have_keep_their_names():
    """Also if a probe could not describe them, and until the last member has given them up."""
    names = ["orders", "refunds", "payments", "returns", "other"]
    ids = {name: uuid_text(UUID(int=number)) for number, name in enumerate(names)}
    members = (
        Member("a", "a", "h", topics=("orders",), partitions={"refunds": [0]}),
        Member("b", "b", "h", target={"payments": [0]}, pending_revocation={ids["returns"]: [1]}),
    )
    state = new_state("test", "g")
    state = msgspec.structs.replace(state, snapshot=replace(state.snapshot, members=members))
    state, _ = observe(state, probe(1_000, topic_ids=ids))
    assert state.snapshot.members[1].pending_revocation == {"returns": [1]}
    kept = {ids[name]: name for name in names if name != "other"}
    state, _ = observe(state, probe(2_000, topic_ids={"orders": ids["orders"]}))
    assert state.topic_names == kept
    state, _ = observe(state, probe(3_000, topic_ids={}))
    assert state.topic_names == kept
