"""Which settings the members of a group have: what rules ask before they advise one.

Receives a group's history, or a lost member of it; asks what its clients and its type take. Holds no advice itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_contract import GroupType, Member
from rebalance_streaming.detect.advice import MemberSession, session_of_member
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.observed.departures import Departure
from rebalance_streaming.observed.fingerprints import fingerprint
from rebalance_streaming.observed.history import GroupHistory


def session_of_lost(episode: Episode, departure: Departure) -> MemberSession:
    """Return the session of a member that was lost."""
    client = episode.history.clients.of(departure.member)
    return session_of_member(departure.member, departure.client, episode.rebalance.type, client)


def sessions_of(history: GroupHistory, members: Iterable[Member], group_type: str | None = None) -> list[MemberSession]:
    """Return the sessions of members; the type is that of the group now, where none is given."""
    kind = group_type or type_of(history)
    known = ((each, history.clients.of(each)) for each in members)
    return [session_of_member(each, fingerprint(each, client), kind, client) for each, client in known]


def type_of(history: GroupHistory) -> str:
    """Return the type of a group; one that is not known is taken for classic."""
    return (history.picture and history.picture.type) or GroupType.CLASSIC
