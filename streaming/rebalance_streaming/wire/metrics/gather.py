"""Combines points of many clients and times, in any order, into one report per client and time.

Agents split one client's report into many metrics or combine many clients in one record; this reverses both.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.identity import Identity
from rebalance_streaming.wire.metrics.names import is_of_producer
from rebalance_streaming.wire.metrics.report import Point, Report

MAX_POINTS = 20_000


class Gatherer:
    """Collects the points of one record."""

    def __init__(self, format_id: str, observed_ms: int) -> None:
        self._format = format_id
        self._observed_ms = observed_ms
        self._points: dict[tuple[Identity, int], list[Point]] = {}
        self._count = 0
        self._producers = False

    def add(self, identity: Identity, emitted_ms: int | None, point: Point | None) -> None:
        """Add a point; null, for a value without a point, is ignored. Raises UndecodableError (too_many_points)."""
        if point is None:
            return
        if is_of_producer(point.metric):
            self.skip_producer()
            return
        self._count += 1
        if self._count > MAX_POINTS:
            raise _too_many()
        moment = self._observed_ms if emitted_ms is None else emitted_ms
        self._points.setdefault((identity, moment), []).append(point)

    def skip_producer(self) -> None:
        """Note that the record contains producer metrics."""
        self._producers = True

    def reports(self) -> tuple[Report, ...]:
        """Return the reports. Raises UndecodableError (producer, no_values) when there are none."""
        if not self._points and self._producers:
            raise UndecodableError(Reason.PRODUCER, "All metrics in the value are a producer's.")
        if not self._points:
            raise UndecodableError(Reason.NO_VALUES, "The value has no metric with a number: no gauge, sum or field.")
        return tuple(
            Report(self._format, self._observed_ms, moment, **identity._asdict(), points=tuple(points))
            for (identity, moment), points in self._points.items()
        )


def take(points: Iterable[Point | None]) -> tuple[Point, ...]:
    """Return the points of one client without the null ones. Raises UndecodableError (too_many_points)."""
    taken: list[Point] = []
    for point in points:
        if point is not None:
            taken.append(point)
            if len(taken) > MAX_POINTS:
                raise _too_many()
    return tuple(taken)


def _too_many() -> UndecodableError:
    return UndecodableError(Reason.TOO_MANY_POINTS, f"The value has more than {MAX_POINTS} points.")
