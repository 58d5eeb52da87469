"""Which topics groups use, by the stream's topics."""

import pytest

from rebalance_contract import (
    CommitActivity,
    ContractError,
    CountActivity,
    GroupLag,
    GroupSnapshot,
    Member,
    OffsetActivity,
    Probe,
    ProbeActivity,
    TopicCommits,
    TopicLag,
    TopicOffsets,
    encode,
)
from rebalance_exporters.prober.interests import COMMITS_COUNT_MS, Interest, Interests, all_topics

NOW = 1_790_000_000_000


def apply_group(interests: Interests, group: str = "g", cluster: str = "prod", **fields: object) -> None:
    """Let the stream publish a group with one member."""
    member = Member("m", "c", "/h", topics=("subscribed",), partitions={"assigned": [0]})
    snapshot = GroupSnapshot(cluster, group, **{"type": "classic", "state": "Stable", "members": (member,), **fields})
    interests.apply_group(f"{cluster}/{group}".encode(), encode(snapshot))


def apply_commit(
    interests: Interests, topic: str, at_ms: int, group: str = "g", *, cluster: str = "prod", log_offset: int = 1
) -> None:
    """Let the stream publish a commit."""
    commits = TopicCommits([0], [5], [at_ms], [at_ms], [log_offset], [1])
    row = CommitActivity(cluster, group, 0, log_offset, log_offset, 5000, ((at_ms, 1),), {topic: commits})
    interests.apply_activity(encode(row), at_ms)


def apply_lag(interests: Interests, *topics: str, group: str = "g", cluster: str = "prod", log_offset: int = 1) -> None:
    """Let the stream publish the lag of a group on topics with unknown ends."""
    lags = {topic: TopicLag([0], [5], [None], None) for topic in topics}
    row = GroupLag(cluster, group, NOW, topics=lags, last_log_offset=log_offset)
    interests.apply_lag(f"{cluster}/{group}".encode(), encode(row))


@pytest.fixture
def interests() -> Interests:
    """Empty interests of cluster `prod`."""
    return Interests("prod")


def test_subscribed_assigned_and_committed_topics_count(interests):
    """A group uses all of them."""
    apply_group(interests)
    apply_commit(interests, "committed", NOW)
    assert interests.now(NOW) == {"g": Interest("classic", frozenset({"subscribed", "assigned", "committed"}), True)}


def test_other_clusters_are_not_ours(interests):
    """Several clusters may share a topic."""
    apply_group(interests, cluster="other")
    apply_commit(interests, "t", NOW, cluster="other")
    apply_lag(interests, "t", cluster="other")
    assert interests.now(NOW) == {}


def test_a_subscription_that_ended_counts_no_more(interests):
    """The last snapshot of a group counts; topics it committed to stay."""
    apply_group(interests)
    apply_commit(interests, "committed", NOW)
    apply_group(interests, state="Empty", members=())
    assert interests.now(NOW) == {"g": Interest("classic", frozenset({"committed"}), False)}


def test_old_commits_are_forgotten(interests):
    """A topic without commits for a day is not queried."""
    apply_commit(interests, "t", NOW)
    assert all_topics(interests.now(NOW + COMMITS_COUNT_MS - 1)) == {"t"}
    assert interests.now(NOW + COMMITS_COUNT_MS) == {}


@pytest.mark.parametrize("name", ["g", "with/slash"])
def test_deleted_groups_are_forgotten(interests, name):
    """By their last snapshot or by a tombstone, whichever is read."""
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
    """Their records have topic ids."""
    assert Interest(kind).wants_ids is wanted


def test_broken_rows_are_refused(interests):
    """The existing state is unchanged."""
    apply_group(interests)
    with pytest.raises(ContractError):
        interests.apply_group(b"prod/g", b"}")
    with pytest.raises(ContractError):
        interests.apply_lag(b"prod/g", b"{}")
    with pytest.raises(ContractError):
        interests.apply_activity(b'{"kind":"commits"}', NOW)
    assert set(interests.now(NOW)) == {"g"}


