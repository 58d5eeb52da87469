"""Cooperative rebalances that call for the next one without end (catalogue §4.4).

Receives one group's rebalances. A cooperative assignor needs one follow-up to hand out what was revoked; a longer
series of them means that what one round revokes the next does not settle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_contract import Advice, Alternative, Evidence, Generation, Member, Rebalance
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.bugs import STREAMS, upgrade_advice
from rebalance_streaming.detect.fingerprints import fingerprint
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules.standing import STREAMS_ASSIGNOR, client_of, is_harmed
from rebalance_streaming.detect.verdict import LOG, PAGE, STRONG, TICKET, Verdict, name_of, seconds, subject_of

_FOLLOW_UP, _STREAMS = "cooperative_followup", "streams_internal"


@dataclass(frozen=True, slots=True)
class _Round:
    """One follow-up generation, when it was complete, and the rebalance it belongs to."""

    at_ms: int
    generation: Generation
    rebalance: Rebalance


def cooperative_livelock(look: Look) -> Iterator[Verdict]:
    """Follow-up rebalances trigger each other (KAFKA-13891, KAFKA-14382, confluentinc/librdkafka#4800, #4059)."""
    runs = [each for each in _runs(look) if len(each) >= look.thresholds.livelock_generations]
    if not runs:
        return
    last = runs[-1]
    ids = tuple(dict.fromkeys(each.rebalance.rebalance_id for run in runs for each in run))
    rebalance = last[-1].rebalance
    leader = next((each for each in rebalance.members_after if each.member_id == rebalance.leader), None)
    spread = last[-1].at_ms - last[0].at_ms
    sync = max((_sync_ms(each.generation) for each in last), default=0)
    yield Verdict(
        rule="cooperative_livelock",
        confidence=STRONG,
        severity=PAGE if is_harmed(look, [each.partitions for each in look.members]) else TICKET,
        summary=f"{len(last)} cooperative rebalances followed each other within {seconds(spread)} with the same "
        "members: what one round revokes the next does not settle.",
        started_at_ms=last[0].at_ms,
        evidence=(
            Evidence(LOG, "generations", f"{len(last)} follow-ups within {seconds(spread)}", "one is usual"),
            Evidence(LOG, "partitions", "revoked and not handed out in each", "owned before, unassigned after"),
            Evidence(
                LOG, "sync", f"at most {seconds(sync)}", f"leader {name_of(leader)}" if leader else "leader unknown"
            ),
        ),
        alternatives=(
            Alternative("leader_rejoin_loop", "partitions were revoked in each round"),
            Alternative("rebalance_storm", "nobody came or left"),
            Alternative("streams_probing_rebalance", "the rounds are seconds apart, not minutes"),
        ),
        missing=() if _versions_known(look) else ("versions of the clients: client metrics, or in the client.id",),
        advice=_settle(look, leader, rebalance),
        rebalance_ids=ids,
        claims=True,
        subject=subject_of(*((leader,) if leader is not None else ())),
    )


def _runs(look: Look) -> list[list[_Round]]:
    """Return series of follow-ups, oldest first; a series ends with another kind of generation or a longer pause."""
    runs: list[list[_Round]] = [[]]
    for each in _rounds(look):
        last = runs[-1][-1] if runs[-1] else None
        if each is None:
            runs.append([])
        elif last is not None and each.at_ms - last.at_ms >= look.thresholds.livelock_spacing_ms:
            runs.append([each])
        else:
            runs[-1].append(each)
    return [run for run in runs if run]


def _rounds(look: Look) -> Iterator[_Round | None]:
    """Yield follow-ups in order, and null for every generation that is none."""
    for rebalance in look.history.in_order():
        reasons = (_FOLLOW_UP, _STREAMS) if rebalance.protocol == STREAMS_ASSIGNOR else (_FOLLOW_UP,)
        for generation in rebalance.generations:
            at_ms = generation.assigned_at_ms or generation.join_ended_at_ms or rebalance.started_before_ms
            same = generation.reason in reasons and not generation.joined and not generation.left
            yield _Round(at_ms, generation, rebalance) if same else None


def _sync_ms(generation: Generation) -> int:
    released, assigned = generation.join_ended_at_ms, generation.assigned_at_ms
    return 0 if released is None or assigned is None else max(0, assigned - released)


def _versions_known(look: Look) -> bool:
    return all(fingerprint(each, client_of(look, each)).release for each in look.members)


def _settle(look: Look, leader: Member | None, rebalance: Rebalance) -> tuple[Advice, ...]:
    prints = None if leader is None else fingerprint(leader, client_of(look, leader))
    library = STREAMS if rebalance.protocol == STREAMS_ASSIGNOR else prints.library if prints is not None else None
    release = prints.release if prints is not None else ()
    known = upgrade_advice(library, release, "cooperative_livelock")
    usual = Advice(
        "upgrade",
        None,
        "Java and Streams >= 3.4.1; librdkafka >= 2.10.0",
        "KAFKA-13891, KAFKA-14639, KAFKA-14382; librdkafka#4800, #4059",
    )
    retry = Advice("code", None, "retry commits that fail with REBALANCE_IN_PROGRESS after the next poll", "-")
    return known or usual, retry


CONDITIONS: tuple[Condition, ...] = (Condition(cooperative_livelock, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),)
