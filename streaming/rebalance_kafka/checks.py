"""Checks of client properties before anything connects; problems are sentences without secrets.

Properties are reported under the names that a user would write, prefixed with `kafka.`. The files they name are read.
"""

from __future__ import annotations

import difflib
import re
import ssl
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from rebalance_kafka.properties import (
    ALIASES,
    MECHANISMS,
    SAME,
    SYSTEM_CAS,
    TRANSLATED,
    grant_type,
    is_encrypted,
    is_on,
    is_unsecured,
    java_view,
    librdkafka_properties,
    librdkafka_view,
    named_function,
    pem_text,
    shared_view,
    token_source,
)
from rebalance_kafka.tokens import unsecured_settings, unsecured_token

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.crl.location",
    "https.ca.location",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
)

_SECURITY = ("ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")

#: DER encoding of the object identifier of PBES2 (RFC 8018), with which OpenSSL encrypts keys by default and which
#: Java 17 cannot open.
_PBES2 = bytes.fromhex("06092a864886f70d01050d")

_PKCS8 = ("-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----")

#: Property names of the Java client, and the property to set instead.
JAVA_NAMES = MappingProxyType(
    {
        "sasl.jaas.config": "sasl.username and kafka.sasl.password",
        "sasl.login.callback.handler.class": "sasl.oauthbearer.method",
        "sasl.login.class": "sasl.mechanism",
        "sasl.client.callback.handler.class": "sasl.mechanism",
        "ssl.truststore.location": "ssl.ca.location",
        "ssl.truststore.certificates": "ssl.ca.pem",
        "ssl.truststore.type": "ssl.ca.location",
        "ssl.truststore.password": "ssl.ca.location",
        "ssl.keystore.location": "ssl.certificate.location and kafka.ssl.key.location",
        "ssl.keystore.type": "ssl.certificate.location and kafka.ssl.key.location",
        "ssl.keystore.password": "ssl.key.password",
        "ssl.keystore.key": "ssl.key.pem",
        "ssl.keystore.certificate.chain": "ssl.certificate.pem",
        "ssl.engine.factory.class": "enable.ssl.certificate.verification",
        "max.request.size": "message.max.bytes",
        "fetch.max.wait.ms": "fetch.wait.max.ms",
        "buffer.memory": "queue.buffering.max.kbytes",
    }
)

#: Parts of the names of properties whose values are secret.
SECRET_WORDS = ("password", "secret", "jaas", "key.pem", "keystore.key", "token", "passphrase", "oauthbearer.config")


def librdkafka_problems(kafka: Mapping[str, str]) -> list[str]:
    """Return every problem of the properties as a sentence that says what to do; reads the files that they name."""
    view = librdkafka_view(kafka)
    found = [*_java_names(shared_view(kafka)), *_protocol_problems(view), *_token_function_problems(view)]
    found += _unreadable(view)
    # The contents of files are checked only if all of them can be read.
    return found or [*_credential_problems(view), *_store_problems(view)]


def java_problems(kafka: Mapping[str, str]) -> list[str]:
    """Return problems of properties that cannot be translated for the Java client, beyond `librdkafka_problems`."""
    shared, own = shared_view(kafka), java_view(kafka)
    found = [
        f"kafka.{name} cannot be translated for the Java client inside Spark: put it under [kafka.librdkafka] "
        "and what Java needs, if anything, under [kafka.java]"
        for name in shared
        if name.startswith(_SECURITY) and name not in SAME | TRANSLATED | ALIASES.keys() | JAVA_NAMES.keys()
    ]
    if not _is_verifying(shared) and "ssl.engine.factory.class" not in own:
        found.append(
            "kafka.enable.ssl.certificate.verification=false is nothing the Java client inside Spark can do: name "
            "the CA of the brokers with kafka.ssl.ca.location instead"
        )
    if not any(name.startswith("ssl.keystore.") for name in own):
        found += _key_format_problems(shared)
    if "sasl.jaas.config" not in own and _logs_in_its_own_way(librdkafka_view(kafka)):
        found.append(
            f"kafka.sasl.mechanism {shared.get('sasl.mechanism', '')} as it is set up cannot be translated for the "
            "Java client inside Spark: set sasl.jaas.config under [kafka.java] to what it needs"
        )
    if Path(shared.get("ssl.ca.location", "")).is_dir() and shared.get("ssl.ca.location"):
        found.append(
            f"kafka.ssl.ca.location {shared['ssl.ca.location']} is a directory, which the Java client cannot use: "
            "name one PEM file that holds all CAs"
        )
    return found


