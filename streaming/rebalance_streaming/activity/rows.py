"""How what clients and brokers' logs reported of a pane is cut into rows of a bounded length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rebalance_contract import encode

#: What is packed of client metrics and of brokers' logs stays below this: Spark hands on several rows at once.
MAX_PACKED_BYTES = 64_000

_Item = TypeVar("_Item")


def split_by_size(items: Iterable[_Item], room_bytes: int) -> Iterator[tuple[_Item, ...]]:
    """Yield items in their order, as many at a time as have room as JSON, and at least one.

    Without items there is one part, an empty one.
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
