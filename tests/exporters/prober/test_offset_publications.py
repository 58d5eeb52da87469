"""Which end offsets of groups' topics are published, and when."""

import pytest

from rebalance_exporters.prober.offset_publications import OffsetPublications


@pytest.fixture
def offsets() -> OffsetPublications:
    """One round in which two partitions of `t` and one of `u` were queried; `t`-1 is unknown."""
    publications = OffsetPublications()
    publications.note({"t": [10, None], "u": [5]}, {"t": [8, None], "u": [5]}, {})
    return publications


def test_everything_of_a_group_is_published_first(offsets):
    """All partitions of its topics, null for those queried and unknown, none of other topics."""
    assert offsets.choose("g", {"t": 2}) == ({"t": {"0": 10, "1": None}}, {"t": {"0": 8, "1": None}}, {})


def test_then_only_what_changed(offsets):
    """Nothing when nothing changed; end and stable offsets are independent; becoming unknown is a change."""
    offsets.choose("g", {"t": 2})
    offsets.note({"t": [10, None]}, {"t": [8, None]}, {})
    assert offsets.choose("g", {"t": 2}) == ({}, {}, {})
    offsets.note({"t": [11, 3]}, {"t": [8, None]}, {})
    assert offsets.choose("g", {"t": 2}) == ({"t": {"0": 11, "1": 3}}, {}, {})
    offsets.note({"t": [None, 3]}, {"t": [None, None]}, {})
    assert offsets.choose("g", {"t": 2}) == ({"t": {"0": None}}, {"t": {"0": None}}, {})


def test_where_partitions_begin_is_published_as_it_is_known(offsets):
    """The beginning of a partition that was not queried this time is kept; a topic may have more partitions."""
    offsets.note({}, {}, {"t": [1, None]})
    assert offsets.choose("g", {"t": 2}).start == {"t": {"0": 1, "1": None}}
    offsets.note({}, {}, {"t": [None, 2, 0]})
    assert offsets.choose("g", {"t": 3}).start == {"t": {"1": 2, "2": 0}}
    offsets.note({}, {}, {"t": [None, 2, 0]})
    assert offsets.choose("g", {"t": 3}).start == {}


def test_what_was_not_published_of_a_group_is_published_later(offsets):
    """Each group has its own state: changes in rounds without it are not lost."""
    offsets.choose("a", {"t": 2})
    offsets.choose("b", {"t": 2})
    offsets.note({"t": [11, None]}, {}, {})
    assert offsets.choose("a", {"t": 2})[0] == {"t": {"0": 11}}
    offsets.note({"t": [11, 1]}, {}, {})
    assert offsets.choose("a", {"t": 2})[0] == {"t": {"1": 1}}
    assert offsets.choose("b", {"t": 2})[0] == {"t": {"0": 11, "1": 1}}


def test_everything_again_when_asked_for(offsets):
    """Whatever was published before; later changes are published as usual."""
    offsets.choose("g", {"t": 2})
    offsets.note({"t": [11, None]}, {}, {})
    offsets.choose("g", {"t": 2})
    offsets.note({}, {}, {})
    assert offsets.choose("g", {"t": 2}) == ({}, {}, {})
    reported = ({"t": {"0": 11, "1": None}}, {"t": {"0": 8, "1": None}}, {})
    assert offsets.choose("g", {"t": 2}, all_again=True) == reported
    assert offsets.choose("g", {"t": 2}) == ({}, {}, {})


def test_a_topic_that_is_new_to_a_group_is_published_whole(offsets):
    """Although its offsets have not changed since."""
    offsets.choose("g", {"t": 2})
    assert offsets.choose("g", {"t": 2, "u": 1}) == ({"u": {"0": 5}}, {"u": {"0": 5}}, {})


def test_forgotten_topics_take_no_memory(offsets):
    """Offsets of unused topics and groups are dropped, the others kept."""
    offsets.choose("g", {"t": 2})
    offsets.forget({"g"}, {"t"})
    assert offsets.choose("h", {"t": 2, "u": 1})[0] == {"t": {"0": 10, "1": None}}
    assert offsets.choose("g", {"t": 2}) == ({}, {}, {})
    offsets.forget(set(), {"t"})
    assert offsets.choose("g", {"t": 2})[0] == {"t": {"0": 10, "1": None}}


def test_a_topic_without_offsets_is_published_empty_again(offsets):
    """A topic that does not exist or may not be described has an empty entry, unlike one not queried."""
    assert offsets.choose("g", {"t": 2, "missing": 0})[0] == {"t": {"0": 10, "1": None}, "missing": {}}
    assert offsets.choose("g", {"t": 2, "missing": 0}) == ({}, {}, {})
    assert offsets.choose("g", {"t": 2, "missing": 0}, all_again=True)[0] == {"t": {"0": 10, "1": None}, "missing": {}}


def test_a_topic_that_comes_or_goes_is_published_at_once(offsets):
    """A created one completely; a deleted one as an empty entry."""
    offsets.choose("g", {"t": 2, "u": 0})
    assert offsets.choose("g", {"t": 0, "u": 1}) == ({"t": {}, "u": {"0": 5}}, {"u": {"0": 5}}, {})
    assert offsets.choose("g", {"t": 2, "u": 1})[0] == {"t": {"0": 10, "1": None}}


def test_added_partitions_are_news(offsets):
    """Only they are published."""
    offsets.choose("g", {"u": 1})
    offsets.note({"u": [5, 0]}, {"u": [5, 0]}, {})
    assert offsets.choose("g", {"u": 2}) == ({"u": {"1": 0}}, {"u": {"1": 0}}, {})


def test_partitions_that_no_longer_exist_are_forgotten(offsets):
    """For every group; if the topic has them again, only what is found then counts."""
    offsets.choose("g", {"t": 2})
    assert offsets.choose("g", {"t": 1}, all_again=True) == ({"t": {"0": 10}}, {"t": {"0": 8}}, {})
    assert offsets.choose("h", {"t": 2}) == ({"t": {"0": 10}}, {"t": {"0": 8}}, {})
    offsets.note({"t": [10, 4]}, {}, {})
    assert offsets.choose("g", {"t": 2}).end == {"t": {"1": 4}}


def test_a_dropped_topic_is_news_when_it_is_noted_again(offsets):
    """Although its offsets are the same as before."""
    offsets.choose("g", {"u": 1})
    offsets.drop(["u"])
    assert not offsets.knows("u")
    offsets.note({"u": [5]}, {}, {})
    assert offsets.choose("g", {"u": 1}) == ({"u": {"0": 5}}, {}, {})


def test_groups_of_one_topic_share_what_is_published(offsets):
    """They are built once for all groups that were published in the same round."""
    reported = [offsets.choose(group, {"t": 2})[0]["t"] for group in ("a", "b")]
    assert reported[0] is reported[1]


def test_a_topic_is_known_once_it_was_asked(offsets):
    """Until no group uses it any more."""
    assert offsets.knows("t")
    assert not offsets.knows("v")
    offsets.forget({"g"}, {"u"})
    assert not offsets.knows("t")
