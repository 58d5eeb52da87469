"""What the queries tell each other beside their rows."""

from __future__ import annotations

import msgspec
import pytest

from groups.records import Log, member
from rebalance_streaming.groups.counts import SourceCounts
from rebalance_streaming.groups.events import CommitSummary, QueryStatus, Silence, encode
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.lagging import LagAround
from rebalance_streaming.groups.leaving import TimedOut
from rebalance_streaming.groups.model import GroupState, new_state
from rebalance_streaming.groups.notices import (
    Commits,
    Counted,
    Lagging,
    Left,
    Notice,
    Silent,
    by_group,
    dump,
    load,
    note,
)
from rebalance_streaming.groups.silences import GroupSilences
from rebalance_streaming.groups.simple import Committing


def grown() -> tuple[GroupState, str, int]:
    """Return a group with members, the id of its latest rebalance, and when that ended."""
    state = new_state("test", "g")
    for record in Log().write(1, member("a-1")).write(2, member("a-1"), member("b-1")).records:
        state, _ = fold(state, record)
    assert state.episode is not None
    latest = state.episode.rebalance
    return state, latest.rebalance_id, latest.completed_at_ms or 0


STATE, LATEST, DONE_MS = grown()
GAP = Silence("orders", 0, DONE_MS - 9_000, DONE_MS + 11_000)
NOTICES: dict[str, Notice] = {
    "counts": Counted(SourceCounts("commits", 7, 42, ((0, 1, "decoded", 5), (None, None, "corrupt", 1)))),
    "committing": Commits((Committing("g", 7, 5, 1_000_000), Committing("h", 8, 6, 2_000_000))),
    "silences": Silent((GroupSilences("g", (GAP,)), GroupSilences("h/with/slashes", ()))),
    "lag": Lagging((LagAround("g", LATEST, 10, 90), LagAround("ü 🚀", "other", 0, 3, 1_000_000))),
    "left": Left((TimedOut("g", LATEST, DONE_MS, ("a-1",)), TimedOut("ü 🚀", "other", 0, (), ("b-1", "c-1")))),
}


@pytest.mark.parametrize("kind", NOTICES)
def test_a_notice_arrives_as_it_was_sent(kind: str):
    """Serialised and read back it is the same, whatever names its groups have, and its tag says which kind it is."""
    text = dump(NOTICES[kind])
    assert load(text) == NOTICES[kind]
    assert msgspec.json.decode(text)["notice"] == kind


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not json",
        b"{}",
        b'{"notice": "from the future"}',
        b'{"notice": "lag"}',
        b'{"notice": "lag", "lags": [{"group": "g"}]}',
        encode(CommitSummary("c", "g", 0, 5_000, 7, 0, 1, {})),
        encode(QueryStatus("c", "commits", True, 0, 0, 500)),
    ],
)
def test_anything_else_is_refused(text: bytes):
    """A row that is no notice is an error to whoever reads it, never half a notice."""
    with pytest.raises(msgspec.MsgspecError):
        load(text)


@pytest.mark.parametrize(
    ("kind", "groups"),
    [("counts", []), ("committing", ["g", "h"]), ("silences", ["g", "h/with/slashes"]), ("lag", ["g", "ü 🚀"])],
)
def test_each_group_gets_its_own_part(kind: str, groups: list[str]):
    """Nothing is lost and nothing goes to another group; counts are for no group."""
    parts = list(by_group(NOTICES[kind]))
    assert [group for group, _ in parts] == groups
    assert all(type(part) is type(NOTICES[kind]) for _, part in parts)
    told = [each for _, part in parts for name in part.__struct_fields__ for each in getattr(part, name)]
    whole = NOTICES[kind]
    assert told == ([] if kind == "counts" else [*getattr(whole, whole.__struct_fields__[0])])
    assert [each.group for each in told] == groups


def part_of(kind: str, group: str = "g") -> Notice:
    return next(part for name, part in by_group(NOTICES[kind]) if name == group)


def test_a_commit_makes_an_unknown_group_known():
    """Of a group whose log has no record of its own this is all there is; a known one stays as it is."""
    state, told = note(new_state("test", "g"), part_of("committing"))
    assert (state.picture.type, state.picture.first_seen_ms, told) == ("simple", 1_000_000, ())
    assert note(STATE, part_of("committing")) == (STATE, ())


def test_a_gap_in_commits_changes_the_rebalance_it_overlaps():
    """The rebalance is told again, with the gap and what it cost; a second time nothing changes."""
    state, (told,) = note(STATE, part_of("silences"))
    assert told.rebalance_id == LATEST
    assert told.silences == (GAP,)
    assert told.lost_partition_ms == GAP.resumed_at_ms - max(GAP.last_commit_ms, told.started_before_ms)
    assert note(state, part_of("silences")) == (state, ())


def test_lag_changes_the_rebalance_it_is_about():
    """The same way through: told once, kept in the state, and not again."""
    state, (told,) = note(STATE, part_of("lag"))
    assert (told.rebalance_id, told.lag_before, told.lag_peak, told.lag_recovered_at_ms) == (LATEST, 10, 90, None)
    assert note(state, part_of("lag")) == (state, ())
    assert note(STATE, part_of("lag", "ü 🚀")) == (STATE, ())


def test_counts_are_for_no_group():
    """Should they reach one, it does not change."""
    assert note(STATE, NOTICES["counts"]) == (STATE, ())