def _logs_in_its_own_way(view: Mapping[str, str]) -> bool:
    """Whether the SASL login is of a kind that cannot be translated; incomplete settings are reported elsewhere."""
    if not _uses_sasl(view):
        return False
    if view.get("sasl.mechanism", "PLAIN") == "OAUTHBEARER":
        return "oauth_cb" in view or grant_type(view) != "client_credentials"
    return view.get("sasl.mechanism", "PLAIN") not in MECHANISMS


def refused_by_librdkafka(kafka: Mapping[str, str]) -> list[str]:
    """Return librdkafka's own error if it rejects the properties, as a list of at most one. Connects to nothing."""
    from confluent_kafka import KafkaException  # noqa: PLC0415  settings errors are reported where no client is installed
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    # Without broker addresses and a token endpoint the client cannot connect.
    offline = ("bootstrap.servers", "sasl.oauthbearer.method", "oauth_cb")
    properties = {name: value for name, value in librdkafka_properties(kafka).items() if name not in offline}
    if properties.get("sasl.mechanism") == "OAUTHBEARER":
        # Without a token the constructor would wait for one.
        properties["oauth_cb"] = lambda _: unsecured_token("principal=nobody")
    try:
        AdminClient({**properties, "log_level": 0})
    except KafkaException as error:
        return [f"the Kafka client refuses the [kafka] properties: {_hinted(_without_secrets(error, kafka))}"]
    return []


def _without_secrets(error: Exception, kafka: Mapping[str, str]) -> str:
    text = str(error.args[0].str())
    for name, value in kafka.items():
        # Values of up to three characters occur in any text by chance.
        if len(value) > 3 and any(word in name for word in SECRET_WORDS):
            text = text.replace(value, "***")
    return text


def _hinted(text: str) -> str:
    """Return librdkafka's error; for an unknown property, with a hint at the nearest known name."""
    _, found, quoted = text.partition("No such configuration property: ")
    if not found:
        return text
    name = quoted.strip('"')
    close = difflib.get_close_matches(name, [*SAME, *TRANSLATED, *_FILES], n=1, cutoff=0.7)
    if close:
        return f"there is no kafka.{name}, did you mean kafka.{close[0]}?"
    return f"librdkafka knows no {name}; put names of the Java client under [kafka.java]"


def _java_names(shared: Mapping[str, str]) -> Iterator[str]:
    for name in shared:
        if name in JAVA_NAMES:
            yield (
                f"kafka.{name} is a name of the Java client: set kafka.{JAVA_NAMES[name]}, which all clients get, "
                "or put it under [kafka.java]"
            )


