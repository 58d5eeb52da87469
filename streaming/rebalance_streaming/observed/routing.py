"""Which group a client's row belongs to: by what it says, else by who is in which group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rebalance_contract import ClientActivity, Member, decode, encode
from rebalance_streaming.wire.metrics.identity import group_candidates

#: Rows kept whose group is not known, and their length as text: strangers may send as many as they like.
_KEPT_ROWS, _KEPT_BYTES = 10_000, 16_000_000
#: Ids of the past are forgotten: every rejoin makes a new member id, and a client id may be that of a pod.
_KEPT_MEMBERS, _KEPT_CLIENTS = 500_000, 500_000

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Who:
    """What a row says of its client by which the group can be found."""

    group_id: str | None
    member_id: str | None
    client_id: str | None

    @property
    def names(self) -> Iterator[_Name]:
        """What may turn up in a group later, so that this row is looked at again."""
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
    """Who is in which group, and rows whose group is not known yet.

    A group is known once the log or a probe contains it: what a client says of its group only proposes one. `dropped`
    counts rows that were given up, `kept_bytes` is the length of those kept.
    """

    by_member: dict[str, str] = field(default_factory=dict)
    by_client: dict[str, set[str]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    dropped: int = 0
    kept_bytes: int = 0
    #: Rows as text, by their number: objects would take ten times as much.
    _waiting: dict[int, tuple[_Who, bytes]] = field(default_factory=dict)
    _by_name: dict[_Name, set[int]] = field(default_factory=dict)
    _number: int = 0

    def note_members(self, group: str, members: Iterable[Member]) -> bool:
        """Learn who is in a group; returns whether rows may turn out to be of it."""
        new = self.note_group(group)
        for member in members:
            new = new or self.by_member.get(member.member_id) != group
            # The last to be seen stands last, so that those of long ago are forgotten first.
            self.by_member.pop(member.member_id, None)
            self.by_member[member.member_id] = group
            groups = self.by_client.pop(member.client_id, set())
            self.by_client[member.client_id] = groups
            groups.add(group)
            if len(groups) > 2 * len(self.groups):
                # Groups that were forgotten: an id may be the default of a library, and groups named by the run.
                groups &= self.groups
        for known, most in ((self.by_member, _KEPT_MEMBERS), (self.by_client, _KEPT_CLIENTS)):
            while len(known) > most:
                del known[next(iter(known))]
        return new

    def note_group(self, group: str) -> bool:
        """Learn that a group is there; returns whether that is new."""
        new = group not in self.groups
        self.groups.add(group)
        return new

    def route(self, row: ClientActivity) -> Iterator[tuple[str, ClientActivity]]:
        """Yield the row with its group; nothing while that is not known, and then it is kept."""
        who = _Who(row.group_id or None, row.member_id, row.client_id)
        group = self._group_of(who)
        if group is None:
            self._keep(who, row)
        else:
            yield group, row if row.group_id == group else replace(row, group_id=group)

    def waiting(self) -> int:
        """Return how many rows are kept."""
        return len(self._waiting)

    def waiting_for(self, group: str, members: Iterable[Member] = ()) -> list[ClientActivity]:
        """Return kept rows that turn out to be of a group, now that it has these members; they are kept no longer."""
        names = {("group", group)}
        for member in members if self._waiting else ():
            names |= {("member", member.member_id), ("client", member.client_id)}
        numbers = sorted({number for name in names for number in self._by_name.get(name, ())})
        found = [number for number in numbers if self._group_of(self._waiting[number][0]) == group]
        return [decode(self._forget(number), ClientActivity) for number in found]

    def _keep(self, who: _Who, row: ClientActivity) -> None:
        names = list(who.names)
        if not names:
            # Nothing that turns up later can show whose it is.
            self.dropped += 1
            return
        # A copy has the length of the text, what an encoder returns that of its buffer.
        text = bytes(memoryview(encode(row)))
        self._number += 1
        self._waiting[self._number] = (who, text)
        self.kept_bytes += len(text)
        for name in names:
            self._by_name.setdefault(name, set()).add(self._number)
        while len(self._waiting) > _KEPT_ROWS or self.kept_bytes > _KEPT_BYTES:
            self.dropped += 1
            self._forget(next(iter(self._waiting)))

    def _forget(self, number: int) -> bytes:
        who, text = self._waiting.pop(number)
        self.kept_bytes -= len(text)
        for name in who.names:
            numbers = self._by_name[name]
            numbers.discard(number)
            if not numbers:
                del self._by_name[name]
        return text

    def _group_of(self, who: _Who) -> str | None:
        if who.group_id is not None:
            return who.group_id if who.group_id in self.groups else None
        if (of_member := self.by_member.get(who.member_id or "")) in self.groups:
            return of_member
        if who.client_id is None:
            return None
        # Of groups that were forgotten the names may stand there still.
        groups = self.by_client.get(who.client_id, set()) & self.groups
        if len(groups) == 1:
            return next(iter(groups))
        named = group_candidates(who.client_id)
        return named if named in self.groups else None
