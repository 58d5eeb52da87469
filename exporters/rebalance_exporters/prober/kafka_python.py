"""Client properties for kafka-python, which the prober uses for its requests: translated from librdkafka's names."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from rebalance_exporters.errors import ExporterError
from rebalance_kafka.properties import is_on, kafka_python_token_source, librdkafka_view
from rebalance_kafka.tokens import TokenSource

_RENAMED = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
#: Share of a token's lifetime after which the next one is requested.
_SHARE_OF_LIFE = 0.8


def kafka_python_settings(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return client properties translated from librdkafka's names; those that only tune librdkafka are left out.

    Raises ExporterError if certificates or keys cannot be used.
    """
    view = librdkafka_view(kafka)
    settings: dict[str, Any] = {_RENAMED[name]: value for name, value in view.items() if name in _RENAMED}
    settings["bootstrap_servers"] = [server.strip() for server in view["bootstrap.servers"].split(",")]
    if view.get("security.protocol", "").endswith("SSL"):
        settings["ssl_context"] = _tls(view)
    if settings.get("sasl_mechanism") == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens(
            kafka_python_token_source(view), view.get("sasl.oauthbearer.config", "")
        )
    return settings


# kafka-python checks for this base class, which has no type stubs to inherit from.
@AbstractTokenProvider.register
class Tokens:
    """Returns a token until most of its lifetime is over, then requests the next one; thread-safe."""

    def __init__(self, source: TokenSource, config: str) -> None:
        """Create without fetching a token."""
        self._source, self._config = source, config
        self._lock = threading.Lock()
        self._answer: tuple[Any, ...] = ()
        self._renew_at = 0.0

    def token(self) -> str:
        """Return a valid token. Raises TokenError if there is none."""
        return str(self._current()[0])

    def extensions(self) -> dict[str, str]:
        """Return the extensions that are sent to the broker with the token."""
        answer = self._current()
        return dict(answer[3]) if len(answer) > 3 else {}

    def _current(self) -> tuple[Any, ...]:
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._answer = self._source(self._config)
                self._renew_at = now + _SHARE_OF_LIFE * (float(self._answer[1]) - now)
            return self._answer


def _tls(view: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    verifies = is_on(view, "enable.ssl.certificate.verification", "true")
    context.check_hostname = verifies and view.get("ssl.endpoint.identification.algorithm", "https") != "none"
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    try:
        _load_cas(context, view)
        _load_certificate(context, view)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not PEM"
        raise ExporterError(f"the files of kafka.ssl.* cannot be used ({reason}): check them") from None
    return context


def _load_cas(context: ssl.SSLContext, view: Mapping[str, str]) -> None:
    location = view.get("ssl.ca.location", "")
    if location and location != "probe":
        directory = Path(location).is_dir()
        context.load_verify_locations(**{"capath" if directory else "cafile": location})
    elif "ssl.ca.pem" in view:
        context.load_verify_locations(cadata=view["ssl.ca.pem"])
    else:
        context.load_default_certs()
    if "ssl.crl.location" in view:
        context.load_verify_locations(cafile=view["ssl.crl.location"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_certificate(context: ssl.SSLContext, view: Mapping[str, str]) -> None:
    with _as_file(view, "ssl.certificate") as certificate, _as_file(view, "ssl.key") as key:
        if certificate and key:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, password=view.get("ssl.key.password", ""))


@contextlib.contextmanager
def _as_file(view: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the name of a file that contains a PEM: Python's TLS needs a file even if the setting is the text."""
    if f"{name}.pem" not in view:
        yield view.get(f"{name}.location", "")
        return
    # Only its owner can read it, and it is deleted as soon as it was read.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(view[f"{name}.pem"])
        file.flush()
        yield file.name
