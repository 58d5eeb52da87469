"""How members left, in the totals of their group: the log tells that they did, the diagnosis by which time-out.

Every departure counts once, although a notice may come twice and a rebalance be judged again with more members.
"""

from __future__ import annotations

import hashlib
from copy import copy
from dataclasses import dataclass, replace

from rebalance_streaming.groups.model import GroupState

#: Departures are remembered for this long after their rebalance: after a restart the diagnosis tells those of its
#: look-back once more, an hour by default. What is older was told, or will never be.
_REMEMBERED_MS = 2 * 3_600_000


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Members, by id, that left a group in one rebalance because a time-out was over: the session, or max.poll.

    `at_ms` is when the rebalance ended.
    """

    group: str
    rebalance_id: str
    at_ms: int
    expired: tuple[str, ...] = ()
    poll_timeout: tuple[str, ...] = ()


def note_timed_out(state: GroupState, left: TimedOut) -> GroupState:
    """Add departures to the totals of their group; returns the same state where all of them were counted before.

    A group that was forgotten meanwhile does not come back for them.
    """
    newest_ms = max((at_ms for at_ms, _ in state.timed_out), default=left.at_ms)
    if state.picture.first_seen_ms is None or left.at_ms < newest_ms - _REMEMBERED_MS:
        return state
    known = {name for _, name in state.timed_out}
    expired, poll_timeout = (
        [name for each in members if (name := _digest(left.rebalance_id, each)) not in known]
        for members in (left.expired, left.poll_timeout)
    )
    if not expired and not poll_timeout:
        return state
    counters = state.picture.counters
    counters = replace(
        counters,
        members_expired=counters.members_expired + len(expired),
        members_poll_timeout=counters.members_poll_timeout + len(poll_timeout),
    )
    after = copy(state)
    after.picture = replace(state.picture, counters=counters)
    kept = [each for each in state.timed_out if each[0] >= left.at_ms - _REMEMBERED_MS]
    after.timed_out = (*kept, *((left.at_ms, name) for name in (*expired, *poll_timeout)))
    return after


def _digest(rebalance_id: str, member_id: str) -> int:
    """Return a departure as a number: names are long and a storm has many."""
    text = f"{rebalance_id}/{member_id}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
