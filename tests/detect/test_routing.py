"""Whose reports are whose: by what a report says, else by who is in which group (client metrics §1.3)."""

from __future__ import annotations

from typing import Any

import pytest

from detect.histories import T0, member, report
from rebalance_streaming.detect.routing import Routing
from rebalance_streaming.wire.metrics.report import Report

A = member("a-1")


def said(at_ms: int = T0, **changes: Any) -> Report:
    """Make a report that names no group and no member unless told."""
    return report(at_ms, A, **{"group_id": None, "member_id": None, "client_id": None, **changes})


def routed(routing: Routing, each: Report) -> list[str]:
    return [group for group, _ in routing.route(each)]


def known(**groups: list[str]) -> Routing:
    """Make a routing that knows groups by their members; a member id is `client-number`."""
    routing = Routing()
    for group, names in groups.items():
        routing.note_members(group, [member(name) for name in names])
    return routing


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({"group_id": "named", "member_id": "a-1", "client_id": "b"}, "named"),
        ({"member_id": "a-1", "client_id": "b"}, "one"),
        ({"client_id": "a"}, "one"),
        ({"member_id": "a-9", "client_id": "a"}, "one"),
        ({"client_id": "both"}, None),
        ({"client_id": "nobody"}, None),
        ({}, None),
    ],
    ids=["group", "member", "client", "a new member id", "of two groups", "unknown", "says nothing"],
)
def test_the_surest_name_decides(changes: dict[str, Any], group: str | None):
    """Group before member before client; a client id that two groups use tells nothing."""
    routing = known(one=["a-1", "both-1"], two=["b-1", "both-2"])
    assert routed(routing, said(**changes)) == ([] if group is None else [group])
    assert len(routing.unknown) == (group is None)


def test_a_routed_report_carries_its_group():
    """Nobody behind has to ask again."""
    ((group, each),) = known(one=["a-1"]).route(said(member_id="a-1"))
    assert (group, each.group_id, each.member_id) == ("one", "one", "a-1")


@pytest.mark.parametrize(
    ("client_id", "group"), [("consumer-one-1", "one"), ("consumer-three-1", None), ("consumer-1", None)]
)
def test_javas_default_client_id_names_an_existing_group_only(client_id: str, group: str | None):
    """`consumer-<group>-<n>` is greedy and may be anybody's name: only a group that is there may be taken for it."""
    assert routed(known(one=["a-1"]), said(client_id=client_id)) == ([] if group is None else [group])


def test_a_default_id_in_two_groups_still_names_one():
    """Two members of different groups that copied a client id: the group it names is the better guess than none."""
    routing = Routing()
    for group in ("one", "two"):
        routing.note_members(group, [member(f"{group}-1", client_id="consumer-one-1")])
    assert routed(routing, said(client_id="consumer-one-1")) == ["one"]


def test_reports_that_came_too_early_are_kept():
    """A client reports before its group's first record: told later, in their order, and once."""
    routing = Routing()
    early = [said(T0 + at, member_id="a-1", client_id="a") for at in (0, 5, 10)]
    other = said(member_id="x-1", client_id="x")
    assert [found for each in (*early, other) for found in routing.route(each)] == []
    assert routing.note_members("one", [A])
    assert routing.waiting_for("one") == early
    assert routing.waiting_for("one") == []
    assert list(routing.unknown) == [other]


def test_only_news_is_news():
    """Members come with every picture; only a new one can have reports waiting."""
    routing = Routing()
    assert routing.note_members("one", [])
    assert not routing.note_members("one", [])
    assert routing.note_members("one", [A])
    assert not routing.note_members("one", [A])
    assert routing.note_members("two", [A])


def test_what_nobody_claims_is_bounded():
    """Producers and strangers report as well: the oldest of them are forgotten."""
    routing = Routing()
    for number in range(2_500):
        assert routed(routing, said(T0 + number, client_id="stranger")) == []
    assert len(routing.unknown) == 2_000
    assert routing.unknown[0].emitted_ms == T0 + 500
