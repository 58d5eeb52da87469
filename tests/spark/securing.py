"""A broker with a listener for each authentication method, and its certificates, users and tokens."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.embedded.server import QUICK_START
from rebalance_deploy.ports import find_free_ports
from rebalance_kafka.tokens import unsecured_token
from waiting import wait_for

USER, PASSWORD = "monitor", 'se"c\\ret, =1'
KEY_PASSWORD = "open sesame"
CLIENT, CLIENT_SECRET = "client", "s3cret"
_MODULES = "org.apache.kafka.common.security."
_PROTOCOLS = {
    "MTLS": "SSL",
    "PLAIN": "SASL_SSL",
    "SCRAM": "SASL_PLAINTEXT",
    "TOKEN": "SASL_PLAINTEXT",
    "OIDC": "SASL_SSL",
}


def openssl(*arguments: str | Path, given: bytes = b"") -> bytes:
    """Run openssl and return its output."""
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files of a CA, of a server at 127.0.0.1, and of a client; the client's key also in other formats."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Certificates:
        """Make them all."""
        made = cls(directory)
        openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca", "-days", "2"),
            *("-keyout", made / "ca.key", "-out", made / "ca.pem"),
        )
        for name in ("server", "client"):
            made._sign(name)
        (made / "server.both").write_bytes((made / "server.key").read_bytes() + (made / "server.pem").read_bytes())
        openssl("rsa", "-in", made / "client.key", "-traditional", "-out", made / "client.traditional.key")
        for name, scheme in (("encrypted", ("-v1", "PBE-SHA1-3DES")), ("pbes2", ("-v2", "aes-256-cbc"))):
            openssl(
                *("pkcs8", "-topk8", "-in", made / "client.key", "-passout", f"pass:{KEY_PASSWORD}", *scheme),
                *("-out", made / f"client.{name}.key"),
            )
        return made

    def __truediv__(self, name: str) -> Path:
        return self.directory / name

    def _sign(self, name: str) -> None:
        openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", self / f"{name}.key", "-out", self / f"{name}.csr"),
        )
        (self / "names").write_text("subjectAltName=IP:127.0.0.1")
        openssl(
            *("x509", "-req", "-in", self / f"{name}.csr", "-CA", self / "ca.pem", "-CAkey", self / "ca.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", self / "names", "-out", self / f"{name}.pem"),
        )


class TokenServer(ThreadingHTTPServer):
    """Issues signed tokens to clients that know the secret, and serves the public signing key to anybody."""

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.given = 0
        self._key = directory / "tokens.key"
        openssl("genrsa", "-out", self._key, "2048")
        modulus = openssl("rsa", "-in", self._key, "-noout", "-modulus").decode().strip().partition("=")[2]
        self.jwks = {
            "keys": [{"kty": "RSA", "kid": "k", "alg": "RS256", "n": _b64(bytes.fromhex(modulus)), "e": "AQAB"}]
        }

    @classmethod
    @contextmanager
    def running(cls, directory: Path) -> Iterator[TokenServer]:
        """Serve in a thread."""
        with cls(directory) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    @property
    def url(self) -> str:
        """The address it listens on."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def token(self) -> dict[str, Any]:
        """The response with a token."""
        self.given += 1
        now = int(time.time())
        claims = {"sub": USER, "iat": now, "exp": now + 300, "iss": self.url, "aud": "kafka", "scope": "kafka"}
        parts = [_b64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k", "typ": "JWT"}, claims)]
        signature = openssl("dgst", "-sha256", "-sign", self._key, given=".".join(parts).encode())
        return {"access_token": ".".join([*parts, _b64(signature)]), "token_type": "Bearer", "expires_in": 300}


class _Answers(BaseHTTPRequestHandler):
    server: TokenServer

    def do_GET(self) -> None:
        self._answer(200, self.server.jwks)

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        credentials = b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if credentials == f"{CLIENT}:{CLIENT_SECRET}" and "grant_type=client_credentials" in form:
            self._answer(200, self.server.token())
        else:
            self._answer(401, {"error": "invalid_client"})

    def log_message(self, *_args: object) -> None:
        pass

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _b64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def own_token(config: str) -> tuple[str, float]:
    """Return a token, as a user's own function would."""
    assert config == "eu-west-1"
    token, expires, *_ = unsecured_token(f"principal={USER}")
    return token, expires


@dataclass(frozen=True, slots=True)
class Secured:
    """The running broker, and the credentials for it."""

    broker: EmbeddedKafka
    ports: dict[str, int]
    certificates: Certificates
    tokens: TokenServer

    def ways_in(self) -> dict[str, dict[str, str]]:
        """Each authentication method, as configured under [kafka]."""
        ca = {"ssl.ca.location": str(self.certificates / "ca.pem")}
        user = {"sasl.username": USER, "sasl.password": PASSWORD}
        oauth = {"sasl.mechanism": "OAUTHBEARER"}
        return {
            "mTLS": self._at("MTLS", ca | self._client("client.key")),
            "PLAIN": self._at("PLAIN", ca | user | {"sasl.mechanism": "PLAIN"}),
            "SCRAM-SHA-256": self._at("SCRAM", user | {"sasl.mechanism": "SCRAM-SHA-256"}),
            "SCRAM-SHA-512": self._at("SCRAM", user | {"sasl.mechanisms": "scram-sha-512"}),
            "OAUTHBEARER unsecured": self._at(
                "TOKEN",
                oauth
                | {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={USER}"},
            ),
            "OAUTHBEARER function": self._at(
                "TOKEN",
                oauth
                | {
                    "librdkafka.oauth_cb": f"{__name__}:own_token",
                    "librdkafka.sasl.oauthbearer.config": "eu-west-1",
                    "java.sasl.jaas.config": (
                        f'{_MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";'
                    ),
                },
            ),
            "OAUTHBEARER OIDC": self._at(
                "OIDC",
                ca
                | oauth
                | {
                    "sasl.oauthbearer.method": "oidc",
                    "sasl.oauthbearer.client.id": CLIENT,
                    "sasl.oauthbearer.client.secret": CLIENT_SECRET,
                    "sasl.oauthbearer.scope": "kafka",
                    "sasl.oauthbearer.token.endpoint.url": f"{self.tokens.url}/token",
                },
            ),
        }

    def with_key(self, name: str, password: str | None = None) -> dict[str, str]:
        """Log in by certificate, with the key in another file."""
        more = {} if password is None else {"ssl.key.password": password}
        return self.ways_in()["mTLS"] | self._client(name) | more

    def _client(self, key: str) -> dict[str, str]:
        return {
            "ssl.certificate.location": str(self.certificates / "client.pem"),
            "ssl.key.location": str(self.certificates / key),
        }

    def _at(self, listener: str, properties: dict[str, str]) -> dict[str, str]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": _PROTOCOLS[listener],
            **properties,
        }


@contextmanager
def secured(directory: Path) -> Iterator[Secured]:
    """Run the token server and the broker; users exist when the block begins."""
    certificates = Certificates.make(directory)
    ports = dict(zip(_PROTOCOLS, find_free_ports(len(_PROTOCOLS)), strict=True))
    with TokenServer.running(directory) as tokens:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.url}/jwks"
        config = _broker_config(ports, certificates, tokens)
        with EmbeddedKafka(config=config, jvm_options=(*QUICK_START, allowed)) as broker:
            _add_scram_user(broker.bootstrap)
            yield Secured(broker, ports, certificates, tokens)


def _broker_config(ports: dict[str, int], certificates: Certificates, tokens: TokenServer) -> dict[str, str]:
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **_PROTOCOLS}
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.both"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
    }
    # Escaped once for the login module and once for a file of properties.
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    plain = f'{_MODULES}plain.PlainLoginModule required user_{USER}="{password}";'
    scram = f"{_MODULES}scram.ScramLoginModule required;"
    oauth = f'{_MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        **store,
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": plain,
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.scram.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": oauth,
        "listener.name.oidc.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oidc.oauthbearer.sasl.jaas.config": f"{_MODULES}oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.oidc.oauthbearer.sasl.server.callback.handler.class": (
            f"{_MODULES}oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.oidc.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{tokens.url}/jwks",
        "listener.name.oidc.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.oidc.oauthbearer.sasl.oauthbearer.expected.issuer": tokens.url,
    }


def _add_scram_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    # The broker rejects two entries for one user in one request.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result()

    def is_known() -> bool:
        found = admin.describe_user_scram_credentials([USER])[USER].result()
        return len(found.scram_credential_infos) == 2

    # The controller confirms a user a moment before the broker knows it.
    wait_for(is_known, f"the broker to know {USER}")
