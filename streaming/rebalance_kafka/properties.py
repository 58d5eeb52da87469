"""Client properties: written once, in librdkafka's names, and translated for each client of the three processes.

    [kafka]              for all clients, in librdkafka's names
    [kafka.java]         only for the Java client inside Spark, in its own names; overrides translated properties
    [kafka.librdkafka]   only for librdkafka, and for kafka-python in the prober

A component holds them in one flat mapping: names of the first table as they are, those of the others with the prefix
`java.` or `librdkafka.`. `checks` reports invalid properties.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rebalance_kafka.tokens import ClientCredentials, TokenSource, unsecured_settings, unsecured_token

JAVA, LIBRDKAFKA = "java.", "librdkafka."

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ALIASES = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_UPPER_CASE = ("security.protocol", "sasl.mechanism")
#: librdkafka's value for "find the system's CAs".
SYSTEM_CAS = "probe"


#: Properties with the same name and meaning in both clients. Tuning properties of one client are not passed on.
SAME = frozenset(
    {
        "acks",
        "bootstrap.servers",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.type",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.id",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
    }
)
#: Security properties that are translated for the Java client; any other one would be lost and is an error.
TRANSLATED = frozenset(
    {
        "enable.sasl.oauthbearer.unsecure.jwt",
        "enable.ssl.certificate.verification",
        "https.ca.location",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)

_MODULES = "org.apache.kafka.common.security."
_OIDC_HANDLER = f"{_MODULES}oauthbearer.OAuthBearerLoginCallbackHandler"
#: Since 3.9.1 the Java client fetches tokens only from URLs listed in this JVM system property.
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def librdkafka_properties(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties for confluent-kafka's clients: shared ones, overridden by those for librdkafka."""
    found: dict[str, Any] = librdkafka_view(kafka)
    source = token_source(found)
    if source is not None:
        found["oauth_cb"] = source
        found.pop("enable.sasl.oauthbearer.unsecure.jwt", None)
    return found


def token_source(librdkafka: Mapping[str, str]) -> TokenSource | None:
    """Return the token source if librdkafka's caller has to supply tokens (`oauth_cb` or unsecured), else null."""
    if "oauth_cb" in librdkafka:
        return named_function(librdkafka["oauth_cb"])
    return unsecured_token if is_unsecured(librdkafka) else None


def kafka_python_token_source(librdkafka: Mapping[str, str]) -> TokenSource:
    """Return the token source of a client that does not fetch tokens itself."""
    return token_source(librdkafka) or ClientCredentials(
        url=librdkafka["sasl.oauthbearer.token.endpoint.url"],
        client_id=librdkafka["sasl.oauthbearer.client.id"],
        client_secret=librdkafka["sasl.oauthbearer.client.secret"],
        scope=librdkafka.get("sasl.oauthbearer.scope", ""),
        extensions=_extensions(librdkafka),
        ca_file=librdkafka.get("https.ca.location"),
    )


