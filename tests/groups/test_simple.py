"""Groups of which the log has only commits."""

from groups.records import Log, member
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import GroupState, new_state
from rebalance_streaming.groups.simple import Committing, note_commit

COMMIT = Committing("g", 7, 5, 1_000_000)


def after(log: Log, state: GroupState | None = None) -> GroupState:
    """Fold a group's records."""
    state = state or new_state("test", "g")
    for record in log.records:
        state, _ = fold(state, record)
    return state


def test_a_group_that_only_commits_is_a_simple_one():
    """It has no members and is there."""
    picture = note_commit(new_state("test", "g"), COMMIT).picture
    assert (picture.type, picture.state, picture.first_seen_ms) == ("simple", "Empty", 1_000_000)


def test_a_group_with_members_stays_what_it_is():
    """However late the word of its commits comes."""
    state = after(Log().write(1, member("a")))
    assert note_commit(state, COMMIT) is state


def test_a_simple_group_becomes_classic_with_its_first_member():
    """And its first generation is no gap."""
    state = after(Log().write(1, member("a")), note_commit(new_state("test", "g"), COMMIT))
    assert (state.picture.type, state.picture.counters.generations_aborted) == ("classic", 0)


def test_its_end_is_an_end_in_any_order():
    """The tombstone may be read before the word of the commits that came before it."""
    deleted = Log()
    deleted.records += Log().write(1).delete().delete().delete().records[1:]
    first = after(deleted, note_commit(new_state("test", "g"), COMMIT))
    last = note_commit(after(deleted), COMMIT)
    assert (first.picture.type, first.picture.state) == ("simple", "Deleted")
    assert (last.picture.type, last.picture.state) == ("simple", "Deleted")
