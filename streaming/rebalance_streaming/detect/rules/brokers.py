"""A slow or crippled coordinator (catalogue §4.5), as far as one group can tell.

Receives one group's history with its clients' reports. One group cannot separate its broker from what lies between
them, nor see the groups beside it: what is said here is plausible at most, and names what is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import pairwise

from rebalance_contract import Rebalance
from rebalance_contract.clients import RESPONSE_MAX
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.departures import SESSION_EXPIRED, session_of
from rebalance_streaming.detect.history import COMPLETING, PREPARING, Sighting
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules.standing import is_reporting
from rebalance_streaming.detect.verdict import HINT, PAGE, PLAUSIBLE, TICKET, Verdict
from rebalance_streaming.detect.wording import say

_MINUTE_MS = 60_000
_SLOW_CLIENTS = 2
#: A reporting thread that wakes this late says that its own process was slow.
_LATE_TICK_MS = 1_000
#: Two probes further apart than this do not show one and the same state.
_BLIND_MS = 90_000
_HOPS, _HOPPING_MS = 2, 30_000
_ABORTED = 2


# --- Slow ---


def coordinator_overload(look: Look) -> Iterator[Verdict]:
    """Several clients at once wait long for the answer to a heartbeat: the coordinator is slow."""
    if look.is_young or _just_moved(look):
        return
    if not any(_is_slow(look, each) for each in look.history.clients):
        return
    told = [(each, ms) for each in look.history.clients if (ms := _response_ms(look, each)) is not None]
    slow = [(each, ms) for each, ms in told if ms > look.thresholds.overload_response_ms]
    if len(slow) >= _SLOW_CLIENTS and 2 * len(slow) >= len(told):
        yield _overloaded(look, slow, len(told))


def _is_slow(look: Look, client: ClientHistory) -> bool:
    """Whether any answer of the last minute was late."""
    limit, since_ms = look.thresholds.overload_response_ms, look.now_ms - _MINUTE_MS
    recent = itertools.takewhile(lambda each: each.emitted_ms >= since_ms, reversed(client.sights))
    return any(each.values.get(RESPONSE_MAX, 0.0) > limit for each in recent)


def _just_moved(look: Look) -> bool:
    """Whether the coordinator moved so lately that clients' one-minute maxima still show it."""
    moved = list(look.history.coordinators)[1:]
    return bool(moved) and look.is_within(moved[-1].at_ms, look.thresholds.failover_window_ms + 2 * _MINUTE_MS)


def _response_ms(look: Look, client: ClientHistory) -> float | None:
    """Return the longest answer of the last minute; null when not told, or when the client itself was slow."""
    recent = [each for each in client.sights if look.is_within(each.emitted_ms, _MINUTE_MS)]
    if not is_reporting(look, client) or any((each.tick_late_ms or 0) > _LATE_TICK_MS for each in recent):
        return None
    return max((each.values[RESPONSE_MAX] for each in recent if RESPONSE_MAX in each.values), default=None)


def _overloaded(look: Look, slow: list[tuple[ClientHistory, float]], told: int) -> Verdict:
    worst, hosts = max(ms for _, ms in slow), sorted({each.host or "" for each, _ in slow})
    session = min((session_of(each) for each in look.members), default=0)
    since_ms = look.now_ms - look.thresholds.resolve_after_ms
    evicted = any(each.departure.likely == SESSION_EXPIRED and each.left_ms >= since_ms for each in look.past)
    return say(
        "coordinator_overload",
        min(each.sights[-1].emitted_ms for each, _ in slow),
        confidence=PLAUSIBLE if len(hosts) > 1 else HINT,
        severity=PAGE if evicted and 2 * worst > session else TICKET,
        metric=RESPONSE_MAX,
        slow=len(slow),
        told=told,
        worst=worst,
        hosts=", ".join(hosts),
        limits=look.thresholds,
    )


# --- Unable to store ---


def offsets_topic_unhealthy(look: Look) -> Iterator[Verdict]:
    """The group's offsets partition cannot store assignments (F11c, confluentinc/librdkafka#2722)."""
    if look.is_young:
        return
    hopping = _hopping(look)
    recent = [] if hopping else look.recent(look.thresholds.resolve_after_ms)
    lost = [each for each in recent if each.type == "classic" and _lost_rounds(each)]
    if not hopping and not lost:
        return
    since_ms = hopping[0].at_ms if hopping else lost[0].started_before_ms
    last_commit = look.history.progress.last_commit_ms if hopping else None
    stopped = last_commit is not None and last_commit < since_ms
    yield say(
        "offsets_topic_unhealthy",
        since_ms,
        confidence=PLAUSIBLE if stopped else HINT,
        # A hint wakes nobody.
        severity=PAGE if stopped else TICKET,
        aborted=max((each.generations_aborted for each in lost), default=None),
        hops=_hops(hopping) or None,
        stopped=stopped,
        silence=look.now_ms - last_commit if stopped and last_commit is not None else None,
    )


def _lost_rounds(rebalance: Rebalance) -> bool:
    """Whether rounds got no record although at most one member came or went, which could have interrupted one."""
    changes = sum(len(each.joined) + len(each.left) for each in rebalance.generations)
    return rebalance.generations_aborted >= _ABORTED and changes <= 1 and bool(rebalance.members_after)


def _hopping(look: Look) -> list[Sighting]:
    """Return the latest probes if they saw the group fall back to preparing repeatedly, without any record since."""
    run: list[Sighting] = []
    recorded_ms = (look.history.picture.updated_at_ms if look.history.picture else None) or 0
    for each in reversed(look.history.sightings):
        if each.state not in (PREPARING, COMPLETING, None) or each.at_ms < recorded_ms:
            break
        if each.state is not None:
            run.insert(0, each)
    fresh = bool(run) and look.is_within(run[-1].at_ms, _BLIND_MS)
    return run if fresh and _hops(run) >= _HOPS and run[-1].at_ms - run[0].at_ms >= _HOPPING_MS else []


def _hops(run: list[Sighting]) -> int:
    return sum(a.state == COMPLETING and b.state == PREPARING for a, b in pairwise(run))


CONDITIONS: tuple[Condition, ...] = (
    Condition(coordinator_overload, inputs.CLIENTS | inputs.STATES),
    Condition(offsets_topic_unhealthy, inputs.STATES | inputs.COMMITS),
)
