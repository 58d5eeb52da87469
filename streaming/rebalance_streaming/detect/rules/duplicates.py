"""How many records were processed twice after a rebalance, counted by the best source there is.

Receives a group's history and the partitions that members lost before they could commit. Counted soon after each
rebalance, because commits are forgotten within a minute; the counts are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from rebalance_contract import EvidenceSource, Partitions, Rebalance
from rebalance_contract.clients import APP_OFFSET, CONSUMED_TOTAL
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import Condition, GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.memory import Duplicates, Memory
from rebalance_streaming.detect.rules.member_settings import have_poll_records
from rebalance_streaming.detect.verdict import Verdict, name_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import FENCED, POLL_TIMEOUT, SESSION_EXPIRED
from rebalance_streaming.observed.history import GroupHistory, by_topic, places
from rebalance_streaming.observed.liveness import PAUSED, STARVED
from rebalance_streaming.observed.progress import Place, Progress

#: How soon after a rebalance its duplicates must be counted.
_COUNTABLE_MS = 120_000


def estimate_duplicates(history: GroupHistory, rebalance: Rebalance, partitions: Partitions) -> tuple[int, str] | None:
    """Return how many records of partitions lost in a rebalance were processed twice, and how that was found.

    `partitions` are those that owners lost without committing first. The method is the best one whose sources are
    there: `application_offsets`, `totals`, `rate` (an estimate) or `rewinds` (a lower bound); null without any.
    """
    lost = places(partitions)
    for name, method in _METHODS.items() if lost else ():
        count = method.count and method.count(history, rebalance, lost)
        if count is not None:
            return count, name
    return None


def _by_application_offsets(history: GroupHistory, rebalance: Rebalance, lost: set[Place]) -> int | None:
    """Count what librdkafka handed to the application beyond the last commit, at its last word as the owner."""
    total = 0
    for place in lost:
        client = _former_owner(history, rebalance, place)
        committed = history.progress.committed_before(place, rebalance.started_before_ms)
        told = {} if client is None else client.lag.get(place, {})
        if committed is None or APP_OFFSET not in told:
            return None
        total += max(0, int(told[APP_OFFSET]) - committed[1])
    return total


def _former_owner(history: GroupHistory, rebalance: Rebalance, place: Place) -> ClientHistory | None:
    """Return the client that lost a partition; null if it has it again, since it then tells of the present."""
    before = next((m for m in rebalance.members_before if place in places(m.partitions)), None)
    now = () if history.picture is None else history.picture.members
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
    """Return (moment before, records consumed since) of a client whose total never went back; null without."""
    told = [(s.emitted_ms, s.values[CONSUMED_TOTAL]) for s in client.reports if CONSUMED_TOTAL in s.values]
    start = next((i for i in reversed(range(len(told))) if told[i][0] <= before_ms), None)
    if start is None or start == len(told) - 1:
        return None
    totals = [total for _, total in told[start:]]
    return (told[start][0], totals[-1] - totals[0]) if totals == sorted(totals) else None


def _produced(progress: Progress, earliest_ms: int, latest_ms: int) -> int | None:
    """Return the records produced since; null if any waited at the beginning or now, or came while clients told."""
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
    """Estimate how far each owner had gone on since its last commit, at its pace until then; at most to the end."""
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
    """Yield (time, records since the commit before, offset) of remembered commits up to a moment, newest first."""
    after = progress.committed_before(place, at_ms)
    while after is not None and (before := progress.committed_before(place, after[0] - 1)) is not None:
        yield after[0], after[1] - before[1], after[1]
        after = before


def _by_rewinds(history: GroupHistory, rebalance: Rebalance, lost: set[Place]) -> int | None:
    """Add up by how much commits went back; refused commits leave no trace, so there were at least as many."""
    from_ms, to_ms = rebalance.started_before_ms, rebalance.last_known_ms + 60_000
    back = [
        each.before - each.after
        for each in history.progress.jumps
        if (each.topic, each.partition) in lost and from_ms <= each.at_ms <= to_ms and each.after < each.before
    ]
    return sum(back) if back else None


@dataclass(frozen=True, slots=True)
class _Method:
    """A way to count: how sure it is and what it rests on. `at_least`: what was counted is the least there were.

    `count` null: counted member by member, where no other way finds any.
    """

    count: Callable[[GroupHistory, Rebalance, set[Place]], int | None] | None
    confidence: float
    source: EvidenceSource
    at_least: bool = False


#: The best one whose sources are there first.
_METHODS = {
    "application_offsets": _Method(_by_application_offsets, CERTAIN, EvidenceSource.CLIENT_METRICS),
    "totals": _Method(_by_totals, STRONG, EvidenceSource.CLIENT_METRICS),
    "rate": _Method(_by_rate, PLAUSIBLE, EvidenceSource.PROBES),
    "rewinds": _Method(_by_rewinds, STRONG, EvidenceSource.COMMITS, at_least=True),
    "refused": _Method(None, PLAUSIBLE, EvidenceSource.COMMITS, at_least=True),
}
_WITHOUT_COMMIT = (POLL_TIMEOUT, SESSION_EXPIRED, FENCED)


def duplicate_processing(look: GroupView, time: JudgingTime) -> Iterator[Verdict]:
    """Members that were lost before they could commit made others process records again (KIP-62; kafka-python#2070)."""
    since = look.history.progress.ends_since()
    counts = _counted(look, since) if since is not None else {}
    total = sum(each.records for each in counts.values())
    if since is None or not total or not _is_recent(look, time, counts):
        return
    growths = (look.history.progress.end_growth(p.topic, p.partition, since) for p in look.history.progress.positions())
    volume = sum(each for each in growths if each is not None)
    if total > look.thresholds.duplicates_share * volume:
        yield _duplicates_verdict(look, counts, total, volume, since)


def update_duplicates(look: GroupView, time: JudgingTime) -> Memory:
    """Count the duplicates of rebalances that lost members and were not counted yet; forget those long gone."""
    known = {name: each for name, each in look.memory.duplicates.items() if name in look.history.rebalances}
    lost: dict[str, set[Place]] = {}
    refused: dict[str, int] = {}
    for each in look.past:
        if each.departure.likely in _WITHOUT_COMMIT and time.is_within(each.left_ms, 2 * _COUNTABLE_MS):
            lost.setdefault(each.rebalance_id, set()).update(places(each.member.partitions))
            refused[each.rebalance_id] = refused.get(each.rebalance_id, 0) + _refused(look.history, each)
    for rebalance_id in sorted(lost.keys() - known.keys()):
        rebalance = look.history.rebalances.get(rebalance_id)
        if rebalance is None or not time.is_within(rebalance.completed_at_ms or look.now_ms, _COUNTABLE_MS):
            continue
        found = estimate_duplicates(look.history, rebalance, by_topic(sorted(lost[rebalance_id])))
        if (found is None or not found[0]) and refused[rebalance_id]:
            found = refused[rebalance_id], "refused"
        if found is not None:
            known[rebalance_id] = Duplicates(found[1], found[0])
    return replace(look.memory, duplicates=known)


def _refused(history: GroupHistory, past: ExplainedDeparture) -> int:
    """Return how many partitions a member lost in the middle of work that it went on with: a record each at least.

    Its commit comes too late and is refused, so the next owner begins where it began.
    """
    alive = past.departure.liveness in (STARVED, PAUSED) or past.departure.likely == POLL_TIMEOUT
    if not alive or past.departure.back_as is None:
        return 0
    positions = (history.progress.position(*place) for place in places(past.member.partitions))
    return sum(
        bool(each.lag if each.committed is not None else each.end) and (each.advanced_ms or 0) <= past.left_ms
        for each in positions
    )


def _counted(look: GroupView, since_ms: int) -> dict[str, Duplicates]:
    """Return what was counted of the rebalances since a moment, where it was anything."""
    since = {each.rebalance_id for each in look.history.since_ms(since_ms)}
    return {name: each for name, each in look.memory.duplicates.items() if name in since and each.records}


def _is_recent(look: GroupView, time: JudgingTime, counts: Iterable[str]) -> bool:
    rebalances = [look.history.rebalances[each] for each in counts]
    latest_ms = max(each.last_known_ms for each in rebalances)
    return time.is_within(latest_ms, look.thresholds.resolve_after_ms)


def _duplicates_verdict(
    look: GroupView, counts: dict[str, Duplicates], total: int, volume: int, since_ms: int
) -> Verdict:
    methods = sorted({each.method for each in counts.values()}, key=lambda each: (_METHODS[each].confidence, each))
    ids = sorted(counts, key=lambda each: look.history.rebalances[each].started_before_ms)
    return say(
        "duplicate_processing.counted",
        look.history.rebalances[ids[0]].started_before_ms,
        confidence=_METHODS[methods[0]].confidence,
        rebalance_ids=tuple(ids),
        at_least=any(_METHODS[each].at_least for each in methods),
        total=total,
        lasted=look.now_ms - since_ms,
        culprits=sorted({name_of(each.member) for each in look.past if each.rebalance_id in counts}),
        source=_METHODS[methods[0]].source,
        share=f"{total / volume:.1%} of {volume} records" if volume else "no new records meanwhile",
        methods=", ".join(methods),
        rebalances=len(counts),
        causes=", ".join(sorted({cause for each in counts if (cause := look.causes.get(each)) is not None})) or "-",
        positions=methods[0] == "application_offsets",
        batches=have_poll_records(look.history, look.members),
    )


CONDITIONS: tuple[Condition, ...] = (Condition(duplicate_processing, inputs.COMMITS | inputs.ENDS),)
