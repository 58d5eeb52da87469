"""The answers of all rules for one group; a rule is evaluated again only when its answer may have changed.

Receives views of the group and the inputs that changed since the last view; keeps the answers, the deadlines at which
they may change by time alone, the rules' memory, and the start times of conditions that have a minimum duration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from rebalance_contract import Severity
from rebalance_streaming.detect.catalogue import diagnosis
from rebalance_streaming.detect.findings import subject_key
from rebalance_streaming.detect.group_view import GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.memory import Memory
from rebalance_streaming.detect.quarantine import Quarantine
from rebalance_streaming.detect.rules.registry import CONDITIONS, MEMORY_UPDATES
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.inputs import GROUP, NOTHING

#: Since when a condition has held (epoch ms), by its diagnosis and subject.
Clocks = dict[tuple[str, str], int]

_SILENCE: tuple[tuple[Verdict, ...], Clocks] = ((), {})


def hold(found: Sequence[Verdict], clocks: Clocks, time: JudgingTime) -> tuple[tuple[Verdict, ...], Clocks]:
    """Return the verdicts that have reached their minimum duration, and the start times of all that have one."""
    if not any(each.lasting_ms for each in found):
        return tuple(found), {}
    said, running = [], Clocks()
    for each in found:
        if each.lasting_ms:
            key = (each.rule, subject_key(each))
            running[key] = clocks.get(key, time.now_ms)
            if not time.lasted(running[key], each.lasting_ms):
                continue
            said.append(replace(each, started_at_ms=running[key]))
        else:
            said.append(each)
    return tuple(said), running


class Answers:
    """The answers of all conditions of one group; initially empty."""

    __slots__ = ("_answers", "_clocks", "_due", "memory")

    def __init__(self) -> None:
        self.memory = Memory()
        #: By the rule's index in `CONDITIONS`; rules without a verdict are left out.
        self._answers: dict[int, tuple[Verdict, ...]] = {}
        self._clocks: dict[int, Clocks] = {}
        #: Deadlines (epoch ms) by the same index; the indexes of memory updates count downwards from -1.
        self._due: dict[int, int] = {}

    def due_ms(self) -> int | None:
        """Return the earliest time (epoch ms) at which an answer may change by time alone, or None."""
        return min(self._due.values(), default=None)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the verdicts of all rules, in the order of `CONDITIONS`."""
        for place in sorted(self._answers):
            yield from self._answers[place]

    def rests_on(self) -> int:
        """Return the inputs of the rules whose verdicts notify: such findings should end without delay."""
        found = NOTHING
        for place, answer in self._answers.items():
            if any((each.severity or diagnosis(each.rule).severity) != Severity.INFO for each in answer):
                found |= CONDITIONS[place].looks_at
        return found

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms` (epoch ms): no verdict began later."""
        self._clocks = {
            place: Clocks({key: min(at_ms, now_ms) for key, at_ms in clocks.items()})
            for place, clocks in self._clocks.items()
        }

    def ask(self, view: GroupView, changed: int, quarantine: Quarantine) -> bool:
        """Evaluate the rules whose inputs changed or that are due; return whether any answer changed."""
        due = {place for place, at_ms in self._due.items() if at_ms <= view.now_ms}
        for place in sorted({*_memory_updates(changed), *(each for each in due if each < 0)}, reverse=True):
            before = self.memory
            self._update_memory(place, view, quarantine)
            if self.memory != before:
                changed |= MEMORY_UPDATES[-1 - place].looks_at
        view = replace(view, memory=self.memory)
        rules = sorted({*_rules(changed), *(each for each in due if each >= 0)})
        return sum(self._ask_one(place, view, quarantine) for place in rules) > 0

    def _update_memory(self, place: int, view: GroupView, quarantine: Quarantine) -> None:
        each, view = MEMORY_UPDATES[-1 - place], replace(view, memory=self.memory)
        group, now_ms = view.history.group, view.now_ms
        self.memory = quarantine.ask(each.name, group, now_ms, lambda: each.update(view), self.memory)
        self._note(place, view.time.take_due())

    def _ask_one(self, place: int, view: GroupView, quarantine: Quarantine) -> bool:
        answer, clocks = self._answer(place, view, quarantine)
        self._note(place, view.time.take_due())
        if clocks or place in self._clocks:
            self._clocks[place] = clocks
        before = self._answers.get(place, ())
        if answer:
            self._answers[place] = answer
        elif before:
            del self._answers[place]
        return answer != before

    def _answer(self, place: int, view: GroupView, quarantine: Quarantine) -> tuple[tuple[Verdict, ...], Clocks]:
        condition, group = CONDITIONS[place], view.history.group
        # Called for every rule and group, so it avoids a closure.
        if quarantine.is_quarantined(condition.name, group, view.now_ms):
            return _SILENCE
        try:
            found = tuple(condition(view))
            return hold(found, self._clocks.get(place, {}), view.time) if found else _SILENCE
        except Exception as error:
            quarantine.add(condition.name, group, view.now_ms, error)
            return _SILENCE

    def _note(self, place: int, due_ms: int | None) -> None:
        if due_ms is None:
            self._due.pop(place, None)
        else:
            self._due[place] = due_ms


@cache
def _rules(changed: int) -> tuple[int, ...]:
    """Return the indexes of the rules that look at any of these inputs; every rule looks at the group itself."""
    return tuple(place for place, each in enumerate(CONDITIONS) if (each.looks_at | GROUP) & changed)


@cache
def _memory_updates(changed: int) -> tuple[int, ...]:
    return tuple(-1 - place for place, each in enumerate(MEMORY_UPDATES) if (each.looks_at | GROUP) & changed)
