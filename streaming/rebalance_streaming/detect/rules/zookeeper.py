"""Consumers that keep their membership in ZooKeeper: pykafka's BalancedConsumer, old high-level consumers.

Receives snapshots of a group's ids and owners; each is valid until the next one, because only changes are reported. In
Kafka, such a group only has commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import ceil, floor

from rebalance_contract import ProbedMember, Severity, Subject, SubjectMember
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.detect.wording import advise
from rebalance_streaming.groups.partitions import partition_name
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG
from rebalance_streaming.observed.history import Ownership
from rebalance_streaming.observed.zookeeper_claims import (
    claims,
    held,
    ids,
    is_of,
    owns,
    unbroken_since,
    undisturbed_since,
)

#: All groups are reported at least once a minute; without a report for this long, probing has stopped.
_STALE_MS = 90_000


@dataclass(frozen=True, slots=True)
class _Conflict:
    """A member that did not get its share of a topic, and the holders that kept it.

    `gave_up_ms` is when the starved member's id was gone although it never owned anything; null while it waits.
    """

    topic: str
    partitions: int
    claimants: int
    holders: dict[str, int]
    starved: str
    since_ms: int
    gave_up_ms: int | None = None


@condition(inputs.OWNERS | inputs.PROGRESS)
def zk_partition_owner_conflict(view: GroupView) -> Iterator[Verdict]:
    """An owner does not release partitions that belong to another member now (Parsely/pykafka#701, #619, #606)."""
    looks = list(view.history.ownership)
    if not looks or _is_stale(view, looks):
        return
    found: dict[tuple[str, ...], list[_Conflict]] = {}
    for conflict in (*_given_up(view, looks), *_waiting(view, looks)):
        found.setdefault(tuple(sorted(conflict.holders)), []).append(conflict)
    for conflicts in found.values():
        yield _conflict_verdict(view, looks[-1], conflicts)


def _is_stale(view: GroupView, looks: list[Ownership]) -> bool:
    return view.time.outlasted(looks[-1].at_ms, _STALE_MS)


def _waiting(view: GroupView, looks: list[Ownership]) -> Iterator[_Conflict]:
    """Yield members that have been waiting for their share longer than they retry, while no owner changed."""
    for topic in looks[-1].owners:
        for conflict in _starved(view, looks, len(looks) - 1, topic):
            if view.time.outlasted(conflict.since_ms, view.thresholds.zk_idle_ms):
                yield conflict


def _given_up(view: GroupView, looks: list[Ownership]) -> Iterator[_Conflict]:
    """Yield members that left after about their retry time without ever owning anything, while no owner changed.

    This holds until a holder gives up partitions, or for `resolve_after_ms`.
    """
    shortest = view.thresholds.zk_idle_ms - view.probe_ms
    for at, (seen, after) in enumerate(pairwise(looks)):
        gone = ids(seen) - ids(after)
        if not gone or not view.time.is_within(after.at_ms, view.thresholds.resolve_after_ms):
            continue
        for topic in seen.owners:
            for conflict in _starved(view, looks, at, topic):
                starved, waited_ms = conflict.starved, after.at_ms - conflict.since_ms
                if starved not in gone or waited_ms < shortest or any(owns(each, starved) for each in looks[: at + 1]):
                    continue
                if all(held(each, topic).get(h, 0) >= n for each in looks[at:] for h, n in conflict.holders.items()):
                    yield replace(conflict, gave_up_ms=after.at_ms)


def _starved(view: GroupView, looks: list[Ownership], at: int, topic: str) -> list[_Conflict]:
    """Return the members that had less than their fair share of a topic in a snapshot while others had more."""
    seen, partitions = looks[at], _partition_count(view, looks, topic)
    claimed = claims(seen, topic)
    fair = partitions / len(claimed) if claimed else 0
    holders = {owner: owned for owner, owned in claimed.items() if owned > ceil(fair)}
    if not holders:
        return []
    starved = {claimant for claimant, owned in claimed.items() if owned < floor(fair)} & ids(seen)
    others = (each for each in seen.owners if each != topic)
    if any(len(held(seen, each)) >= _partition_count(view, looks, each) for each in others):
        # A member that owns nothing may be a surplus member of another topic.
        starved = {each for each in starved if owns(seen, each)}
    return [
        _Conflict(topic, partitions, len(claimed), holders, each, undisturbed_since(looks, at, topic, each))
        for each in sorted(starved)
    ]


def _partition_count(view: GroupView, looks: list[Ownership], topic: str) -> int:
    """Return how many partitions a topic has: as probed, or else the number of partitions that were ever owned."""
    probed = view.progress.partition_count(topic)
    return probed or len({partition for each in looks for partition in each.owners.get(topic, {})})


def _conflict_verdict(view: GroupView, latest: Ownership, conflicts: list[_Conflict]) -> Verdict:
    first, gave_up = conflicts[0], any(each.gave_up_ms is not None for each in conflicts)
    idle, ambiguous, holders = _topic_is_idle(view, first), len(latest.owners) > 1, sorted(first.holders.items())
    starved = sorted({each.starved for each in conflicts})
    cures: tuple[str, ...] = ("pykafka_upgrade", "consumer_timeout")
    if idle is False:
        # Records make consume() return, which is the only case in which more retries help.
        cures = ("more_retries", *reversed(cures))
    return view.say(
        "zk_partition_owner_conflict",
        min(each.since_ms for each in conflicts),
        Subject(tuple(_subject_member(latest, owner) for owner, _ in holders)),
        confidence=PLAUSIBLE if ambiguous else CERTAIN if gave_up else STRONG,
        severity=Severity.PAGE if _starves_consumption(view, first) else None,
        variant="consume_blocks" if idle else None,
        advice=tuple(map(advise, cures)),
        hosts=", ".join(_host(owner) for owner, _ in holders),
        conflict=first,
        shares=", ".join(f"{owner} has {n} of {first.partitions}" for owner, n in holders),
        count=len(starved),
        starved=starved,
        gave_up=gave_up,
        waited=max((each.gave_up_ms or view.now_ms) - each.since_ms for each in conflicts),
        fair=ceil(first.partitions / first.claimants),
        idle=idle,
        probed=idle is not None,
        ambiguous=ambiguous,
    )


def _topic_is_idle(view: GroupView, conflict: _Conflict) -> bool | None:
    """Whether the topic got no records while the members waited; null if the probed ends do not show it.

    Records since the last probe before the wait may have come before the wait began.
    """
    until = conflict.gave_up_ms or view.now_ms
    if _grew(view, conflict, conflict.since_ms, until) is False:
        return True
    first = view.progress.first_probe_ms(conflict.topic, conflict.since_ms)
    return False if first is not None and _grew(view, conflict, first, until) else None


def _grew(view: GroupView, conflict: _Conflict, since_ms: int, until_ms: int) -> bool | None:
    """Whether an end offset of the topic grew between two moments, as last probed before each; null if not probed."""
    grown = []
    for partition in range(conflict.partitions):
        before, after = (view.progress.end_at(conflict.topic, partition, at) for at in (since_ms, until_ms))
        grown += [after > before] if before is not None and after is not None else []
    return any(grown) if grown else None


def _starves_consumption(view: GroupView, conflict: _Conflict) -> bool:
    """Whether a partition of the topic has lag and has not advanced for `stalled_ms`."""
    wait = view.thresholds.stalled_ms
    positions = (view.progress.position(conflict.topic, each) for each in range(conflict.partitions))
    moved = [each.advanced_ms for each in positions if each.lag]
    return any(at_ms is not None and view.time.outlasted(at_ms, wait) for at_ms in moved)


def _subject_member(seen: Ownership, owner: str) -> SubjectMember:
    found = next((each for each in seen.members if is_of(owner, each.member_id)), None)
    return _named(found) if found is not None else SubjectMember(owner, None, _host(owner))


def _named(member: ProbedMember) -> SubjectMember:
    return SubjectMember(member.member_id, member.client_id or None, member.host or None)


def _host(member_id: str) -> str:
    """Return the host in a member id, or the whole id if it has none."""
    return member_id.rpartition(":")[0] or member_id


@condition(inputs.OWNERS | inputs.PROGRESS)
def zk_orphan_partition(view: GroupView) -> Iterator[Verdict]:
    """A partition has no owner although the group has members (pykafka#565; wvanbergen/kafka#102)."""
    looks = list(view.history.ownership)
    if not looks or _is_stale(view, looks) or not looks[-1].members:
        return
    wait = max(view.thresholds.zk_orphan_ms, view.thresholds.zk_idle_ms)
    for topic in sorted({name for each in looks for name in each.owners}):
        orphans = {p: since for p, since in _orphans(view, looks, topic).items() if view.time.outlasted(since, wait)}
        if orphans:
            yield _orphan_verdict(view, topic, orphans)


def _orphans(view: GroupView, looks: list[Ownership], topic: str) -> dict[int, int]:
    """Return the partitions without an owner and since when (epoch ms), while the group had members.

    A topic without any owner may have been given up on purpose, unless some member owns nothing at all.
    """
    latest = looks[-1]
    if not latest.owners.get(topic) and all(owns(latest, each) for each in ids(latest)):
        return {}
    known = {int(p) for each in looks for p in each.owners.get(topic, {})}
    known |= set(range(view.progress.partition_count(topic) or 0))
    orphans = (p for p in known if str(p) not in latest.owners.get(topic, {}))
    return {p: unbroken_since(looks, partial(_is_orphan, place=(topic, p))) for p in orphans}


def _is_orphan(seen: Ownership, place: tuple[str, int]) -> bool:
    topic, partition = place
    return bool(seen.members) and str(partition) not in seen.owners.get(topic, {})


def _orphan_verdict(view: GroupView, topic: str, orphans: dict[int, int]) -> Verdict:
    names = tuple(partition_name(topic, p) for p in sorted(orphans))
    lags = [view.progress.position(topic, p).lag for p in orphans]
    return view.say(
        "zk_orphan_partition",
        min(orphans.values()),
        Subject(partitions=names),
        severity=None if any(lag != 0 for lag in lags) else Severity.TICKET,
        partitions=names,
        count=len(names),
        members=len(view.history.ownership[-1].members),
        probed=None not in lags,
    )


@condition(inputs.OWNERS)
def zk_session_flap(view: GroupView) -> Iterator[Verdict]:
    """The same consumer repeatedly loses its ZooKeeper session."""
    window = view.thresholds.zk_flap_window_ms
    sessions: dict[str, dict[int, int]] = {}
    latest: dict[str, ProbedMember] = {}
    for seen in view.history.ownership:
        for member in seen.members if view.time.is_within(seen.at_ms, window) else ():
            if member.session_created_ms is not None:
                sessions.setdefault(member.member_id, {}).setdefault(member.session_created_ms, seen.at_ms)
                latest[member.member_id] = member
    for member_id, created in sessions.items():
        times = sorted(created.values())
        if len(times) - 1 >= view.thresholds.zk_flaps:
            yield view.say(
                "zk_session_flap",
                times[1],
                Subject((_named(latest[member_id]),)),
                host=_host(member_id),
                times=len(times) - 1,
                sessions=len(times),
                lasted=view.now_ms - times[0],
            )
