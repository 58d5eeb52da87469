"""The words that tables of metrics are written in: a metric is a value, declared once, with the way to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from rebalance_contract import WINDOWS_MS

PREFIX = "kafka_rebalance_"

Sample = tuple[tuple[str, ...], float]
Samples = Sequence[Sample]
_S = TypeVar("_S")
_W = TypeVar("_W")

#: The label of a reading of the sliding windows.
WINDOW = ("window",)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An event that stands for a sample: its value, and when it was, in seconds since 1970."""

    rebalance_id: str
    value: float
    timestamp: float


@dataclass(frozen=True, slots=True)
class Metric(Generic[_S]):
    """One metric: `name` without the prefix, `read` gives (label values, value) in the order of `labels`.

    No sample means that the value cannot be known; a counter's name ends in `_total`. A histogram's readings are those
    of its buckets, cumulative with the label `le`, and two last ones with `SUM` and `COUNT` in its place.
    `exemplify` gives exemplars by label values (a histogram's by the bound), which only OpenMetrics can show; null
    where there are none. `unused` says what it is for where no dashboard and no alert of the monitor has it.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    read: Callable[[_S], Samples]
    exemplify: Callable[[_S], Mapping[tuple[str, ...], Exemplar]] | None = None
    unused: str | None = None

    @property
    def full_name(self) -> str:
        """The name of its samples."""
        return PREFIX + self.name

    @property
    def family_name(self) -> str:
        """The name OpenMetrics gives the family: a counter's without its ending."""
        return self.full_name.removesuffix("_total")


#: Stand for a histogram's `_sum` and `_count` where its readings have the bucket's bound.
SUM, COUNT = "sum", "count"


def one_sample(value: float | None) -> Samples:
    """Return the reading of a metric without labels; none where the value cannot be known."""
    return [] if value is None else [((), value)]


def window_samples(windows: Mapping[str, _W], read: Callable[[_W], float | None]) -> Samples:
    """Return a reading of each window there is, by its name, the shortest first; null readings are left out."""
    known = [(name, windows[name]) for name in WINDOWS_MS if name in windows]
    return [((name,), value) for name, window in known if (value := read(window)) is not None]


def in_seconds(milliseconds: float | None) -> float | None:
    """Return milliseconds in seconds; null stays null."""
    return None if milliseconds is None else milliseconds / 1000
