"""Tracks which topics each group subscribes or commits to, according to the stream's topics. Pure: it reads nothing.

Rows are decoded only as far as needed here; other fields are skipped.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Raw

from rebalance_contract import COORDINATED_TYPES, GroupState, GroupType, decode, split_key

#: A topic that a group committed to counts as the group's for this long after the commit was read, in milliseconds; a
#: topic in the group's lag row counts as long as the row exists.
COMMITS_COUNT_MS = 24 * 3_600_000
#: Topic names that brokers accept; ids have the same form. Other names could spoil a request about many topics.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LONGEST_GROUP = 32_767
#: Types of groups that end for the stream when a probe says so, if it does not read the log.
_ENDED_BY_PROBES = (GroupType.CLASSIC, *COORDINATED_TYPES)


@dataclass(frozen=True, slots=True)
class _MemberRow:
    topics: tuple[str, ...] = ()
    partitions: dict[str, Raw] | None = None


@dataclass(frozen=True, slots=True)
class _GroupRow:
    """The fields needed from a `GroupSnapshot`."""

    cluster: str
    group: str
    type: str | None = None
    state: str | None = None
    members: tuple[_MemberRow, ...] = ()
    log_offset: int | None = None


@dataclass(frozen=True, slots=True)
class _TopicsRow:
    """The fields needed from a `GroupLag` or a `CommitActivity`."""

    cluster: str
    group: str
    topics: dict[str, Raw]
    last_log_offset: int | None = None
    log_era: int = 0


@dataclass(frozen=True, slots=True)
class _KindRow:
    """The kind of a row of the activity topic."""

    kind: str


@dataclass(frozen=True, slots=True)
class Interest:
    """The topics of one group. `topics` may contain a topic id if no record has the name.

    `type` is the stream's, null while only commits are known. `has_members` is true if its last record had any.
    """

    type: str | None = None
    topics: frozenset[str] = frozenset()
    has_members: bool = False

    @property
    def wants_ids(self) -> bool:
        """Whether its records name topics by id."""
        return self.type in COORDINATED_TYPES


@dataclass(slots=True)
class _GroupTopics:
    """The topics of one group by origin: members, lag row, commits, and offsets held by its coordinator.

    `committed` has the time of reading in milliseconds. Log offsets are those of its log partition, null if no row has
    one.
    """

    type: str | None = None
    subscribed: frozenset[str] = frozenset()
    has_members: bool = False
    lagging: frozenset[str] = frozenset()
    committed: dict[str, int] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    committed_until: int | None = None
    deleted_at: int | None = None

    @property
    def topics(self) -> frozenset[str]:
        return self.subscribed | self.lagging | self.committed.keys() | self.held

    def note_commits(self, row: _TopicsRow) -> bool:
        """Note up to which log offset commits are known; false if the group was deleted since.

        Offsets in a log partition that was recreated cannot be compared; then nothing is noted.
        """
        last = row.last_log_offset
        if last is None or row.log_era:
            return True
        if self.deleted_at is not None and last < self.deleted_at:
            return False
        self.committed_until = last if self.committed_until is None else max(last, self.committed_until)
        return True


class Interests:
    """The topics of all groups of one cluster; safe to fill and read from different threads.

    `is_fresh` is set while a group has a new topic that `take_fresh` has not reported yet.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._groups: dict[str, _GroupTopics] = {}
        self._fresh: set[str] = set()
        self._lock = threading.Lock()
        self.is_fresh = threading.Event()

    def apply_group(self, key: bytes | None, value: bytes | None) -> None:
        """Process a row of the groups topic. Raises ContractError if it is not one."""
        if value is None:
            self._drop(self._group_of(key))
            return
        row = decode(value, _GroupRow)
        if not self._is_ours(row.cluster, row.group):
            return
        with self._lock:
            if row.state == GroupState.DELETED:
                self._delete(row)
                return
            known = self._groups.setdefault(row.group, _GroupTopics())
            before = known.topics
            known.type, known.has_members = row.type, bool(row.members)
            known.subscribed = _subscribed(row)
            self._note_fresh(row.group, before, known)

    def _delete(self, row: _GroupRow) -> None:
        """Forget a group, except what it committed after it was deleted: then it still exists, without members."""
        known = self._groups.get(row.group)
        if known is None or row.log_offset is None or (known.committed_until or -1) < row.log_offset:
            self._groups[row.group] = _GroupTopics(deleted_at=row.log_offset)
        else:
            known.type, known.subscribed, known.has_members = None, frozenset(), False

    def apply_lag(self, key: bytes | None, value: bytes | None) -> None:
        """Process a row of the lag topic: all topics of a group that ever committed. Raises ContractError."""
        if value is None:
            self._forget_lag(self._group_of(key))
            return
        row = decode(value, _TopicsRow)
        if not self._is_ours(row.cluster, row.group):
            return
        with self._lock:
            known = self._groups.setdefault(row.group, _GroupTopics())
            if not known.note_commits(row):
                return
            before = known.topics
            known.lagging = _legal(row.topics)
            self._note_fresh(row.group, before, known)

    def apply_activity(self, value: bytes | None, now_ms: int) -> None:
        """Process a row of the activity topic; only commits count. Raises ContractError."""
        if value is None or decode(value, _KindRow).kind != "commits":
            return
        row = decode(value, _TopicsRow)
        if not self._is_ours(row.cluster, row.group):
            return
        with self._lock:
            known = self._groups.setdefault(row.group, _GroupTopics())
            if known.note_commits(row):
                before = known.topics
                known.committed |= dict.fromkeys(_legal(row.topics), now_ms)
                self._note_fresh(row.group, before, known)

    def note_held(self, group: str, topics: Iterable[str]) -> None:
        """Note the topics for which a coordinator has offsets of a group."""
        with self._lock:
            known = self._groups.get(group)
            if known is not None:
                before = known.topics
                known.held = _legal(topics)
                self._note_fresh(group, before, known)

    def _is_ours(self, cluster: str, group: str) -> bool:
        return cluster == self._cluster and len(group) <= _LONGEST_GROUP

    def _group_of(self, key: bytes | None) -> str | None:
        cluster, group = split_key(key)
        return group if cluster == self._cluster else None

    def _drop(self, group: str | None) -> None:
        with self._lock:
            if group is not None:
                self._groups.pop(group, None)

    def _forget_lag(self, group: str | None) -> None:
        with self._lock:
            if group in self._groups:
                self._groups[group].lagging = frozenset()

    def _note_fresh(self, group: str, before: frozenset[str], known: _GroupTopics) -> None:
        if not known.topics <= before:
            self._fresh.add(group)
            self.is_fresh.set()

    def take_fresh(self) -> set[str]:
        """Return the groups that have got a new topic since the last call."""
        with self._lock:
            fresh, self._fresh = self._fresh, set()
            self.is_fresh.clear()
            return fresh

    def names(self) -> set[str]:
        """Return the known groups, without deleted ones."""
        with self._lock:
            return {name for name, known in self._groups.items() if known.type is not None or known.topics}

    def shown(self) -> dict[str, str]:
        """Return the groups that the stream's last rows show as existing, with their types.

        Only groups whose end the stream takes from a probe: it ends others by the log.
        """
        with self._lock:
            return {name: known.type for name, known in self._groups.items() if known.type in _ENDED_BY_PROBES}

    def names_without_commits(self) -> set[str]:
        """Return the groups for which neither a commit nor a lag row named a topic."""
        with self._lock:
            return {
                name
                for name, known in self._groups.items()
                if known.type is not None and not known.lagging and not known.committed
            }

    def now(self, now_ms: int) -> dict[str, Interest]:
        """Return the groups that use any topic; forget commits that are too old."""
        with self._lock:
            for name, known in list(self._groups.items()):
                if known.committed:
                    _forget_old(known, now_ms)
                if known.type is None and known.deleted_at is None and not known.topics:
                    del self._groups[name]
            return {
                name: Interest(known.type, known.topics, known.has_members)
                for name, known in self._groups.items()
                if known.type is not None or known.topics
            }


def _forget_old(known: _GroupTopics, now_ms: int) -> None:
    if any(now_ms - at >= COMMITS_COUNT_MS for at in known.committed.values()):
        known.committed = {topic: at for topic, at in known.committed.items() if now_ms - at < COMMITS_COUNT_MS}


def _legal(topics: Iterable[str]) -> frozenset[str]:
    return frozenset(topic for topic in topics if _TOPIC_NAME.fullmatch(topic))


def _subscribed(row: _GroupRow) -> frozenset[str]:
    """Return the topics that members subscribe to or are assigned; a streams group's assignment names none."""
    topics = {topic for member in row.members for topic in member.topics}
    if row.type != GroupType.STREAMS:
        topics |= {topic for member in row.members for topic in member.partitions or ()}
    return _legal(topics)


def all_topics(interests: Mapping[str, Interest]) -> frozenset[str]:
    """Return the topics of any group."""
    return frozenset(topic for interest in interests.values() for topic in interest.topics)
