"""How partitions are assigned: eager or mixed assignors, idle members, uneven shares, applications sharing a group id.

Receives a group's current state and the assignments of its rebalances. All of it is in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rebalance_contract import STREAMS_ASSIGNOR, GroupType, Member, Rebalance, Severity
from rebalance_contract.client_settings import EAGER_ASSIGNORS
from rebalance_streaming.detect.advice import cooperative_advice
from rebalance_streaming.detect.group_view import DAY_MS, GroupView, condition
from rebalance_streaming.detect.rules.member_settings import fingerprints_of, is_movable
from rebalance_streaming.detect.verdict import MOST_MEMBERS, Verdict, subject_of
from rebalance_streaming.detect.wording import plain
from rebalance_streaming.groups.identity import client_stem
from rebalance_streaming.groups.partitions import size_of
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import slot_of

#: Factor by which the largest share may exceed the fair one before the finding is a ticket.
_UNFAIR = 1.5
_NUMBER = re.compile(r"[-_.]?\d+")
#: A worker that is behind in one join may still catch up; in this many joins in a row it never will.
_STUCK_JOINS = 3


# --- Eager assignors ---


# Not an input: reports only affect the advice, by the client libraries, which rarely change.
@condition(grown=True)
def eager_assignor(view: GroupView) -> Iterator[Verdict]:
    """Every rebalance stops all members, including those that keep their partitions (KIP-429)."""
    snapshot = view.history.snapshot
    if snapshot is None or snapshot.type != GroupType.CLASSIC or snapshot.protocol not in EAGER_ASSIGNORS:
        return
    recent = [each for each in view.recent(DAY_MS) if each.members_before and each.members_after]
    kept = sum(each.moves.kept for each in recent if each.moves is not None)
    churn = view.churn()
    if len(view.members) < view.thresholds.eager_members and churn < view.thresholds.churn_share:
        return
    fingerprints = fingerprints_of(view.history, view.members)
    cost = f"{kept} partitions stopped without moving in {len(recent)} rebalances of the last day"
    yield view.say(
        "eager_assignor",
        view.stable_since_ms() or view.now_ms,
        # Without any cost so far it is only information.
        severity=Severity.TICKET if kept else Severity.INFO,
        protocol=snapshot.protocol,
        partitions=sum(size_of(each.partitions) for each in view.members),
        kept=cost,
        cost=cost if kept else None,
        churn=churn,
        advice=cooperative_advice(snapshot.protocol, fingerprints, "saves the partitions that do not move"),
        movable=is_movable(view.history),
    )


@condition(grown=True)
def assignor_migration_error(view: GroupView) -> Iterator[Verdict]:
    """The group alternates between assignors: members offer lists that do not match (librdkafka#3589, #4368)."""
    window_ms = view.thresholds.deploy_window_ms
    changes = [(at, name) for at, name in view.history.protocols if view.time.is_within(at, window_ms)]
    before = [(at, name) for at, name in view.history.protocols if at < view.now_ms - window_ms][-1:]
    names = [name for _, name in (*before, *changes)]
    returns = sum(a == c for a, c in zip(names, names[2:], strict=False))
    if not returns:
        return
    yield view.say(
        "assignor_migration_error",
        changes[0][0],
        confidence=STRONG if returns > 1 else PLAUSIBLE,
        route=" -> ".join(names),
        mixed=len({name in EAGER_ASSIGNORS for name in names}) > 1,
        often=returns > 1,
        last=names[-1],
    )


# --- Shares ---


@condition(grown=True)
def idle_members(view: GroupView) -> Iterator[Verdict]:
    """Members without a partition, because there are more members than partitions; each still causes rebalances."""
    if not view.is_consumer_group or not view.members:
        return
    idle = [
        each for each in view.members if each.topics and each.partitions is not None and not size_of(each.partitions)
    ]
    too_many = {topics: _is_surplus(view, topics) for topics in {each.topics for each in idle}}
    waiting, least_ms = _idle_since(view, [each for each in idle if too_many[each.topics]]), view.thresholds.idle_ms
    idle_since = [(each, at) for each, at in waiting if at is not None and view.time.lasted(at, least_ms)]
    if not idle_since:
        return
    members, times = [each for each, _ in idle_since], [at for _, at in idle_since]
    yield view.say(
        "idle_members",
        min(times),
        subject_of(*members),
        members=members,
        count=len(members),
        all=len(view.members),
        busy=len(view.members) - len(members),
        lasted=view.now_ms - max(times),
        partitions=_partitions_of(view, members[0].topics),
        topics=", ".join(members[0].topics),
    )


def _partitions_of(view: GroupView, topics: tuple[str, ...]) -> int:
    """Return how many partitions these topics have: per topic, the larger of the probed and the assigned count."""
    total = 0
    for topic in topics:
        assigned = {p for each in view.members for p in (each.partitions or {}).get(topic, [])}
        total += max(len(assigned), view.history.topic_counts.get(topic, 0))
    return total


def _is_surplus(view: GroupView, topics: tuple[str, ...]) -> bool:
    """Whether more members subscribe to some of these topics than the topics have partitions."""
    rivals = sum(not set(topics).isdisjoint(each.topics) for each in view.members)
    return rivals > _partitions_of(view, topics) > 0


def _idle_since(view: GroupView, members: Sequence[Member]) -> list[tuple[Member, int | None]]:
    """Return since when (epoch ms) each of these currently idle members has been idle after every rebalance.

    Null if that is not known.
    """
    since = dict.fromkeys((each.member_id for each in members), view.stable_since_ms())
    still = set(since)
    for rebalance in reversed(view.history.in_order()):
        still &= {each.member_id for each in rebalance.members_after if not size_of(each.partitions)}
        if not still:
            break
        since.update(dict.fromkeys(still, rebalance.last_known_ms))
    return [(each, since[each.member_id]) for each in members]


@condition(grown=True)
def assignment_imbalance(view: GroupView) -> Iterator[Verdict]:
    """Members with equal subscriptions have unequal shares: range over many topics, or a defect of the assignor."""
    snapshot = view.history.snapshot
    if not view.is_settled or not view.is_consumer_group or snapshot is None:
        return
    if snapshot.protocol == STREAMS_ASSIGNOR or not _is_uneven(view.members):
        return
    since = view.standing_since(_is_uneven)
    if since is None or not view.time.lasted(since, view.thresholds.imbalance_ms):
        return
    classic = snapshot.type == GroupType.CLASSIC
    fingerprints = fingerprints_of(view.history, view.members)
    shares = [size_of(each.partitions) for each in view.members]
    fair = sum(shares) / len(shares)
    member = max(view.members, key=lambda each: (size_of(each.partitions), each.member_id))
    yield view.say(
        "assignment_imbalance",
        since,
        subject_of(member),
        severity=Severity.TICKET if max(shares) >= _UNFAIR * fair else Severity.INFO,
        member=member,
        least=min(shares),
        most=max(shares),
        fair=fair,
        topics=len(member.topics),
        assignor=snapshot.protocol or snapshot.type,
        protocol=snapshot.protocol,
        # Java, librdkafka, kafka-python, aiokafka, Sarama and franz-go have `roundrobin`.
        to_roundrobin=classic and snapshot.protocol in EAGER_ASSIGNORS - {"roundrobin"},
        to_uniform=not classic and snapshot.protocol != "uniform",
        advice=cooperative_advice(snapshot.protocol, fingerprints, "shares differ by at most 1") if classic else (),
    )


def _is_uneven(members: tuple[Member, ...]) -> bool:
    alike = len(members) > 1 and len({each.topics for each in members}) == 1 and bool(members[0].topics)
    if not alike or any(each.partitions is None or each.topic_regex for each in members):
        return False
    shares = [size_of(each.partitions) for each in members]
    return max(shares) - min(shares) > 1


# --- Strangers ---


@condition(grown=True)
def shared_group_id(view: GroupView) -> Iterator[Verdict]:
    """Different applications use one group id: a deploy of one stops the other (spring-projects/spring-kafka#3784)."""
    if not view.is_consumer_group:
        return
    since = view.standing_since(lambda members: len(_strangers(members)) > 1)
    if since is None or not view.time.lasted(since, view.thresholds.shared_ms):
        return
    parts = _strangers(view.members)
    yield view.say(
        "shared_group_id.topics",
        since,
        view.subject_among([member for part in parts for member in part]),
        parts=len(parts),
        group=view.history.group,
        readers="; ".join(f"{plain(part)} read {', '.join(sorted(_topics(part)))}" for part in parts[:3]),
        topics=" | ".join(",".join(sorted(_topics(part))) for part in parts),
        sizes=" | ".join(str(len(part)) for part in parts),
    )


@condition(grown=True)
def shared_connect_group(view: GroupView) -> Iterator[Verdict]:
    """Workers of two Connect clusters use one group id: some never reach the config offset of the others.

    A worker reads its config topic to the end before it joins, and again if it is behind its group's assignment
    (DistributedHerder.handleRebalanceCompleted): only a worker with another config topic keeps its offset in every
    join.
    """
    runs: dict[tuple[str, str], list[tuple[Rebalance, Member]]] = {}
    for each in view.recent(view.thresholds.leader_rejoin_window_ms):
        newest = max((_read_to(worker) for worker in each.members_after), default=-1)
        for worker in each.members_after:
            run = runs.get(slot_of(worker), [])
            same = not run or _read_to(run[-1][1]) == _read_to(worker)
            behind = worker.config_offset is not None and worker.config_offset < newest
            runs[slot_of(worker)] = [*(run if same else []), (each, worker)] if behind else []
    stuck = [run for run in runs.values() if len(run) >= _STUCK_JOINS]
    if not stuck:
        return
    workers = [run[-1][1] for run in stuck]
    began_ms = min(run[0][0].started_before_ms for run in stuck)
    yield view.say(
        "shared_group_id.connect",
        began_ms,
        subject_of(*workers[:MOST_MEMBERS]),
        group=view.history.group,
        workers=workers,
        offset=max(_read_to(worker) for run in stuck for worker in run[-1][0].members_after),
        read=min(map(_read_to, workers)),
        joins=min(map(len, stuck)),
    )


def _read_to(worker: Member) -> int:
    return -1 if worker.config_offset is None else worker.config_offset


def _strangers(members: tuple[Member, ...]) -> list[list[Member]]:
    """Return the members split into parts without common topics; empty unless their client ids or hosts differ, too."""
    if any(each.topic_regex for each in members):
        return []
    parts: list[list[Member]] = []
    for member in members:
        if member.topics:
            near = [part for part in parts if _topics(part) & set(member.topics)]
            parts = [part for part in parts if part not in near]
            parts.append([member, *(each for part in near for each in part)])
    hosts = [{m.host for m in part} for part in parts]
    # Client ids without the numbers that distinguish instances of one program.
    names = [{_NUMBER.sub("", client_stem(m.client_id)) for m in part} for part in parts]
    return sorted(parts, key=lambda part: part[0].member_id) if _disjoint(hosts) or _disjoint(names) else []


def _topics(members: Sequence[Member]) -> set[str]:
    return {topic for each in members for topic in each.topics}


def _disjoint(sets: Sequence[set[str]]) -> bool:
    return sum(map(len, sets)) == len(set().union(*sets))
