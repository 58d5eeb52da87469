"""Settings of the prober and their translation for kafka-python."""

import pytest

from rebalance_exporters.prober.brokers import kafka_python_settings
from rebalance_exporters.prober.config import ProbeConfig

KAFKA = {"bootstrap.servers": "a:9092, b:9092"}


def test_defaults_need_only_a_broker():
    """With a broker named nothing else must be set."""
    assert ProbeConfig(kafka=KAFKA).validate() == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"kafka": {}}, "kafka.bootstrap.servers"),
        ({"kafka": KAFKA | {"enable.auto.commit": "true"}}, "kafka.enable.auto.commit"),
        ({"kafka": KAFKA | {"sasl.mechanism": "OAUTHBEARER"}}, "kafka.sasl.mechanism"),
        ({"cluster": "a/b"}, "cluster"),
        ({"listen_host": ""}, "probe.listen_host"),
        ({"listen_port": 65536}, "probe.listen_port"),
        ({"period_seconds": 5.1}, "probe.period_seconds"),
        ({"period_seconds": 0}, "probe.period_seconds"),
        ({"full_list_seconds": 0}, "probe.full_list_seconds"),
        ({"offsets_seconds": -1}, "probe.offsets_seconds"),
        ({"commits_lookback_seconds": 0}, "probe.commits_lookback_seconds"),
    ],
)
def test_each_wrong_value_is_named(changes, key):
    """One sentence per wrong value, with its key."""
    (problem,) = ProbeConfig(**{"kafka": KAFKA, **changes}).validate()
    assert key in problem


def test_security_reaches_both_clients():
    """What librdkafka is told in its own names, kafka-python is told in its."""
    kafka = KAFKA | {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "monitor",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "socket.keepalive.enable": "true",
    }
    assert kafka_python_settings(kafka) == {
        "bootstrap_servers": ["a:9092", "b:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "monitor",
        "sasl_plain_password": "secret",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }
