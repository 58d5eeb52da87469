"""Departures known from the coordinator's log or from the member's own process that are not ordinary timeouts.

A member was removed by an administrator, joined without requesting its assignment, or left while its process ran on.
"""

from __future__ import annotations

from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.circumstances import say_lost
from rebalance_streaming.detect.rules.member_settings import is_movable
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.coordinator_log import BEHIND, UNSUBSCRIBED
from rebalance_streaming.observed.departures import Departure


def removed(episode: Episode, departure: Departure) -> Verdict | None:
    """An administrator's request removed the member (KIP-345); no source shows who sent it, or why."""
    began_ms = episode.rebalance.started_before_ms
    return say_lost("undetermined.removed", departure, began_ms, missing=(), returned=departure.back_as is not None)


def unsynced(episode: Episode, departure: Departure) -> Verdict | None:
    """A member joined, sent heartbeats, and did not send its SyncGroup within the rebalance timeout (KAFKA-12890).

    The leader's SyncGroup contains the assignment, for which all others wait. A leader stays leader as long as it is a
    member.
    """
    before = episode.history.before(episode.rebalance)
    leads = before is not None and before.leader == departure.member.member_id
    limit = max((each.rebalance_timeout_ms or 0 for each in episode.rebalance.members_before), default=0)
    return say_lost(
        "assignor_slow_or_failing.unsynced" if leads else "undetermined.unsynced",
        departure,
        departure.to_ms - limit,
        missing=(),
        limit=limit or None,
        movable=is_movable(episode.history),
    )


def left_but_runs_on(episode: Episode, departure: Departure) -> Verdict | None:
    """A member left in order, and its process ran on: it was not restarted."""
    if not departure.kept_running:
        return None
    meaning = None if departure.logged is None else departure.logged.meaning
    began_ms = episode.rebalance.started_before_ms
    if meaning == BEHIND:
        return say_lost("undetermined.behind", departure, began_ms, missing=())
    if meaning == UNSUBSCRIBED or departure.back_as is None:
        return None  # a change of its subscription, or of the number of members
    return say_lost("undetermined.rejoined", departure, began_ms, missing=(), away=departure.away_ms)
