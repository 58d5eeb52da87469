"""Settings that the members of a group support: rules check these before they advise one.

Receives a group's history, or a lost member of it; checks what its clients and its group type support, and returns
advice that depends on that.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_contract import Advice, GroupType, Member, Rebalance
from rebalance_contract.client_settings import (
    OWN_ASSIGNORS,
    has_poll_records,
    has_static_members,
    is_connect,
    speaks_kip848,
)
from rebalance_streaming.detect.advice import (
    MemberSession,
    cooperative_advice,
    session_of_member,
    stalled_barrier_advice,
    worker_overrun_advice,
)
from rebalance_streaming.detect.bugs import upgrade_advice
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.observed.departures import Departure
from rebalance_streaming.observed.fingerprints import Fingerprint, make_fingerprint
from rebalance_streaming.observed.history import GroupHistory

_MEANWHILE = "the others keep working meanwhile"


def session_of_lost(episode: Episode, departure: Departure) -> MemberSession:
    """Return the session of a member that was lost."""
    config = episode.history.clients.config_of(departure.member)
    return session_of_member(departure.member, departure.client, episode.rebalance.type, config)


def sessions_of(history: GroupHistory, members: Iterable[Member], group_type: str | None = None) -> list[MemberSession]:
    """Return the sessions of members; `group_type` defaults to the group's current type."""
    kind, clients = group_type or type_of(history), history.clients
    known = ((each, make_fingerprint(each, clients.of(each))) for each in members)
    return [session_of_member(each, fingerprint, kind, clients.config_of(each)) for each, fingerprint in known]


def type_of(history: GroupHistory) -> str:
    """Return the type of a group; classic if it is not known."""
    return (history.snapshot and history.snapshot.type) or GroupType.CLASSIC


def protocol_of(history: GroupHistory, rebalance: Rebalance | None = None) -> str | None:
    """Return the protocol (assignor) of a group, in a rebalance or now; null if it is not known."""
    if rebalance is not None and rebalance.protocol is not None:
        return rebalance.protocol
    return None if history.snapshot is None else history.snapshot.protocol


def is_of_connect(history: GroupHistory, rebalance: Rebalance | None = None) -> bool:
    """Whether members are workers of Kafka Connect, which have other settings than consumers."""
    protocol_type = None if history.snapshot is None else history.snapshot.protocol_type
    return is_connect(protocol_type, protocol_of(history, rebalance))


def barrier_advice(
    history: GroupHistory, rebalance: Rebalance | None = None, departure: Departure | None = None
) -> tuple[Advice, ...]:
    """Return what to change if a member delayed the others.

    `rebalance` is null for an ongoing one, `departure` is null if it is not known which member it was.
    """
    if is_of_connect(history, rebalance):
        return worker_overrun_advice(None if departure is None else departure.poll_ms)
    there = rebalance.members_before if rebalance is not None else _members(history)
    protocol = protocol_of(history, rebalance)
    return *stalled_barrier_advice(departure), *cooperative_advice(
        protocol, fingerprints_of(history, there), _MEANWHILE
    )


def has_assignor(history: GroupHistory) -> bool:
    """Whether members configure the group's assignor: it is not that of the broker, of Connect or of Streams."""
    own = protocol_of(history) in OWN_ASSIGNORS or is_of_connect(history)
    return type_of(history) == GroupType.CLASSIC and not own


def is_movable(history: GroupHistory) -> bool:
    """Whether a group can migrate to KIP-848: it has a configurable assignor and libraries that support KIP-848."""
    return has_assignor(history) and all(
        speaks_kip848(each.library) for each in fingerprints_of(history, _members(history))
    )


def may_be_named(history: GroupHistory, members: Iterable[Member], rebalance: Rebalance | None = None) -> bool:
    """Whether all of these members have a group.instance.id to set."""
    kind = type_of(history) if rebalance is None else rebalance.type
    if is_of_connect(history, rebalance):
        return False
    return all(has_static_members(each.library, each.release, kind) for each in fingerprints_of(history, members))


def have_poll_records(history: GroupHistory, members: Iterable[Member]) -> bool:
    """Whether all of these members have a max.poll.records to set."""
    return not is_of_connect(history) and all(
        has_poll_records(each.library) for each in fingerprints_of(history, members)
    )


def upgrade_for(
    history: GroupHistory, member: Member | None, rule: str, *, library: str | None = None, kip848: bool = False
) -> tuple[Advice, ...]:
    """Return the upgrade that removes faults which can cause a diagnosis; empty if none is known.

    It is that of the member's client, or of `library`, a framework above it. `member` null: not known which.
    """
    fingerprint = None if member is None else make_fingerprint(member, history.clients.of(member))
    name, release = (None, ()) if fingerprint is None else (fingerprint.library, fingerprint.release)
    upgrade = upgrade_advice(library or name, release, rule, kip848=kip848)
    return () if upgrade is None else (upgrade,)


def _members(history: GroupHistory) -> tuple[Member, ...]:
    return () if history.snapshot is None else history.snapshot.members


def fingerprints_of(history: GroupHistory, members: Iterable[Member]) -> list[Fingerprint]:
    """Return the fingerprints of the members' clients, also from the group's protocol."""
    protocol = protocol_of(history)
    return [make_fingerprint(each, history.clients.of(each), protocol) for each in members]
