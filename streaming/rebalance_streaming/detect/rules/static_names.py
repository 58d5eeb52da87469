"""Names of static members (KIP-345): one that two processes share, one that is new at each start (catalogue §4.4).

Receives a group as it stands with the replacements its log tells. Of KIP-848 groups the log tells none, so there only
the processes' own reports show a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rebalance_contract import Advice, Alternative, Evidence, Replacement, Subject, SubjectMember
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.look import DAY_MS, Condition, Look
from rebalance_streaming.detect.rules.standing import is_reporting
from rebalance_streaming.detect.verdict import (
    CERTAIN,
    CLIENT_METRICS,
    INFO,
    LOG,
    PAGE,
    PLAUSIBLE,
    STRONG,
    TICKET,
    Verdict,
    seconds,
    subject_of,
)

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
    sure = bool(rivals) or turns > 1 or returns > 1
    seen = bool(turns or returns)
    others = {f"{each.client_id} ({each.host})" for each in processes} if rivals or returns else _hosts(swaps)
    between = f": {' and '.join(sorted(others))}" if len(others) > 1 else ""
    return Verdict(
        rule="static_id_conflict",
        confidence=CERTAIN if sure else STRONG if seen else PLAUSIBLE,
        severity=PAGE if turns else TICKET,
        summary=f"Two processes use the group.instance.id {instance} and throw each other out{between}.",
        started_at_ms=swaps[0].at_ms if swaps else processes[0].sights[0].emitted_ms,
        subject=_both(look, instance, swaps, rivals),
        evidence=_conflict_evidence(look, instance, swaps, rivals, processes),
        alternatives=(
            Alternative("static_member_restart", "both come back in turns" if seen else "too often for restarts"),
            *(() if sure or seen else (Alternative("crash_loop", "no process age tells whether it dies by itself"),)),
        ),
        missing=() if sure or seen else ("client metrics: process id and age of this instance",),
        advice=(
            Advice(
                "group.instance.id",
                instance,
                "one per process and thread: the pod's ordinal, or host and slot; not the deployment's name",
                "-",
            ),
        ),
    )


def _conflict_evidence(
    look: Look, instance: str, swaps: list[Replacement], rivals: list[ClientHistory], processes: list[ClientHistory]
) -> tuple[Evidence, ...]:
    evidence = []
    if swaps:
        times = f"{len(swaps)} times in {seconds(look.thresholds.conflict_window_ms)}"
        evidence.append(Evidence(LOG, "replacements", times, "same generation, new member id"))
    if _alternations(swaps):
        route = [swaps[0].old_host, *(each.new_host for each in swaps)]
        evidence.append(Evidence(LOG, "hosts", " -> ".join(route), "back to a host it had left"))
    if _returns(processes):
        route = [each.client_id or "?" for each in processes]
        evidence.append(Evidence(CLIENT_METRICS, "client.id", " -> ".join(route), "programs take turns under one name"))
    if rivals:
        text = f"{len(rivals)} processes report under {instance}"
        evidence.append(Evidence(CLIENT_METRICS, "group.instance.id", text, "both at the same time"))
    return tuple(evidence)


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
    names = {each.group_instance_id for each in (picture.replacements if picture else ())}
    for instance in sorted(names):
        swaps = _replacements(look, instance)
        if not swaps or _is_conflict(swaps, _rivals(look, instance), _processes(look, instance)):
            continue
        last = swaps[-1]
        yield Verdict(
            rule="static_member_restart",
            confidence=CERTAIN if len(swaps) == 1 else PLAUSIBLE,
            severity=INFO,
            summary=f"Static member {instance} ({last.new_host}) was restarted in time; nobody else stopped.",
            started_at_ms=last.at_ms,
            subject=instance_subject(look, instance),
            evidence=(Evidence(LOG, "member id", "new, in the same generation", "static membership: no rebalance"),),
            alternatives=(Alternative("static_id_conflict", f"replaced {len(swaps)} times, hosts do not alternate"),),
        )


def random_instance_ids(look: Look) -> Iterator[Verdict]:
    """Every start has a new group.instance.id, and each leaves a ghost behind (variant of `static_member_ghost`)."""
    if look.is_young:
        return
    recent = look.recent(DAY_MS)
    seen = {m.group_instance_id for each in recent for m in (*each.members_before, *each.members_after)} - {None}
    most = max((len(each.members_after) for each in recent), default=0)
    if len(seen) < max(_LEAST_NAMES, _NAMES_PER_MEMBER * most):
        return
    yield Verdict(
        rule="static_member_ghost",
        variant="random_instance_ids",
        confidence=STRONG,
        summary=f"{len(seen)} different group.instance.ids in a day for at most {most} members: each start has a "
        "new one, and leaves a ghost behind.",
        started_at_ms=recent[0].started_before_ms,
        evidence=(Evidence(LOG, "group.instance.id", f"{len(seen)} for {most} members", "names that last are few"),),
        advice=(
            Advice(
                "group.instance.id", None, "a name that survives a restart: a StatefulSet's ordinal, host and slot", "-"
            ),
        ),
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(static_id_conflict, inputs.CLIENTS),
    Condition(static_member_restart, inputs.CLIENTS),
    Condition(random_instance_ids),
)
