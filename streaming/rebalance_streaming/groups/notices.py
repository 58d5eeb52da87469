"""What the queries tell each other beside their rows: one tagged notice per row without a key in the commits topic.

Commits and lag pass by where they are cheap to handle; a group's state, which is not, hears only what changes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rebalance_streaming.groups.counts import SourceCounts
from rebalance_streaming.groups.events import Rebalance
from rebalance_streaming.groups.lagging import LagAround, note_lag
from rebalance_streaming.groups.leaving import TimedOut, note_timed_out
from rebalance_streaming.groups.model import GroupState
from rebalance_streaming.groups.silences import GroupSilences, note_silences
from rebalance_streaming.groups.simple import Committing, note_commit


class Counted(msgspec.Struct, frozen=True, tag="counts", tag_field="notice"):
    """What one task counted."""

    counts: SourceCounts


class Commits(msgspec.Struct, frozen=True, tag="committing", tag_field="notice"):
    """Groups that commit, of which nothing was said before."""

    committing: tuple[Committing, ...]


class Silent(msgspec.Struct, frozen=True, tag="silences", tag_field="notice"):
    """Unusual gaps between commits that ended."""

    silences: tuple[GroupSilences, ...]


class Lagging(msgspec.Struct, frozen=True, tag="lag", tag_field="notice"):
    """Lag around groups' latest rebalances."""

    lags: tuple[LagAround, ...]


class Left(msgspec.Struct, frozen=True, tag="left", tag_field="notice"):
    """Members that left because a time-out was over."""

    left: tuple[TimedOut, ...]


Notice = Counted | Commits | Silent | Lagging | Left

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Notice)


def dump(notice: Notice) -> bytes:
    """Serialise for the way between the queries."""
    return _encoder.encode(notice)


def load(text: bytes) -> Notice:
    """Read a notice. Raises msgspec.MsgspecError for anything else."""
    notice: Notice = _decoder.decode(text)
    return notice


def by_group(notice: Notice) -> Iterator[tuple[str, Notice]]:
    """Yield the part of a notice that is for each group; counts are for none."""
    match notice:
        case Commits(committing):
            yield from ((each.group, Commits((each,))) for each in committing)
        case Silent(silences):
            yield from ((each.group, Silent((each,))) for each in silences)
        case Lagging(lags):
            yield from ((each.group, Lagging((each,))) for each in lags)
        case Left(left):
            yield from ((each.group, Left((each,))) for each in left)


def note(state: GroupState, notice: Notice) -> tuple[GroupState, tuple[Rebalance, ...]]:
    """Take up a notice about one group; returns the new state and the rebalances it changed."""
    match notice:
        case Commits(committing):
            for each in committing:
                state = note_commit(state, each)
        case Silent(silences):
            return note_silences(state, [gap for each in silences for gap in each.silences])
        case Lagging((around,)):
            return note_lag(state, around)
        case Left((each,)):
            return note_timed_out(state, each), ()
    return state, ()
