"""How many records were processed twice after a rebalance, counted from the best available source.

Receives a group's history and the partitions that members lost before they could commit. Records are counted soon after
each rebalance, because commits are forgotten within a minute; the counts are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rebalance_contract import EvidenceSource
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.memory import Duplicates, Memory
from rebalance_streaming.detect.rules.member_settings import have_poll_records
from rebalance_streaming.detect.verdict import Verdict, name_of
from rebalance_streaming.groups.partitions import Place, by_topic, places
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import FENCED, POLL_TIMEOUT, REMOVED_BY_ADMIN, SESSION_EXPIRED, UNSYNCED
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.liveness import PAUSED, STARVED
from rebalance_streaming.observed.repeated_records import count_repeated

#: How soon after a rebalance its duplicates must be counted.
_COUNTABLE_MS = 120_000


@dataclass(frozen=True, slots=True)
class _Method:
    """A way to count: its confidence and its source. `at_least`: the count is a lower bound."""

    confidence: float
    source: EvidenceSource
    at_least: bool = False


#: The methods of `count_repeated`, and `refused`, which counts per member if these find nothing.
_METHODS = {
    "application_offsets": _Method(CERTAIN, EvidenceSource.CLIENT_METRICS),
    "totals": _Method(STRONG, EvidenceSource.CLIENT_METRICS),
    "rate": _Method(PLAUSIBLE, EvidenceSource.PROBES),
    "rewinds": _Method(STRONG, EvidenceSource.COMMITS, at_least=True),
    "refused": _Method(PLAUSIBLE, EvidenceSource.COMMITS, at_least=True),
}
#: Classes of departures without a commit: the members were removed by the coordinator or an administrator.
_WITHOUT_COMMIT = (POLL_TIMEOUT, SESSION_EXPIRED, FENCED, UNSYNCED, REMOVED_BY_ADMIN)


@condition(inputs.PROGRESS)
def duplicate_processing(view: GroupView) -> Iterator[Verdict]:
    """Members that were lost before they could commit made others process records again (KIP-62; kafka-python#2070)."""
    since = view.progress.ends_since()
    if since is None:
        return
    began = {each.rebalance_id: each for each in view.history.since_ms(since)}
    counts = {name: each for name, each in view.memory.duplicates.items() if name in began and each.records}
    latest_ms = max((began[name].last_known_ms for name in counts), default=None)
    if latest_ms is None or not view.time.is_within(latest_ms, view.thresholds.resolve_after_ms):
        return
    total = sum(each.records for each in counts.values())
    growths = (view.progress.end_growth(p.topic, p.partition, since) for p in view.progress.positions())
    volume = sum(each for each in growths if each is not None)
    if total > view.thresholds.duplicates_share * volume:
        yield _duplicates_verdict(view, counts, total, volume, since)


def update_duplicates(view: GroupView) -> Memory:
    """Return the memory with duplicates counted for rebalances that lost members, without forgotten rebalances."""
    known = {name: each for name, each in view.memory.duplicates.items() if name in view.history.rebalances}
    lost: dict[str, set[Place]] = {}
    refused: dict[str, int] = {}
    for each in view.past:
        if each.departure.likely in _WITHOUT_COMMIT and view.time.is_within(each.left_ms, 2 * _COUNTABLE_MS):
            lost.setdefault(each.rebalance_id, set()).update(places(each.member.partitions))
            refused[each.rebalance_id] = refused.get(each.rebalance_id, 0) + _refused(view.history, each)
    for rebalance_id in sorted(lost.keys() - known.keys()):
        rebalance = view.history.rebalances.get(rebalance_id)
        if rebalance is None or not view.time.is_within(rebalance.completed_at_ms or view.now_ms, _COUNTABLE_MS):
            continue
        found = count_repeated(view.history, rebalance, by_topic(sorted(lost[rebalance_id])))
        if (found is None or not found[0]) and refused[rebalance_id]:
            found = refused[rebalance_id], "refused"
        if found is not None:
            known[rebalance_id] = Duplicates(found[1], found[0])
    return replace(view.memory, duplicates=known)


def _refused(history: GroupHistory, past: ExplainedDeparture) -> int:
    """Return how many partitions a member lost while it was processing and went on: at least one record is repeated in
    each.

    Its commit comes too late and is refused, so the next owner starts from the same offset.
    """
    alive = past.departure.liveness in (STARVED, PAUSED) or past.departure.likely == POLL_TIMEOUT
    if not alive or past.departure.back_as is None:
        return 0
    positions = (history.progress.position(*place) for place in places(past.member.partitions))
    return sum(
        bool(each.lag if each.committed is not None else each.end) and (each.advanced_ms or 0) <= past.left_ms
        for each in positions
    )


def _duplicates_verdict(
    view: GroupView, counts: dict[str, Duplicates], total: int, volume: int, since_ms: int
) -> Verdict:
    methods = sorted({each.method for each in counts.values()}, key=lambda each: (_METHODS[each].confidence, each))
    ids = sorted(counts, key=lambda each: view.history.rebalances[each].started_before_ms)
    return view.say(
        "duplicate_processing.counted",
        view.history.rebalances[ids[0]].started_before_ms,
        confidence=_METHODS[methods[0]].confidence,
        rebalance_ids=tuple(ids),
        at_least=any(_METHODS[each].at_least for each in methods),
        total=total,
        lasted=view.now_ms - since_ms,
        culprits=sorted({name_of(each.member) for each in view.past if each.rebalance_id in counts}),
        source=_METHODS[methods[0]].source,
        share=f"{total / volume:.1%} of {volume} records" if volume else "no new records meanwhile",
        methods=", ".join(methods),
        rebalances=len(counts),
        causes=", ".join(sorted({cause for each in counts if (cause := view.causes.get(each)) is not None})) or "-",
        positions=methods[0] == "application_offsets",
        batches=have_poll_records(view.history, view.members),
    )
