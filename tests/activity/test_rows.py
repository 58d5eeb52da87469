"""Splits the items of a pane into rows of bounded length."""

from rebalance_contract import encode
from rebalance_streaming.activity.rows import split_by_size


def test_nothing_is_lost_and_no_part_is_too_large():
    """Parts are as full as possible, and the order is kept."""
    items = [f"item-{'x' * (number % 40)}" for number in range(500)]
    parts = list(split_by_size(items, 1_000))
    assert [each for part in parts for each in part] == items
    sizes = [sum(len(encode(each)) + 1 for each in part) for part in parts]
    assert max(sizes) <= 1_000
    firsts = [len(encode(part[0])) + 1 for part in parts[1:]]
    assert all(size + first > 1_000 for size, first in zip(sizes[:-1], firsts, strict=True))


def test_what_has_no_room_at_all_is_alone():
    """An item above the limit is not dropped; its producer must bound it."""
    assert list(split_by_size(["a", "x" * 100, "b"], 20)) == [("a",), ("x" * 100,), ("b",)]
    assert list(split_by_size(["a", "b"], -5)) == [("a",), ("b",)]


def test_nothing_is_one_empty_part():
    """A pane may have content other than its items."""
    assert list(split_by_size([], 1_000)) == [()]
