"""Views of histories made by hand: what rules of conditions and patterns receive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_streaming.detect.group_view import ConditionRule, GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.rules.registry import CONDITIONS, MEMORY_UPDATES
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.history import GroupHistory

#: What rules remember of the histories that were looked at, which a case would keep.
_memories: dict[int, tuple[GroupHistory, Memory]] = {}


def view_of(known: GroupHistory, now_ms: int, **changes: Any) -> GroupView:
    """Look at a group with the default thresholds; what is to be remembered is, from one look to the next."""
    look = {"thresholds": Thresholds(), "time": JudgingTime(now_ms), "memory": memory_of(known), **changes}
    seen = GroupView(known, **look)
    for each in MEMORY_UPDATES:
        seen = replace(seen, memory=each.update(seen))
    _memories[id(known)] = known, seen.memory
    return seen


def memory_of(known: GroupHistory) -> Memory:
    """Return what was remembered of a history at the latest look."""
    return _memories.get(id(known), (known, Memory()))[1]


def said_by(*rules: ConditionRule, of: GroupView) -> list[str]:
    """Return the diagnoses that these rules find, asked as they are declared."""
    return [each.rule for declared in CONDITIONS if declared.rule in rules for each in declared(of)]
