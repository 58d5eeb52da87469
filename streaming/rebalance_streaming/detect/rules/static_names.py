"""Names of static members (KIP-345): one that two processes share, one that is new at each start (catalogue §4.4).

Receives a group as it stands with the replacements its log tells. Of KIP-848 groups the log tells none, so there only
the processes' own reports show a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.look import ConditionRule, Look
from rebalance_streaming.detect.rules.standing import DAY_MS, is_reporting
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
from rebalance_streaming.groups.events import Advice, Alternative, Evidence, Replacement, Subject, SubjectMember

#: Replacements of one instance that a quick restart, or two, do not explain.
_REPLACEMENTS, _ON_ONE_HOST = 2, 3
#: Random instance ids: this many times more of them in a day than members.
_NAMES_PER_MEMBER, _LEAST_NAMES = 3, 6


def static_id_conflict(look: Look) -> Iterator[Verdict]:
    """Two live processes share a group.instance.id and fence each other (twmb/franz-go#931, kafka4beam/brod#674)."""
    for instance in sorted({each.group_instance_id for each in look.members if each.group_instance_id is not None}):
        swaps = _replacements(look, instance)
        rivals = _rivals(look, instance)
        if _is_conflict(swaps, rivals):
            yield _conflict(look, instance, swaps, rivals)


def _replacements(look: Look, instance: str) -> list[Replacement]:
    picture = look.history.picture
    since = look.now_ms - look.thresholds.conflict_window_ms
    return [
        each
        for each in (picture.replacements if picture else ())
        if each.group_instance_id == instance and each.at_ms >= since
    ]


def _rivals(look: Look, instance: str) -> list[ClientHistory]:
    """Return the processes that report under one instance id at the same time; fewer than two are no rivals."""
    known = [each for each in look.history.clients if each.instance_id == instance and len(each.sights) > 1]
    live = [each for each in known if is_reporting(look, each)]
    if len(live) < _REPLACEMENTS:
        return []
    latest_start = max(each.sights[0].emitted_ms for each in live)
    # A process that has just been replaced still counts as live for a moment: both must have gone on since.
    return live if all(sum(s.emitted_ms >= latest_start for s in each.sights) > 1 for each in live) else []


def _is_conflict(swaps: list[Replacement], rivals: list[ClientHistory]) -> bool:
    return bool(rivals) or _alternations(swaps) > 0 or (len(_hosts(swaps)) == 1 and len(swaps) >= _ON_ONE_HOST)


def _hosts(swaps: list[Replacement]) -> set[str]:
    return {host for each in swaps for host in (each.old_host, each.new_host)}


def _alternations(swaps: list[Replacement]) -> int:
    """Return how often an instance went back to the host it had just left."""
    return sum(
        one.old_host == other.new_host and one.new_host == other.old_host != other.new_host
        for one, other in pairwise(swaps)
    )


def _conflict(look: Look, instance: str, swaps: list[Replacement], rivals: list[ClientHistory]) -> Verdict:
    turns = _alternations(swaps)
    sure = bool(rivals) or turns > 1
    hosts = sorted(_hosts(swaps) | {each.host for each in rivals if each.host})
    times = f"{len(swaps)} times in {seconds(look.thresholds.conflict_window_ms)}"
    evidence = [Evidence(LOG, "replacements", times, "same generation, new member id")] if swaps else []
    evidence += [Evidence(LOG, "hosts", " -> ".join(_route(swaps)), "back to a host it had left")] if turns else []
    if rivals:
        text = f"{len(rivals)} processes report under {instance}"
        evidence.append(Evidence(CLIENT_METRICS, "group.instance.id", text, "both at the same time"))
    return Verdict(
        rule="static_id_conflict",
        confidence=CERTAIN if sure else STRONG if turns else PLAUSIBLE,
        severity=PAGE if turns else TICKET,
        summary=f"Two processes use the group.instance.id {instance} and throw each other out"
        + (f", on {' and '.join(hosts)}." if len(hosts) > 1 else "."),
        started_at_ms=swaps[0].at_ms if swaps else max(each.sights[0].emitted_ms for each in rivals),
        subject=instance_subject(look, instance, tuple(hosts)),
        evidence=tuple(evidence),
        alternatives=(
            Alternative("static_member_restart", "both run at the same time" if sure else "too often for restarts"),
            *(() if sure or turns else (Alternative("crash_loop", "no process age tells whether it dies by itself"),)),
        ),
        missing=() if sure or turns else ("client metrics: process id and age of this instance",),
        advice=(
            Advice(
                "group.instance.id",
                instance,
                "one per process and thread: the pod's ordinal, or host and slot; not the deployment's name",
                "-",
            ),
        ),
    )


def _route(swaps: list[Replacement]) -> list[str]:
    return [swaps[0].old_host, *(each.new_host for each in swaps)]


def instance_subject(look: Look, instance: str, hosts: tuple[str, ...] = ()) -> Subject:
    """Return the member that has an instance id now as a subject, or the bare id when nobody has it."""
    member = next((each for each in look.members if each.group_instance_id == instance), None)
    if member is None:
        return Subject((SubjectMember(None, group_instance_id=instance),), hosts=hosts)
    return subject_of(member, hosts=hosts)


def static_member_restart(look: Look) -> Iterator[Verdict]:
    """A static member was restarted within its session, which cost nobody else anything (KIP-345, KAFKA-10284)."""
    picture = look.history.picture
    names = {each.group_instance_id for each in (picture.replacements if picture else ())}
    for instance in sorted(names):
        swaps = _replacements(look, instance)
        if not swaps or _is_conflict(swaps, _rivals(look, instance)):
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


CONDITIONS: tuple[ConditionRule, ...] = (static_id_conflict, static_member_restart, random_instance_ids)
