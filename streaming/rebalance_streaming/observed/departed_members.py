"""Which members are gone after a rebalance, how each left, and under which id it came back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from rebalance_contract import Member, Rebalance
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.departure_classes import classify
from rebalance_streaming.observed.departure_times import NOTICE_MS, at_exit, logged_exit, measure
from rebalance_streaming.observed.departures import CLEAN, Departure, Slot, session_of, slot_of
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.liveness import LostClient, read_liveness

#: Reports from this long before the start of a session show whether heartbeats still went on then.
_BEFORE_SESSION_MS = 4_000


def find_departures(
    history: GroupHistory,
    rebalance: Rebalance,
    known: Mapping[str, Departure],
    now_ms: int,
    left_before: Iterable[str] = (),
) -> tuple[Departure, ...]:
    """Return how each member left that was present before a rebalance and is no longer.

    `known`: departures found earlier, by member id; the commits of that time may be forgotten now. `left_before` are
    the ids of members that left earlier: a member that returns with one of them is matched to no other departure.
    """
    after = {member.member_id for member in rebalance.members_after}
    meanwhile = {name for generation in rebalance.generations for name in generation.left}
    returned = (member for member in rebalance.members_after if member.member_id in meanwhile)
    there = {member.member_id: member for member in (*returned, *rebalance.passing, *rebalance.members_before)}
    gone = [m for m in there.values() if m.member_id not in after or m.member_id in meanwhile]
    assignor = history.assignor_of(rebalance) if gone else None
    others = {*(each.member_id for each in gone), *left_before}
    newcomers = _Newcomers(history, rebalance, {slot_of(each) for each in gone}, others)
    found = [
        _departure(history, rebalance, each, known.get(each.member_id), assignor=assignor, now_ms=now_ms)
        for each in gone
    ]
    return tuple(_with_returns(history, newcomers, found))


def _with_returns(history: GroupHistory, newcomers: _Newcomers, found: Sequence[Departure]) -> Iterator[Departure]:
    """Yield departures with the member that each came back as, in their order.

    Members that left regularly may have been meant to stay away. Therefore, among clients that share a name and a host,
    lost members are matched first.
    """
    back = {
        each.member.member_id: newcomers.take(each.member)
        for each in sorted(found, key=lambda each: each.likely == CLEAN)
    }
    for each in found:
        back_as, back_ms = back[each.member.member_id]
        client = history.clients.of(each.member)
        ran_on = client is not None and back_ms is not None and client.ran_through(each.from_ms, back_ms)
        # The reports on which an earlier result was based may be forgotten now.
        yield replace(each, back_as=back_as, back_ms=back_ms, ran_through=each.ran_through or ran_on)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Members by id after one rebalance, those of the wanted slots that came with it, and when each was let in."""

    there: dict[str, Member]
    by_slot: dict[Slot, dict[str, Member]]
    let_in_ms: dict[str, int | None]
    ended_ms: int | None

    def came_ms(self, member: Member) -> int | None:
        """Return when a member was let in: with the generation it joined in, else at the rebalance's end."""
        return self.let_in_ms.get(member.member_id) or self.ended_ms


class _Newcomers:
    """Members that joined in a rebalance that others left in, and in the rebalances after it.

    Clients may share a name and a host: a member is matched to one departure only, and never is one of the members that
    left. Looked up by id and by slot, so that a restart of a group of thousands costs one step per member.
    """

    def __init__(self, history: GroupHistory, rebalance: Rebalance, slots: Set[Slot], others: Set[str]) -> None:
        """`slots` are those of the members that left, `others` the ids that cannot be one of them come back."""
        self._history, self._slots, self._others = history, slots, set(others)
        self._unread = iter((rebalance, *history.after(rebalance)))
        self._read: list[_Joined] = []

    def take(self, gone: Member) -> tuple[Member | None, int | None]:
        """Return the member that `gone` came back as, the first of its slot to join later, and when it was let in."""
        slot = slot_of(gone)
        for each in self._joined():
            if gone.member_id in each.there:
                return each.there[gone.member_id], each.came_ms(gone)
            free = (other for other in each.by_slot.get(slot, {}).values() if other.member_id not in self._others)
            other = next((other for other in free if may_be_back(self._history, gone, other)), None)
            if other is not None:
                del each.by_slot[slot][other.member_id]
                self._others.add(other.member_id)
                return other, each.came_ms(other)
        return None, None

    def _joined(self) -> Iterator[_Joined]:
        yield from self._read
        for each in self._unread:
            self._read.append(self._joined_in(each))
            yield self._read[-1]

    def _joined_in(self, rebalance: Rebalance) -> _Joined:
        there = {member.member_id: member for member in rebalance.members_after}
        before = {member.member_id for member in rebalance.members_before}
        by_slot: dict[Slot, dict[str, Member]] = {}
        for name, member in there.items():
            if name not in before and name not in self._others and (slot := slot_of(member)) in self._slots:
                by_slot.setdefault(slot, {})[name] = member
        let_in_ms: dict[str, int | None] = {}
        for each in rebalance.rounds:
            for name in each.joined:
                let_in_ms.setdefault(name, each.assigned_at_ms)
        return _Joined(there, by_slot, let_in_ms, rebalance.completed_at_ms)


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
    fingerprint, session = make_fingerprint(member, client, assignor), session_of(member)
    found = measure(history, rebalance, member, fingerprint) if known is None else replace(known, client=fingerprint)
    found = at_exit(found, logged_exit(history, rebalance, member))
    surely_ms = found.from_ms - NOTICE_MS
    loss_reports = None if client is None else client.before(found.to_ms, session + _BEFORE_SESSION_MS, surely_ms)
    if client is not None and loss_reports is not None:
        lost = LostClient(
            client, loss_reports, fingerprint, session, found.poll_ms, found.to_ms, now_ms, found.joined_ms
        )
        found = replace(found, loss_reports=loss_reports, liveness=read_liveness(lost, history.clients))
    return classify(found, rebalance)


def _as_configured(member: Member, client: ClientHistory) -> Member:
    """Return a member with the timeouts that its client reports, because probes do not get them from coordinators."""
    reported = client.config
    return replace(
        member,
        session_timeout_ms=member.session_timeout_ms or reported.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms or reported.max_poll_interval_ms,
    )


def may_be_back(history: GroupHistory, gone: Member, other: Member) -> bool:
    """Whether another member of the slot may be this one come back: never seen together, or both ids of one client.

    A client that gave itself up joins again while the group still waits for its former id.
    """
    if not history.seen_together(gone.member_id, other.member_id):
        return True
    client = history.clients.of(other)
    return client is not None and client.had(gone.member_id) and client.had(other.member_id)
