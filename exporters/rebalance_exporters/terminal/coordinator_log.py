"""The lines that a group's coordinators wrote to broker logs around one rebalance, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_contract import CoordinatorAct, CoordinatorEvent
from rebalance_contract.api import RebalanceRow
from rebalance_exporters.terminal.figures import Clock

#: Time range of the lines: before the known start, if that is only a bound, and after the end.
_BEFORE_MS, _AFTER_MS = 60_000, 5_000
_SHOWN = 20
_WORDS = {
    CoordinatorAct.PREPARING: "begins to prepare a rebalance",
    CoordinatorAct.STABILISED: "all have joined",
    CoordinatorAct.ASSIGNED: "has the assignment",
    CoordinatorAct.EMPTIED: "the group is empty",
    CoordinatorAct.UNTAKEN: "nobody joined in time",
    CoordinatorAct.EPOCH: "begins a new group epoch",
    CoordinatorAct.NAMED: "a newcomer gets its id",
    CoordinatorAct.JOINED: "joins",
    CoordinatorAct.SUBSCRIBED: "has another subscription",
    CoordinatorAct.EXPIRED: "is removed: no heartbeat within its session",
    CoordinatorAct.LEFT: "leaves by itself",
    CoordinatorAct.AWAY: "leaves for a while",
    CoordinatorAct.EVICTED: "is removed: did not join in time",
    CoordinatorAct.FENCED: "is fenced",
    CoordinatorAct.REPLACED: "replaces another member id",
    CoordinatorAct.REFUSED: "may not join: another member has its instance id",
    CoordinatorAct.UNASSIGNED: "could not compute a target assignment",
    CoordinatorAct.LOADED: "a broker becomes coordinator",
    CoordinatorAct.UNLOADED: "a broker is coordinator no more",
    CoordinatorAct.DELETED: "the group is gone",
    CoordinatorAct.CONVERTED: "the group changes its protocol",
}


def around(events: Sequence[CoordinatorEvent], rebalance: RebalanceRow | None) -> list[CoordinatorEvent]:
    """Return the events of one rebalance, or the latest events if there is none."""
    if rebalance is None:
        return list(events[-_SHOWN:])
    start_ms = rebalance.started_before_ms if rebalance.started_after_ms is None else rebalance.started_after_ms
    from_ms = max(start_ms, rebalance.started_before_ms - _BEFORE_MS) - _AFTER_MS
    end_ms = rebalance.completed_at_ms
    return [each for each in events if from_ms <= each.at_ms and (end_ms is None or each.at_ms <= end_ms + _AFTER_MS)]


def describe(events: Sequence[CoordinatorEvent], rebalance: RebalanceRow | None, clock: Clock) -> Iterator[str]:
    """Yield a line for each event of a rebalance, or one line that says that there is none."""
    found = around(events, rebalance)
    if not found:
        yield _nothing(events, clock)
    for each in found[:_SHOWN]:
        yield f"{_time(clock, each)} {_describe_one(each)}"
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more; --json has all"


def _nothing(events: Sequence[CoordinatorEvent], clock: Clock) -> str:
    if not events:
        return "names this group nowhere: another broker may be its coordinator"
    first, last = clock.moment(events[0].at_ms), clock.moment(events[-1].at_ms)
    return f"has nothing of this rebalance; of this group it has {first} to {last} (is --time-zone right?)"


def _time(clock: Clock, event: CoordinatorEvent) -> str:
    return f"{clock.time(event.at_ms)}.{event.at_ms % 1000:03}" if event.exact else f"about {clock.time(event.at_ms)}"


def _describe_one(event: CoordinatorEvent) -> str:
    words = _WORDS.get(CoordinatorAct(event.act), event.act) if event.act in set(CoordinatorAct) else event.act
    if event.act == CoordinatorAct.PREPARING:
        who = "" if event.member_id is None else f" of {event.member_id}"
        words = f"{words} ({event.trigger or 'no reason written'}{who})"
    elif event.member_id is not None:
        words = f"{event.member_id} {words}"
    generation = "" if event.generation is None else f", generation {event.generation}"
    return f"{words}{generation}{'' if event.reason is None else f': {event.reason}'}"
