"""Probes that are too large for one record."""

from collections import defaultdict
from typing import Any

import msgspec

from rebalance_contract import OFFSET_FIELDS, Probe, ProbedMember, decode
from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_exporters.prober.bounds import encode_bounded


def make(**fields: Any) -> Probe:
    """A probe of one group."""
    return Probe(probed_at_ms=5, cluster="prod", group="g", **fields)


def parts_of(probe: Probe) -> list[Probe]:
    """The parts of a probe as written; each fits."""
    texts = encode_bounded(probe)
    assert all(len(text) <= MAX_ROW_BYTES for text in texts)
    parts = [decode(text, Probe) for text in texts]
    assert {(part.probed_at_ms, part.cluster, part.group) for part in parts} == {(5, "prod", "g")}
    return parts


def joined(parts: list[Probe], name: str) -> dict[str, dict[str, int | None]]:
    """The content of all parts together."""
    known: dict[str, dict[str, int | None]] = defaultdict(dict)
    for part in parts:
        for topic, offsets in (getattr(part, name) or {}).items():
            assert not known[topic].keys() & offsets.keys()
            known[topic] |= offsets
    return dict(known)


def test_an_ordinary_probe_is_one():
    """It is unchanged."""
    probe = make(state="Stable", members=(ProbedMember("m", "c", "h"),), end_offsets={"t": {"0": 1}}, errors=())
    assert parts_of(probe) == [probe]


def test_offsets_of_many_partitions_are_reported_in_parts():
    """Of many topics and of a single large one, including empty ones: together the parts have everything, once."""
    largest = 2**63 - 1
    ends = {f"{number:0200d}": {str(each): largest - each for each in range(20)} for number in range(4_000)}
    ends |= {"large": dict.fromkeys(map(str, range(50_000)), largest), "missing": {}}
    stable = {"large": dict.fromkeys(map(str, range(50_000)))}
    parts = parts_of(make(end_offsets=ends, stable_offsets=stable, start_offsets=stable, committed_offsets=stable))
    assert joined(parts, "end_offsets") == ends
    assert [joined(parts, name) for name in OFFSET_FIELDS] == [ends, stable, stable, stable]
    assert len(parts) < 20
    assert all(part.errors is msgspec.UNSET for part in parts)


def test_ids_of_many_topics_are_reported_in_parts():
    """The errors are not repeated."""
    ids = {f"{number:0249d}": "x" * 22 for number in range(10_000)}
    parts = parts_of(make(topic_ids=ids, errors=("broken",)))
    assert {topic: each for part in parts for topic, each in (part.topic_ids or {}).items()} == ids
    assert [part.errors for part in parts if part.errors] == [("broken",)]


def test_a_large_group_lists_its_members_without_partitions():
    """Omitted partitions are null, and an error says so."""
    members = tuple(
        ProbedMember(f"m-{number}", "client", "/host", partitions={"topic": list(range(1_000))})
        for number in range(500)
    )
    (part,) = parts_of(make(state="Stable", members=members, errors=("x",)))
    assert isinstance(part.members, tuple)
    assert [each.member_id for each in part.members] == [each.member_id for each in members]
    assert {each.partitions for each in part.members} == {None}
    assert part.errors == ("x", "its members' partitions are left out because they are too many for one probe")


def test_a_group_of_very_many_members_lists_some():
    """The first ones, and the total number."""
    members = tuple(ProbedMember(f"m-{number}", "c" * 100, "/host") for number in range(20_000))
    (part,) = parts_of(make(state="Stable", members=members))
    assert isinstance(part.members, tuple)
    assert isinstance(part.errors, tuple)
    assert 0 < len(part.members) < 20_000
    assert f"{len(part.members)} of its 20000 members" in part.errors[-1]


def test_owners_that_are_too_many_are_left_out():
    """Members stay, and the errors say so."""
    owners = {"topic": {str(number): "member" * 5 for number in range(40_000)}}
    (part,) = parts_of(make(type="zookeeper", members=(ProbedMember("m", "", "h"),), owners=owners))
    assert part.owners is msgspec.UNSET
    assert part.members == (ProbedMember("m", "", "h", partitions=None),)
    assert isinstance(part.errors, tuple)
    assert "owners are left out" in part.errors[0]


def test_errors_are_shortened():
    """However many and long they are."""
    (part,) = parts_of(make(errors=tuple("x" * 10_000 for _ in range(1_000))))
    assert isinstance(part.errors, tuple)
    assert part.errors[-1] == "and 980 more like these"
