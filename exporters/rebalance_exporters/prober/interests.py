"""Which topics each group subscribes or commits to: what the stream's topics tell. Pure; the reader is elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rebalance_streaming.groups.events import CommitSummary, GroupSnapshot, decode

#: A topic that a group committed to counts as the group's for so long, in milliseconds.
COMMITS_COUNT_MS = 24 * 3_600_000
_DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Interest:
    """What one group is about. `topics` may hold a topic id where no record told the name.

    `type` is the stream's, null while only commits are known. `has_members` is true if its last records had any.
    """

    type: str | None = None
    topics: frozenset[str] = frozenset()
    has_members: bool = False

    @property
    def wants_ids(self) -> bool:
        """Whether its records name topics by id."""
        return self.type in ("consumer", "share", "streams")


@dataclass(slots=True)
class _Known:
    type: str | None = None
    subscribed: frozenset[str] = frozenset()
    has_members: bool = False
    committed: dict[str, int] = field(default_factory=dict)


class Interests:
    """The interests of all groups of one cluster; safe to fill and read from different threads."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._groups: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def apply_group(self, key: bytes | None, value: bytes | None) -> None:
        """Take in a row of the groups topic. Raises ContractError when it is not one."""
        if value is None:
            cluster, _, group = (key or b"").decode("utf-8", "replace").partition("/")
            if cluster == self._cluster:
                self._drop(group)
            return
        snapshot = decode(value, GroupSnapshot)
        if snapshot.cluster != self._cluster:
            return
        if snapshot.state == _DELETED:
            self._drop(snapshot.group)
            return
        with self._lock:
            known = self._groups.setdefault(snapshot.group, _Known())
            known.type = snapshot.type
            known.subscribed = topics_of(snapshot)
            known.has_members = bool(snapshot.members)

    def _drop(self, group: str) -> None:
        with self._lock:
            self._groups.pop(group, None)

    def apply_commits(self, value: bytes | None) -> None:
        """Take in a row of the commits topic. Raises ContractError when it is not one."""
        if value is None:
            return
        summary = decode(value, CommitSummary)
        if summary.cluster != self._cluster:
            return
        with self._lock:
            committed = self._groups.setdefault(summary.group, _Known()).committed
            for topic in summary.topics:
                committed[topic] = max(committed.get(topic, 0), summary.pane_start_ms)

    def note_committed(self, group: str, topics: Iterable[str], now_ms: int) -> None:
        """Take in which topics a coordinator holds offsets of a group for, now."""
        with self._lock:
            if group in self._groups:
                self._groups[group].committed |= dict.fromkeys(topics, now_ms)

    def names(self) -> set[str]:
        """Return the groups that are known."""
        with self._lock:
            return set(self._groups)

    def now(self, now_ms: int) -> dict[str, Interest]:
        """Return the groups that use any topic; commits that are too old are forgotten."""
        with self._lock:
            for name, known in list(self._groups.items()):
                known.committed = {topic: at for topic, at in known.committed.items() if now_ms - at < COMMITS_COUNT_MS}
                if known.type is None and not known.committed:
                    del self._groups[name]
            return {
                name: Interest(known.type, known.subscribed | known.committed.keys(), known.has_members)
                for name, known in self._groups.items()
            }


def topics_of(snapshot: GroupSnapshot) -> frozenset[str]:
    """Return the topics a group's members subscribe to or are assigned; a streams group's assignment names none."""
    topics = {topic for member in snapshot.members for topic in member.topics}
    if snapshot.type != "streams":
        topics |= {topic for member in snapshot.members for topic in member.partitions or ()}
    return frozenset(topics)


def all_topics(interests: Mapping[str, Interest]) -> frozenset[str]:
    """Return the topics of any group."""
    return frozenset(topic for interest in interests.values() for topic in interest.topics)
