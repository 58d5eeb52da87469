"""Which groups that no list has any more are asked about, and whose end is published how often."""

import pytest

from rebalance_exporters.prober.answers import Described, Listed
from rebalance_exporters.prober.ended_groups import TOLD_TIMES, EndedGroups
from rebalance_exporters.prober.repeats import LONGEST_SECONDS

GONE = Listed("g", 1, "consumer", "Stable", "classic")
DEAD, UNANSWERED = Described("g", "Dead"), Described("g", None, error="late")
DENIED = Described("g", None, error="not allowed", denied="group")
#: Seconds after which everything published is due again.
LATER = 2 * LONGEST_SECONDS


@pytest.fixture
def ended() -> EndedGroups:
    """A list without the group `g`, which an earlier one had."""
    groups = EndedGroups()
    groups.note_list([GONE], {"other"}, {})
    return groups


def test_a_group_is_asked_about_until_its_end_is_confirmed(ended):
    """At every list: a coordinator that is away now will know."""
    for _ in range(5):
        assert ended.choose_asked(0.0) == {"g": "classic"}
        assert ended.note_described([UNANSWERED]) == []
        ended.note_list([], {"other"}, {})
    assert ended.note_described([DEAD]) == ["g"]


def test_a_confirmed_end_is_published_some_times(ended):
    """In case a probe is lost; each time the coordinator is asked again, because the group may have returned."""
    for turn in range(TOLD_TIMES):
        ended.note_list([], {"other"}, {})
        assert ended.choose_asked(turn * LATER) == {"g": "classic"}
        assert ended.note_described([DEAD]) == ["g"]
    ended.note_list([], {"other"}, {})
    assert ended.choose_asked(TOLD_TIMES * LATER) == {}


def test_repeats_of_an_end_are_spread(ended):
    """A second time at the next list, then not before a minute is over."""
    told = []
    for now in range(0, 60, 2):
        ended.note_list([], {"other"}, {})
        if ended.choose_asked(float(now)):
            told.append(now)
            ended.note_described([DEAD])
    assert told == [0, 2]


def test_a_group_that_returns_has_not_ended(ended):
    """Whether its coordinator or a list has it."""
    assert ended.note_described([Described("g", "Stable")]) == []
    ended.note_list([], {"g", "other"}, {})
    assert ended.choose_asked(0.0) == {}


def test_a_group_that_may_not_be_described_any_more_is_left_alone(ended):
    """Nobody can say whether it has ended."""
    assert ended.note_described([DENIED]) == []
    ended.note_list([], {"other"}, {})
    assert ended.choose_asked(0.0) == {}


def test_a_group_that_the_stream_shows_is_asked_about_although_no_list_had_it():
    """It was deleted while no prober ran; two lists without it in a row, because one may just miss it."""
    groups = EndedGroups()
    groups.note_list([], {"other"}, {"g": "consumer", "other": "classic"})
    assert groups.choose_asked(0.0) == {}
    groups.note_list([], {"other"}, {"g": "consumer", "other": "classic"})
    assert groups.choose_asked(0.0) == {"g": "consumer"}


def test_an_end_is_published_until_the_stream_no_longer_shows_the_group():
    """However long the stream is away."""
    groups, shown = EndedGroups(), {"g": "classic"}
    groups.note_list([], (), shown)
    for turn in range(3 * TOLD_TIMES):
        groups.note_list([], (), shown)
        assert groups.choose_asked(turn * LATER) == {"g": "classic"}
        groups.note_described([DEAD])
    groups.note_list([], (), {})
    assert groups.choose_asked(100 * LATER) == {}
