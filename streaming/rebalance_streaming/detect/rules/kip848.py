"""KIP-848 groups: members that do not release partitions, missing target assignments, too many epochs.

Receives one KIP-848 group's history. There is no barrier: a member that keeps partitions delays only the members that
are to get them, and the log names both. Session timeout and heartbeat interval are settings of the group, not of the
clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rebalance_contract import Generation, GroupType, Member, MemberState, Rebalance, RebalanceReason, Severity
from rebalance_streaming.detect.catalogue import of_family, with_trait
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules.member_settings import upgrade_for
from rebalance_streaming.detect.rules.rebalances import left_repeatedly, members_per_slot
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.partitions import partition_names, places, size_of
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.departures import Departure, slot_of

#: Number of heartbeats, and their interval, within which a revocation reaches the member and is confirmed.
_HEARTBEATS, _HEARTBEAT_MS = 3, 5_000
#: Share of its rebalance timeout after which a member that keeps partitions is likely to be fenced.
_LATE = 0.5
_CALM = of_family("benign") | with_trait("orderly")
_MEMBER_REASONS = frozenset(
    {RebalanceReason.JOIN, RebalanceReason.DEPARTURE, RebalanceReason.REPLACEMENT, RebalanceReason.SWAP}
)


# --- Members that do not release partitions ---


@condition(inputs.REPORTED)
def reconciliation_stuck(view: GroupView) -> Iterator[Verdict]:
    """A member does not release partitions that other members, the victims, wait for (KAFKA-16198, KAFKA-19449)."""
    if not _is_new(view):
        return
    for member in view.members:
        since = member.state_since_ms if member.state == MemberState.UNREVOKED else None
        if since is not None and view.time.outlasted(since, _patience_ms(view, member)):
            yield _holding(view, member, since, view.now_ms)


def held_up(view: GroupView, rebalance: Rebalance) -> Iterator[Verdict]:
    """Yield verdicts on members that kept partitions too long during a rebalance and have released them since."""
    ended_ms = rebalance.completed_at_ms or view.now_ms
    for member, until_ms in view.history.released:
        since = member.state_since_ms
        if since is None or not rebalance.started_before_ms <= since <= until_ms <= ended_ms:
            continue
        if until_ms - since > _patience_ms(view, member):
            yield _holding(view, member, since, until_ms)


def _patience_ms(view: GroupView, member: Member) -> float:
    """Return how long (ms) a member may keep partitions: three heartbeats, or half of its timeout if shorter."""
    usual = max(view.thresholds.reconciliation_ms, _HEARTBEATS * _HEARTBEAT_MS)
    limit = member.rebalance_timeout_ms
    return usual if limit is None else min(usual, max(_LATE * limit, 1.5 * _HEARTBEAT_MS))


def _is_new(view: GroupView) -> bool:
    return view.history.snapshot is not None and view.history.snapshot.type == GroupType.CONSUMER


def _holding(view: GroupView, member: Member, since: int, until_ms: int) -> Verdict:
    limit, pending = member.rebalance_timeout_ms, member.pending_revocation
    victims = [each for each in view.members if each.state == MemberState.UNRELEASED and _waits_for(each, member)]
    late_ms = None if limit is None else _LATE * limit
    ended = until_ms < view.now_ms
    late = late_ms is not None and (until_ms - since > late_ms if ended else view.time.outlasted(since, late_ms))
    return view.say(
        "reconciliation_stuck.holding",
        since,
        subject_of(member, partitions=partition_names(pending)),
        severity=Severity.PAGE if view.is_harmed([pending]) else Severity.TICKET if late else Severity.INFO,
        advice=upgrade_for(view.history, member, "reconciliation_stuck", kip848=True),
        member=member,
        partitions=size_of(pending),
        held=until_ms - since,
        victims=victims,
        one_victim=len(victims) == 1,
        limit=limit,
        report=view.history.clients.latest_of(member),
    )


def _waits_for(victim: Member, holder: Member) -> bool:
    """Whether a member waits for partitions that another one keeps; assumed if targets are not known."""
    if victim.target is None or holder.pending_revocation is None:
        return True
    return bool(places(victim.target) & places(holder.pending_revocation))


def fenced(episode: Episode, departure: Departure) -> Verdict | None:
    """A member that the coordinator fenced because it did not give up its partitions in time."""
    member, rebalance = departure.member, episode.rebalance
    limit, pending = member.rebalance_timeout_ms or 0, member.pending_revocation
    out_ms = next((g.started_at_ms for g in rebalance.generations if member.member_id in g.fenced), None)
    return say(
        "reconciliation_stuck.fenced",
        (departure.to_ms if out_ms is None else out_ms) - limit,
        subject_of(member, partitions=partition_names(pending)),
        evidence=departure.evidence,
        advice=upgrade_for(episode.history, member, "reconciliation_stuck", kip848=True),
        rebalance_ids=(rebalance.rebalance_id,),
        member=member,
        limit_ms=limit,
        got=[m for m in rebalance.members_after if places(m.partitions) & places(member.partitions)],
        report=episode.history.clients.latest_of(member),
        limit=member.rebalance_timeout_ms,
    )


# --- Missing target assignments ---


@condition(inputs.STATES)
def assigning_stuck(view: GroupView) -> Iterator[Verdict]:
    """The coordinator has computed no target assignment for the group's epoch (KIP-848)."""
    snapshot = view.history.snapshot
    if snapshot is None or snapshot.type != GroupType.CONSUMER or not snapshot.members or snapshot.generation is None:
        return
    if snapshot.assignment_epoch is not None and snapshot.assignment_epoch >= snapshot.generation:
        return
    since = _unassigned_since(view)
    if since is not None and view.time.outlasted(since, view.thresholds.assigning_ms):
        failed = view.history.coordinator_log.failed_target(snapshot.generation)
        yield view.say(
            "assigning_stuck",
            since,
            epoch=snapshot.generation,
            target=str(snapshot.assignment_epoch),
            failed=failed is not None,
            error=None if failed is None else failed.reason or "no reason given",
        )


