"""Splits client metrics and broker log lines of a pane into rows of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rebalance_contract import encode

#: Maximum size of rows with client metrics or broker log lines; low, because Spark passes several rows on at once.
MAX_PACKED_BYTES = 64_000

_Item = TypeVar("_Item")


def split_by_size(items: Iterable[_Item], room_bytes: int) -> Iterator[tuple[_Item, ...]]:
    """Yield items in order, in parts that fit as JSON into `room_bytes`, with at least one item each.

    Without items, yields one empty part.
    """
    part: list[_Item] = []
    left = room_bytes
    for item in items:
        size = len(encode(item)) + 1
        if part and size > left:
            yield tuple(part)
            part, left = [], room_bytes
        part.append(item)
        left -= size
    yield tuple(part)
