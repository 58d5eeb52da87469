"""Which members are gone after a rebalance, how each left, and as whom it came back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from rebalance_contract import Member, Rebalance
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.departure_classes import classify
from rebalance_streaming.observed.departure_times import NOTICE_MS, as_told, measure, told_exit
from rebalance_streaming.observed.departures import CLEAN, Departure, session_of, slot_of
from rebalance_streaming.observed.fingerprints import fingerprint
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.liveness import Lost, read_liveness

#: Reports from this long before a session's length tell whether heartbeats went on at its begin.
_BEFORE_SESSION_MS = 4_000


def find_departures(
    history: GroupHistory, rebalance: Rebalance, known: Mapping[str, Departure], now_ms: int
) -> tuple[Departure, ...]:
    """Return how every member left that was there before a rebalance and is not any more.

    `known`: what was found of them before, by member id; commits of that time may be forgotten by now.
    """
    after = {member.member_id for member in rebalance.members_after}
    meanwhile = {name for generation in rebalance.generations for name in generation.left}
    returned = (member for member in rebalance.members_after if member.member_id in meanwhile)
    there = {member.member_id: member for member in (*returned, *rebalance.passing, *rebalance.members_before)}
    gone = [m for m in there.values() if m.member_id not in after or m.member_id in meanwhile]
    assignor = history.assignor_of(rebalance) if gone else None
    found = [
        _departure(history, rebalance, each, known.get(each.member_id), assignor=assignor, now_ms=now_ms)
        for each in gone
    ]
    return tuple(_with_returns(history, rebalance, found))


def _with_returns(history: GroupHistory, rebalance: Rebalance, found: list[Departure]) -> Iterator[Departure]:
    """Yield departures with as whom each came back, in their order.

    Clients may share a name and a host: nobody comes back as one that another of them came back as. Who left in order
    may have been meant to stay away, so that whoever was lost is back first.
    """
    taken = {each.member.member_id for each in found}
    back: dict[str, tuple[Member | None, int | None]] = {}
    for each in sorted(found, key=lambda each: each.likely == CLEAN):
        member, _ = back[each.member.member_id] = _return_of(history, rebalance, each.member, taken)
        if member is not None:
            taken.add(member.member_id)
    for each in found:
        back_as, back_ms = back[each.member.member_id]
        client = history.clients.of(each.member)
        told = client is not None and back_ms is not None and client.ran_through(each.from_ms, back_ms)
        # Of what was found before, the reports may be forgotten by now.
        yield replace(each, back_as=back_as, back_ms=back_ms, ran_through=each.ran_through or told)


def _departure(
    history: GroupHistory,
    rebalance: Rebalance,
    member: Member,
    known: Departure | None,
    *,
    assignor: str | None,
    now_ms: int,
) -> Departure:
    client = history.clients.of(member)
    if client is not None and rebalance.is_at_least:
        member = _as_configured(member, client)
    prints, session = fingerprint(member, client, assignor), session_of(member)
    found = measure(history, rebalance, member, prints) if known is None else replace(known, client=prints)
    found = as_told(found, told_exit(history, rebalance, member))
    surely_ms = found.from_ms - NOTICE_MS
    stretch = None if client is None else client.before(found.to_ms, session + _BEFORE_SESSION_MS, surely_ms)
    if client is not None and stretch is not None:
        lost = Lost(client, stretch, prints, session, found.poll_ms, found.to_ms, now_ms, found.joined_ms)
        found = replace(found, stretch=stretch, liveness=read_liveness(lost, history.clients))
    return classify(found, rebalance)


def _as_configured(member: Member, client: ClientHistory) -> Member:
    """Return a member with the timeouts that its client told, which no coordinator tells of a member."""
    told = client.config
    return replace(
        member,
        session_timeout_ms=member.session_timeout_ms or told.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms or told.max_poll_interval_ms,
    )


def _return_of(
    history: GroupHistory, rebalance: Rebalance, member: Member, taken: Set[str]
) -> tuple[Member | None, int | None]:
    """Return the member this one came back as, and when its group knew it; the first of its slot that joined later.

    `taken` are the ids that it cannot have come back by.
    """
    slot = slot_of(member)
    for each in (rebalance, *history.after(rebalance)):
        before = {known.member_id for known in each.members_before}
        for other in each.members_after:
            if other.member_id == member.member_id:
                return other, _let_in_at(each, other)
            if other.member_id in before or other.member_id in taken or slot_of(other) != slot:
                continue
            if may_be_back(history, member, other):
                return other, _let_in_at(each, other)
    return None, None


def may_be_back(history: GroupHistory, gone: Member, other: Member) -> bool:
    """Whether a member may be another of its slot come back: probes never saw both, or one client had both ids.

    A client that gave itself up joins anew while its former id is still waited for.
    """
    if not history.seen_together(gone.member_id, other.member_id):
        return True
    client = history.clients.of(other)
    return client is not None and client.had(gone.member_id) and client.had(other.member_id)


def _let_in_at(rebalance: Rebalance, member: Member) -> int | None:
    """Return when a member was let in: with the generation it joined in, else at the rebalance's end."""
    joined = (each for each in rebalance.rounds if member.member_id in each.joined)
    return next((each.assigned_at_ms for each in joined), None) or rebalance.completed_at_ms
