"""What the prober knows of groups, and which to query next. Pure: times are arguments, in seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from rebalance_contract import GroupState
from rebalance_exporters.prober.answers import Described, GroupList, Listed

#: Interval at which a stable group is described again: a rebalance shorter than the period shows in no list. If the log
#: is not read, members show nowhere else, and every cycle describes all groups it can.
DESCRIBE_AGAIN_SECONDS = 60.0
#: Maximum number of groups described in a cycle; unstable groups come first, the others wait for the next cycle.
MOST_DESCRIBED = 1_000


@dataclass(slots=True)
class _Entry:
    listed: Listed
    described_at: float | None = None
    changed: bool = True
    settled_ms: int | None = None
    #: When its coordinator listed its groups without it, until that is reported; null if not known.
    unlisted_ms: int | None = None
    #: When it was last described as settled, null if never.
    rested_ms: int | None = None


class GroupRegistry:
    """All groups of a cluster."""

    def __init__(self, describe_again_seconds: float = DESCRIBE_AGAIN_SECONDS) -> None:
        self._describe_again_seconds = describe_again_seconds
        self._entries: dict[str, _Entry] = {}
        self._full_ms: int | None = None
        self._full_answered: frozenset[int] = frozenset()
        self._unsure = True
        self._silent: set[int] = set()
        self._listed_ms: int | None = None
        self._answered: frozenset[int] = frozenset()

    @property
    def wants_full_list(self) -> bool:
        """Whether the type or the existence of a group is uncertain."""
        return self._unsure

    def groups(self) -> list[Listed]:
        """Return all known groups."""
        return [entry.listed for entry in self._entries.values()]

    def settled_ms(self, group: str) -> int | None:
        """Return the time of the last list that had an unstable group as settled; null if not known."""
        entry = self._entries.get(group)
        return None if entry is None or not entry.listed.is_unstable else entry.settled_ms

    def take_unlisted_ms(self, group: str) -> int | None:
        """Return, once, when the coordinator of a new group listed its groups without it; null if it never did."""
        entry = self._entries.get(group)
        if entry is None:
            return None
        unlisted_ms, entry.unlisted_ms = entry.unlisted_ms, None
        return unlisted_ms

    def rested_ms(self, group: str) -> int | None:
        """Return when a group was last described as settled, null if it was not."""
        entry = self._entries.get(group)
        return None if entry is None else entry.rested_ms

    def note_rested(self, group: str, at_ms: int) -> None:
        """Note that a group was described as settled."""
        entry = self._entries.get(group)
        if entry is not None:
            entry.rested_ms = at_ms

    def note_all(self, found: GroupList, asked_ms: int = 0) -> list[Listed]:
        """Process a list of all groups; forget and return those whose coordinator answered without them."""
        self._unsure = not found.answered
        self._note_settled(found)
        for listed in found.groups:
            self._note(listed)
        self._note_silence(found.answered)
        present = {listed.group for listed in found.groups}
        gone = [
            entry.listed
            for name, entry in self._entries.items()
            if name not in present and entry.listed.coordinator_id in found.answered
        ]
        for listed in gone:
            del self._entries[listed.group]
        self._listed_ms, self._answered = asked_ms, frozenset(found.answered)
        self._full_ms, self._full_answered = asked_ms, self._answered
        return gone

    def _note_settled(self, found: GroupList) -> None:
        """Remember when groups that have become unstable were last listed as settled: in the list before this one."""
        for listed in found.groups:
            entry = self._entries.get(listed.group)
            if entry is None or not listed.is_unstable or entry.listed.is_unstable:
                continue
            entry.settled_ms = self._listed_ms if listed.coordinator_id in self._answered else None

    def note_unstable(self, found: GroupList, asked_ms: int = 0) -> bool:
        """Process a list of unstable groups; return whether groups that are not classic are missing from it now."""
        self._note_settled(found)
        present = {listed.group for listed in found.groups}
        for listed in found.groups:
            self._note(listed)
        self._note_silence(found.answered)
        settled = [
            entry
            for name, entry in self._entries.items()
            if entry.listed.is_unstable and name not in present and entry.listed.coordinator_id in found.answered
        ]
        for entry in settled:
            entry.changed = True
        self._listed_ms, self._answered = asked_ms, frozenset(found.answered)
        return any(not entry.listed.is_classic for entry in settled)

    def note_newer(self, found: GroupList) -> None:
        """Process a list of groups that are not classic."""
        for listed in found.groups:
            self._note(listed)

    def _note_silence(self, answered: set[int]) -> None:
        """Exclude the groups of coordinators that do not answer, and have them described once these answer again."""
        self._silent = {entry.listed.coordinator_id for entry in self._entries.values()} - answered
        for entry in self._entries.values():
            if entry.listed.coordinator_id in self._silent:
                entry.changed = True

    def _note(self, listed: Listed) -> None:
        entry = self._entries.get(listed.group)
        if entry is None:
            was_listed = listed.coordinator_id not in self._full_answered
            self._entries[listed.group] = _Entry(listed, unlisted_ms=None if was_listed else self._full_ms)
        elif entry.listed != listed:
            entry.listed, entry.changed = listed, True

    def choose_described(self, now: float, describable: Collection[str] = ()) -> list[Listed]:
        """Return the groups to describe: unstable, new or changed ones, then those due again.

        These are classic groups, and those whose type is `describable`.
        """
        urgent, routine = [], []
        for entry in self._entries.values():
            is_of_type = entry.listed.is_classic or entry.listed.type in describable
            if not is_of_type or entry.listed.coordinator_id in self._silent:
                continue
            if entry.changed or entry.listed.is_unstable:
                urgent.append(entry)
            elif entry.described_at is None or now - entry.described_at >= self._describe_again_seconds:
                routine.append(entry)
        # The longest unqueried come first, so that all have a turn if they do not fit into one cycle.
        urgent.sort(key=_last_described)
        routine.sort(key=_last_described)
        return [entry.listed for entry in (urgent + routine)[:MOST_DESCRIBED]]

    def note_described(self, described: Iterable[Described], now: float) -> None:
        """Note the answers of coordinators. The next list shows whether a `Dead` group is gone or changed its type."""
        for each in described:
            entry = self._entries.get(each.group)
            if entry is None:
                continue
            # Without an answer the group stays due. A missing permission does not appear within seconds.
            entry.described_at, entry.changed = now, each.state is None and not each.denied
            if each.state == GroupState.DEAD:
                self._unsure = True
            elif each.state is not None:
                entry.listed = replace(entry.listed, state=each.state)


def _last_described(entry: _Entry) -> float:
    return float("-inf") if entry.described_at is None else entry.described_at
