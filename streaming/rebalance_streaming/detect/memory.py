"""What rules remember of a group between evaluations.

`Answers` owns it; rules receive it and return a new one. Most of what rules need is in the history. The memory holds
what the history forgets too soon: it keeps commits for about a minute and end offsets for a quarter of an hour.
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
    """The memory of one group; initially empty.

    `waiting`: since when (epoch ms) records have been waiting in a partition, by its name. `jumps`: whether a change of
    a committed offset was a jump. `duplicates`: by rebalance id.
    """

    waiting: Mapping[str, int] = field(default_factory=dict)
    jumps: Mapping[Jump, bool] = field(default_factory=dict)
    duplicates: Mapping[str, Duplicates] = field(default_factory=dict)
