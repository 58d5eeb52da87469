"""Members that come one by one, or are not let in at all (catalogue §4.4).

Receives a group as it stands and what clients that are not in it report. A client that was refused leaves no record in
the log, so only its own reports show it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import (
    Advice,
    Alternative,
    Evidence,
    Generation,
    Rebalance,
    Subject,
    SubjectMember,
)
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.clients import FAILED_REBALANCES, JOIN_RATE, ClientHistory
from rebalance_streaming.detect.history import UNSETTLED
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules.standing import client_of, is_reporting
from rebalance_streaming.detect.verdict import (
    CERTAIN,
    CLIENT_METRICS,
    LOG,
    PAGE,
    PLAUSIBLE,
    STRONG,
    TICKET,
    Verdict,
    seconds,
)

#: The brokers' defaults of group.min.session.timeout.ms and group.max.session.timeout.ms.
_LOWEST_SESSION_MS, _HIGHEST_SESSION_MS, _USUAL_SESSION_MS = 6_000, 1_800_000, 45_000
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
    proposed = min(_HIGHEST_DELAY_MS, max(_LOWEST_DELAY_MS, spread + 1_000))
    return Verdict(
        rule="initial_delay_too_short",
        confidence=CERTAIN,
        summary=f"The group took {len(times)} generations to form, because its members came over {seconds(spread)}.",
        started_at_ms=forming[0].started_before_ms,
        evidence=(Evidence(LOG, "generations", f"{len(times)} in {seconds(spread)}", "from empty, arrivals only"),),
        alternatives=(Alternative("rebalance_storm", "members only came, none left"),),
        advice=(
            Advice(
                "group.initial.rebalance.delay.ms (of the broker)",
                None,
                str(proposed),
                "spread of the joins + 1 s, at least 3 s, at most 60 s",
            ),
        ),
        rebalance_ids=tuple(each.rebalance_id for each in forming),
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
    refused = session is not None and not _LOWEST_SESSION_MS <= session <= _HIGHEST_SESSION_MS
    lag = look.history.progress.total_lag()
    seen = [each for each in client.sights if each.emitted_ms >= look.now_ms - _REJECTED_MS]
    state = seen[-1].join_state or f"{seen[-1].assigned or 0:.0f} partitions assigned"
    return Verdict(
        rule="join_rejected",
        variant="session_out_of_range" if refused else None,
        confidence=STRONG if refused else PLAUSIBLE,
        severity=PAGE if not look.members and lag else TICKET,
        summary=f"{client.client_id or 'A client'} ({client.host or 'unknown host'}) tries to join and is not let in"
        + (f": its session of {seconds(session)} is outside the broker's limits." if refused and session else "."),
        started_at_ms=seen[0].emitted_ms,
        subject=Subject((SubjectMember(client.member_id, client.client_id, client.host, client.instance_id),)),
        evidence=(
            Evidence(
                CLIENT_METRICS, "join", state, f"for at least {seconds(seen[-1].emitted_ms - seen[0].emitted_ms)}"
            ),
            Evidence(LOG, "members", f"{len(look.members)}, without this client", "no rebalance meanwhile"),
        ),
        alternatives=(
            Alternative("static_id_conflict", "another process may have its group.instance.id")
            if client.instance_id
            else Alternative("assignor_migration_error", "it may offer no assignor that the others have"),
        ),
        missing=() if refused else ("the client's log: its error names the reason",),
        advice=_let_in(session if refused else None),
    )


def _let_in(session: int | None) -> tuple[Advice, ...]:
    if session is not None:
        return (
            Advice(
                "session.timeout.ms",
                str(session),
                str(_USUAL_SESSION_MS),
                "group.min (6000) <= S <= group.max (1800000)",
            ),
        )
    return (
        Advice("partition.assignment.strategy", None, "one assignor that all members of the group have", "-"),
        Advice("group.max.size (of the broker), ACLs", None, "allow this client, or give it a group of its own", "-"),
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(initial_delay_too_short),
    Condition(join_rejected, inputs.CLIENTS | inputs.STATES | inputs.COMMITS | inputs.ENDS),
)
