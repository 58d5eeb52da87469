"""Rows that cannot be true, and rules that raise: set aside and counted, while the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from detect.turnover import Run, take
from histories import (
    GROUP,
    MINUTE,
    SECOND,
    T0,
    commits,
    member,
    packed,
    picture,
    probe,
    pulse,
    rebalance,
    rebalance_id,
    report,
)
from rebalance_contract import (
    CommitActivity,
    GroupSnapshot,
    OffsetActivity,
    Probe,
    Rebalance,
    TopicCommits,
    TopicOffsets,
)
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.detect import answers
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.group_view import Condition, GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.verdict import Verdict

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])


def ends(at_ms: int, offsets: dict[int, int]) -> OffsetActivity:
    """Make what a probe told of the ends of the topic."""
    return OffsetActivity("prod", GROUP, at_ms, ends={"orders": TopicOffsets(list(offsets), list(offsets.values()))})


HOSTILE = {
    "a negative partition": commits(T0, {-1: 5}),
    "a partition beyond all": commits(T0, {2**31 - 1: 5}),
    "a partition of 2^70": commits(T0, {2**70: 5}),
    "a negative offset": commits(T0, {0: -7}),
    "a time that overflows": commits(2**63 - 1, {0: 5}),
    "a time days ahead": commits(T0 + 5_000 * MINUTE, {0: 5}),
    "no partition at all": commits(T0, {}),
    "columns of different lengths": CommitActivity(
        "prod", GROUP, 0, 1, 1, 5_000, ((T0, 1),), {"orders": TopicCommits([0, 1], [5], [T0], [T0], [1], [1])}
    ),
    "a log offset beyond all": replace(commits(T0, {0: 5}), last_log_offset=2**63),
    "ends of a partition beyond all": ends(T0, {2**31 - 1: 5}),
    "a negative end": ends(T0, {0: -5}),
    "ends of different lengths": OffsetActivity("prod", GROUP, T0, ends={"orders": TopicOffsets([0, 1], [5])}),
    "ends days ahead": ends(T0 + 5_000 * MINUTE, {0: 5}),
    "owners of no number": replace(probe(T0), owners={"orders": {"x": "a"}}),
    "a probe days ahead": probe(T0 + 5_000 * MINUTE, "Stable"),
    "a picture from before time": replace(picture(T0, A), updated_at_ms=-1),
    "an assignment beyond all": picture(T0, member("a-1", [2**31 - 1])),
    "a rebalance that ends in days": rebalance(T0 + 5_000 * MINUTE, [A], [A, B]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_row_that_cannot_be_true_changes_nothing(what: str):
    """It is counted once and told in one call; the group, if there is one, is as it was before."""
    heard: list[tuple[str, str]] = []
    detector = Detector("prod", on_quarantine=lambda stage, group, _: heard.append((stage, group)))
    detector.advance(T0)
    detector.take_group(picture(T0, A, B))
    before = detector.causes(GROUP), list(detector._judged_groups[GROUP].history.progress.positions())
    take(detector, HOSTILE[what])
    detector.advance(T0 + SECOND)
    assert sum(detector.quarantined.values()) == 1
    assert [group for _, group in heard] == [GROUP]
    assert (detector.causes(GROUP), list(detector._judged_groups[GROUP].history.progress.positions())) == before


def test_the_largest_offsets_do_not_overflow():
    """Clients may commit any number; sums and factors of it stay within 64 bits."""
    everywhere = dict.fromkeys(range(1_000), 2**63 - 1)
    run = Run().live(T0 + SECOND, picture(T0, A, B))
    for turn, offset in enumerate((0, 2**63 - 1, 5, 2**63 - 1)):
        run.detector.take_commits(commits(T0 + turn * SECOND, dict.fromkeys(everywhere, offset)))
        run.detector.take_offsets(ends(T0 + turn * SECOND, everywhere))
    run.live(T0 + 10 * MINUTE, step_ms=5 * SECOND)
    assert not run.detector.quarantined


# --- Rules that raise ---


def test_a_rule_that_raises_is_set_aside_for_its_group(monkeypatch: pytest.MonkeyPatch):
    """Other rules and other groups go on; it is counted and told once an hour, not at each turn."""

    def stumbles(look: GroupView, _time: JudgingTime) -> Iterator[Verdict]:
        if look.history.group == "odd":
            raise ZeroDivisionError
        return iter(())

    heard: list[tuple[str, str]] = []
    conditions = (Condition(stumbles), *answers.CONDITIONS)
    monkeypatch.setattr(answers, "CONDITIONS", conditions)
    answers._rules.cache_clear()
    run = Run()
    run.detector._quarantine._report = lambda stage, group, _: heard.append((stage, group))
    five = [member(f"{letter}-1", [at]) for at, letter in enumerate("abcde")]
    for group in ("odd", "sound"):
        run.detector.take_group(replace(picture(T0, *five), group=group))
    for turn in range(20):
        run.live(T0 + (turn + 1) * 30 * SECOND)
        run.detector.take_group(replace(picture(T0 + turn, *five), group="odd"))
    answers._rules.cache_clear()
    assert heard == [("stumbles", "odd")]
    assert dict(run.detector.quarantined) == {("stumbles", "ZeroDivisionError"): 1}
    assert {each.group for each in run.detector.findings.all() if each.rule == "eager_assignor"} == {"odd", "sound"}


def test_timing_that_cannot_be_worked_out_is_set_aside_for_its_group():
    """The heartbeat timing of other groups is told, and the call comes back."""
    heard: list[tuple[str, str]] = []
    detector = Detector("prod", on_quarantine=lambda stage, group, _: heard.append((stage, group)))
    odd = packed(report(T0, A, group_id="odd"))
    sample = replace(odd.samples[0], poll_age_ms=10**400)
    for group, row in (
        ("odd", replace(odd, samples=(sample,))),
        ("sound", packed(report(T0, A, {POLL_AGE: 1}, group_id="sound"))),
    ):
        detector.take_group(replace(picture(T0, A), group=group))
        detector.take_clients(row)
    for turn in range(3):
        assert [each.group for each in detector.timings(T0 + turn * 5 * SECOND)] == ["sound"]
    assert heard == [("timing", "odd")]
    assert dict(detector.quarantined) == {("timing", "OverflowError"): 1}


def test_a_rebalance_that_cannot_be_judged_has_a_cause_nobody_can_tell():
    """A member that is gone in no generation: undetermined, once; the next rebalance is judged as usual."""
    odd = rebalance(T0 + MINUTE, [A, B], [A], generations=())
    run = Run().live(T0 + 2 * MINUTE, picture(T0, A, B), odd)
    run.live(T0 + 6 * MINUTE, rebalance(T0 + 3 * MINUTE, [A], [A, member("c-1", [4])]))
    assert run.causes() == {odd.rebalance_id: "undetermined", rebalance_id(T0 + 3 * MINUTE): "scale_out"}
    assert dict(run.detector.quarantined) == {("explain", "IndexError"): 1}


# --- Groups that nobody has ---


@pytest.mark.generated
def test_groups_that_only_probes_name_are_bounded_and_forgotten():
    """Of 20,000 invented names at most 5,000 are kept, for half an hour; a real group is not among those refused."""
    run = Run().live(T0 + SECOND)
    seen = probe(T0 + SECOND, "Stable")
    for number in range(20_000):
        run.detector.take_probe(replace(seen, group=f"invented-{number}"))
    run.detector.take_group(picture(T0, A, B))
    assert len(run.detector._judged_groups) == 5_001
    assert sum(run.detector.quarantined.values()) == 15_000
    run.live(T0 + 45 * MINUTE, step_ms=10 * SECOND)
    assert list(run.detector._judged_groups) == [GROUP]


# --- Anything ---

_BORDERS = (0, -1, 1, 2**31 - 1, 2**53, 2**63 - 1, 2**70)
_WILD = st.one_of(st.integers(0, 5), st.integers(T0 - MINUTE, T0 + MINUTE), st.sampled_from([*_BORDERS, 19_999]))
#: By the ends of fields' names: numbers that pass for what they are to be, as absurd as they may be for a group.
_TAME = {
    "timeout_ms": st.sampled_from([0, 1, 10_000, *_BORDERS]),
    "_ms": st.integers(T0 - MINUTE, T0 + 2 * MINUTE),
    "partitions": st.integers(0, 5),
    "offset": st.integers(0, 2**62),
    "offsets": st.sampled_from([0, 1, 5, 2**63 - 1, 2**70]),
    "log_partition": st.integers(0, 50),
    "at_ms": st.integers(T0 - MINUTE, T0 + MINUTE),
}
_NAMES = st.sampled_from(["", "a-1", "b-1", "orders", "9", "-1", "x" * 300, "\u0000", "0-1"])
_PARTITION_NAMES = st.sampled_from(["0", "1", "5", "07"])

Values = st.SearchStrategy[Any]


def made(kind: Any, name: str, *, tame: bool) -> Values:
    """Make values of a type as rows declare it: well formed, and otherwise anything."""
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not ...]
    parts = [made(each, name, tame=tame) for each in inner] if origin is not Literal else []
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        several = {each.name: made(hints[each.name], each.name, tame=tame) for each in fields(kind) if each.init}
        return st.builds(kind, **several)
    containers: dict[Any, Callable[[], Values]] = {
        Union: lambda: st.one_of(*parts),
        UnionType: lambda: st.one_of(*parts),
        tuple: lambda: st.lists(parts[0], max_size=3).map(tuple),
        # One length, so that columns of a table have the same.
        list: lambda: st.lists(parts[0], min_size=2, max_size=2) if tame else st.lists(parts[0], max_size=3),
        dict: lambda: st.dictionaries(parts[0], parts[1], max_size=3),
        Literal: lambda: st.sampled_from(inner),
    }
    return containers[origin]() if origin in containers else _plain(kind, name, tame=tame)


def _plain(kind: Any, name: str, *, tame: bool) -> Values:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    numbers = next((each for end, each in _TAME.items() if tame and name.endswith(end)), _WILD)
    names = _PARTITION_NAMES if tame and name in ("end_offsets", "stable_offsets", "owners") else _NAMES
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
    """Make rows of all kinds."""
    kinds = (GroupSnapshot, Rebalance, CommitActivity, Probe)
    return st.lists(st.one_of(*(made(each, "", tame=tame) for each in kinds)), max_size=12)


@pytest.mark.generated
@given(several=st.one_of(rows(tame=True), rows(tame=False)))
@limits(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_row_escapes_or_costs_much(several: list[Any]):
    """Well-formed rows with absurd values, of one group beside real ones: nothing is raised, nothing takes long."""
    run = Run().live(T0 + MINUTE, picture(T0, A, B), *pulse(T0, T0 + MINUTE, range(4)))
    began = time.process_time()
    for row in several:
        take(run.detector, replace(row, group=GROUP))
        run.live(run.now_ms + SECOND)
    run.live(run.now_ms + 10 * MINUTE, step_ms=30 * SECOND)
    run.detector.finish()
    assert time.process_time() - began < 20
