"""Members that come one by one, or are not let in at all (catalogue §4.4).

Receives a group as it stands and what clients that are not in it report. A client that was refused leaves no record in
the log, so only its own reports show it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import Generation, Rebalance, Subject, SubjectMember
from rebalance_contract.clients import FAILED_REBALANCES, JOIN_RATE
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.advice import LONGEST_SESSION_MS, USUAL_SESSION_MS
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.history import UNSETTLED
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules.standing import client_of, is_reporting
from rebalance_streaming.detect.verdict import PAGE, PLAUSIBLE, STRONG, TICKET, Verdict
from rebalance_streaming.detect.wording import say

#: The brokers' default of group.min.session.timeout.ms.
_LOWEST_SESSION_MS = 6_000
#: A client that is kept out this long does not merely wait for a rebalance to end.
_REJECTED_MS, _REJECTED_REPORTS = 60_000, 3
_OUTSIDE = ("init", "wait-join")
_LOWEST_DELAY_MS, _HIGHEST_DELAY_MS = 3_000, 60_000


def initial_delay_too_short(look: Look) -> Iterator[Verdict]:
    """A forming group rebalanced for every member that came (group.initial.rebalance.delay.ms, KIP-134)."""
    if look.is_young:
        return
    window = look.thresholds.formation_window_ms
    recent = look.recent(window + look.thresholds.resolve_after_ms)
    firsts = [each for each in recent if each.type == "classic" and not each.members_before and each.members_after]
    if not firsts:
        return
    first = firsts[-1]
    forming = [each for each in recent if 0 <= each.started_before_ms - first.started_before_ms <= window]
    times = _arrival_times(forming, first.started_before_ms + window)
    if times is None or len(times) < look.thresholds.formation_generations:
        return
    yield _formed_in_steps(forming, times)


def _arrival_times(forming: list[Rebalance], until_ms: int) -> list[int] | None:
    """Return when each generation with newcomers was complete; null when somebody left meanwhile."""
    times = []
    for generation in (g for each in forming for g in each.generations):
        at_ms = _completed_ms(generation)
        if at_ms is not None and at_ms > until_ms:
            break
        if generation.left:
            return None
        if generation.joined and at_ms is not None:
            times += [at_ms] * (1 + generation.aborted_before)
    return times


def _completed_ms(generation: Generation) -> int | None:
    return generation.join_ended_at_ms or generation.assigned_at_ms


def _formed_in_steps(forming: list[Rebalance], times: list[int]) -> Verdict:
    spread = times[-1] - times[0]
    return say(
        "initial_delay_too_short",
        forming[0].started_before_ms,
        rebalance_ids=tuple(each.rebalance_id for each in forming),
        generations=len(times),
        spread=spread,
        proposed=min(_HIGHEST_DELAY_MS, max(_LOWEST_DELAY_MS, spread + 1_000)),
    )


def join_rejected(look: Look) -> Iterator[Verdict]:
    """A client tries to join and never becomes a member: the broker refuses it (KIP-62, KIP-345, KIP-389)."""
    if look.is_young or not _lets_members_in(look):
        return
    matched = {id(client): member for member in look.members if (client := client_of(look, member)) is not None}
    nameless = {each.client_id for each in look.members} - {each.client_id for each in matched.values()}
    for client in look.history.clients:
        if id(client) not in matched and client.client_id not in nameless and _is_kept_out(look, client):
            yield _rejected(look, client)


def _lets_members_in(look: Look) -> bool:
    """Whether the group has been at rest for so long that a client could have joined."""
    picture, since = look.history.picture, look.stable_since_ms()
    if picture is None or picture.rebalancing_since_ms is not None or since is None:
        return False
    unsettled = next((each for each in reversed(look.history.sightings) if each.state in UNSETTLED), None)
    busy = unsettled is not None and look.is_within(unsettled.at_ms, _REJECTED_MS)
    return not busy and look.lasted(since, _REJECTED_MS)


def _is_kept_out(look: Look, client: ClientHistory) -> bool:
    """Whether all recent reports tell of attempts to join and none of partitions."""
    if not is_reporting(look, client) or client.group_id not in (None, look.history.group):
        return False
    if client.member_id is not None and any(each.member_id == client.member_id for each in look.members):
        return False
    seen = [each for each in client.sights if each.emitted_ms >= look.now_ms - _REJECTED_MS]
    if len(seen) < _REJECTED_REPORTS or seen[-1].emitted_ms - seen[0].emitted_ms < _REJECTED_MS // 2:
        return False
    if any(each.assigned for each in seen) or all(each.assigned is None and each.join_state is None for each in seen):
        return False
    failed = [each.values[FAILED_REBALANCES] for each in seen if FAILED_REBALANCES in each.values]
    tries = any((each.values.get(JOIN_RATE) or 0) > 0 for each in seen)
    outside = all(each.join_state in _OUTSIDE for each in seen)
    return tries or outside or (len(failed) > 1 and failed[-1] > failed[0])


def _rejected(look: Look, client: ClientHistory) -> Verdict:
    session = client.config.session_timeout_ms
    refused = session if session is not None and not _LOWEST_SESSION_MS <= session <= LONGEST_SESSION_MS else None
    seen = [each for each in client.sights if each.emitted_ms >= look.now_ms - _REJECTED_MS]
    return say(
        "join_rejected",
        seen[0].emitted_ms,
        Subject((SubjectMember(client.member_id, client.client_id, client.host, client.instance_id),)),
        confidence=PLAUSIBLE if refused is None else STRONG,
        severity=PAGE if not look.members and look.history.progress.total_lag() else TICKET,
        variant=None if refused is None else "session_out_of_range",
        client=client.client_id or "A client",
        host=client.host or "unknown host",
        instance=client.instance_id,
        state=seen[-1].join_state or f"{seen[-1].assigned or 0:.0f} partitions assigned",
        lasted=seen[-1].emitted_ms - seen[0].emitted_ms,
        members=len(look.members),
        refused=refused,
        usual=USUAL_SESSION_MS,
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(initial_delay_too_short),
    Condition(join_rejected, inputs.CLIENTS | inputs.STATES | inputs.COMMITS | inputs.ENDS),
)
