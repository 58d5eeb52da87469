"""Client properties: their translation for each client, and the errors about invalid ones."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest

from rebalance_kafka.checks import JAVA_NAMES, java_problems, librdkafka_problems, refused_by_librdkafka
from rebalance_kafka.properties import java_properties, java_system_properties, librdkafka_properties
from rebalance_kafka.tokens import ClientCredentials, TokenError, unsecured_token
from spark.securing import KEY_PASSWORD, Certificates, TokenServer

SSL = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
USER = {"sasl.username": "u", "sasl.password": "p"}
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "i",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
}
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("pem"))


def client_files(pem: Certificates, key: str = "client.key") -> dict[str, str]:
    return SSL | {"ssl.certificate.location": str(pem / "client.pem"), "ssl.key.location": str(pem / key)}


def without(properties: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in names}


def test_common_properties_pass_unchanged():
    """Most names are the same in both clients; those that only tune librdkafka are not passed to Java."""
    kafka = {"bootstrap.servers": "b:1", "security.protocol": "ssl", "socket.timeout.ms": "1000"}
    assert java_properties(kafka) == {"bootstrap.servers": "b:1", "security.protocol": "SSL"}


def test_credentials_become_a_login_module():
    """librdkafka has a name and a password, Java a JAAS line, with the necessary quotes."""
    found = java_properties({"sasl.mechanisms": "scram-sha-512", "sasl.username": "u", "sasl.password": 'p"\\'})
    assert found == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"\\\\";'
        ),
    }


@pytest.mark.tools
def test_files_travel_as_text(pem: Certificates):
    """Executors on other machines have no copy of them."""
    found = java_properties(client_files(pem) | {"ssl.ca.location": str(pem / "ca.pem")})
    assert found == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": (pem / "ca.pem").read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": (pem / "client.pem").read_text(),
        "ssl.keystore.key": (pem / "client.key").read_text(),
    }


def test_the_check_of_names_can_be_left_out():
    """In Java an empty text disables it."""
    assert java_properties({"ssl.endpoint.identification.algorithm": "none"}) == {
        "ssl.endpoint.identification.algorithm": ""
    }


def test_client_credentials_become_a_login_module_with_a_handler():
    """Java fetches its tokens itself, from addresses that its JVM allows."""
    found = java_properties(OIDC | {"sasl.oauthbearer.scope": "k", "sasl.oauthbearer.extensions": "a=1,b=2"})
    assert found["sasl.jaas.config"] == (
        f'{LOGIN} clientId="i" clientSecret="s" scope="k" extension_a="1" extension_b="2";'
    )
    assert found["sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://idp/token"
    assert java_system_properties(OIDC) == {"org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://idp/token"}


def test_unsecured_tokens_hold_the_same_for_all():
    """librdkafka's format of the token's claims is used for Java, and for the token made here."""
    config = "principal=me scope=a,b lifeSeconds=60 extension_trace=7"
    kafka = {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"}
    java = java_properties(kafka | {"sasl.oauthbearer.config": config})["sasl.jaas.config"]
    assert 'unsecuredLoginStringClaim_sub="me"' in java
    assert 'unsecuredLoginListClaim_scope=",a,b"' in java
    assert 'unsecuredLoginLifetimeSeconds="60"' in java
    assert 'unsecuredLoginExtension_trace="7"' in java
    token, _, principal, extensions = unsecured_token(config)
    claims = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    assert (claims["sub"], claims["scope"], round(claims["exp"] - claims["iat"])) == ("me", ["a", "b"], 60)
    assert (principal, extensions) == ("me", {"trace": "7"})
    assert librdkafka_properties(kafka)["oauth_cb"] is unsecured_token


def test_each_client_can_have_settings_of_its_own():
    """Java's table overrides the translated properties, librdkafka's the shared ones; neither affects the other."""
    kafka = SASL | USER | {"java.max.request.size": "9", "librdkafka.client.id": "x", "java.client.id": "y"}
    java, librdkafka = java_properties(kafka), librdkafka_properties(kafka)
    assert (java["max.request.size"], java["client.id"]) == ("9", "y")
    assert librdkafka == SASL | USER | {"client.id": "x"}


@pytest.mark.tools
def test_a_store_of_javas_own_is_not_mixed_with_a_translated_one(pem: Certificates):
    """Java rejects a key given in two ways."""
    kafka = client_files(pem) | {"java.ssl.keystore.location": "/k.jks", "java.ssl.keystore.type": "JKS"}
    assert java_properties(kafka) == {
        "security.protocol": "SSL",
        "ssl.keystore.location": "/k.jks",
        "ssl.keystore.type": "JKS",
    }
    assert java_properties(OIDC | {"java.sasl.jaas.config": "x"}).get("sasl.login.callback.handler.class") is None


def test_a_function_of_ones_own_gives_tokens():
    """For methods that no client supports, such as AWS's signatures, a function on PYTHONPATH makes tokens."""
    kafka = without(OIDC, "sasl.oauthbearer.method") | {"librdkafka.oauth_cb": "rebalance_kafka.tokens:unsecured_token"}
    assert librdkafka_properties(kafka)["oauth_cb"] is unsecured_token
    assert librdkafka_problems(kafka) == []


