"""The group's leader: it rejoins without need, assigns slowly or not at all, or triggers follow-ups without end.

Receives one group's rebalances; all of this is in the log: the leader's sync phase, and rounds that got no record. A
cooperative assignor needs one follow-up to assign revoked partitions; a longer series means that the follow-ups do not
settle the assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from rebalance_contract import STREAMS_ASSIGNOR, GroupType, Rebalance, RebalanceReason, Severity, Subject
from rebalance_streaming.detect.bugs import STREAMS
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.group_view import DAY_MS, GroupView, condition
from rebalance_streaming.detect.rules.member_settings import is_movable, upgrade_for
from rebalance_streaming.detect.rules.rebalances import leader_of, sync_ms
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.partitions import size_of
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.leader_rounds import Round, follow_ups, pure_rejoins

_MINUTE_MS = 60_000
#: Generations per minute above which a loop leaves no time for work.
_FRANTIC = 10
#: Creating and changing connectors makes workers rejoin, too, so the limit for a loop is this many times higher. One
#: change, like a first start, takes up to this many rounds: connectors are assigned first, then their tasks (KIP-415).
_CONNECT_FACTOR, _CONNECT_ROUNDS = 4, 6
#: Interval at which Sarama's leader checks its metadata; it ends its session if that fails.
_REFRESH_MS, _REFRESH_SLACK = 600_000, 0.05
_FAILING_A_DAY = 2
#: Factor on the limit of rejoins beside joins: a client that discovers its topics at its start rejoins a few times
#: (kafka-python: up to four).
_BESIDE_JOINS = 2
_CALLS_LEADER = with_trait("rejoins")


@condition()
def leader_rejoin_loop(view: GroupView) -> Iterator[Verdict]:
    """The leader rejoins repeatedly although nothing changed (KAFKA-14867, strimzi/strimzi-kafka-operator#3225)."""
    # A change of topics seen by probes makes the leader rejoin, as intended.
    called = {name for name, cause in view.causes.items() if cause in _CALLS_LEADER}
    known = [each for each in view.history.in_order() if each.rebalance_id not in called]
    least = _BESIDE_JOINS * view.thresholds.leader_rejoins
    pure = [rejoin for each in known for rejoin in pure_rejoins(each, least)]
    for leader in sorted({each.rebalance.leader for each in pure if each.rebalance.leader is not None}):
        mine = [each for each in pure if each.rebalance.leader == leader]
        looping = _looping(view, mine)
        if looping:
            yield _rejoins(leader, looping)


def _looping(view: GroupView, rejoins: list[Round]) -> list[Round]:
    """Return the rejoins of all remembered time spans with too many of them."""
    found: dict[int, Round] = {}
    window, limit = view.thresholds.leader_rejoin_window_ms, view.thresholds.leader_rejoins
    if any(each.generation.reason == RebalanceReason.CONNECT_INTERNAL for each in rejoins):
        limit *= _CONNECT_FACTOR
    for i, first in enumerate(rejoins):
        near = [each for each in rejoins[i:] if each.at_ms - first.at_ms <= window]
        if _without_need(near) >= limit:
            found.update({id(each): each for each in near})
    for three in zip(rejoins, rejoins[1:], rejoins[2:], strict=False):
        if all(_is_refresh(a, b) for a, b in pairwise(three)):
            found.update({id(each): each for each in three})
    return sorted(found.values(), key=lambda each: each.at_ms)


def _without_need(rejoins: list[Round]) -> int:
    """Return the number of rounds of joins; for Connect, the rounds of one change of connectors count once."""
    total = 0
    for _, several in groupby(rejoins, lambda each: each.rebalance.rebalance_id):
        rounds = [*several]
        joins = sum(each.joins for each in rounds)
        internal = rounds[0].generation.reason == RebalanceReason.CONNECT_INTERNAL
        total += max(1, joins - _CONNECT_ROUNDS) if internal else joins
    return total


def _is_refresh(one: Round, other: Round) -> bool:
    return abs(other.at_ms - one.at_ms - _REFRESH_MS) <= _REFRESH_SLACK * _REFRESH_MS


def _rejoins(leader: str, looping: list[Round]) -> Verdict:
    first, last = looping[0], looping[-1]
    rounds, spread = sum(each.joins for each in looping), last.at_ms - first.at_ms
    frantic = rounds > _FRANTIC * max(1.0, spread / _MINUTE_MS)
    connect = last.generation.reason == RebalanceReason.CONNECT_INTERNAL
    periodic = not connect and len(looping) > 2 and all(_is_refresh(a, b) for a, b in pairwise(looping))
    member = leader_of(last.rebalance)
    counts = Counter(each.rebalance.rebalance_id for each in looping)
    mostly = [
        each.rebalance for each in looping if 2 * counts[each.rebalance.rebalance_id] > len(each.rebalance.generations)
    ]
    return say(
        "leader_rejoin_loop",
        first.at_ms,
        Subject() if member is None else subject_of(member),
        severity=Severity.PAGE if frantic else Severity.TICKET,
        variant="connect_config_view" if connect else "metadata_refresh" if periodic else None,
        rebalance_ids=tuple(dict.fromkeys(each.rebalance_id for each in mostly)),
        leader=member or leader,
        rounds=rounds,
        spread=spread,
        connect=connect,
        periodic=periodic,
        plain=not connect and not periodic,
    )


@condition(inputs.CLIENTS, grown=True)
def assignor_slow_or_failing(view: GroupView) -> Iterator[Verdict]:
    """The leader takes long to compute the assignment, or its rounds get no record (confluentinc/librdkafka#4800)."""
    day = [each for each in view.recent(DAY_MS) if each.type == GroupType.CLASSIC and each.members_after]
    slow = [(ms, each) for each in day if (ms := _longest_sync_ms(each)) > view.thresholds.sync_warn_ms]
    stands_ms = view.thresholds.resolve_after_ms
    recent = [(ms, each) for ms, each in slow if view.time.is_within(each.last_known_ms, stands_ms)]
    if recent:
        yield _slow_assignor(view, *max(recent, key=lambda each: each[0]), len(slow))
    # Each member that came or went may have interrupted a round, which is then not the leader's fault.
    failing = [each for each in day if each.generations_aborted and each.changes <= 1]
    if len(failing) >= _FAILING_A_DAY:
        yield _failing_assignor(view, failing)


def _longest_sync_ms(rebalance: Rebalance) -> int:
    """Return the longest time from the barrier's release to the stored assignment of any generation."""
    return max([rebalance.sync_ms or 0, *map(sync_ms, rebalance.generations)])


def _slow_assignor(view: GroupView, longest_ms: int, rebalance: Rebalance, times: int) -> Verdict:
    leader = leader_of(rebalance)
    return view.say(
        "assignor_slow_or_failing.slow",
        rebalance.join_ended_at_ms or rebalance.started_before_ms,
        Subject() if leader is None else subject_of(leader),
        severity=Severity.TICKET if longest_ms > view.thresholds.sync_ticket_ms else Severity.INFO,
        advice=upgrade_for(view.history, leader, "assignor_slow_or_failing"),
        rebalance_ids=(rebalance.rebalance_id,),
        leader=leader,
        sync=longest_ms,
        times=times,
        members=len(rebalance.members_after),
        partitions=sum(size_of(each.partitions) for each in rebalance.members_after),
        reported=leader is not None and view.client_of(leader) is not None,
        movable=is_movable(view.history),
    )


def _failing_assignor(view: GroupView, failing: Sequence[Rebalance]) -> Verdict:
    return view.say(
        "assignor_slow_or_failing.failing",
        failing[0].started_before_ms,
        advice=upgrade_for(view.history, leader_of(failing[-1]), "assignor_slow_or_failing"),
        rebalance_ids=tuple(each.rebalance_id for each in failing),
        rebalances=len(failing),
        aborted=sum(each.generations_aborted for each in failing),
        movable=is_movable(view.history),
    )


# --- Cooperative rebalances that trigger each other without end ---


@condition(inputs.REPORTED)
def cooperative_livelock(view: GroupView) -> Iterator[Verdict]:
    """Follow-up rebalances trigger each other (KAFKA-13891, KAFKA-14382, confluentinc/librdkafka#4800, #4059)."""
    runs = [each for each in _runs(view) if len(each) >= view.thresholds.livelock_generations]
    if not runs:
        return
    last = runs[-1]
    rebalance = last[-1].rebalance
    leader = leader_of(rebalance)
    library = STREAMS if rebalance.protocol == STREAMS_ASSIGNOR else None
    upgrade = upgrade_for(view.history, leader, "cooperative_livelock", library=library)
    yield view.say(
        "cooperative_livelock",
        last[0].at_ms,
        Subject() if leader is None else subject_of(leader),
        severity=Severity.PAGE if view.is_harmed([each.partitions for each in view.members]) else Severity.TICKET,
        advice=upgrade,
        rebalance_ids=tuple(dict.fromkeys(each.rebalance.rebalance_id for run in runs for each in run)),
        rounds=len(last),
        lasted=last[-1].at_ms - last[0].at_ms,
        sync=max((sync_ms(each.generation) for each in last), default=0),
        leader=leader,
        versions_known=all(make_fingerprint(each, view.client_of(each)).release for each in view.members),
        upgrade=bool(upgrade),
    )


def _runs(view: GroupView) -> list[list[Round]]:
    """Return series of follow-ups, oldest first; a series ends with another kind of generation or a longer pause."""
    runs: list[list[Round]] = [[]]
    for each in follow_ups(view.history):
        last = runs[-1][-1] if runs[-1] else None
        if each is None:
            runs.append([])
        elif last is not None and each.at_ms - last.at_ms >= view.thresholds.livelock_spacing_ms:
            runs.append([each])
        else:
            runs[-1].append(each)
    return [run for run in runs if run]
