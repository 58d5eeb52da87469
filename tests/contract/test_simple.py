"""Groups that have only commits in the log."""

from rebalance_contract import GroupLag, GroupSnapshot, with_commits

LAG = GroupLag(
    "c", "g", 2_000_000, commits=3, first_commit_ms=1_000_000, last_commit_ms=1_900_000, log_partition=7,
    last_log_offset=5,
)  # fmt: skip


def test_a_group_that_only_commits_is_a_simple_one():
    """The group has no members and exists."""
    snapshot = with_commits(None, LAG)
    assert (snapshot.type, snapshot.state, snapshot.first_seen_ms) == ("simple", "Empty", 1_000_000)


def test_a_group_with_members_stays_what_it_is():
    """However many commits it has."""
    known = GroupSnapshot("c", "g", type="classic", state="Stable")
    assert with_commits(known, LAG) is known


def test_a_group_that_never_committed_is_none():
    """Its lag row has only windows."""
    known = GroupSnapshot("c", "g")
    assert with_commits(known, GroupLag("c", "g", 1)) is known


def test_its_end_is_an_end_until_it_commits_again():
    """The tombstone is after its last commit in the log, or before a later one."""
    gone = GroupSnapshot("c", "g", state="Deleted", log_partition=7, log_offset=6)
    assert with_commits(gone, LAG).state == "Deleted"
    assert with_commits(GroupSnapshot("c", "g", state="Deleted", log_offset=4), LAG).state == "Empty"
