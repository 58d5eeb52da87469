"""Settings of the prober and their translation for kafka-python."""

import ssl

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.kafka_python import Tokens, kafka_python_settings

KAFKA = {"bootstrap.servers": "a:9092, b:9092"}
SASL = {"security.protocol": "SASL_SSL"}
JWT_BEARER = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
}


def test_defaults_need_only_a_broker():
    """Only the address of a broker is required."""
    assert ProbeConfig(kafka=KAFKA).validate() == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"kafka": {}}, "kafka.bootstrap.servers"),
        ({"kafka": KAFKA | {"enable.auto.commit": "true"}}, "kafka.enable.auto.commit"),
        ({"kafka": KAFKA | SASL | {"sasl.mechanism": "AWS_MSK_IAM"}}, "kafka.sasl.mechanism"),
        ({"kafka": KAFKA | SASL | JWT_BEARER}, "kafka.sasl.oauthbearer.grant.type"),
        ({"kafka": KAFKA | {"librdkafka.enable.auto.commit": "true"}}, "kafka.enable.auto.commit"),
        ({"cluster": "a/b"}, "cluster"),
        ({"listen_host": ""}, "probe.listen_host"),
        ({"listen_port": 65536}, "probe.listen_port"),
        ({"period_seconds": 5.1}, "probe.period_seconds"),
        ({"period_seconds": 0}, "probe.period_seconds"),
        ({"full_list_seconds": 0}, "probe.full_list_seconds"),
        ({"offsets_seconds": -1}, "probe.offsets_seconds"),
    ],
)
def test_each_wrong_value_is_named(changes, key):
    """One sentence per wrong value, with its key."""
    (problem,) = ProbeConfig(**{"kafka": KAFKA, **changes}).validate()
    assert key in problem


def test_security_reaches_both_clients():
    """Security settings of librdkafka are translated for kafka-python."""
    kafka = KAFKA | {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": "monitor",
        "sasl.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
        "socket.keepalive.enable": "true",
        "java.ssl.protocol": "TLSv1.3",
    }
    settings = kafka_python_settings(kafka)
    tls = settings.pop("ssl_context")
    assert (tls.check_hostname, tls.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert settings == {
        "bootstrap_servers": ["a:9092", "b:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "monitor",
        "sasl_plain_password": "secret",
    }


def test_a_token_is_kept_until_most_of_its_life_is_over(monkeypatch: pytest.MonkeyPatch):
    """A broker that drops connections causes no load on the token server, and no expired token is used."""
    now, given = [1000.0], []

    def source(config: str) -> tuple[object, ...]:
        given.append(config)
        return f"token-{len(given)}", now[0] + 100, "me", {"traceId": "7"}

    monkeypatch.setattr("rebalance_exporters.prober.kafka_python.time.time", lambda: now[0])
    tokens = Tokens(source, "principal=me")
    # kafka-python rejects objects of other types.
    assert isinstance(tokens, AbstractTokenProvider)
    assert [tokens.token(), tokens.token(), tokens.extensions()] == ["token-1", "token-1", {"traceId": "7"}]
    now[0] += 81
    assert tokens.token() == "token-2"
    assert given == ["principal=me"] * 2
