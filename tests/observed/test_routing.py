"""The group of a report: by the report itself, otherwise by the members of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from histories import CLUSTER, SECOND, T0, member, packed, probe, report, snapshot
from rebalance_contract import ClientActivity
from rebalance_contract.clients import HEARTBEAT_AGE
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.observed import routing as routing_module
from rebalance_streaming.observed.routing import Routing

A = member("a-1")


def said(at_ms: int = T0, **changes: Any) -> ClientActivity:
    """Return a row without group and member unless `changes` name them."""
    who = {"group_id": None, "member_id": None, "client_id": None, **changes}
    return packed(report(at_ms, A, **who))


def routed(routing: Routing, each: ClientActivity) -> list[str]:
    return [group for group, _ in routing.route(each)]


def known(**groups: list[str]) -> Routing:
    """Return a routing that knows groups by their members; a member id is `client-number`."""
    routing = Routing()
    for group, names in groups.items():
        routing.note_members(group, [member(name) for name in names])
    return routing


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({"group_id": "two", "member_id": "a-1", "client_id": "b"}, "two"),
        ({"group_id": "invented", "member_id": "a-1", "client_id": "b"}, None),
        ({"member_id": "a-1", "client_id": "b"}, "one"),
        ({"client_id": "a"}, "one"),
        ({"member_id": "a-9", "client_id": "a"}, "one"),
        ({"client_id": "both"}, None),
        ({"client_id": "nobody"}, None),
        ({}, None),
    ],
    ids=[
        "group",
        "a group that nobody saw",
        "member",
        "client",
        "a new member id",
        "of two groups",
        "unknown",
        "says nothing",
    ],
)
def test_the_surest_name_decides(changes: dict[str, Any], group: str | None):
    """Group before member before client; a client id that two groups use decides nothing."""
    routing = known(one=["a-1", "both-1"], two=["b-1", "both-2"])
    assert routed(routing, said(**changes)) == ([] if group is None else [group])
    assert routing.waiting() + routing.dropped == (group is None)


def test_a_client_id_is_that_of_the_group_that_is_left():
    """A deleted group leaves its clients' names to its successor."""
    routing = known(old=["a-1"], new=["a-2"])
    assert routed(routing, said(client_id="a")) == []
    routing.groups.discard("old")
    assert routed(routing, said(client_id="a")) == ["new"]
    assert routed(routing, said(member_id="a-1", client_id="a")) == ["new"]


def test_client_ids_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    """Each pod may have a name of its own: the latest are kept."""
    monkeypatch.setattr(routing_module, "_KEPT_CLIENTS", 3)
    routing = known(one=["a-1", "b-1", "c-1", "a-2", "d-1"])
    assert sorted(routing.by_client) == ["a", "c", "d"]


def test_a_client_id_keeps_no_names_of_groups_that_were_forgotten():
    """Thousands of groups, each with its own name, may use the same client id one after the other."""
    routing = known(stays=["a-0"])
    for number in range(1_000):
        routing.note_members(f"run-{number}", [member(f"a-{number}")])
        routing.groups.discard(f"run-{number}")
    assert len(routing.by_client["a"]) <= 4
    assert routed(routing, said(client_id="a")) == ["stays"]


def test_a_routed_report_carries_its_group():
    """So that it need not be looked up again."""
    ((group, each),) = known(one=["a-1"]).route(said(member_id="a-1"))
    assert (group, each.group_id, each.member_id) == ("one", "one", "a-1")


@pytest.mark.parametrize(
    ("client_id", "group"), [("consumer-one-1", "one"), ("consumer-three-1", None), ("consumer-1", None)]
)
def test_javas_default_client_id_names_an_existing_group_only(client_id: str, group: str | None):
    """`consumer-<group>-<n>` is ambiguous and may be chosen by anybody: only an existing group is accepted."""
    assert routed(known(one=["a-1"]), said(client_id=client_id)) == ([] if group is None else [group])


def test_a_default_id_in_two_groups_still_names_one():
    """Two members of different groups that copied a client id: the group in it is a better guess than none."""
    routing = Routing()
    for group in ("one", "two"):
        routing.note_members(group, [member(f"{group}-1", client_id="consumer-one-1")])
    assert routed(routing, said(client_id="consumer-one-1")) == ["one"]


