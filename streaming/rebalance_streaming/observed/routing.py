"""Which group a client's row belongs to: by the client's own statement, else by the members of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rebalance_contract import ClientActivity, Member, decode, encode
from rebalance_streaming.wire.metrics.identity import group_candidates

#: Rows kept while their group is not known, and their total length as text: anybody may send any number of them.
_KEPT_ROWS, _KEPT_BYTES = 10_000, 16_000_000
#: Old ids are dropped: every rejoin makes a new member id, and a client id may be that of a pod.
_KEPT_MEMBERS, _KEPT_CLIENTS = 500_000, 500_000

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _ClientIds:
    """The names in a row by which its client's group can be found."""

    group_id: str | None
    member_id: str | None
    client_id: str | None

    @property
    def names(self) -> Iterator[_Name]:
        """Names that may appear in a group later; if one does, the row is looked at again."""
        if self.group_id is not None:
            yield "group", self.group_id
            return
        if self.member_id is not None:
            yield "member", self.member_id
        if self.client_id is not None:
            yield "client", self.client_id
            named = group_candidates(self.client_id)
            if named is not None:
                yield "group", named


@dataclass(slots=True)
class Routing:
    """Members of groups, and rows whose group is not known yet.

    A group is known once the log or a probe contains it: a group that only a client names is a proposal. `dropped`
    counts rows that were given up, `kept_bytes` is the total length of those kept.
    """

    by_member: dict[str, str] = field(default_factory=dict)
    by_client: dict[str, set[str]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    dropped: int = 0
    kept_bytes: int = 0
    #: Rows as text, by their number: objects would take ten times the memory.
    _waiting: dict[int, tuple[_ClientIds, bytes]] = field(default_factory=dict)
    _by_name: dict[_Name, set[int]] = field(default_factory=dict)
    _number: int = 0

    def note_members(self, group: str, members: Iterable[Member]) -> bool:
        """Note the members of a group; return whether kept rows may turn out to belong to it."""
        new = self.note_group(group)
        for member in members:
            new = new or self.by_member.get(member.member_id) != group
            # The most recently seen is moved to the end, so that the oldest are dropped first.
            self.by_member.pop(member.member_id, None)
            self.by_member[member.member_id] = group
            groups = self.by_client.pop(member.client_id, set())
            self.by_client[member.client_id] = groups
            groups.add(group)
            if len(groups) > 2 * len(self.groups):
                # Drop forgotten groups: an id may be a library's default, and group names may differ in each run.
                groups &= self.groups
        for known, most in ((self.by_member, _KEPT_MEMBERS), (self.by_client, _KEPT_CLIENTS)):
            while len(known) > most:
                del known[next(iter(known))]
        return new

    def note_group(self, group: str) -> bool:
        """Note that a group exists; return whether that is new."""
        new = group not in self.groups
        self.groups.add(group)
        return new

    def route(self, row: ClientActivity) -> Iterator[tuple[str, ClientActivity]]:
        """Yield the row with its group; if that is not known yet, keep the row and yield nothing."""
        ids = _ClientIds(row.group_id or None, row.member_id, row.client_id)
        group = self._group_of(ids)
        if group is None:
            self._keep(ids, row)
        else:
            yield group, row if row.group_id == group else replace(row, group_id=group)

    def waiting(self) -> int:
        """Return the number of rows kept."""
        return len(self._waiting)

    def waiting_for(self, group: str, members: Iterable[Member] = ()) -> list[ClientActivity]:
        """Return and remove the kept rows that turn out to belong to a group, now that it has these members."""
        names = {("group", group)}
        for member in members if self._waiting else ():
            names |= {("member", member.member_id), ("client", member.client_id)}
        numbers = sorted({number for name in names for number in self._by_name.get(name, ())})
        found = [number for number in numbers if self._group_of(self._waiting[number][0]) == group]
        return [decode(self._forget(number), ClientActivity) for number in found]

    def _keep(self, ids: _ClientIds, row: ClientActivity) -> None:
        names = list(ids.names)
        if not names:
            # No later information can show its group.
            self.dropped += 1
            return
        # A copy has the length of the text; an encoder's result has that of its buffer.
        text = bytes(memoryview(encode(row)))
        self._number += 1
        self._waiting[self._number] = (ids, text)
        self.kept_bytes += len(text)
        for name in names:
            self._by_name.setdefault(name, set()).add(self._number)
        while len(self._waiting) > _KEPT_ROWS or self.kept_bytes > _KEPT_BYTES:
            self.dropped += 1
            self._forget(next(iter(self._waiting)))

    def _forget(self, number: int) -> bytes:
        ids, text = self._waiting.pop(number)
        self.kept_bytes -= len(text)
        for name in ids.names:
            numbers = self._by_name[name]
            numbers.discard(number)
            if not numbers:
                del self._by_name[name]
        return text

    def _group_of(self, ids: _ClientIds) -> str | None:
        if ids.group_id is not None:
            return ids.group_id if ids.group_id in self.groups else None
        if (of_member := self.by_member.get(ids.member_id or "")) in self.groups:
            return of_member
        if ids.client_id is None:
            return None
        # The names of forgotten groups may still be there.
        groups = self.by_client.get(ids.client_id, set()) & self.groups
        if len(groups) == 1:
            return next(iter(groups))
        named = group_candidates(ids.client_id)
        return named if named in self.groups else None
