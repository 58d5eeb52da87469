"""How many records of lost partitions were processed again, and how far commits went, estimated from group history.

Commits are forgotten within a minute, so this is evaluated soon after a rebalance. How certain each method is, and
whether the count is worth a finding, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import Partitions, Rebalance
from rebalance_contract.clients import APP_OFFSET, CONSUMED_TOTAL
from rebalance_streaming.groups.partitions import Place, places
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.progress import Progress


def count_repeated(history: GroupHistory, rebalance: Rebalance, partitions: Partitions) -> tuple[int, str] | None:
    """Return how many records of partitions lost in a rebalance were processed twice, and the method used.

    `partitions` are those that owners lost without committing first. The method is the best one with all its sources
    available: `application_offsets`, `totals`, `rate` (an estimate) or `rewinds` (a lower bound); null without any.
    """
    lost = places(partitions)
    for name, method in _METHODS.items() if lost else ():
        count = method(history, rebalance, lost)
        if count is not None:
            return count, name
    return None


def _by_application_offsets(history: GroupHistory, rebalance: Rebalance, lost: set[Place]) -> int | None:
    """Count the records that librdkafka passed on after the last commit, by its last report as the owner."""
    total = 0
    for place in lost:
        client = _former_owner(history, rebalance, place)
        committed = history.progress.committed_before(place, rebalance.started_before_ms)
        reported = {} if client is None else client.lag.get(place, {})
        if committed is None or APP_OFFSET not in reported:
            return None
        total += max(0, int(reported[APP_OFFSET]) - committed[1])
    return total


def _former_owner(history: GroupHistory, rebalance: Rebalance, place: Place) -> ClientHistory | None:
    """Return the client that lost a partition; null if it has it again, as its reports then describe the present."""
    before = next((m for m in rebalance.members_before if place in places(m.partitions)), None)
    now = () if history.snapshot is None else history.snapshot.members
    owner = next((m for m in now if place in places(m.partitions)), None)
    if before is None:
        return None
    known = history.clients.of(before)
    if known is None or owner is None:
        return known
    holds_it = history.clients.of(owner)
    return None if holds_it is known else known


def _by_totals(history: GroupHistory, rebalance: Rebalance, lost: set[Place]) -> int | None:
    """Count records consumed less records produced, between a moment without lag before the rebalance and now."""
    members = {m.member_id: m for m in (*rebalance.members_before, *rebalance.members_after)}.values()
    found = [history.clients.of(m) for m in members]
    clients = {id(each): each for each in found if each is not None}.values()
    spans = [_consumed_over(each, rebalance.started_before_ms) for each in clients]
    known = [each for each in spans if each is not None]
    if not known or len(known) < len(spans) or None in found:
        return None
    earliest, latest = min(at for at, _ in known), max(at for at, _ in known)
    produced = _produced(history.progress, earliest, latest)
    return None if produced is None else max(0, round(sum(count for _, count in known)) - produced)


def _consumed_over(client: ClientHistory, before_ms: int) -> tuple[int, float] | None:
    """Return (time before, records consumed since) of a client whose total never went back; null if not available."""
    known = [(s.emitted_ms, s.values[CONSUMED_TOTAL]) for s in client.reports if CONSUMED_TOTAL in s.values]
    start = next((i for i in reversed(range(len(known))) if known[i][0] <= before_ms), None)
    if start is None or start == len(known) - 1:
        return None
    totals = [total for _, total in known[start:]]
    return (known[start][0], totals[-1] - totals[0]) if totals == sorted(totals) else None


def _produced(progress: Progress, earliest_ms: int, latest_ms: int) -> int | None:
    """Return records produced since; null if any waited at the beginning or now, or came while clients reported."""
    produced = 0
    for each in progress.positions():
        place = (each.topic, each.partition)
        before, started = progress.committed_before(place, earliest_ms), progress.end_at(*place, earliest_ms)
        if before is None or started is None or before[1] != started or progress.end_at(*place, latest_ms) != started:
            return None
        if each.lag != 0 or each.end is None:
            return None
        produced += each.end - started
    return produced


def _by_rate(history: GroupHistory, rebalance: Rebalance, lost: set[Place]) -> int | None:
    """Estimate how far each owner went on after its last commit, at its rate until then; at most to the end."""
    revoked, total = rebalance.started_before_ms, 0.0
    for place in lost:
        steps = [each for each in commit_steps(history.progress, place, revoked) if each[1] > 0]
        last = history.progress.committed_before(place, revoked)
        end = history.progress.end_at(*place, revoked)
        if last is None or end is None:
            return None
        waiting = max(0, end - last[1])
        if waiting and len(steps) < 2:
            return None
        if waiting:
            rate = sum(step for _, step, _ in steps[:-1]) / (steps[0][0] - steps[-1][0])  # records per ms
            total += min(waiting, rate * (revoked - last[0]))
    return round(total)


def commit_steps(progress: Progress, place: Place, at_ms: int) -> Iterator[tuple[int, int, int]]:
    """Yield (time, records since the previous commit, offset) of remembered commits up to a moment, newest first."""
    after = progress.committed_before(place, at_ms)
    while after is not None and (before := progress.committed_before(place, after[0] - 1)) is not None:
        yield after[0], after[1] - before[1], after[1]
        after = before


def _by_rewinds(history: GroupHistory, rebalance: Rebalance, lost: set[Place]) -> int | None:
    """Sum up how far commits went back; a lower bound, because refused commits leave no trace."""
    from_ms, to_ms = rebalance.started_before_ms, rebalance.last_known_ms + 60_000
    back = [
        each.before - each.after
        for each in history.progress.jumps
        if (each.topic, each.partition) in lost and from_ms <= each.at_ms <= to_ms and each.after < each.before
    ]
    return sum(back) if back else None


#: In order of preference.
_METHODS = {
    "application_offsets": _by_application_offsets,
    "totals": _by_totals,
    "rate": _by_rate,
    "rewinds": _by_rewinds,
}
