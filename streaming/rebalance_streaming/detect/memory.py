"""What rules remember of a group from one look to the next.

Its owner is the `JudgedGroup`; rules receive it and hand it back. Most of what rules ask is in the history. Here is
what the history forgets sooner than it is needed: commits are kept for about a minute, end offsets for a quarter of an
hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_streaming.observed.progress import Jump


@dataclass(frozen=True, slots=True)
class Duplicates:
    """How many records were processed twice after a rebalance, and by which method they were counted."""

    method: str
    records: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Nothing, at first.

    `waiting`: since when (epoch ms) records are seen waiting in a partition, by its name. `jumps`: whether a change of
    a committed offset was found to be a jump. `duplicates`: by rebalance id.
    """

    waiting: Mapping[str, int] = field(default_factory=dict)
    jumps: Mapping[Jump, bool] = field(default_factory=dict)
    duplicates: Mapping[str, Duplicates] = field(default_factory=dict)
