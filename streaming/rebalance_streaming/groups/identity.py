"""Which members came back under another id: pairs members that left with members that joined.

A dynamic member gets a new id at every rejoin (`<client.id>-<UUID>`, made by the broker), so ids alone do not
distinguish a restart from two different members. Receives the members before and after one generation; ignores time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from rebalance_contract import Member

Identity = Callable[[Member], Hashable | None]

# A short number distinguishes instances (worker-1, worker-2); a long one is a process id, a time or a hash.
_CHANGES_AT_RESTART = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d{4,}")


def client_stem(client_id: str) -> str:
    """Return a client id without UUIDs and long numbers, which restarts change."""
    return _CHANGES_AT_RESTART.sub("", client_id)


def _instance(member: Member) -> Hashable | None:
    return member.group_instance_id


def _client_and_host(member: Member) -> Hashable | None:
    return (member.client_id, member.host) if member.group_instance_id is None else None


def _stem_and_host(member: Member) -> Hashable | None:
    return (client_stem(member.client_id), member.host) if member.group_instance_id is None else None


#: From the strongest to the weakest; each is used only for members that the stronger ones left unpaired.
IDENTITIES: tuple[Identity, ...] = (_instance, _client_and_host, _stem_and_host)


def pair_members(left: Iterable[Member], joined: Iterable[Member]) -> tuple[tuple[str, str], ...]:
    """Return (old member id, new member id) of every member that came back under a new id.

    An identity is used only where it is unique on both sides: two departures with the same client id and host stay
    unpaired instead of being guessed.
    """
    gone, come = list(left), list(joined)
    pairs: list[tuple[str, str]] = []
    for identity in IDENTITIES:
        found = [(old.member_id, new.member_id) for old, new in _unique_matches(gone, come, identity)]
        if found:
            pairs += found
            gone, come = _without(gone, {old for old, _ in found}), _without(come, {new for _, new in found})
    return tuple(pairs)


def _without(members: list[Member], paired: set[str]) -> list[Member]:
    return [each for each in members if each.member_id not in paired]


def _unique_matches(gone: list[Member], come: list[Member], identity: Identity) -> list[tuple[Member, Member]]:
    olds, news = _unique_by(gone, identity), _unique_by(come, identity)
    return [(old, news[sign]) for sign, old in olds.items() if sign in news]


def _unique_by(members: list[Member], identity: Identity) -> dict[Hashable, Member]:
    signs = Counter(sign for member in members if (sign := identity(member)) is not None)
    return {sign: member for member in members if (sign := identity(member)) is not None and signs[sign] == 1}
