"""The types of the metric tables: a metric is a value, declared once, with the function that reads it."""

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

#: The labels of metrics of the sliding windows.
WINDOW = ("window",)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An event given as an example for a sample: its value, and its time in seconds since 1970."""

    rebalance_id: str
    value: float
    timestamp: float


@dataclass(frozen=True, slots=True)
class Metric(Generic[_S]):
    """One metric: `name` is without the prefix, `read` returns (label values, value) in the order of `labels`.

    No sample means that the value cannot be known. A counter's name ends in `_total`. The samples of a histogram are
    its cumulative buckets with the label `le`, followed by two with `SUM` and `COUNT` in its place. `exemplify` returns
    exemplars by label values (for a histogram, by bound), which only OpenMetrics can show; null if there are none.
    `unused` says what the metric is for if no dashboard and no alert of the monitor uses it.
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
        """The name of the family in OpenMetrics: a counter's without its suffix."""
        return self.full_name.removesuffix("_total")


#: Label values of the samples for a histogram's `_sum` and `_count`, in place of a bucket's bound.
SUM, COUNT = "sum", "count"


def one_sample(value: float | None) -> Samples:
    """Return the samples of a metric without labels; none if the value is null."""
    return [] if value is None else [((), value)]


def window_samples(windows: Mapping[str, _W], read: Callable[[_W], float | None]) -> Samples:
    """Return a sample per existing window, labelled by its name, the shortest first; null values are left out."""
    known = [(name, windows[name]) for name in WINDOWS_MS if name in windows]
    return [((name,), value) for name, window in known if (value := read(window)) is not None]


def in_seconds(milliseconds: float | None) -> float | None:
    """Return milliseconds in seconds; null stays null."""
    return None if milliseconds is None else milliseconds / 1000