@pytest.mark.parametrize(
    ("kafka", "parts"),
    [
        ({"security.protocol": "TLS"}, ["kafka.security.protocol is TLS", "SASL_SSL"]),
        (USER, ["kafka.sasl.username is set but kafka.security.protocol is PLAINTEXT"]),
        ({"ssl.key.password": "x"}, ["kafka.ssl.key.password is set but kafka.security.protocol is PLAINTEXT"]),
        (without(SASL, "sasl.mechanism") | USER, ["kafka.sasl.mechanism is missing", "SCRAM-SHA-256"]),
        (SASL | {"sasl.username": "u"}, ["kafka.sasl.password is not set", "REBALANCE_MONITOR_KAFKA_SASL_PASSWORD"]),
        (SASL | {"sasl.password": "p"}, ["kafka.sasl.username is not set"]),
        (without(OIDC, "sasl.oauthbearer.method"), ["nothing says where tokens come from"]),
        (without(OIDC, "sasl.oauthbearer.client.secret"), ["kafka.sasl.oauthbearer.client.secret is not set"]),
        (OIDC | {"sasl.oauthbearer.token.endpoint.url": "idp"}, ["token.endpoint.url is no address"]),
        (SSL | {"ssl.ca.location": "/no/ca.pem"}, ["kafka.ssl.ca.location names /no/ca.pem", "No such file"]),
        (SSL | {"ssl.certificate.location": __file__}, ["set without its key", "kafka.ssl.key.location"]),
        (SSL | {"ssl.key.location": __file__}, ["set without its certificate"]),
        (SSL | {"ssl.ca.location": __file__}, ["holds no CA in PEM form"]),
        (OIDC | {"librdkafka.oauth_cb": "no_such_module:f"}, ["kafka.librdkafka.oauth_cb", "MODULE:FUNCTION"]),
        (OIDC | {"librdkafka.oauth_cb": "json"}, ["kafka.librdkafka.oauth_cb", "MODULE:FUNCTION"]),
    ],
)
def test_what_cannot_work_is_one_sentence(kafka: dict[str, str], parts: list[str]):
    """Before any connection, with the key and what to do."""
    (problem,) = librdkafka_problems(kafka)
    for part in parts:
        assert part in problem


@pytest.mark.parametrize("name", JAVA_NAMES)
def test_javas_names_are_answered_with_librdkafkas(name: str):
    """The error for a Java name has librdkafka's name, or the table for Java's names."""
    problem = librdkafka_problems({name: "x", **OIDC})[0]
    assert f"kafka.{name} is a name of the Java client" in problem
    assert f"kafka.{JAVA_NAMES[name]}" in problem
    assert "[kafka.java]" in problem
    assert not [each for each in librdkafka_problems({f"java.{name}": "x", **OIDC}) if name in each]


