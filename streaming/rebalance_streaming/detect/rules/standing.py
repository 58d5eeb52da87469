"""What several rules of standing conditions ask of a group: since when, whose client, is there harm.

Receives a `GroupView`; answers from the history alone. Holds no threshold and says nothing of causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rebalance_contract import CONSUMER_PROTOCOL, Advice, Generation, GroupType, Member, Partitions, Rebalance, Subject
from rebalance_streaming.detect.bugs import upgrade_advice
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import GroupView
from rebalance_streaming.detect.verdict import subject_of
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.departures import Slot, slot_of
from rebalance_streaming.observed.fingerprints import fingerprint
from rebalance_streaming.observed.history import places
from rebalance_streaming.observed.progress import Position


def client_of(view: GroupView, member: Member) -> ClientHistory | None:
    """Return what a member's client reported; null when nothing did."""
    return view.history.clients.of(member)


def leader_of(rebalance: Rebalance) -> Member | None:
    """Return the leader that a rebalance ended with; null where it is not known."""
    return next((each for each in rebalance.members_after if each.member_id == rebalance.leader), None)


def sync_ms(generation: Generation) -> int:
    """Return the time from the barrier's release to the stored assignment; 0 where one is not known."""
    released, assigned = generation.join_ended_at_ms, generation.assigned_at_ms
    return 0 if released is None or assigned is None else max(0, assigned - released)


def upgrade_for(
    member: Member | None, client: ClientHistory | None, rule: str, *, library: str | None = None, kip848: bool = False
) -> tuple[Advice, ...]:
    """Return the upgrade of a client, or of a framework above it, that removes what may be behind a diagnosis."""
    prints = None if member is None else fingerprint(member, client)
    name, release = (None, ()) if prints is None else (prints.library, prints.release)
    upgrade = upgrade_advice(library or name, release, rule, kip848=kip848)
    return () if upgrade is None else (upgrade,)


def is_consumer_group(view: GroupView) -> bool:
    """Whether members are consumers of topics: not Connect workers, nor anything whose assignment has another form."""
    snapshot = view.history.snapshot
    return (
        snapshot is not None
        and snapshot.type in (GroupType.CLASSIC, GroupType.CONSUMER)
        and snapshot.protocol_type in (None, CONSUMER_PROTOCOL)
    )


def subject_among(view: GroupView, culprits: Sequence[Member]) -> Subject:
    """Return the members as a subject, or the group as a whole where all are alike: it stays as they come and go."""
    return Subject() if len(culprits) == len(view.members) else subject_of(*culprits)


def widths(rebalances: Iterable[Rebalance]) -> Counter[Slot]:
    """Return how many members one slot held at a time: clients that share a name and a host cannot be told apart."""
    width: Counter[Slot] = Counter()
    for each in rebalances:
        for members in (each.members_before, each.members_after):
            width |= Counter(map(slot_of, members))
    return width


def went_again(slots: Iterable[Slot], width: Counter[Slot]) -> set[Slot]:
    """Return the slots that went more often than they hold members at a time; one of no known width holds one."""
    return {slot for slot, times in Counter(slots).items() if times > max(1, width[slot])}


def size_of(partitions: Partitions | None) -> int:
    """Return how many partitions there are."""
    return sum(len(numbers) for numbers in (partitions or {}).values())


def standing_since(view: GroupView, stands: Callable[[tuple[Member, ...]], bool]) -> int | None:
    """Return since when something has been true of the members after every rebalance; null when it is not true now."""
    if not stands(view.members):
        return None
    since = None
    for rebalance in reversed(view.history.in_order()):
        if not stands(rebalance.members_after):
            return since if since is not None else view.stable_since_ms()
        since = rebalance.last_known_ms
    return since if since is not None else view.stable_since_ms()


def recent_past(view: GroupView, window_ms: int) -> list[ExplainedDeparture]:
    """Return the departures within a window that ends now, oldest first."""
    return [each for each in view.past if view.time.is_within(each.left_ms, window_ms)]


def came_back_ms(view: GroupView, past: ExplainedDeparture) -> int | None:
    """Return when a member that left was in the group again, under whatever id; null when it has not come back."""
    if past.departure.back_ms is not None:
        return past.departure.back_ms
    slot = slot_of(past.member)
    for rebalance in view.history.in_order():
        at_ms = rebalance.last_known_ms
        if at_ms < past.left_ms:
            continue
        came = [m for m in rebalance.members_after if m.member_id in rebalance.joined and slot_of(m) == slot]
        if any(not view.history.seen_together(past.member.member_id, m.member_id) for m in came):
            return at_ms
    return None


def positions_of(view: GroupView, partitions: Partitions | None) -> list[Position]:
    """Return where these partitions stand."""
    return [view.history.progress.position(topic, p) for topic, p in sorted(places(partitions))]


def grew_since(view: GroupView, position: Position, since_ms: int) -> bool:
    """Whether a partition is known to have got records since a moment (epoch ms)."""
    return (view.history.progress.end_growth(position.topic, position.partition, since_ms) or 0) > 0


def is_harmed(view: GroupView, partitions: Iterable[Partitions | None]) -> bool:
    """Whether one of these partitions has not moved for a while and falls behind: harm to consumption now."""
    for each in partitions:
        for position in positions_of(view, each):
            moved = position.advanced_ms
            if not position.lag or moved is None or not view.time.lasted(moved, view.thresholds.stalled_ms):
                continue
            if grew_since(view, position, moved):
                return True
    return False


def lag_grows(view: GroupView) -> bool:
    """Whether some partition is not consumed while records arrive: harm, and not only a risk of it."""
    behind = view.history.progress.falls_behind(view.now_ms - view.thresholds.stalled_ms)
    return any(grew_since(view, position, position.advanced_ms or 0) for position in behind)


def is_reporting(view: GroupView, client: ClientHistory) -> bool:
    """Whether a client's reports go on: the latest is at most three intervals old."""
    latest = client.latest()
    return latest is not None and view.time.is_within(latest.emitted_ms, max(15_000, 3 * client.interval_ms))
