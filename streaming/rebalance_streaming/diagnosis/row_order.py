"""The order in which the rows of a batch of the diagnosis are processed: that of their times, across topics.

Times of a log may go back, because a query moved to a machine with a slower clock or its clock was set back; places do
not. The engine ignores packed commits that end at or before the last ones it took, so the rows of a partition must stay
in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Protocol, TypeVar


class _Placed(Protocol):
    """A row of a batch, or what stands for one; `at_ms` is its time in epoch ms."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def at_ms(self) -> int: ...


_Row = TypeVar("_Row", bound=_Placed)


def in_order(rows: Iterable[_Row]) -> tuple[_Row, ...]:
    """Return rows in the order of their times; those of a partition, which come in log order, are not rearranged.

    A row counts as of the latest time of its partition until then. Rows of the same time keep their order.
    """
    latest: dict[tuple[str, int], int] = {}
    timed: list[tuple[int, _Row]] = []
    for row in rows:
        place = (row.topic, row.partition)
        latest[place] = at_ms = max(row.at_ms, latest.get(place, row.at_ms))
        timed.append((at_ms, row))
    timed.sort(key=itemgetter(0))
    return tuple(row for _, row in timed)
