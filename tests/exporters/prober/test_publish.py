"""What is published about a group, and when."""

from dataclasses import replace

import msgspec
import pytest

from rebalance_exporters.prober.answers import Described, Listed
from rebalance_exporters.prober.publish import (
    OffsetPublications,
    Publications,
    asked_fields,
    probe_described,
    probe_listed,
)
from rebalance_streaming.groups.events import Probe, ProbedMember, encode

LISTED = Listed("g", coordinator_id=1, protocol_type="consumer", state="Stable", type="classic")
MEMBER = ProbedMember("m-1", "c", "/h", partitions={"t": [0]})
DESCRIBED = Described("g", "Stable", "consumer", "range", (MEMBER,))
PROBE = probe_described("prod", LISTED, DESCRIBED, now_ms=5)


def keys(probe: Probe) -> set[str]:
    """The keys in a probe's JSON, without those that all have."""
    return set(msgspec.json.decode(encode(probe))) - {"schema", "probed_at_ms", "cluster", "group"}


def test_a_listed_group_tells_only_what_a_list_has():
    """Members were not asked, so they are absent; a type that an old broker does not tell is null."""
    probe = probe_listed("prod", replace(LISTED, type=None), now_ms=5)
    assert keys(probe) == {"state", "type", "coordinator_id"}
    assert probe.type is None


def test_a_described_group_tells_all():
    """Every field a coordinator answers is there; the epoch, which it does not, is absent."""
    assert asked_fields(PROBE) == {
        "state": "Stable",
        "type": "classic",
        "protocol": "range",
        "assignor": "range",
        "coordinator_id": 1,
        "members": (MEMBER,),
        "errors": (),
    }
    assert keys(PROBE) == set(asked_fields(PROBE))


def test_only_the_consumer_protocol_names_an_assignor():
    """Connect's protocol `sessioned` is no assignor."""
    probe = probe_described("prod", LISTED, replace(DESCRIBED, protocol_type="connect", protocol="sessioned"), 5)
    assert (probe.protocol, probe.assignor) == ("sessioned", None)


def test_an_unanswered_describe_says_so():
    """Members were asked and are unknown: null. The state was not told again: absent."""
    probe = probe_described("prod", LISTED, Described("g", None, error="not described (X)"), now_ms=5)
    assert keys(probe) == {"type", "coordinator_id", "members", "errors"}
    assert probe.members is None
    assert probe.errors == ("not described (X)",)


def test_a_denied_describe_keeps_the_listed_state():
    """Who may list but not describe still sees the state."""
    probe = probe_described("prod", LISTED, Described("g", None, error="denied", denied=True), now_ms=5)
    assert (probe.state, probe.members) == ("Stable", None)


def test_news_is_published_at_once_and_the_rest_once_a_minute():
    """An unchanged stable group is told every 60 s, one whose members changed at once."""
    publications = Publications()
    assert publications.admit(PROBE, 0.0)
    assert not publications.admit(replace(PROBE, probed_at_ms=9), 2.0)
    assert not publications.admit(PROBE, 59.9)
    assert publications.admit(PROBE, 60.0)
    assert publications.admit(replace(PROBE, members=()), 61.0)
    assert not publications.admit(replace(PROBE, members=()), 120.9)


def test_a_rebalance_that_lasts_is_told_every_ten_seconds():
    """In an unstable state a reader hears more often that it still holds."""
    publications, probe = Publications(), replace(PROBE, state="PreparingRebalance")
    assert [publications.admit(probe, now) for now in (0.0, 2.0, 9.9, 10.0, 12.0)] == [True, False, False, True, False]


def test_fields_not_asked_are_no_news():
    """A cheap probe that agrees with the full one before it is not published; one that disagrees is."""
    publications = Publications()
    assert publications.admit(PROBE, 0.0)
    assert not publications.admit(probe_listed("prod", LISTED, 7), 2.0)
    assert publications.admit(probe_listed("prod", replace(LISTED, coordinator_id=2), 7), 4.0)


def test_null_is_news_where_nothing_was_known():
    """That something was asked and is unknown is told once."""
    publications = Publications()
    probe = probe_listed("prod", replace(LISTED, type=None), 5)
    assert publications.admit(replace(probe, type=msgspec.UNSET), 0.0)
    assert publications.admit(probe, 1.0)
    assert not publications.admit(probe, 2.0)


