"""Packs broker log lines of group coordinators into bounded rows, on the executors.

Takes records of broker-log topics, or lines of files; returns one row per group and pane (several if it is too large),
and the number of lines by outcome. Invalid records are counted too: nothing is raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rebalance_contract import CoordinatorActivity, CoordinatorEvent, encode
from rebalance_streaming.activity.rows import MAX_PACKED_BYTES, split_by_size
from rebalance_streaming.wire.broker_logs.decode import ToUtc, decode_record, in_utc
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome

#: Maximum number of events per group and pane; a restart of a thousand members at once causes three for each.
MAX_EVENTS = 5_000


@dataclass(slots=True)
class _Pane:
    #: A dict used as an ordered set, because a restarted log shipper may send lines again.
    events: dict[CoordinatorEvent, None] = field(default_factory=dict)
    is_truncated: bool = False

    def take(self, event: CoordinatorEvent) -> None:
        if len(self.events) < MAX_EVENTS:
            self.events[event] = None
        else:
            self.is_truncated = self.is_truncated or event not in self.events


@dataclass(slots=True)
class LogPacking:
    """Packs the lines of a batch. `now_ms` is the reader's clock, which limits the records' times; null: no limit."""

    cluster: str
    pane_ms: int
    now_ms: int | None = None
    counts: Counter[LineOutcome] = field(default_factory=Counter)
    _panes: dict[tuple[str, int], _Pane] = field(default_factory=dict)

    def take(self, value: bytes | None, timestamp_ms: int | None, to_utc: ToUtc = in_utc) -> None:
        """Process a record, or a line of a file. `timestamp_ms` is the record's time; null or negative: it has none."""
        try:
            lines = decode_record(value, self._observed_ms(timestamp_ms), to_utc)
        except Exception:
            # An unexpected line from outside must not stop the stream; it is counted.
            self.counts[LineOutcome.FAILED] += 1
            return
        self.counts.update(lines.counts)
        for group, event in lines.events:
            self._panes.setdefault((group, event.at_ms // self.pane_ms * self.pane_ms), _Pane()).take(event)

    def rows(self) -> Iterator[CoordinatorActivity]:
        """Yield the rows, oldest pane first."""
        for group, start_ms in sorted(self._panes, key=lambda each: (each[1], each[0])):
            yield from _rows(CoordinatorActivity(self.cluster, group, start_ms, ()), self._panes[group, start_ms])

    def _observed_ms(self, timestamp_ms: int | None) -> int | None:
        if timestamp_ms is None or timestamp_ms < 0:
            return self.now_ms
        return timestamp_ms if self.now_ms is None else min(timestamp_ms, self.now_ms)


def _rows(empty: CoordinatorActivity, pane: _Pane) -> Iterator[CoordinatorActivity]:
    row = replace(empty, is_truncated=pane.is_truncated)
    # The sort is stable: lines with the same time stay in the order in which they were written.
    events = sorted(pane.events, key=lambda each: each.at_ms)
    for part in split_by_size(events, MAX_PACKED_BYTES - len(encode(row))):
        yield replace(row, events=part)
