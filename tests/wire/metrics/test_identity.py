"""The client of a report, and conclusions from one id to another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_streaming.wire.metrics.identity import (
    Identity,
    client_id_of_member,
    complete,
    group_candidates,
    read_headers,
    read_identity,
    read_labels,
    split_librdkafka_name,
)
from rebalance_streaming.wire.metrics.report import Report

UUID = "0c9e0b1a-52f1-4a7d-9c55-1d2f3a4b5c04"


@pytest.mark.parametrize("form", ["group_id", "group-id", "group.id", "Group.ID"])
def test_identity_fields_are_known_in_every_spelling(form: str) -> None:
    """Tags, attributes and headers use `_`, `-` or `.`."""
    assert read_identity({form: "g"}) == Identity(group_id="g")
    assert read_headers({form: b"g"}) == Identity(group_id="g")


def test_kip_714s_own_names_are_identity_fields() -> None:
    """Java and librdkafka have different names for the member; the rack is not an identity."""
    tags = {"group_member_id": "m", "group_instance_id": "i", "host.name": "h", "client_rack": "r"}
    assert read_identity(tags) == Identity(member_id="m", instance_id="i", host="h")
    assert read_identity({"group_member_id": "a", "member_id": "b"}).member_id == "a"


def test_what_says_nothing_is_null() -> None:
    """Empty texts, structures and headers that are not text are not an identity."""
    assert read_identity({"group_id": "", "client_id": ["a"], "host": None, "x" * 500: "y"}) == Identity()
    assert read_headers({"group_id": b"\xff", "client_id": None, "host": b""}) == Identity()


def test_labels_distinguish_points() -> None:
    """Topic, partition and node are labels, even as numbers; everything else is the client's."""
    assert read_labels({"node-id": "1", "partition": 3, "topic": "t", "client-id": "c"}) == {
        "node_id": "1",
        "partition": "3",
        "topic": "t",
    }


@pytest.mark.parametrize(
    ("member_id", "client_id"),
    [
        (f"orders-3-{UUID}", "orders-3"),
        (f"a-{UUID}-{UUID}", f"a-{UUID}"),
        (UUID, None),
        (f"-{UUID}", None),
        ("yeNlH2dFQyGd8mZQb4RqJw", None),
        (f"orders-{UUID.upper()}", None),
        ("", None),
    ],
)
def test_a_classic_member_id_contains_the_client_id(member_id: str, client_id: str | None) -> None:
    """The broker appends a UUID; a bare UUID was chosen by the member and contains nothing."""
    assert client_id_of_member(member_id) == client_id


@pytest.mark.parametrize(
    ("client_id", "group"),
    [("consumer-orders-1", "orders"), ("consumer-a-b-2-12", "a-b-2"), ("consumer-1", None), ("orders-1", None)],
)
def test_javas_default_client_id_proposes_a_group(client_id: str, group: str | None) -> None:
    """The group is everything between `consumer-` and the last number; older clients' ids have none."""
    assert group_candidates(client_id) == group


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("orders-1#consumer-1", ("orders-1", "consumer")),
        ("a#b#producer-12", ("a#b", "producer")),
        ("#consumer-1", (None, "consumer")),
        ("io.opentelemetry.kafka", None),
    ],
)
def test_a_librdkafka_handles_name_contains_the_client_id(name: str, found: tuple[str | None, str] | None) -> None:
    """`<client.id>#consumer-<n>`, where the client id may contain a `#` too."""
    assert split_librdkafka_name(name) == found


def complete_report(headers: Identity | None = None, defaults: Identity | None = None, **said: Any) -> Report:
    """Complete a report whose payload has an identity."""
    return complete(Report("native", 1, 1, **said), headers or Identity(), defaults or Identity())


def test_the_payload_goes_before_headers_and_headers_before_defaults() -> None:
    """Each source only fills in fields that the earlier ones left empty."""
    report = complete_report(
        Identity(client_id="header", group_id="header"),
        Identity(client_id="default", group_id="default", host="default"),
        client_id="payload",
    )
    assert (report.client_id, report.group_id, report.host, report.member_id) == ("payload", "header", "default", None)


def test_a_member_id_shows_the_client_id_before_a_default_does() -> None:
    """Java's KIP-714 pushes have the member id but not the client id, and a default is for all clients of a topic."""
    report = complete_report(None, Identity(client_id="default"), member_id=f"orders-3-{UUID}")
    assert report.client_id == "orders-3"
    assert complete_report(Identity(client_id="header"), member_id=f"orders-3-{UUID}").client_id == "header"


def test_a_static_member_id_does_not_show_the_client_id() -> None:
    """It starts with the instance id instead."""
    assert complete_report(member_id=f"instance-{UUID}", instance_id="instance").client_id is None
    assert complete_report(Identity(instance_id="instance"), member_id=f"instance-{UUID}").client_id is None


def test_kafka_pythons_default_client_id_is_its_version() -> None:
    """It is no name of a client, but names the library, unless that is known to be another."""
    report = complete_report(client_id="kafka-python-1.4.6")
    assert (report.library, report.library_version) == ("kafka-python", "1.4.6")
    report = complete_report(client_id="kafka-python-1.4.6", library="librdkafka")
    assert (report.library, report.library_version) == ("librdkafka", None)
    assert complete_report(client_id="kafka-python-orders").library is None


@pytest.mark.generated
@given(st.text())
def test_ids_of_any_text_can_be_asked(text: str) -> None:
    """Client ids are arbitrary: everything derived from one is a shorter part of it."""
    for derived in (client_id_of_member(text), group_candidates(text), (split_librdkafka_name(text) or [None])[0]):
        assert derived is None or (derived in text and 0 < len(derived) < len(text))