def _unassigned_since(view: GroupView) -> int | None:
    """Return the start (epoch ms) of the first epoch after the last one that has a target assignment."""
    snapshot = view.history.snapshot
    last = view.history.rebalances.get(snapshot.last_rebalance_id or "") if snapshot is not None else None
    since = None
    for generation in reversed(() if last is None else last.generations):
        if generation.assigned_at_ms is not None:
            break
        since = generation.started_at_ms
    return since if since is not None else snapshot.last_rebalance_ms if snapshot is not None else None


# --- Too many epochs ---


@condition(grown=True)
def epoch_churn(view: GroupView) -> Iterator[Verdict]:
    """The group constantly gets new epochs, each of which moves partitions (KIP-848); the verdict lists the causes."""
    if not _is_new(view):
        return
    window = view.thresholds.churn_window_ms
    # An ongoing rebalance may have begun before the window.
    near = [
        each
        for each in view.history.in_order()
        if each.type == GroupType.CONSUMER and view.causes.get(each.rebalance_id) not in _CALM
        if view.time.is_within(each.completed_at_ms or view.now_ms, window)
    ]
    epochs = [g for each in near for g in each.generations if view.time.is_within(g.started_at_ms or 0, window)]
    epochs = [each for each in epochs if each.reason not in (RebalanceReason.FIRST_JOIN, RebalanceReason.GROUP_EMPTIED)]
    if len(epochs) < view.thresholds.churn_epochs or _is_one_pass(near, epochs):
        return
    yield _churning(view, near, epochs)


def _is_one_pass(rebalances: Sequence[Rebalance], epochs: Sequence[Generation]) -> bool:
    """Whether each member came and left at most once: a deploy, or a change of size."""
    if any(each.reason not in _MEMBER_REASONS or each.fenced for each in epochs):
        return False
    members, width = _known(rebalances), members_per_slot(rebalances)
    for side in ("joined", "left"):
        names = [name for each in epochs for name in getattr(each, side)]
        if left_repeatedly((slot_of(members[name]) if name in members else (name, "") for name in names), width):
            return False
    return True


def _known(rebalances: Sequence[Rebalance]) -> dict[str, Member]:
    return {m.member_id: m for each in rebalances for m in (*each.members_before, *each.members_after)}


def _kind(epoch: Generation) -> str:
    """Return why an epoch was raised, from its reason and fenced members."""
    if epoch.fenced:
        return "fenced"
    return "leave or session expiry" if epoch.reason == RebalanceReason.DEPARTURE else epoch.reason.replace("_", " ")


def _churning(view: GroupView, rebalances: Sequence[Rebalance], epochs: Sequence[Generation]) -> Verdict:
    kinds = Counter(_kind(each) for each in epochs)
    main, _ = kinds.most_common(1)[0]
    ids = {name for each in epochs for name in (*each.joined, *each.left, *each.fenced)}
    known = _known(rebalances)
    slots = Counter(slot_of(known[name]) for name in sorted(ids) if name in known)
    latest = {slot_of(known[name]): known[name] for name in sorted(ids) if name in known}
    restless = [latest[slot] for slot, _ in slots.most_common(3)]
    fenced, by_topics = main == "fenced", main in ("subscription change", "topic metadata change")
    return view.say(
        "epoch_churn",
        epochs[0].started_at_ms or rebalances[0].started_before_ms,
        subject_of(*restless),
        variant=main.split(" ")[0],
        rebalance_ids=tuple(each.rebalance_id for each in rebalances),
        count=len(epochs),
        kinds=", ".join(f"{count} x {kind}" for kind, count in kinds.most_common()),
        members=restless,
        ambiguous="leave or session expiry" in kinds,
        fenced=fenced,
        by_topics=by_topics,
        by_members=not fenced and not by_topics,
    )
