"""How members left, in the totals of their group: the log tells that they did, the diagnosis by which time-out.

Every departure counts once, although a notice may come twice and a rebalance be judged again with more members.
"""

from __future__ import annotations

import hashlib
from copy import copy
from dataclasses import dataclass, replace

from rebalance_streaming.groups.model import GroupState

#: Departures remembered per group. After a restart the diagnosis tells those of its look-back (an hour) once more.
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Members, by id, that left a group in one rebalance because a time-out was over: the session, or max.poll."""

    group: str
    rebalance_id: str
    expired: tuple[str, ...] = ()
    poll_timeout: tuple[str, ...] = ()


def note_timed_out(state: GroupState, left: TimedOut) -> GroupState:
    """Add departures to the totals of their group; returns the same state where all of them were counted before.

    A group that was forgotten meanwhile does not come back for them.
    """
    if state.episode is None:
        return state
    known = set(state.timed_out)
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
    after.timed_out = (*state.timed_out, *expired, *poll_timeout)[-_REMEMBERED:]
    return after


def _digest(rebalance_id: str, member_id: str) -> int:
    """Return a departure as a number: names are long and a storm has many."""
    text = f"{rebalance_id}/{member_id}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
