"""Which topics groups use, learned from the stream's topics."""

import pytest

from rebalance_exporters.prober.interests import COMMITS_COUNT_MS, Interest, Interests, all_topics
from rebalance_streaming.groups.events import (
    CommitSummary,
    ContractError,
    GroupSnapshot,
    Member,
    TopicCommits,
    encode,
)

NOW = 1_790_000_000_000


def apply_group(interests: Interests, group: str = "g", cluster: str = "prod", **fields: object) -> None:
    """Let the stream publish a group with one member."""
    member = Member("m", "c", "/h", topics=("subscribed",), partitions={"assigned": [0]})
    snapshot = GroupSnapshot(cluster, group, **{"type": "classic", "state": "Stable", "members": (member,), **fields})
    interests.apply_group(f"{cluster}/{group}".encode(), encode(snapshot))


def apply_commit(interests: Interests, topic: str, at_ms: int, group: str = "g", cluster: str = "prod") -> None:
    """Let the stream publish a summary with one commit."""
    commits = TopicCommits([0], [5], [at_ms], [1], [1])
    interests.apply_commits(encode(CommitSummary(cluster, group, at_ms, 5000, 0, 1, 1, {topic: commits})))


@pytest.fixture
def interests() -> Interests:
    """Nothing known of cluster `prod`."""
    return Interests("prod")


def test_subscribed_assigned_and_committed_topics_count(interests):
    """A group is about all of them."""
    apply_group(interests)
    apply_commit(interests, "committed", NOW)
    assert interests.now(NOW) == {"g": Interest("classic", frozenset({"subscribed", "assigned", "committed"}), True)}


def test_other_clusters_are_not_ours(interests):
    """Several clusters may share a topic."""
    apply_group(interests, cluster="other")
    apply_commit(interests, "t", NOW, cluster="other")
    assert interests.now(NOW) == {}


def test_a_subscription_that_ended_counts_no_more(interests):
    """The last picture of a group stands; what it committed to stays."""
    apply_group(interests)
    apply_commit(interests, "committed", NOW)
    apply_group(interests, state="Empty", members=())
    assert interests.now(NOW) == {"g": Interest("classic", frozenset({"committed"}), False)}


def test_old_commits_are_forgotten(interests):
    """A topic nobody committed to for a day is not asked about."""
    apply_commit(interests, "t", NOW)
    assert all_topics(interests.now(NOW + COMMITS_COUNT_MS - 1)) == {"t"}
    assert interests.now(NOW + COMMITS_COUNT_MS) == {}


@pytest.mark.parametrize("name", ["g", "with/slash"])
def test_deleted_groups_are_forgotten(interests, name):
    """By their last picture or by a tombstone, whichever is read."""
    apply_group(interests, name)
    apply_group(interests, name, state="Deleted")
    assert interests.now(NOW) == {}
    apply_group(interests, name)
    interests.apply_group(f"other/{name}".encode(), None)
    assert set(interests.now(NOW)) == {name}
    interests.apply_group(f"prod/{name}".encode(), None)
    assert interests.now(NOW) == {}


def test_subtopologies_are_no_topics(interests):
    """A streams group's assignment names parts of its topology."""
    apply_group(interests, type="streams")
    assert all_topics(interests.now(NOW)) == {"subscribed"}


@pytest.mark.parametrize(("kind", "wanted"), [("classic", False), ("consumer", True), ("share", True), (None, False)])
def test_newer_groups_want_topic_ids(kind, wanted):
    """Their records name topics by id."""
    assert Interest(kind).wants_ids is wanted


def test_broken_rows_are_refused(interests):
    """And leave what is known alone."""
    apply_group(interests)
    with pytest.raises(ContractError):
        interests.apply_group(b"prod/g", b"}")
    with pytest.raises(ContractError):
        interests.apply_commits(b"{}")
    assert set(interests.now(NOW)) == {"g"}
