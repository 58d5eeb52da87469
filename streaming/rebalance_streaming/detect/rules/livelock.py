"""Cooperative rebalances that call for the next one without end (catalogue §4.4).

Receives one group's rebalances. A cooperative assignor needs one follow-up to hand out what was revoked; a longer
series of them means that what one round revokes the next does not settle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_contract import Generation, Rebalance, Subject
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.bugs import STREAMS
from rebalance_streaming.detect.fingerprints import fingerprint
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules.standing import (
    STREAMS_ASSIGNOR,
    client_of,
    is_harmed,
    leader_of,
    sync_ms,
    upgrade_for,
)
from rebalance_streaming.detect.verdict import PAGE, TICKET, Verdict, subject_of
from rebalance_streaming.detect.wording import say

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
    rebalance = last[-1].rebalance
    leader = leader_of(rebalance)
    prints = None if leader is None else fingerprint(leader, client_of(look, leader))
    library = STREAMS if rebalance.protocol == STREAMS_ASSIGNOR else None
    upgrade = upgrade_for(prints, "cooperative_livelock", library=library)
    yield say(
        "cooperative_livelock",
        last[0].at_ms,
        Subject() if leader is None else subject_of(leader),
        severity=PAGE if is_harmed(look, [each.partitions for each in look.members]) else TICKET,
        advice=upgrade,
        rebalance_ids=tuple(dict.fromkeys(each.rebalance.rebalance_id for run in runs for each in run)),
        rounds=len(last),
        lasted=last[-1].at_ms - last[0].at_ms,
        sync=max((sync_ms(each.generation) for each in last), default=0),
        leader=leader,
        versions_known=_versions_known(look),
        upgrade=bool(upgrade),
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


def _versions_known(look: Look) -> bool:
    return all(fingerprint(each, client_of(look, each)).release for each in look.members)


CONDITIONS: tuple[Condition, ...] = (Condition(cooperative_livelock, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),)
