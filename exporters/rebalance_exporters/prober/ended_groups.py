"""Groups that no list has any more: which to ask about, and whose end to publish. Pure: `now` is in seconds.

A coordinator's confirmation can be missed, and so can a probe. A group's end is therefore asked for until it is
confirmed, and published several times; as long as the stream shows the group, also after a restart of the prober.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rebalance_contract import GroupState
from rebalance_exporters.prober.answers import Described, Listed
from rebalance_exporters.prober.repeats import RepeatSchedule

#: How often the end of a group is published that the stream does not show, or no longer.
TOLD_TIMES = 3


@dataclass(slots=True)
class _Ended:
    """A group that no list has; `type` is the one it had, null if not known.

    `told` counts the publications of its end. `is_answered`: its end is confirmed, or the client may not describe it.
    """

    type: str | None
    told: int = 0
    is_answered: bool = False
    is_denied: bool = False


class EndedGroups:
    """All groups that have ended, or may have."""

    def __init__(self) -> None:
        self._ended: dict[str, _Ended] = {}
        self._missing: frozenset[str] = frozenset()
        self._repeats = RepeatSchedule()

    def note_list(self, gone: Iterable[Listed], present: Collection[str], shown: Mapping[str, str]) -> None:
        """Process a list of all groups: `gone` are missing since this list, `present` are all that exist.

        `shown` has the types of the groups that the stream showed before the list was requested. Those that two lists
        in a row do not have are taken as ended, too: a new group may be in the list of neither of two coordinators.
        """
        missing = frozenset(shown.keys() - set(present))
        found = {listed.group: listed.type for listed in gone}
        found |= {group: shown[group] for group in missing & self._missing if group not in found}
        self._missing = missing
        for group, kind in found.items():
            self._ended.setdefault(group, _Ended(kind))
        over = {group for group, ended in self._ended.items() if group in present or self._is_over(group, ended)}
        for group in over:
            del self._ended[group]
        self._repeats.forget(self._ended)

    def _is_over(self, group: str, ended: _Ended) -> bool:
        return group not in self._missing and (ended.told >= TOLD_TIMES or ended.is_denied)

    def choose_asked(self, now: float) -> dict[str, str | None]:
        """Return the groups to ask coordinators about, with the type that each had: without an answer at every list."""
        return {
            group: ended.type
            for group, ended in self._ended.items()
            if not ended.is_answered or self._repeats.take_turn(group, now)
        }

    def note_described(self, described: Iterable[Described]) -> list[str]:
        """Process the answers of coordinators; return the groups whose end is to be published."""
        told: list[str] = []
        for each in described:
            ended = self._ended.get(each.group)
            if ended is None:
                continue
            is_dead, ended.is_denied = each.state == GroupState.DEAD, bool(each.denied)
            ended.is_answered = is_dead or ended.is_denied
            if is_dead:
                ended.told += 1
                told.append(each.group)
        return told