def test_a_forgotten_group_is_new():
    """A group that went and came back is told at once."""
    publications = Publications()
    publications.admit(PROBE, 0.0)
    publications.forget({"g"})
    assert not publications.admit(PROBE, 1.0)
    publications.forget(set())
    assert publications.admit(PROBE, 2.0)


@pytest.fixture
def offsets() -> OffsetPublications:
    """One round in which two partitions of `t` and one of `u` were asked; `t`-1 is unknown."""
    publications = OffsetPublications()
    publications.note({("t", 0): 10, ("t", 1): None, ("u", 0): 5}, {("t", 0): 8, ("t", 1): None, ("u", 0): 5})
    return publications


def test_a_group_is_first_told_everything(offsets):
    """All partitions of its topics, null for those asked and unknown, none of other topics."""
    assert offsets.choose("g", {"t": 2}, 0.0) == ({"t": {"0": 10, "1": None}}, {"t": {"0": 8, "1": None}})


def test_then_only_what_changed(offsets):
    """Nothing when nothing changed; end and stable offsets apart; becoming unknown is a change."""
    offsets.choose("g", {"t": 2}, 0.0)
    offsets.note({("t", 0): 10, ("t", 1): None}, {("t", 0): 8, ("t", 1): None})
    assert offsets.choose("g", {"t": 2}, 5.0) == ({}, {})
    offsets.note({("t", 0): 11, ("t", 1): 3}, {("t", 0): 8, ("t", 1): None})
    assert offsets.choose("g", {"t": 2}, 10.0) == ({"t": {"0": 11, "1": 3}}, {})
    offsets.note({("t", 0): None}, {("t", 0): None})
    assert offsets.choose("g", {"t": 2}, 15.0) == ({"t": {"0": None}}, {"t": {"0": None}})


def test_what_a_group_missed_it_is_told_later(offsets):
    """Each group has its own place: changes of rounds it was not asked for are not lost."""
    offsets.choose("a", {"t": 2}, 0.0)
    offsets.choose("b", {"t": 2}, 0.0)
    offsets.note({("t", 0): 11}, {})
    assert offsets.choose("a", {"t": 2}, 5.0)[0] == {"t": {"0": 11}}
    offsets.note({("t", 1): 1}, {})
    assert offsets.choose("a", {"t": 2}, 10.0)[0] == {"t": {"1": 1}}
    assert offsets.choose("b", {"t": 2}, 10.0)[0] == {"t": {"0": 11, "1": 1}}


def test_everything_again_after_a_minute(offsets):
    """Counted from the last time all was told, whatever was told between."""
    offsets.choose("g", {"t": 2}, 0.0)
    offsets.note({("t", 0): 11}, {})
    offsets.choose("g", {"t": 2}, 30.0)
    offsets.note({}, {})
    assert offsets.choose("g", {"t": 2}, 59.9) == ({}, {})
    assert offsets.choose("g", {"t": 2}, 60.0) == ({"t": {"0": 11, "1": None}}, {"t": {"0": 8, "1": None}})
    assert offsets.choose("g", {"t": 2}, 60.1) == ({}, {})


def test_a_topic_that_is_new_to_a_group_is_told_whole(offsets):
    """Although its offsets have not changed since."""
    offsets.choose("g", {"t": 2}, 0.0)
    assert offsets.choose("g", {"t": 2, "u": 1}, 5.0) == ({"u": {"0": 5}}, {"u": {"0": 5}})


def test_forgotten_topics_take_no_memory(offsets):
    """Offsets of topics and groups that nobody uses are dropped, the others kept."""
    offsets.choose("g", {"t": 2}, 0.0)
    offsets.forget({"g"}, {"t"})
    assert offsets.choose("h", {"t": 2, "u": 1}, 1.0)[0] == {"t": {"0": 10, "1": None}}
    assert offsets.choose("g", {"t": 2}, 1.0) == ({}, {})
    offsets.forget(set(), {"t"})
    assert offsets.choose("g", {"t": 2}, 1.0)[0] == {"t": {"0": 10, "1": None}}