def java_properties(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the Java client inside Spark: translated shared ones, overridden by those for Java.

    Certificates and keys are passed as text, not as file names, so that executors need no copies of the files. Raises
    OSError if a file cannot be read, which `java_problems` reports before.
    """
    shared, own = shared_view(kafka), java_view(kafka)
    translated = {name: value for name, value in shared.items() if name in SAME}
    translated |= _java_trust(shared) | _java_login(shared)
    # Several properties describe a store; a user's own must not be mixed with translated ones.
    if not any(name.startswith("ssl.truststore.") for name in own):
        translated |= _java_truststore(shared)
    if not any(name.startswith("ssl.keystore.") for name in own):
        translated |= _java_keystore(shared)
    if "sasl.jaas.config" in own:
        translated.pop("sasl.login.callback.handler.class", None)
    return {**translated, **own}


def java_system_properties(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the JVM system properties that the Java client needs to accept these client properties."""
    url = {**shared_view(kafka), **java_view(kafka)}.get("sasl.oauthbearer.token.endpoint.url")
    return {_ALLOWED_URLS: url} if url else {}


def shared_view(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for all clients, with aliases resolved."""
    return _normal({name: value for name, value in kafka.items() if not name.startswith((JAVA, LIBRDKAFKA))})


def java_view(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the Java client only, in its own names."""
    return {name.removeprefix(JAVA): value for name, value in kafka.items() if name.startswith(JAVA)}


def librdkafka_view(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that librdkafka gets from both tables, with aliases resolved and without Java's."""
    own = {name.removeprefix(LIBRDKAFKA): value for name, value in kafka.items() if name.startswith(LIBRDKAFKA)}
    return {**shared_view(kafka), **_normal(own)}


def _normal(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with aliases resolved, and with values that clients compare case-sensitively in upper case."""
    named = {ALIASES.get(name, name): value for name, value in properties.items()}
    return {name: value.upper() if name in _UPPER_CASE else value for name, value in named.items()}


def named_function(name: str) -> TokenSource:
    """Return the function named by `module:function`. Raises ImportError, AttributeError, TypeError or ValueError."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError("it has no colon")
    found: Callable[[str], tuple[Any, ...]] = getattr(importlib.import_module(module), attribute)
    if not callable(found):
        raise TypeError("it is no function")
    return found


def pem_text(view: Mapping[str, str], name: str) -> str:
    """Return a PEM given as a file or as text; empty if it is not set."""
    if f"{name}.pem" in view:
        return view[f"{name}.pem"]
    path = view.get(f"{name}.location")
    return Path(path).read_text("latin-1") if path else ""


def is_encrypted(pem: str) -> bool:
    """Whether the key in a PEM is encrypted with a password."""
    return "BEGIN ENCRYPTED PRIVATE KEY" in pem or "Proc-Type: 4,ENCRYPTED" in pem


def is_on(view: Mapping[str, str], name: str, default: str = "false") -> bool:
    """Whether a boolean property is true, in any of librdkafka's spellings."""
    return view.get(name, default).lower() in ("true", "t", "1")


def is_unsecured(view: Mapping[str, str]) -> bool:
    """Whether unsigned tokens are configured."""
    return is_on(view, "enable.sasl.oauthbearer.unsecure.jwt")


def grant_type(view: Mapping[str, str]) -> str:
    """Return the OAuth grant type with which tokens are fetched."""
    return view.get("sasl.oauthbearer.grant.type", "client_credentials")


def _extensions(view: Mapping[str, str]) -> dict[str, str]:
    pairs = (part.partition("=") for part in view.get("sasl.oauthbearer.extensions", "").split(","))
    return {name.strip(): value for name, _, value in pairs if name.strip()}


def _java_trust(shared: Mapping[str, str]) -> dict[str, str]:
    algorithm = shared.get("ssl.endpoint.identification.algorithm")
    if algorithm is None:
        return {}
    # In Java an empty text disables host name verification.
    return {"ssl.endpoint.identification.algorithm": "" if algorithm == "none" else algorithm}


def _java_truststore(shared: Mapping[str, str]) -> dict[str, str]:
    if shared.get("ssl.ca.location") == SYSTEM_CAS:
        return {}
    certificates = pem_text(shared, "ssl.ca")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates} if certificates else {}


def _java_keystore(shared: Mapping[str, str]) -> dict[str, str]:
    chain, key = pem_text(shared, "ssl.certificate"), pem_text(shared, "ssl.key")
    if not (chain and key):
        return {}
    password = {"ssl.key.password": shared["ssl.key.password"]} if is_encrypted(key) else {}
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key, **password}


def _java_login(shared: Mapping[str, str]) -> dict[str, str]:
    """Return the JAAS login module of a mechanism with its options; empty if it cannot be translated."""
    mechanism = shared.get("sasl.mechanism", "PLAIN")
    if mechanism == "OAUTHBEARER":
        return _java_oauth(shared)
    if mechanism not in MECHANISMS or not ("sasl.username" in shared and "sasl.password" in shared):
        return {}
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    options = {"username": shared["sasl.username"], "password": shared["sasl.password"]}
    return {"sasl.jaas.config": _jaas(module, options)}


def _java_oauth(shared: Mapping[str, str]) -> dict[str, str]:
    module = functools.partial(_jaas, "oauthbearer.OAuthBearerLoginModule")
    if is_unsecured(shared):
        return {"sasl.jaas.config": module(_unsecured_options(shared.get("sasl.oauthbearer.config", "")))}
    if shared.get("sasl.oauthbearer.method", "").lower() != "oidc" or grant_type(shared) != "client_credentials":
        return {}
    names = {"sasl.oauthbearer.client.id": "clientId", "sasl.oauthbearer.client.secret": "clientSecret"}
    names |= {"sasl.oauthbearer.scope": "scope"}
    options = {java: shared[name] for name, java in names.items() if shared.get(name)}
    options |= {f"extension_{name}": value for name, value in _extensions(shared).items()}
    if "https.ca.location" in shared:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": shared["https.ca.location"]}
    return {"sasl.jaas.config": module(options), "sasl.login.callback.handler.class": _OIDC_HANDLER}


def _unsecured_options(config: str) -> dict[str, str]:
    settings = unsecured_settings(config)
    claim, scope = settings["principalClaimName"], settings["scopeClaimName"]
    options = {
        f"unsecuredLoginStringClaim_{claim}": settings.get("principal", ""),
        "unsecuredLoginPrincipalClaimName": claim,
        "unsecuredLoginScopeClaimName": scope,
        "unsecuredLoginLifetimeSeconds": settings["lifeSeconds"],
    }
    if settings["scope"]:
        # The first character is the list separator.
        options[f"unsecuredLoginListClaim_{scope}"] = f",{settings['scope']}"
    extensions = ((k.removeprefix("extension_"), v) for k, v in settings.items() if k.startswith("extension_"))
    return {**options, **{f"unsecuredLoginExtension_{name}": value for name, value in extensions}}


def _jaas(module: str, options: Mapping[str, str]) -> str:
    words: Iterable[str] = (f'{name}="{_quoted(value)}"' for name, value in options.items())
    return f"{_MODULES}{module} required {' '.join(words)};"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
