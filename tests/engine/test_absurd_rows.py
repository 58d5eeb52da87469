"""Impossible rows are quarantined and counted, while processing continues."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, commits, member, probe, pulse, rebalance, snapshot
from rebalance_contract import (
    OFFSET_FIELDS,
    CommitActivity,
    GroupLag,
    GroupSnapshot,
    OffsetActivity,
    Probe,
    ProbeActivity,
    Rebalance,
    TopicCommits,
    TopicLag,
    TopicOffsets,
)
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input
from rebalance_streaming.observed.plausible import ImplausibleError
from rebalance_streaming.wire.records import OFFSETS_TOPIC

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])


def engine(heard: list[str] | None = None) -> Engine:
    """Return an engine without rows."""
    config = EngineConfig(cluster=CLUSTER, source_topic=OFFSETS_TOPIC, detect=DetectConfig())
    return Engine(config, [].append if heard is None else heard.append)


def ends(at_ms: int, offsets: dict[int, int]) -> OffsetActivity:
    """Return a probe of the topic's end offsets."""
    return OffsetActivity(CLUSTER, GROUP, at_ms, ends={"orders": TopicOffsets(list(offsets), list(offsets.values()))})


HOSTILE: dict[str, Input] = {
    "a negative partition": commits(T0, {-1: 5}),
    "a partition beyond all": commits(T0, {2**31 - 1: 5}),
    "a partition of 2^70": commits(T0, {2**70: 5}),
    "a negative offset": commits(T0, {0: -7}),
    "a time that overflows": commits(2**63 - 1, {0: 5}),
    "a time days ahead": commits(T0 + 5_000 * MINUTE, {0: 5}),
    "no partition at all": commits(T0, {}),
    "no topic at all": replace(commits(T0, {0: 5}), topics={}),
    "columns of different lengths": CommitActivity(
        CLUSTER, GROUP, 0, 1, 1, 5_000, ((T0, 1),), {"orders": TopicCommits([0, 1], [5], [T0], [T0], [1], [1])}
    ),
    "a log offset beyond all": replace(commits(T0, {0: 5}), last_log_offset=2**63),
    "ends of a partition beyond all": ends(T0, {2**31 - 1: 5}),
    "a negative end": ends(T0, {0: -5}),
    "ends of different lengths": OffsetActivity(CLUSTER, GROUP, T0, ends={"orders": TopicOffsets([0, 1], [5])}),
    "held offsets of a partition beyond all": OffsetActivity(
        CLUSTER, GROUP, T0, committed={"orders": TopicOffsets([2**31 - 1], [5])}, is_all_committed=True
    ),
    "a pane of no time": replace(commits(T0, {0: 5}), pane_ms=0),
    "ends days ahead": ends(T0 + 5_000 * MINUTE, {0: 5}),
    "owners of no number": ProbeActivity(replace(probe(T0), owners={"orders": {"x": "a"}})),
    "a probe days ahead": ProbeActivity(probe(T0 + 5_000 * MINUTE, "Stable")),
    "a snapshot from before time": replace(snapshot(T0, A), updated_at_ms=-1),
    "an assignment beyond all": snapshot(T0, member("a-1", [2**31 - 1])),
    "a rebalance that ends in days": rebalance(T0 + 5_000 * MINUTE, [A], [A, B]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_row_that_cannot_be_true_changes_nothing(what: str):
    """It is counted and reported once; the group is unchanged."""
    heard: list[str] = []
    judging = engine(heard)
    judging.apply(snapshot(T0, A, B), T0)
    list(judging.advance(T0))
    history = judging._detector._judged_groups[GROUP].history
    before = judging._detector.causes(GROUP), history.snapshot, list(history.progress.positions())
    judging.apply(HOSTILE[what], T0)
    list(judging.advance(T0 + SECOND))
    assert sum(judging._quarantined.values()) == 1
    assert [type(HOSTILE[what]).__name__ in sentence for sentence in heard] == [True]
    assert (judging._detector.causes(GROUP), history.snapshot, list(history.progress.positions())) == before


def test_a_restored_row_that_cannot_be_true_is_set_aside():
    """With a time far in the future it would override all later reports of coordinators about the group."""
    heard: list[str] = []
    judging = engine(heard)
    judging.restore(GroupLag(CLUSTER, GROUP, 2**60, topics={"orders": TopicLag([0], [3], [0], 0)}))
    judging.restore(GroupLag(CLUSTER, GROUP, T0, topics={"orders": TopicLag([0, 0], [3, 2**70], [], 0)}))
    assert len(heard) == 2
    held = OffsetActivity(CLUSTER, GROUP, T0, committed={"orders": TopicOffsets([0], [5])}, is_all_committed=True)
    judging.apply(held, T0)
    (row,) = (each for each in judging.finish(T0 + SECOND) if isinstance(each, GroupLag))
    assert (row.topics["orders"].committed, row.commits) == ([5], 0)


# --- Anything ---

_BORDERS = (0, -1, 1, 2**31 - 1, 2**53, 2**63 - 1, 2**70)
_WILD = st.one_of(st.integers(0, 5), st.integers(T0 - MINUTE, T0 + MINUTE), st.sampled_from([*_BORDERS, 19_999]))
#: By the suffixes of field names: numbers that have the right form, as absurd as possible for a group.
_TAME = {
    "timeout_ms": st.sampled_from([0, 1, 10_000, *_BORDERS]),
    "_ms": st.integers(T0 - MINUTE, T0 + 2 * MINUTE),
    "partitions": st.integers(0, 5),
    "offset": st.integers(0, 2**62),
    "log_offsets": st.integers(0, 2**62),
    "_offsets": st.sampled_from([0, 1, 5, 2**63 - 1, 2**70]),
    "offsets": st.sampled_from([0, 1, 5, 2**62]),
    "commits": st.sampled_from([0, 1, 5, 2**62]),
    "pane_counts": st.one_of(st.integers(T0 - MINUTE, T0 + 2 * MINUTE), st.sampled_from([0, 1, 2**62])),
    "log_partition": st.integers(0, 50),
    "log_era": st.sampled_from([0, 1, 2**62]),
    "at_ms": st.integers(T0 - MINUTE, T0 + MINUTE),
}
_NAMES = st.sampled_from(["", "a-1", "b-1", "orders", "9", "-1", "x" * 300, "\u0000", "0-1"])
_PARTITION_NAMES = st.sampled_from(["0", "1", "5", "07"])

Values = st.SearchStrategy[Any]


def made(kind: Any, name: str, *, tame: bool) -> Values:
    """Return a strategy for the values of a declared type: well formed, and otherwise arbitrary."""
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not ...]
    parts = [made(each, name, tame=tame) for each in inner] if origin is not Literal else []
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        several = {each.name: made(hints[each.name], each.name, tame=tame) for each in fields(kind) if each.init}
        return st.builds(kind, **several)
    containers: dict[Any, Callable[[], Values]] = {
        Union: lambda: st.one_of(*parts),
        UnionType: lambda: st.one_of(*parts),
        tuple: lambda: st.lists(parts[0], max_size=3).map(tuple) if ... in get_args(kind) else st.tuples(*parts),
        # The same length for all columns of a table.
        list: lambda: st.lists(parts[0], min_size=2, max_size=2) if tame else st.lists(parts[0], max_size=3),
        dict: lambda: st.dictionaries(parts[0], parts[1], max_size=3),
        Literal: lambda: st.sampled_from(inner),
    }
    return containers[origin]() if origin in containers else _plain(kind, name, tame=tame)


def _plain(kind: Any, name: str, *, tame: bool) -> Values:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    numbers = next((each for end, each in _TAME.items() if tame and name.endswith(end)), _WILD)
    names = _PARTITION_NAMES if tame and name in (*OFFSET_FIELDS, "owners") else _NAMES
    plain: dict[Any, Values] = {
        int: numbers,
        str: names,
        bool: st.booleans(),
        float: st.floats(),
        NoneType: st.none(),
        msgspec.UnsetType: st.just(msgspec.UNSET),
    }
    return plain[kind]


def rows(*, tame: bool) -> Values:
    """Return a strategy for rows of all kinds."""
    kinds = (GroupSnapshot, Rebalance, CommitActivity, Probe)
    return st.lists(st.one_of(*(made(each, "", tame=tame) for each in kinds)), max_size=12)


@pytest.mark.generated
@given(several=st.one_of(rows(tame=True), rows(tame=False)))
@limits(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_row_escapes_or_costs_much(several: list[Any]):
    """Well-formed rows with absurd values, of one group beside real ones: no exceptions, and bounded time."""
    judging, now_ms = engine(), T0 + MINUTE
    for row in (snapshot(T0, A, B), *pulse(T0, now_ms, range(4))):
        judging.apply(row, now_ms)
    began = time.process_time()
    for row in several:
        of_group = replace(row, cluster=CLUSTER, group=GROUP)
        judging.apply(ProbeActivity(of_group) if isinstance(row, Probe) else of_group, now_ms)
        now_ms += SECOND
        list(judging.advance(now_ms))
    for at_ms in range(now_ms, now_ms + 10 * MINUTE, 30 * SECOND):
        list(judging.advance(at_ms))
    list(judging.finish(now_ms + 10 * MINUTE))
    assert time.process_time() - began < 20
    # No exception escapes; rows that passed the check and failed later are counted.
    failed = {kind for kind, count in judging._quarantined.items() if count}
    assert {kind for kind in failed if not kind[1].endswith(f": {ImplausibleError.__name__}")} == set()
    assert judging._detector.quarantined == {}
