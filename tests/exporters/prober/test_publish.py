"""Which probes of a group are published, and when."""

from dataclasses import replace

import msgspec

from rebalance_contract import Probe, ProbedMember, encode
from rebalance_exporters.prober.answers import Described, Listed
from rebalance_exporters.prober.publish import (
    Publications,
    asked_fields,
    probe_described,
    probe_listed,
)

LISTED = Listed("g", coordinator_id=1, protocol_type="consumer", state="Stable", type="classic")
MEMBER = ProbedMember("m-1", "c", "/h", partitions={"t": [0]})
DESCRIBED = Described("g", "Stable", "consumer", "range", (MEMBER,))
PROBE = probe_described("prod", LISTED, DESCRIBED, now_ms=5)


def keys(probe: Probe) -> set[str]:
    """The keys in a probe's JSON, without those that all have."""
    return set(msgspec.json.decode(encode(probe))) - {"schema", "probed_at_ms", "cluster", "group"}


def test_a_listed_group_has_only_what_a_list_has():
    """Members were not queried, so they are absent; the type is null with an old broker."""
    probe = probe_listed("prod", replace(LISTED, type=None), now_ms=5)
    assert keys(probe) == {"state", "type", "coordinator_id"}
    assert probe.type is None


def test_a_described_group_has_everything():
    """Every field of a coordinator's answer is there; the epoch, which it does not return, is absent."""
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


def test_a_group_with_epochs_has_its_epoch():
    """Only groups that are not classic report it; their protocol is the coordinator's assignor."""
    described = Described("g", "Stable", protocol="uniform", members=(MEMBER,), epoch=7)
    probe = probe_described("prod", replace(LISTED, type="consumer"), described, now_ms=5)
    assert (probe.group_epoch, probe.assignor, probe.type) == (7, "uniform", "consumer")


def test_only_the_consumer_protocol_names_an_assignor():
    """Connect's protocol `sessioned` is no assignor."""
    probe = probe_described("prod", LISTED, replace(DESCRIBED, protocol_type="connect", protocol="sessioned"), 5)
    assert (probe.protocol, probe.assignor) == ("sessioned", None)


def test_an_unanswered_describe_says_so():
    """Members were queried and are unknown: null. The state was not reported again: absent."""
    probe = probe_described("prod", LISTED, Described("g", None, error="not described (X)"), now_ms=5)
    assert keys(probe) == {"type", "coordinator_id", "members", "errors"}
    assert probe.members is None
    assert probe.errors == ("not described (X)",)


def test_a_denied_describe_keeps_the_listed_state():
    """A client that may list but not describe still sees the state."""
    probe = probe_described("prod", LISTED, Described("g", None, error="denied", denied="group"), now_ms=5)
    assert (probe.state, probe.members) == ("Stable", None)


def test_news_is_published_at_once_and_the_rest_once_a_minute():
    """An unchanged stable group is reported every 60 s, one with changed members at once."""
    publications = Publications()
    assert publications.admit(PROBE, 0.0)
    assert not publications.admit(replace(PROBE, probed_at_ms=9), 2.0)
    assert not publications.admit(PROBE, 60.0)
    assert publications.admit(replace(PROBE, members=()), 61.0)
    assert not publications.admit(replace(PROBE, members=()), 119.0)
    assert publications.admit(replace(PROBE, members=()), 121.0)


def test_a_rebalance_that_lasts_is_reported_every_ten_seconds():
    """An unstable state is confirmed more often."""
    publications, probe = Publications(), replace(PROBE, state="PreparingRebalance")
    assert [publications.admit(probe, now) for now in (0.0, 2.0, 9.9, 10.0, 12.0)] == [True, False, False, True, False]


def test_fields_not_asked_are_no_news():
    """A list that agrees with the last full probe is not published; one that disagrees is."""
    publications = Publications()
    assert publications.admit(PROBE, 0.0)
    assert not publications.admit(probe_listed("prod", LISTED, 7), 2.0)
    assert publications.admit(probe_listed("prod", replace(LISTED, coordinator_id=2), 7), 4.0)


def test_null_is_news_where_nothing_was_known():
    """That a queried field is unknown is reported once."""
    publications = Publications()
    probe = probe_listed("prod", replace(LISTED, type=None), 5)
    assert publications.admit(replace(probe, type=msgspec.UNSET), 0.0)
    assert publications.admit(probe, 1.0)
    assert not publications.admit(probe, 2.0)


def test_a_forgotten_group_is_new():
    """A group that was removed and returned is reported at once."""
    publications = Publications()
    publications.admit(PROBE, 0.0)
    publications.forget({"g"})
    assert not publications.admit(PROBE, 1.0)
    publications.forget(set())
    assert publications.admit(PROBE, 2.0)