@pytest.mark.tools
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"ssl.key.location": "client.encrypted.key"}, ["is encrypted", "kafka.ssl.key.password is not set"]),
        (
            {"ssl.key.location": "client.encrypted.key", "ssl.key.password": "wrong-one"},
            ["cannot be used together", "kafka.ssl.key.password"],
        ),
        ({"ssl.key.location": "server.key"}, ["cannot be used together", "KEY_VALUES_MISMATCH"]),
    ],
)
def test_keys_that_do_not_open_or_fit_are_reported(pem: Certificates, change: dict[str, str], parts: list[str]):
    """As a client would detect, but without connecting, and without the password in the text."""
    placed = {name: str(pem / value) if name.endswith("location") else value for name, value in change.items()}
    (problem,) = librdkafka_problems(client_files(pem) | placed)
    for part in parts:
        assert part in problem
    assert "wrong-one" not in problem


@pytest.mark.parametrize(
    ("kafka", "parts"),
    [
        (SSL | {"enable.ssl.certificate.verification": "False"}, ["ssl.certificate.verification", "ssl.ca.location"]),
        (SSL | {"ssl.crl.location": "/x"}, ["kafka.ssl.crl.location", "[kafka.librdkafka]"]),
        (SASL | {"sasl.mechanism": "GSSAPI"}, ["GSSAPI", "sasl.jaas.config under [kafka.java]"]),
        (SSL | {"ssl.ca.location": "/"}, ["is a directory", "one PEM file"]),
    ],
)
def test_what_java_cannot_do_is_one_sentence(kafka: dict[str, str], parts: list[str]):
    """No security setting is silently lost for the other client."""
    (problem,) = java_problems(kafka)
    for part in parts:
        assert part in problem


@pytest.mark.tools
@pytest.mark.parametrize(
    ("key", "part"), [("client.traditional.key", "openssl pkcs8 -topk8 -in"), ("client.pbes2.key", "PBES2")]
)
def test_a_key_that_java_cannot_read_is_reported_with_the_command(pem: Certificates, key: str, part: str):
    """librdkafka accepts both formats."""
    kafka = client_files(pem, key) | {"ssl.key.password": KEY_PASSWORD}
    assert librdkafka_problems(kafka) == []
    (problem,) = java_problems(kafka)
    assert part in problem
    assert str(pem / key) in problem


@pytest.mark.waits
def test_librdkafkas_own_refusal_is_one_sentence():
    """For an unknown name the nearest is suggested, and no secret is repeated."""
    (problem,) = refused_by_librdkafka(SASL | USER | {"sasl.usernam": "x"})
    assert problem.endswith("there is no kafka.sasl.usernam, did you mean kafka.sasl.username?")
    (problem,) = refused_by_librdkafka({"max.block.ms": "5"})
    assert "[kafka.java]" in problem
    (problem,) = refused_by_librdkafka({"ssl.key.pem": "hunter2", "security.protocol": "SSL"})
    assert "hunter2" not in problem
    assert refused_by_librdkafka(OIDC) == []


@pytest.mark.tools
def test_tokens_are_fetched_with_client_credentials(tmp_path: Path):
    """The secret is only sent to the server; a rejection is one sentence."""
    with TokenServer.running(tmp_path) as server:
        good = ClientCredentials(f"{server.url}/token", "client", "s3cret", scope="kafka")
        token, expires, *_ = good("")
        assert token.count(".") == 2
        assert expires > 0
        bad = ClientCredentials(f"{server.url}/token", "client", "hunter2")
        with pytest.raises(TokenError, match="HTTP 401") as caught:
            bad("")
        assert "hunter2" not in f"{caught.value}{bad!r}"


@pytest.mark.parametrize(
    "kafka",
    [SASL | {"sasl.username": "u"}, without(OIDC, "sasl.oauthbearer.method"), {"ssl.truststore.location": "/x"}],
)
def test_one_mistake_is_one_sentence(kafka: dict[str, str]):
    """Consequences of it are not reported as well."""
    assert len(librdkafka_problems(kafka) + java_problems(kafka)) == 1
