"""Departures made by hand for rules that look back at how members left, and histories of recorded groups."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import msgspec

from goldens import data_records
from histories import SECOND, T0, Event, probe, rebalance_id, take
from rebalance_contract import CommitActivity, GroupSnapshot, Member, Rebalance
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.observed.confidence import STRONG
from rebalance_streaming.observed.departures import POLL_TIMEOUT, Departure
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.progress import Rhythm
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import Replay


def departed(
    left_ms: int,
    who: Member,
    likely: str = POLL_TIMEOUT,
    *,
    rule: str = "poll_overrun",
    of: str | None = None,
    sure: float = STRONG,
    **changes: Any,
) -> ExplainedDeparture:
    """Return a departure that a rule explained with a confidence, in the rebalance `of` (null: that of `left_ms`).

    Fields that are not given are unknown.
    """
    described: dict[str, Any] = {
        **dict.fromkeys(each.name for each in fields(Departure)),
        "member": who,
        "client": make_fingerprint(who),
        "from_ms": left_ms,
        "to_ms": left_ms,
        "latest_ms": left_ms,
        "rhythm": Rhythm(None, None, pulse=False, commits=0),
        "classes": (likely,),
        "confidence": STRONG,
        "in_barrier": False,
        "evidence": (),
        "struck": (),
    }
    departure = Departure(**{**described, **changes})
    return ExplainedDeparture(
        rule=rule,
        confidence=sure,
        left_ms=left_ms,
        member=who,
        departure=departure,
        rebalance_id=of or rebalance_id(left_ms),
    )


def replayed(scenario: str, until_ms: int | None = None) -> GroupHistory:
    """Return the history of the group in a golden recording; of several, the one with the most rebalances.

    `until_ms`: replay up to this time; null: to the end.
    """
    replay = Replay()
    lines = (json.dumps(each) for each in data_records(scenario))
    rows = [*replay.feed(read_lines([lines], until_ms)), *replay.finish()]
    known: dict[str, GroupHistory] = {}
    for row in rows:
        kind = _KINDS.get(row["kind"])
        if kind is not None:
            event = msgspec.convert({name: value for name, value in row.items() if name != "kind"}, kind)
            take(known.setdefault(event.group, GroupHistory(event.cluster, event.group)), event)
    return max(known.values(), key=lambda each: len(each.rebalances))


_KINDS: dict[str, type[GroupSnapshot | Rebalance | CommitActivity]] = {
    "group": GroupSnapshot,
    "rebalance": Rebalance,
    "commits": CommitActivity,
}


def moved(at_ms: int) -> list[Event]:
    """Let a coordinator answer until half a minute ago, and another one afterwards."""
    answers = [probe(at, "Stable", coordinator_id=1) for at in (T0, at_ms - 30 * SECOND)]
    return [*answers, probe(at_ms, "Stable", coordinator_id=2)]
