"""Views of histories made by hand: the input of condition and pattern rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_streaming.detect.group_view import ConditionRule, GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.rules.registry import CONDITIONS, MEMORY_UPDATES
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.history import GroupHistory

#: The rules' memory of the histories that were looked at, which an open case would keep.
_memories: dict[int, tuple[GroupHistory, Memory]] = {}


def view_of(known: GroupHistory, now_ms: int, **changes: Any) -> GroupView:
    """Return the view of a group with the default thresholds; the memory is carried from one look to the next."""
    look = {"thresholds": Thresholds(), "time": JudgingTime(now_ms), "memory": memory_of(known), **changes}
    seen = GroupView(known, **look)
    for each in MEMORY_UPDATES:
        seen = replace(seen, memory=each.update(seen))
    _memories[id(known)] = known, seen.memory
    return seen


def memory_of(known: GroupHistory) -> Memory:
    """Return the memory of a history at the latest look."""
    return _memories.get(id(known), (known, Memory()))[1]


def said_by(*rules: ConditionRule, of: GroupView) -> list[str]:
    """Return the diagnoses of these rules, evaluated in the order of their declaration."""
    return [each.rule for declared in CONDITIONS if declared.rule in rules for each in declared(of)]
