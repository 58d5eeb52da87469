"""Translating client properties for the Java client inside Spark."""

from rebalance_streaming.cluster import java_properties, output_topics
from rebalance_streaming.config import StreamConfig


def test_common_properties_pass_unchanged():
    """Most names are the same in both clients."""
    assert java_properties({"bootstrap.servers": "b:1", "security.protocol": "SSL"}) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
    }


def test_credentials_become_a_login_module():
    """librdkafka takes a name and a password, Java a JAAS line, quoted as it must be."""
    found = java_properties({"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": 'p"\\'})
    assert found == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"\\\\";'
        ),
    }


def test_a_ca_file_becomes_a_trust_store():
    """Both read PEM."""
    assert java_properties({"ssl.ca.location": "/ca.pem"}) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }


def test_every_output_topic_has_a_clean_up_policy():
    """A present picture is compacted, a history ages out."""
    config = StreamConfig(topic_prefix="x.")
    policies = {name: settings["cleanup.policy"] for name, settings in output_topics(config).items()}
    assert policies == {
        "x.groups": "compact",
        "x.rebalances": "compact,delete",
        "x.findings": "compact,delete",
        "x.heartbeats": "compact,delete",
        "x.commits": "delete",
        "x.probes": "delete",
        "x.client-metrics": "delete",
        "x.status": "compact",
    }


def test_all_bad_settings_are_told_at_once():
    """Three mistakes are three sentences in one run."""
    problems = StreamConfig(cluster="a/b", pane_ms=7_000).validate()
    assert [problem.split()[0] for problem in problems] == ["kafka.bootstrap.servers", "cluster", "stream.pane_ms"]
