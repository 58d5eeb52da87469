"""The stream's requests to the brokers before Spark starts."""

from rebalance_streaming.brokers.cluster import own_topics
from rebalance_streaming.config import StreamConfig


def test_every_output_topic_has_a_clean_up_policy():
    """Snapshots are compacted, histories age out."""
    config = StreamConfig(topic_prefix="x.")
    policies = {name: topic.cleanup_policy for name, topic in own_topics(config).items()}
    assert policies == {
        "x.groups": "compact",
        "x.rebalances": "compact,delete",
        "x.findings": "compact,delete",
        "x.heartbeats": "compact,delete",
        "x.activity": "delete",
        "x.lag": "compact,delete",
        "x.impact": "compact,delete",
        "x.silences": "compact,delete",
        "x.probes": "delete",
        "x.client-metrics": "delete",
        "x.status": "compact",
    }


def test_all_bad_settings_are_reported_at_once():
    """Three mistakes are three sentences in one run."""
    problems = StreamConfig(cluster="a/b", pane_ms=7_000).validate()
    assert [problem.split()[0] for problem in problems] == ["kafka.bootstrap.servers", "cluster", "stream.pane_ms"]