def test_reports_that_came_too_early_are_kept():
    """A client reports before its group's first record: its rows are passed on later, in their order, and once."""
    routing = Routing()
    early = [said(T0 + at, member_id="a-1", client_id="a") for at in (0, 5, 10)]
    other = said(member_id="x-1", client_id="x")
    assert [found for each in (*early, other) for found in routing.route(each)] == []
    assert routing.note_members("one", [A])
    assert routing.waiting_for("one", [A]) == early
    assert routing.waiting_for("one", [A]) == []
    assert routing.waiting() == 1


@pytest.mark.parametrize("changes", [{"group_id": "one"}, {"client_id": "a"}, {"client_id": "consumer-one-1"}])
def test_a_row_waits_under_everything_that_may_show_its_group(changes: dict[str, Any]):
    """The group in the report, its client, or the group that Java put into the client id."""
    routing = Routing()
    assert routed(routing, said(**changes)) == []
    assert routing.note_members("one", [A])
    assert len(routing.waiting_for("one", [A])) == 1
    assert (routing.waiting(), routing.kept_bytes) == (0, 0)


def test_only_news_is_news():
    """Members come with every snapshot; only a new one can have reports waiting."""
    routing = Routing()
    assert routing.note_members("one", [])
    assert not routing.note_members("one", [])
    assert routing.note_members("one", [A])
    assert not routing.note_members("one", [A])
    assert routing.note_members("two", [A])


def test_what_nobody_claims_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Producers and other clients report as well: the oldest reports are dropped, and counted."""
    monkeypatch.setattr(routing_module, "_KEPT_ROWS", 100)
    routing = Routing()
    for number in range(150):
        assert routed(routing, said(T0 + number, client_id="stranger")) == []
    assert (routing.waiting(), routing.dropped) == (100, 50)
    routing.note_members("one", [member("stranger-1")])
    assert routing.waiting_for("one", [member("stranger-1")])[0].samples[0].emitted_ms == T0 + 50


def test_long_rows_are_bounded_by_their_length(monkeypatch: pytest.MonkeyPatch):
    """A few long rows may be as large as many short ones."""
    monkeypatch.setattr(routing_module, "_KEPT_BYTES", 20_000)
    routing = Routing()
    for number in range(100):
        routed(routing, said(T0, group_id=f"invented-{number}", member_id="x" * 900))
    assert 10 < routing.waiting() < 25
    assert routing.waiting() + routing.dropped == 100
    assert routing.kept_bytes <= 20_000


@pytest.mark.generated
def test_invented_groups_are_bounded_too():
    """20,000 groups that only clients name: memory stays bounded, the rest is counted."""
    routing = Routing()
    row = said(group_id="x", member_id="m")
    for number in range(60_000):
        list(routing.route(replace(row, group_id=f"invented-{number % 20_000}")))
    assert routing.waiting() + routing.dropped == 60_000
    assert routing.kept_bytes <= 16_000_000


# --- In the detector ---


def test_a_group_that_only_clients_speak_of_is_none():
    """Clients that write metrics must not be able to create groups; once the log contains one, nothing is lost."""
    detector = Detector(CLUSTER)
    detector.advance(T0)
    for at_ms in (T0, T0 + SECOND):
        detector.take_clients(packed(report(at_ms, A, {HEARTBEAT_AGE: 1.0})))
    assert list(detector.timings(T0 + SECOND)) == []
    detector.take_group(snapshot(T0, A))
    (timing,) = detector.timings(T0 + SECOND)
    assert {window.reports for window in timing.windows.values()} == {2}


def test_clients_of_a_group_without_members_are_taken_up_once_any_row_contains_it():
    """A probe is sufficient: groups whose members all fail to join are not in the log."""
    detector = Detector(CLUSTER)
    detector.advance(T0)
    detector.take_clients(packed(report(T0, A)))
    detector.take_probe(probe(T0, "Empty", ()))
    detector.take_group(snapshot(T0 + SECOND, A))
    (timing,) = detector.timings(T0 + SECOND)
    assert timing.members


def test_clients_of_ignored_groups_are_not_kept():
    """They would wait forever and push out others."""
    detector = Detector(CLUSTER, DetectConfig(ignore=("g",)))
    detector.take_clients(packed(report(T0, A)))
    assert detector._routing.waiting() == 0