def test_topics_that_a_group_has_lag_on_count_as_long_as_its_row_names_them(interests):
    """However long ago it committed: the row is compacted, and the latest one stays."""
    apply_lag(interests, "t", "u")
    assert all_topics(interests.now(NOW + 10 * COMMITS_COUNT_MS)) == {"t", "u"}
    apply_lag(interests, "u")
    assert interests.now(NOW) == {"g": Interest(None, frozenset({"u"}), False)}
    interests.apply_lag(b"prod/g", None)
    assert interests.now(NOW) == {}


@pytest.mark.parametrize("apply", [apply_lag, lambda *args, **how: apply_commit(*args, NOW, **how)])
def test_what_was_committed_before_a_group_was_deleted_counts_no_more(interests, apply):
    """In any order of the topics; a group that commits after it was deleted exists again."""
    apply(interests, "t", log_offset=8)
    apply_group(interests, state="Deleted", members=(), log_offset=9)
    assert interests.now(NOW) == {}
    apply(interests, "t", log_offset=8)
    assert interests.names() == set()
    apply(interests, "t", log_offset=10)
    assert interests.now(NOW) == {"g": Interest(None, frozenset({"t"}), False)}
    apply_group(interests, state="Deleted", members=(), log_offset=9)
    assert set(interests.now(NOW)) == {"g"}


def test_other_kinds_of_activity_are_skipped(interests):
    """Ends, probes and counts, and kinds that a newer stream may add, whatever they contain."""
    probe = Probe(probed_at_ms=1, cluster="prod", group="g")
    ends = {"t": TopicOffsets([0], [1])}
    rows = (ProbeActivity(probe), OffsetActivity("prod", "g", 1, ends, {}, {}), CountActivity("prod", "t", 0, 1, ()))
    for row in rows:
        interests.apply_activity(encode(row), NOW)
    interests.apply_activity(b'{"kind":"later","cluster":"prod","group":"g","topics":7}', NOW)
    assert interests.now(NOW) == {}


def test_names_that_no_topic_can_have_are_left_out(interests):
    """A request with one of them would fail for all the others, too."""
    apply_lag(interests, "t", "", "x" * 250, "ä", "a b")
    assert all_topics(interests.now(NOW)) == {"t"}
    apply_group(interests, group="g" * 40_000)
    assert set(interests.now(NOW)) == {"g"}


def test_groups_with_topics_they_did_not_have_are_fresh(interests):
    """Once, until they have another new one; the event is set when there are any."""
    assert not interests.is_fresh.is_set()
    apply_group(interests)
    apply_lag(interests, "t", group="h")
    assert interests.is_fresh.is_set()
    assert interests.take_fresh() == {"g", "h"}
    assert not interests.is_fresh.is_set()
    apply_group(interests)
    apply_commit(interests, "assigned", NOW)
    assert interests.take_fresh() == set()
    apply_commit(interests, "t", NOW)
    assert interests.take_fresh() == {"g"}


def test_coordinators_are_asked_about_groups_without_commits_only(interests):
    """A coordinator's answer makes topics known, but is not a commit seen by the stream."""
    apply_group(interests)
    apply_group(interests, "h")
    apply_lag(interests, "t", group="h")
    apply_commit(interests, "t", NOW, group="i")
    assert interests.names_without_commits() == {"g"}
    interests.note_held("g", ["held"])
    assert interests.now(NOW)["g"].topics == {"subscribed", "assigned", "held"}
    assert interests.names_without_commits() == {"g"}
    apply_commit(interests, "held", NOW)
    assert interests.names_without_commits() == set()


def test_groups_that_the_stream_shows_have_types(interests):
    """Those whose end a probe can tell, until their last row says that they are deleted."""
    apply_group(interests)
    apply_group(interests, "k", type="consumer")
    apply_group(interests, "s", type="simple", members=())
    apply_lag(interests, "t", group="committing")
    assert interests.shown() == {"g": "classic", "k": "consumer"}
    apply_group(interests, state="Deleted", members=())
    assert interests.shown() == {"k": "consumer"}
