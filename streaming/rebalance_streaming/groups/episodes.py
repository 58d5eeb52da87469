"""Combines generations into logical rebalances, times them and counts them.

Consecutive generations are one rebalance when the group was never really stable between them: the next join barrier
was released (or the next group epoch began) within two heartbeats of the last assignment, or a cooperative assignor's
second round was due. Only the log decides that, because counters must not depend on when probes arrive. Receives steps
from both kinds of groups; changes the given draft of the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from rebalance_contract import (
    KEPT_FIRST_GENERATIONS,
    KEPT_LAST_GENERATIONS,
    KEPT_PASSING,
    Counters,
    Generation,
    GroupType,
    Member,
    Moves,
    Partitions,
    Rebalance,
    RebalanceOutcome,
    Settlement,
    settled,
)
from rebalance_streaming.groups import windows
from rebalance_streaming.groups.identity import pair_members
from rebalance_streaming.groups.model import FoldDraft, FoldState, GroupRecord, LatestRebalance, Step, difference
from rebalance_streaming.groups.partitions import Place, by_topic, places, size_of

#: Two heartbeat intervals of 3 s, the default of every client: a group that was stable for less was not stable.
MERGE_WITHIN_MS = 6_000
#: How long after its end a rebalance is counted with its duration: no further generation is expected then, even if its
#: record is still on its way.
SETTLE_AFTER_MS = 20_000


def begin(draft: FoldDraft, record: GroupRecord, step: Step) -> None:
    """Add a generation to the ongoing or just ended rebalance, or as the first of a new one."""
    former = draft.episode
    if former is not None and _continues(former.rebalance, step):
        draft.episode = _shortened(replace(former, rebalance=_extended(former.rebalance, draft, step)))
    else:
        settle(draft)
        draft.episode = LatestRebalance(_opened(draft, record, step), spread_until_ms=step.started_before_ms)
        count_rebalance(draft, step.generation.reason, record.timestamp_ms, record.now_ms)
    generation = step.generation
    count_members(draft, len(generation.joined), len(generation.left), len(generation.replaced))
    draft.snapshot = replace(
        draft.snapshot,
        last_rebalance_ms=record.timestamp_ms,
        last_rebalance_id=draft.episode.rebalance.rebalance_id,
        rebalancing_since_ms=draft.episode.rebalance.started_before_ms,
    )


def assign(draft: FoldDraft, record: GroupRecord, generation: int, aborted: int) -> None:
    """Note that a generation got its assignment, and how many before it never did."""
    counters = draft.snapshot.counters
    counters = replace(
        counters,
        generations_completed=counters.generations_completed + 1,
        generations_aborted=counters.generations_aborted + aborted,
    )
    panes = windows.add(
        draft.snapshot.windows,
        record.timestamp_ms,
        record.now_ms,
        generations_completed=1,
        generations_aborted=aborted,
    )
    draft.snapshot = replace(draft.snapshot, counters=counters, windows=panes)
    latest = draft.ongoing
    if latest is not None:
        rebalance = _assigned(latest.rebalance, generation, record.timestamp_ms, aborted)
        draft.episode = replace(latest, rebalance=rebalance)


def complete(draft: FoldDraft, record: GroupRecord) -> None:
    """End the ongoing rebalance, if any: the group is now stable or empty, with its present members."""
    latest, at_ms = draft.ongoing, record.timestamp_ms
    if latest is None:
        return
    ended = _ended(latest.rebalance, draft, at_ms, RebalanceOutcome.COMPLETED)
    wandered = wandered_in(latest.wandered, ended)
    panes = windows.add_rebalancing(draft.snapshot.windows, latest.spread_until_ms, at_ms, record.now_ms)
    ended = replace(ended, moves=moves_of(ended, wandered))
    draft.episode = replace(
        latest, rebalance=ended, wandered=wandered, spread_until_ms=max(at_ms, latest.spread_until_ms)
    )
    draft.snapshot = replace(draft.snapshot, windows=panes, last_rebalance_ms=at_ms, rebalancing_since_ms=None)


def abort(draft: FoldDraft, at_ms: int) -> None:
    """End the ongoing rebalance, if any, because its group is gone; later generations belong to another rebalance."""
    if (
        not draft.snapshot.members
        and draft.episode is not None
        and draft.episode.rebalance.outcome == RebalanceOutcome.COMPLETED
    ):
        settle(draft)
        draft.episode = None
    if draft.ongoing is not None:
        ended = _ended(draft.ongoing.rebalance, draft, at_ms, RebalanceOutcome.ABORTED)
        draft.episode = replace(draft.ongoing, rebalance=ended)
    draft.snapshot = replace(draft.snapshot, rebalancing_since_ms=None)


def resume(draft: FoldDraft) -> None:
    """Undo an abortion: the apparent end of the group was a conversion."""
    if draft.episode is not None and draft.episode.rebalance.outcome == RebalanceOutcome.ABORTED:
        rebalance = reopened(draft.episode.rebalance)
        draft.episode = replace(draft.episode, rebalance=rebalance)
        draft.snapshot = replace(draft.snapshot, rebalancing_since_ms=rebalance.started_before_ms)


def settle(draft: FoldDraft) -> None:
    """Count the duration and the moves of an ended rebalance, once."""
    due = settlement_of(draft.episode)
    if draft.episode is not None and due is not None:
        draft.snapshot = replace(draft.snapshot, counters=settled(draft.snapshot.counters, due), settlement=None)
        draft.episode = replace(draft.episode, settled=True)


def settlement_of(episode: LatestRebalance | None) -> Settlement | None:
    """Return what an ended rebalance adds to the totals, and when; null when nothing is left to be added."""
    if episode is None or episode.settled:
        return None
    rebalance = episode.rebalance
    if rebalance.completed_at_ms is None or rebalance.duration_min_ms is None:
        return None
    moved = 0 if rebalance.moves is None else size_of(rebalance.moves.moved)
    return Settlement(rebalance.completed_at_ms + SETTLE_AFTER_MS, rebalance.duration_min_ms, moved)


def _continues(rebalance: Rebalance, step: Step) -> bool:
    if rebalance.completed_at_ms is None:
        return True
    if rebalance.outcome == RebalanceOutcome.ABORTED:
        return False
    return step.known_ms - rebalance.completed_at_ms <= step.merge_within_ms


def _opened(draft: FoldDraft, record: GroupRecord, step: Step) -> Rebalance:
    snapshot, generation = draft.snapshot, step.generation
    known = draft.last_generation
    return Rebalance(
        cluster=snapshot.cluster,
        group=snapshot.group,
        rebalance_id=_id_at(record),
        type=snapshot.type or GroupType.CLASSIC,
        reason=generation.reason,
        outcome=RebalanceOutcome.ONGOING,
        generation_from=known if known is not None and known < generation.generation else None,
        generation_to=generation.generation,
        generations=(generation,),
        generation_count=1,
        generations_aborted=0,
        started_after_ms=step.started_after_ms,
        started_before_ms=step.started_before_ms,
        join_ended_at_ms=generation.join_ended_at_ms,
        completed_at_ms=None,
        sync_ms=None,
        duration_min_ms=None,
        duration_max_ms=None,
        protocol=snapshot.protocol,
        leader=snapshot.leader,
        members_before=step.members_before,
        members_after=step.members_after,
        joined=generation.joined,
        left=generation.left,
        replaced=generation.replaced,
        first_offender=step.offender,
    )


def _id_at(record: GroupRecord) -> str:
    """Return a rebalance's id: the position of its first record, the same at every replay and never used again.

    In a log that was cut or recreated, an offset is used again in the next era.
    """
    era = f"-e{record.log_era}" if record.log_era else ""
    return f"{record.partition}-{record.offset}{era}"


#: The id of a rebalance: the position of its first record, or the time of the probe that saw it.
_ID = re.compile(r"(?:[0-9]{1,9}|probe)-([0-9]{1,19})(?:-e([0-9]{1,9}))?")


def begun_order(rebalance_id: str) -> tuple[int, int]:
    """Return the sort key by which a group's rebalances began: (era, position in the log or time), -1 for other ids.

    Positions and times cannot be compared, but a group has ids of one kind unless its source was changed.
    """
    found = _ID.fullmatch(rebalance_id)
    return (-1, -1) if found is None else (int(found[2] or 0), int(found[1]))


def _extended(rebalance: Rebalance, draft: FoldDraft, step: Step) -> Rebalance:
    opened = with_members(reopened(rebalance), step.members_after)
    return replace(
        opened,
        generation_to=step.generation.generation,
        generations=(*opened.generations, step.generation),
        generation_count=opened.all_generations + 1,
        type=draft.snapshot.type or opened.type,
        protocol=draft.snapshot.protocol,
        leader=draft.snapshot.leader,
    )


def _shortened(latest: LatestRebalance) -> LatestRebalance:
    """Drop generations from the middle of a rebalance that has very many of them."""
    named = latest.rebalance.generations
    if len(named) <= KEPT_FIRST_GENERATIONS + KEPT_LAST_GENERATIONS:
        return latest
    first, last = named[:KEPT_FIRST_GENERATIONS], named[-KEPT_LAST_GENERATIONS:]
    left_out = named[KEPT_FIRST_GENERATIONS:-KEPT_LAST_GENERATIONS]
    return replace(
        latest,
        rebalance=replace(latest.rebalance, generations=first + last),
        left_out_unassigned=latest.left_out_unassigned + unassigned(left_out),
    )


def unassigned(generations: Iterable[Generation]) -> int:
    """Return how many generations have no assignment and are not yet counted as aborted by a later one."""
    return sum((each.assigned_at_ms is None) - each.aborted_before for each in generations)


def reopened(rebalance: Rebalance) -> Rebalance:
    """Return an ended rebalance as an ongoing one."""
    return replace(
        rebalance,
        outcome=RebalanceOutcome.ONGOING,
        completed_at_ms=None,
        duration_min_ms=None,
        duration_max_ms=None,
        moves=None,
    )


def _assigned(rebalance: Rebalance, generation: int, at_ms: int, aborted: int) -> Rebalance:
    generations = tuple(
        replace(each, assigned_at_ms=at_ms, aborted_before=aborted)
        if each.generation == generation and each.assigned_at_ms is None
        else each
        for each in rebalance.generations
    )
    first = rebalance.assigning_ms is None and rebalance.join_ended_at_ms is None
    sync_from = rebalance.join_ended_at_ms if rebalance.sync_ms is None else None
    return replace(
        rebalance,
        generations=generations,
        generations_aborted=rebalance.generations_aborted + aborted,
        assigning_ms=max(0, at_ms - rebalance.started_before_ms)
        if first and rebalance.type != GroupType.CLASSIC
        else rebalance.assigning_ms,
        sync_ms=rebalance.sync_ms if sync_from is None else max(0, at_ms - sync_from),
    )


def _ended(rebalance: Rebalance, draft: FoldDraft, at_ms: int, outcome: RebalanceOutcome) -> Rebalance:
    assigned_ms = None if rebalance.assigning_ms is None else rebalance.started_before_ms + rebalance.assigning_ms
    ended = replace(
        with_members(rebalance, draft.snapshot.members),
        outcome=outcome,
        completed_at_ms=at_ms,
        reconciling_ms=None if assigned_ms is None else max(0, at_ms - assigned_ms),
    )
    return timed(ended)


def timed(rebalance: Rebalance, lasted_ms: int | None = None) -> Rebalance:
    """Return a rebalance with the bounds of its duration, if it has an end.

    `lasted_ms` is the last time at which it was certainly going on; null: until its end.
    """
    end_ms, after_ms = rebalance.completed_at_ms, rebalance.started_after_ms
    if end_ms is None:
        return rebalance
    return replace(
        rebalance,
        duration_min_ms=max(0, (end_ms if lasted_ms is None else lasted_ms) - rebalance.started_before_ms),
        duration_max_ms=None if after_ms is None else max(0, end_ms - after_ms),
    )


def changed_rebalance(before: FoldState, after: FoldState | FoldDraft) -> tuple[Rebalance, ...]:
    """Return the latest rebalance, or nothing if it is the same object as before."""
    old = None if before.episode is None else before.episode.rebalance
    new = None if after.episode is None else after.episode.rebalance
    return () if new is None or new is old else (new,)


def with_members(rebalance: Rebalance, after: tuple[Member, ...]) -> Rebalance:
    """Return the rebalance with its present members, and the net change."""
    left, joined = difference(rebalance.members_before, after)
    lasting = {member.member_id for member in (*rebalance.members_before, *after)}
    seen = {member.member_id: member for member in (*rebalance.passing, *rebalance.members_after)}
    return replace(
        rebalance,
        passing=tuple(member for name, member in seen.items() if name not in lasting)[-KEPT_PASSING:],
        members_after=after,
        joined=tuple(member.member_id for member in joined),
        left=tuple(member.member_id for member in left),
        replaced=pair_members(left, joined),
    )


def count_rebalance(draft: FoldDraft, reason: str, at_ms: int, now_ms: int) -> None:
    """Count a rebalance by its reason, in the totals and in the panes."""
    counters = draft.snapshot.counters
    by_reason = {**counters.rebalances, reason: counters.rebalances.get(reason, 0) + 1}
    panes = windows.add(draft.snapshot.windows, at_ms, now_ms, rebalances=1)
    draft.snapshot = replace(draft.snapshot, counters=replace(counters, rebalances=by_reason), windows=panes)


def count_members(draft: FoldDraft, joined: int, left: int, returned: int) -> None:
    """Count members that joined and left; those that came back under another id are contained in both numbers."""
    counters = draft.snapshot.counters
    counters = replace(
        counters,
        members_joined=counters.members_joined + joined - returned,
        members_left=counters.members_left + left - returned,
        members_replaced=counters.members_replaced + returned,
    )
    draft.snapshot = replace(draft.snapshot, counters=counters)


def count_reset(counters: Counters) -> Counters:
    """Count that generation numbers started over."""
    return replace(counters, resets=counters.resets + 1)


# --- Partitions ---


def _owners(members: Iterable[Member], names: dict[str, str]) -> dict[Place, str] | None:
    """Return the owner of each partition, by its former member id; null if an assignment has no known form."""
    owners: dict[Place, str] = {}
    for member in members:
        if member.partitions is None:
            return None
        owner = names.get(member.member_id, member.member_id)
        owners.update({(topic, p): owner for topic, numbers in member.partitions.items() for p in numbers})
    return owners


def _before_and_after(rebalance: Rebalance) -> tuple[dict[Place, str], dict[Place, str]] | None:
    if rebalance.type == GroupType.SHARE:
        return None  # several members have one partition
    before = _owners(rebalance.members_before, {})
    after = _owners(rebalance.members_after, {new: old for old, new in rebalance.replaced})
    return None if before is None or after is None else (before, after)


def wandered_in(so_far: Partitions, rebalance: Rebalance) -> Partitions:
    """Return the partitions that were ever without their former owner, including those that are now."""
    owners = _before_and_after(rebalance)
    if owners is None:
        return so_far
    before, after = owners
    return by_topic(sorted(places(so_far) | {place for place, owner in before.items() if after.get(place) != owner}))


def moves_of(rebalance: Rebalance, wandered: Partitions) -> Moves | None:
    """Return what a rebalance did to partitions; null if an assignment has no known form."""
    owners = _before_and_after(rebalance)
    if owners is None:
        return None
    before, after = owners
    both = before.keys() & after.keys()
    kept = {place for place in both if before[place] == after[place]}
    return Moves(
        moved=by_topic(sorted(both - kept)),
        kept=len(kept),
        gained=len(after.keys() - before.keys()),
        lost=len(before.keys() - after.keys()),
        ping_ponged=by_topic(sorted(kept & places(wandered))),
    )
