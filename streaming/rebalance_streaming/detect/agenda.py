"""Schedules when each group, and each of its rebalances, is judged again: after a change, or at a deadline.

Receives which inputs of a group changed and when its findings may change by time alone; returns the groups that are
due. Groups are only names here; their data and findings are kept elsewhere.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from rebalance_streaming.observed.inputs import BULK, EVERYTHING, NOTHING

#: A group with new bulk rows is judged this long after its last judgement; the second applies if a rule that notifies
#: looks at these rows.
_BULK_MS, _BULK_STANDING_MS = 30_000, 5_000
#: Interval between judgements of a group in its join phase, so that the reported waiting time stays current.
WAITING_MS = 5_000
#: Of groups that are due, those with rebalances to judge come first, unless others have waited this much longer.
_HEAD_START_MS = 60_000
#: Interval between evaluations of all rules, in case a rule declares too few inputs.
_SWEEP_MS = 600_000


@dataclass(slots=True)
class Timetable:
    """When one group is judged again. Times in epoch milliseconds.

    `judged_ms` is the last judgement, `changed` are the inputs that changed since then, `rests_on` are the inputs of
    the rules whose verdicts notify. `planned_ms` is the group's time on the agenda (null: not planned), `put_off_ms`
    when it was first put off because too many groups were due (null: it was not). At `sweep_ms` all rules are
    evaluated, regardless of their declared inputs. `restate_ms` is when the stated findings may change by time alone
    (null: never). `waiting` maps rebalances to be judged to their due times, `explain_ms` rebalances to the time at
    which they are explained again: their cause may change by time alone, or by what arrived since the last time.
    """

    group: str
    judged_ms: int
    sweep_ms: int
    changed: int = EVERYTHING
    rests_on: int = NOTHING
    planned_ms: int | None = None
    put_off_ms: int | None = None
    restate_ms: int | None = None
    waiting: dict[str, int] = field(default_factory=dict)
    explain_ms: dict[str, int] = field(default_factory=dict)

    def take_changed(self, now_ms: int) -> int:
        """Return the inputs that changed since the last judgement and reset them; all inputs if a sweep is due."""
        changed, self.changed, self.judged_ms, self.put_off_ms = self.changed, NOTHING, now_ms, None
        if now_ms < self.sweep_ms:
            return changed
        self.sweep_ms += ((now_ms - self.sweep_ms) // _SWEEP_MS + 1) * _SWEEP_MS
        return EVERYTHING

    def turn(self, now_ms: int) -> int:
        """Return the group's place among those that are due: the lower, the sooner it is judged."""
        since_ms = now_ms if self.put_off_ms is None else self.put_off_ms
        return since_ms - _HEAD_START_MS if self.waiting else since_ms

    def take_rebalances(self, now_ms: int) -> set[str]:
        """Return the rebalances to explain now, for the first time or again; remove them from `waiting`."""
        ready = {name for name, due_ms in self.waiting.items() if due_ms <= now_ms}
        for name in ready:
            del self.waiting[name]
        return ready | {name for name, at_ms in self.explain_ms.items() if at_ms <= now_ms}

    def explain_again(self, rebalance_id: str, at_ms: int | None) -> None:
        """Note when the cause of a rebalance may change by time alone; null: never."""
        self.explain_ms.pop(rebalance_id, None)
        if at_ms is not None:
            self.explain_ms[rebalance_id] = at_ms

    def explain_by(self, rebalance_id: str, at_ms: int) -> None:
        """Have a rebalance explained again at a time (epoch ms), unless that is planned earlier."""
        self.explain_ms[rebalance_id] = min(at_ms, self.explain_ms.get(rebalance_id, at_ms))

    def restate_by(self, at_ms: int) -> None:
        """Have the findings stated again at a time (epoch ms), unless that is planned earlier."""
        self.restate_ms = at_ms if self.restate_ms is None else min(at_ms, self.restate_ms)

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms` (epoch ms): everything is evaluated again, and soon."""
        soon_ms = now_ms + _BULK_MS
        self.changed, self.judged_ms = EVERYTHING, min(self.judged_ms, now_ms)
        self.sweep_ms = min(self.sweep_ms, now_ms + _SWEEP_MS)
        self.put_off_ms = None if self.put_off_ms is None else min(self.put_off_ms, now_ms)
        self.waiting = {name: min(due_ms, soon_ms) for name, due_ms in self.waiting.items()}
        self.explain_ms = {name: min(at_ms, soon_ms) for name, at_ms in self.explain_ms.items()}

    def keep(self, rebalance_ids: Collection[str]) -> None:
        """Drop the `explain_ms` of all other rebalances."""
        self.explain_ms = {name: at_ms for name, at_ms in self.explain_ms.items() if name in rebalance_ids}

    def next_ms(self, now_ms: int, answers_ms: int | None, *, is_joining: bool) -> int:
        """Return when the group is to be judged next if no input changes.

        `answers_ms`: when a rule's answer may change by time alone (null: never). `is_joining`: the group is in its
        join phase.
        """
        times = [self.sweep_ms, *self.waiting.values()]
        times += [max(at_ms, now_ms + 1) for at_ms in (answers_ms, self.restate_ms) if at_ms is not None]
        if self.changed & BULK:
            times.append(now_ms + _BULK_MS)
        times += [at_ms for at_ms in self.explain_ms.values() if at_ms > now_ms]
        if is_joining:
            times.append(now_ms + WAITING_MS)
        return min(times)


class Agenda:
    """The timetables of all groups, and the queue of groups to judge."""

    def __init__(self) -> None:
        self._timetables: dict[str, Timetable] = {}
        #: Groups to judge at the next turn.
        self._touched: set[str] = set()
        #: Heap of (time, group); entries whose time is not the group's `planned_ms` are stale.
        self._entries: list[tuple[int, str]] = []

    def open(self, group: str, now_ms: int) -> Timetable:
        """Return the timetable of a new group: it is judged soon, and a hash of its name spreads its sweep time."""
        sweep_ms = now_ms + _spread(group, _SWEEP_MS)
        timetable = self._timetables[group] = Timetable(group, now_ms, sweep_ms)
        self.plan(timetable, min(sweep_ms, now_ms + _BULK_MS))
        return timetable

    def forget(self, group: str) -> None:
        """Drop a group that is gone."""
        self._touched.discard(group)
        self._timetables.pop(group, None)

    def touch(self, timetable: Timetable, changed: int) -> None:
        """Note which inputs of a group changed, if any: it is judged at once, or soon if only bulk inputs changed."""
        if not changed:
            return
        timetable.changed |= changed
        if changed & ~BULK:
            self._touched.add(timetable.group)
        else:
            wait_ms = _BULK_STANDING_MS if timetable.rests_on & changed else _BULK_MS
            self.plan(timetable, timetable.judged_ms + wait_ms)

    def plan(self, timetable: Timetable, at_ms: int) -> None:
        """Have a group judged at a time, unless it is planned for an earlier one."""
        if timetable.planned_ms is None or at_ms < timetable.planned_ms:
            timetable.planned_ms = at_ms
            heapq.heappush(self._entries, (at_ms, timetable.group))

    def plan_rebalance(self, timetable: Timetable, rebalance_id: str, due_ms: int) -> None:
        """Have a rebalance judged at a time, unless it is waiting already."""
        if rebalance_id not in timetable.waiting:
            timetable.waiting[rebalance_id] = due_ms
            self.plan(timetable, due_ms)

    def plan_groups(self, groups: Iterable[str], changed: int, at_ms: int) -> None:
        """Have the known ones of some groups judged at a time; `changed` are their inputs that changed."""
        for group in groups:
            timetable = self._timetables.get(group)
            if timetable is not None:
                timetable.changed |= changed
                self.plan(timetable, at_ms)

    def restate(self, groups: Iterable[str], now_ms: int) -> None:
        """Have the findings of the known ones of some groups stated again at the next turn."""
        for group in groups:
            timetable = self._timetables.get(group)
            if timetable is not None:
                timetable.restate_by(now_ms)
                self._touched.add(group)

    def put_off(self, groups: Iterable[str], now_ms: int) -> None:
        """Have groups that are due judged at the next turn instead; each keeps the time it was first put off."""
        for group in groups:
            self._touched.add(group)
            timetable = self._timetables[group]
            if timetable.put_off_ms is None:
                timetable.put_off_ms = now_ms

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms` (epoch ms): each group is judged within half a minute."""
        for timetable in self._timetables.values():
            timetable.turn_back(now_ms)
            self.plan(timetable, now_ms + _spread(timetable.group, _BULK_MS))

    def take_due(self, now_ms: int) -> set[str]:
        """Return the groups that were touched or whose planned time has come; remove them from the queue."""
        due = {group for group in self._touched if group in self._timetables}
        self._touched.clear()
        while self._entries and self._entries[0][0] <= now_ms:
            at_ms, group = heapq.heappop(self._entries)
            timetable = self._timetables.get(group)
            if timetable is not None and timetable.planned_ms == at_ms:
                timetable.planned_ms = None
                due.add(group)
        return due


def _spread(group: str, ms: int) -> int:
    """Return a time of less than `ms` that the group's name determines, to spread groups over that time."""
    return zlib.crc32(group.encode(errors="replace")) % ms
