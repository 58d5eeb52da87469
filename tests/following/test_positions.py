import pytest

from rebalance_kafka.positions import Bounds, Positions, start_at_beginning, start_at_end

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


@pytest.fixture
def half_read() -> Positions:
    """Two partitions: one from offset 5 to 9, with two records read, and an empty one."""
    positions = Positions()
    positions.update([A0, B0], {A0: Bounds(5, 9), B0: Bounds(3, 3)})
    positions.pass_record(A0, 5)
    positions.pass_record(A0, 6)
    return positions


def test_everything_is_read_from_its_beginning():
    """This includes partitions whose first records are gone."""
    assert Positions().update([A0, B0], {A0: Bounds(5, 9), B0: Bounds(0, 2)}) == {A0: 5, B0: 0}
    assert start_at_beginning({A0: Bounds(5, 9)}) == {}


def test_of_what_was_there_only_the_new_is_read():
    """The start is at the ends of the first look; a partition that is created later has no old records."""
    positions = Positions(start_at_end)
    assert positions.update([A0], {A0: Bounds(5, 9)}) == {A0: 9}
    assert positions.update([A0, A1, B0], {A1: Bounds(0, 4), B0: Bounds(2, 2)}) == {A0: 9, A1: 0, B0: 2}


def test_a_topic_made_after_the_first_look_is_read_from_its_beginning():
    """A look that found nothing counts as the first one."""
    positions = Positions(start_at_end)
    assert positions.update([], {}) == {}
    assert positions.update([A0], {A0: Bounds(0, 4)}) == {A0: 0}


def test_a_partition_without_leader_keeps_its_start():
    """A partition of the first look that can only be read later starts like the others."""
    positions = Positions(start_at_end)
    positions.update([A0, A1], {A0: Bounds(0, 1)})
    assert positions.update([A0, A1], {A1: Bounds(0, 4)}) == {A0: 1, A1: 4}


def test_who_starts_elsewhere_decides_from_all_bounds():
    """The start positions depend on the bounds of all partitions in the first look; others start at the beginning."""
    positions = Positions(lambda bounds: {A0: 7} if bounds[B0].end else {})
    assert positions.update([A0, B0], {A0: Bounds(5, 9), B0: Bounds(0, 1)}) == {A0: 7, B0: 0}


def test_reading_goes_on_where_it_was(half_read):
    """A new partition does not affect the others; a removed one is forgotten."""
    assert half_read.update([A0, A1, B0], {A1: Bounds(0, 1)}) == {A0: 7, B0: 3, A1: 0}
    assert half_read.update([A1, B0], {}) == {B0: 3, A1: 0}
    assert half_read.places == {A1, B0}


def test_a_topic_made_anew_is_read_anew(half_read):
    """After a look without the topic, the earlier positions are dropped."""
    half_read.update([B0], {})
    assert half_read.update([A0, B0], {A0: Bounds(0, 2)}) == {B0: 3, A0: 0}
    assert (half_read.read, half_read.wanted, half_read.at_end) == (0, 2, False)


@pytest.mark.parametrize("first", ["pass_record", "reach_end"])
def test_what_stands_in_a_topic_made_anew_was_not_there(half_read, first):
    """The client starts again at its beginning by itself, between two looks: its records, or its end, come again."""
    getattr(half_read, first)(A0, 0)
    half_read.pass_record(A0, 1)
    assert not half_read.was_there(A0, 0)
    assert not half_read.was_there(A0, 8)
    assert (half_read.read, half_read.wanted) == (0, 0)


def test_it_reports_how_far_it_is(half_read):
    """Records after the end that was found at the start are not part of the progress."""
    assert (half_read.read, half_read.wanted, half_read.at_end) == (2, 4, False)
    half_read.pass_record(A0, 8)
    assert (half_read.read, half_read.wanted, half_read.at_end) == (4, 4, True)
    half_read.pass_record(A0, 9)
    assert (half_read.read, half_read.wanted, half_read.at_end) == (4, 4, True)


def test_it_distinguishes_what_was_there_from_what_came_since(half_read):
    """By the end at the start of reading; a partition that is read again gets a new one."""
    assert [half_read.was_there(*each) for each in ((A0, 8), (A0, 9), (B0, 3), (A1, 0))] == [True, False, False, False]
    half_read.update([B0], {})
    assert not half_read.was_there(A0, 8)
    half_read.update([A0, B0], {A0: Bounds(0, 20)})
    assert half_read.was_there(A0, 19)


def test_an_end_without_a_record_is_an_end(half_read):
    """Kafka reports the end of a partition; its last offsets may be transaction markers, or not readable yet."""
    half_read.reach_end(A0, 8)
    assert (half_read.read, half_read.at_end) == (3, True)


def test_what_was_let_go_is_not_taken(half_read):
    """A record of a removed partition may still arrive."""
    half_read.update([B0], {})
    assert not half_read.pass_record(A0, 7)
    half_read.reach_end(A0, 8)
    assert half_read.places == {B0}


def test_nothing_to_read_is_read():
    """Without a partition all of them are at their ends."""
    assert Positions().at_end