def _protocol_problems(view: Mapping[str, str]) -> Iterator[str]:
    protocol = view.get("security.protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        yield f"kafka.security.protocol is {protocol}: use one of {', '.join(_PROTOCOLS)}"
        return
    with_tls, with_sasl = protocol.endswith("SSL"), protocol.startswith("SASL_")
    for prefix, is_used, wanted in (("ssl.", with_tls, "SSL or SASL_SSL"), ("sasl.", with_sasl, "SASL_SSL")):
        unused = next((name for name in view if name.startswith(prefix) and name not in JAVA_NAMES), None)
        if unused and not is_used:
            yield f"kafka.{unused} is set but kafka.security.protocol is {protocol}, so nothing uses it: set {wanted}"
    if with_sasl and "sasl.mechanism" not in view:
        yield f"kafka.sasl.mechanism is missing: set it to one of {', '.join(MECHANISMS)}"


def _credential_problems(view: Mapping[str, str]) -> Iterator[str]:
    if not _uses_sasl(view):
        return
    mechanism = view.get("sasl.mechanism", "")
    if mechanism == "OAUTHBEARER":
        yield from _oauth_problems(view)
    elif mechanism in MECHANISMS:
        for name, variable in (("sasl.username", "USERNAME"), ("sasl.password", "PASSWORD")):
            if not view.get(name):
                yield (
                    f"kafka.sasl.mechanism is {mechanism} but kafka.{name} is not set: set it under [kafka] or with "
                    f"REBALANCE_MONITOR_KAFKA_SASL_{variable}[_FILE]"
                )


def _oauth_problems(view: Mapping[str, str]) -> Iterator[str]:
    if token_source(view) is not None:
        if is_unsecured(view) and "principal" not in unsecured_settings(view.get("sasl.oauthbearer.config", "")):
            yield "kafka.sasl.oauthbearer.config names no principal: set it to principal=NAME"
        return
    if view.get("sasl.oauthbearer.method", "").lower() != "oidc":
        yield (
            "kafka.sasl.mechanism is OAUTHBEARER but nothing says where tokens come from: set "
            "kafka.sasl.oauthbearer.method to oidc, and client.id, client.secret and token.endpoint.url beside it"
        )
        return
    needed = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
    if grant_type(view) == "client_credentials" and "sasl.oauthbearer.metadata.authentication.type" not in view:
        for name in needed:
            if not view.get(name):
                yield f"kafka.sasl.oauthbearer.method is oidc but kafka.{name} is not set: set it under [kafka]"
    url = view.get(needed[0], "")
    if url and not url.startswith(("https://", "http://")):
        yield f"kafka.{needed[0]} is no address: type it as https://HOST/PATH"


def _token_function_problems(view: Mapping[str, str]) -> Iterator[str]:
    if "oauth_cb" not in view:
        return
    try:
        named_function(view["oauth_cb"])
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        yield (
            f"kafka.librdkafka.oauth_cb {view['oauth_cb']} cannot be used ({error}): name a function as "
            "MODULE:FUNCTION, of a module on PYTHONPATH"
        )


def _unreadable(view: Mapping[str, str]) -> Iterator[str]:
    for name in _FILES:
        path = view.get(name)
        if path is None or (name == "ssl.ca.location" and (path == SYSTEM_CAS or Path(path).is_dir())):
            continue
        try:
            Path(path).open("rb").close()
        except OSError as error:
            yield (
                f"kafka.{name} names {path}, which cannot be read ({error.strerror}): check the path "
                "and who may read it"
            )


def _store_problems(view: Mapping[str, str]) -> list[str]:
    certificate = _given(view, "ssl.certificate.location", "ssl.certificate.pem")
    key = _given(view, "ssl.key.location", "ssl.key.pem")
    if certificate and not key:
        return [f"kafka.{certificate} is set without its key: set kafka.ssl.key.location to the file of the key"]
    if key and not certificate:
        return [f"kafka.{key} is set without its certificate: set kafka.ssl.certificate.location to its file"]
    problems = _ca_problems(view)
    if key and is_encrypted(pem_text(view, "ssl.key")) and not view.get("ssl.key.password"):
        return [
            *problems,
            f"kafka.{key} is encrypted and kafka.ssl.key.password is not set: set it under [kafka] or with "
            "REBALANCE_MONITOR_KAFKA_SSL_KEY_PASSWORD[_FILE]",
        ]
    return problems + _pair_problems(view) if key else problems


def _ca_problems(view: Mapping[str, str]) -> list[str]:
    path = view.get("ssl.ca.location")
    if path is None or path == SYSTEM_CAS or Path(path).is_dir():
        return []
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        return [f"kafka.ssl.ca.location {path} holds no CA in PEM form ({error.reason}): convert it to PEM"]
    return []


def _pair_problems(view: Mapping[str, str]) -> list[str]:
    """Return problems found by loading certificate and key: a wrong password, or a key that does not match."""
    if not ("ssl.certificate.location" in view and "ssl.key.location" in view):
        return []
    files = view["ssl.certificate.location"], view["ssl.key.location"]
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(*files, password=view.get("ssl.key.password", ""))
    except ssl.SSLError as error:
        return [
            f"kafka.ssl.certificate.location {files[0]} and kafka.ssl.key.location {files[1]} cannot be used together "
            f"({error.reason or 'not PEM'}): check that both are PEM, that they belong together, and "
            "kafka.ssl.key.password"
        ]
    return []


def _key_format_problems(shared: Mapping[str, str]) -> list[str]:
    try:
        text = pem_text(shared, "ssl.key")
    except OSError:
        return []
    path = shared.get("ssl.key.location", "KEY")
    if text and _PBES2 in _der(text):
        return [
            f"kafka.{_given(shared, 'ssl.key.location', 'ssl.key.pem')} is encrypted by PBES2, which the Java client "
            f"inside Spark cannot open: convert it with `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in {path} -out NEW`, "
            "and name the new file"
        ]
    if not text or any(begin in text for begin in _PKCS8):
        return []
    return [
        f"kafka.{_given(shared, 'ssl.key.location', 'ssl.key.pem')} is not in PKCS#8 form, the only one that the Java "
        f"client inside Spark reads: convert it with `openssl pkcs8 -topk8 -in {path} -out NEW` and name the new file"
    ]


def _given(view: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if view.get(name)), None)


def _der(pem: str) -> bytes:
    """Return the decoded first encrypted key of a PEM; empty if there is none or it is not base64."""
    block = re.search(r"-----BEGIN ENCRYPTED PRIVATE KEY-----(.*?)-----END", pem, re.DOTALL)
    try:
        return b64decode(block[1]) if block else b""
    except ValueError:
        return b""


def _uses_sasl(view: Mapping[str, str]) -> bool:
    return view.get("security.protocol", "PLAINTEXT").startswith("SASL_")


def _is_verifying(view: Mapping[str, str]) -> bool:
    return is_on(view, "enable.ssl.certificate.verification", "true")
