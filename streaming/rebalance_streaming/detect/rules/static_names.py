"""Names of static members (KIP-345): one that two processes share, one that is new at each start (catalogue §4.4).

Receives a group as it stands with the replacements its log tells. Of KIP-848 groups the log tells none, so there only
the processes' own reports show a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rebalance_contract import Replacement, Subject, SubjectMember
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.look import DAY_MS, Condition, Look
from rebalance_streaming.detect.rules.standing import is_reporting
from rebalance_streaming.detect.verdict import CERTAIN, PAGE, PLAUSIBLE, STRONG, TICKET, Verdict, subject_of
from rebalance_streaming.detect.wording import say

#: Replacements of one instance that a quick restart, or two, do not explain.
_REPLACEMENTS, _ON_ONE_HOST = 2, 3
#: Random instance ids: this many times more of them in a day than members.
_NAMES_PER_MEMBER, _LEAST_NAMES = 3, 6


def static_id_conflict(look: Look) -> Iterator[Verdict]:
    """Two live processes share a group.instance.id and fence each other (twmb/franz-go#931, kafka4beam/brod#674)."""
    for instance in sorted({each.group_instance_id for each in look.members if each.group_instance_id is not None}):
        swaps, rivals = _replacements(look, instance), _rivals(look, instance)
        processes = _processes(look, instance)
        if _is_conflict(swaps, rivals, processes):
            yield _conflict(look, instance, swaps, rivals, processes)


def _replacements(look: Look, instance: str) -> list[Replacement]:
    picture = look.history.picture
    window_ms = look.thresholds.conflict_window_ms
    return [
        each
        for each in (picture.replacements if picture else ())
        if each.group_instance_id == instance and look.is_within(each.at_ms, window_ms)
    ]


def _rivals(look: Look, instance: str) -> list[ClientHistory]:
    """Return the processes that report under one instance id at the same time; fewer than two are no rivals."""
    processes = [each for each in _processes(look, instance) if len(each.sights) > 1]
    live = [each for each in processes if is_reporting(look, each)] if len(processes) >= _REPLACEMENTS else []
    if len(live) < _REPLACEMENTS:
        return []
    latest_start = max(each.sights[0].emitted_ms for each in live)
    # A process that has just been replaced still counts as live for a moment: both must have gone on since.
    return live if all(sum(s.emitted_ms >= latest_start for s in each.sights) > 1 for each in live) else []


def _processes(look: Look, instance: str) -> list[ClientHistory]:
    """Return the processes that reported under an instance id lately, in the order of their first reports."""
    window_ms = look.thresholds.conflict_window_ms
    known = [each for each in look.history.clients if each.instance_id == instance and each.sights]
    return sorted(
        (each for each in known if look.is_within(each.sights[-1].emitted_ms, window_ms)),
        key=lambda each: each.sights[0].emitted_ms,
    )


def _is_conflict(swaps: list[Replacement], rivals: list[ClientHistory], processes: list[ClientHistory]) -> bool:
    in_place = len(_hosts(swaps)) == 1 and len(swaps) >= _ON_ONE_HOST
    return bool(rivals) or in_place or _alternations(swaps) > 0 or _returns(processes) > 0


def _hosts(swaps: list[Replacement]) -> set[str]:
    return {host for each in swaps for host in (each.old_host, each.new_host)}


def _alternations(swaps: list[Replacement]) -> int:
    """Return how often an instance went back to the host it had just left."""
    return sum(
        one.old_host == other.new_host and one.new_host == other.old_host != other.new_host
        for one, other in pairwise(swaps)
    )


def _returns(processes: list[ClientHistory]) -> int:
    """Return how often a program came back after another one had had the instance id; a restart has one name."""
    names = [(each.client_id, each.host) for each in processes]
    return sum(a == c != b for a, b, c in zip(names, names[1:], names[2:], strict=False))


def _conflict(
    look: Look, instance: str, swaps: list[Replacement], rivals: list[ClientHistory], processes: list[ClientHistory]
) -> Verdict:
    turns, returns = _alternations(swaps), _returns(processes)
    sure, seen = bool(rivals) or turns > 1 or returns > 1, bool(turns or returns)
    others = {f"{each.client_id} ({each.host})" for each in processes} if rivals or returns else _hosts(swaps)
    hosts = [each.old_host for each in swaps[:1]] + [each.new_host for each in swaps]
    return say(
        "static_id_conflict",
        swaps[0].at_ms if swaps else processes[0].sights[0].emitted_ms,
        _both(look, instance, swaps, rivals),
        confidence=CERTAIN if sure else STRONG if seen else PLAUSIBLE,
        severity=PAGE if turns else TICKET,
        instance=instance,
        between=" and ".join(sorted(others)) if len(others) > 1 else None,
        swaps=len(swaps) or None,
        hosts=" -> ".join(hosts) if turns else None,
        programs=" -> ".join(each.client_id or "?" for each in processes) if returns else None,
        rivals=len(rivals) or None,
        seen=seen,
        known=sure or seen,
        limits=look.thresholds,
    )


def _both(look: Look, instance: str, swaps: list[Replacement], rivals: list[ClientHistory]) -> Subject:
    """Return both sides: who was thrown out last and by whom, or the processes that report."""
    if not swaps:
        sides = [SubjectMember(each.member_id, each.client_id, each.host, instance) for each in rivals]
        return Subject(tuple(sides)) if sides else instance_subject(look, instance)
    last = swaps[-1]
    named = ((last.old_member_id, last.old_host), (last.new_member_id, last.new_host))
    return Subject(tuple(SubjectMember(name, _client_id(look, name), host, instance) for name, host in named))


def _client_id(look: Look, member_id: str) -> str | None:
    """Return the client id that was reported with a member id: the log keeps that of the instance's first holder."""
    told = (c for c in look.history.clients if any(each.member_id == member_id for each in c.sights))
    return next((each.client_id for each in told), None)


def instance_subject(look: Look, instance: str) -> Subject:
    """Return the member that has an instance id now as a subject, or the bare id when nobody has it."""
    member = next((each for each in look.members if each.group_instance_id == instance), None)
    return Subject((SubjectMember(None, group_instance_id=instance),)) if member is None else subject_of(member)


def static_member_restart(look: Look) -> Iterator[Verdict]:
    """A static member was restarted within its session, which cost nobody else anything (KIP-345, KAFKA-10284)."""
    picture = look.history.picture
    for instance in sorted({each.group_instance_id for each in (picture.replacements if picture else ())}):
        swaps = _replacements(look, instance)
        if not swaps or _is_conflict(swaps, _rivals(look, instance), _processes(look, instance)):
            continue
        last, label = swaps[-1], CERTAIN if len(swaps) == 1 else PLAUSIBLE
        yield say(
            "static_member_restart",
            last.at_ms,
            instance_subject(look, instance),
            confidence=label,
            instance=instance,
            host=last.new_host,
            times=len(swaps),
        )


def random_instance_ids(look: Look) -> Iterator[Verdict]:
    """Every start has a new group.instance.id, and each leaves a ghost behind (variant of `static_member_ghost`)."""
    if look.is_young:
        return
    recent = look.recent(DAY_MS)
    seen = {m.group_instance_id for each in recent for m in (*each.members_before, *each.members_after)} - {None}
    most = max((len(each.members_after) for each in recent), default=0)
    if len(seen) >= max(_LEAST_NAMES, _NAMES_PER_MEMBER * most):
        since_ms = recent[0].started_before_ms
        yield say("static_member_ghost.random_instance_ids", since_ms, names=len(seen), members=most)


CONDITIONS: tuple[Condition, ...] = (
    Condition(static_id_conflict, inputs.CLIENTS),
    Condition(static_member_restart, inputs.CLIENTS),
    Condition(random_instance_ids),
)
