"""TLS and passwords of the HTTP side, in the form of Prometheus's exporter-toolkit.

    tls_server_config:
      cert_file: server.crt            # paths are relative to this file
      key_file: server.key
      client_auth_type: RequireAndVerifyClientCert
      client_ca_file: clients.crt
      min_version: TLS12
    basic_auth_users:
      alice: $2y$10$...                # bcrypt, as `htpasswd -nBC 10 alice` makes it

Receives the file's path; returns a validated value. Keys and kinds of client authentication that the toolkit supports
but this module does not are refused: Python's TLS cannot do all of them.
"""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.settings_file import find_unknown_keys, read_settings_file

_SECTIONS = ("tls_server_config", "basic_auth_users")
_TLS_KEYS = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_NO_CLIENTS = "NoClientCert"
_CLIENT_AUTH = {
    _NO_CLIENTS: ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Certificate and key of the server, and the verification of clients; `client_ca_file` is null if there is none."""

    cert_file: Path
    key_file: Path
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    client_ca_file: Path | None = None
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2


@dataclass(frozen=True, slots=True)
class WebConfig:
    """How HTTP is served: without TLS if `tls` is null, without passwords if `users` (name -> bcrypt) is empty."""

    tls: TlsConfig | None = None
    users: Mapping[str, str] = field(default_factory=dict)


def load_web_config(file: str) -> WebConfig:
    """Read the file; an empty name means plain HTTP without passwords. Raises ExporterError that lists all problems."""
    if not file:
        return WebConfig()
    document = read_settings_file(Path(file))
    problems = find_unknown_keys(document, _SECTIONS, "")
    tls_table, users = document.get("tls_server_config"), document.get("basic_auth_users")
    tls = None
    if tls_table is not None:
        found = _read_tls(tls_table, Path(file).parent)
        if isinstance(found, TlsConfig):
            tls = found
        else:
            problems += found
    problems += _find_user_problems(users)
    if problems:
        raise ExporterError(f"{file}: {'; '.join(problems)}")
    return WebConfig(tls, users or {})


def make_tls_context(tls: TlsConfig) -> ssl.SSLContext:
    """Return a context with the certificates and key. Raises ExporterError if they cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = tls.min_version
    _load_own_pair(context, tls)
    if tls.client_ca_file is not None:
        with _naming(tls.client_ca_file):
            context.load_verify_locations(tls.client_ca_file)
    context.verify_mode = tls.client_auth
    return context


def _load_own_pair(context: ssl.SSLContext, tls: TlsConfig) -> None:
    def refuse_password() -> str:
        # Without this function OpenSSL would ask at the terminal, and the process would wait for an answer.
        raise ExporterError(f"the key {tls.key_file} is encrypted: decrypt it, for example with `openssl pkey`")

    with _naming(tls.cert_file, tls.key_file):
        context.load_cert_chain(tls.cert_file, tls.key_file, password=refuse_password)


@contextlib.contextmanager
def _naming(*files: Path) -> Iterator[None]:
    """Report an error of the block with the files that cannot be opened or, if all can, with all of them."""
    try:
        yield
    except OSError as error:  # including ssl.SSLError
        # The error itself names no file.
        named = [file for file in files if not _can_be_opened(file)] or files
        reason = error.strerror or "it cannot be used"
        text = f"cannot take certificate or key from {' or '.join(map(str, named))} ({reason}): check the file"
        raise ExporterError(text) from error


def _can_be_opened(file: Path) -> bool:
    try:
        file.open("rb").close()
    except OSError:
        return False
    return True


def _read_tls(table: Any, folder: Path) -> TlsConfig | list[str]:
    """Return the TLS section, or what is wrong with it."""
    if not isinstance(table, dict):
        return ["tls_server_config must be a table with cert_file and key_file"]
    problems = find_unknown_keys(table, _TLS_KEYS, "tls_server_config.")
    values = {name: str(table[name]) for name in _TLS_KEYS if table.get(name)}
    problems += [f"tls_server_config.{name} is missing" for name in ("cert_file", "key_file") if name not in values]
    problems += _find_choice_problems(values)
    if problems:
        return problems
    ca_file = values.get("client_ca_file")
    return TlsConfig(
        cert_file=folder / values["cert_file"],
        key_file=folder / values["key_file"],
        client_auth=_CLIENT_AUTH[values.get("client_auth_type", _NO_CLIENTS)],
        client_ca_file=None if ca_file is None else folder / ca_file,
        min_version=_VERSIONS[values.get("min_version", "TLS12")],
    )


def _find_choice_problems(values: Mapping[str, str]) -> list[str]:
    problems = []
    auth, version = values.get("client_auth_type", _NO_CLIENTS), values.get("min_version", "TLS12")
    if auth not in _CLIENT_AUTH:
        problems.append(f"tls_server_config.client_auth_type is {auth}: use one of {', '.join(_CLIENT_AUTH)}")
    elif (auth == _NO_CLIENTS) != ("client_ca_file" not in values):
        # One without the other would look like a verification of clients, but be none.
        problems.append("tls_server_config.client_ca_file and a client_auth_type that verifies belong together")
    if version not in _VERSIONS:
        problems.append(f"tls_server_config.min_version is {version}: use one of {', '.join(_VERSIONS)}")
    return problems


def _find_user_problems(users: Any) -> list[str]:
    if users is None:
        return []
    if not isinstance(users, dict):
        return ["basic_auth_users must be a table of names and bcrypt hashes"]
    problems = [
        f"basic_auth_users.{name} is no bcrypt hash: make one with `htpasswd -nBC 10 {name}`"
        for name, hashed in users.items()
        if not isinstance(hashed, str) or not _BCRYPT.fullmatch(hashed)
    ]
    # In HTTP the first colon ends the name, so such a user could never log in.
    named = (f"basic_auth_users: {name!r} is no name of a user" for name in users if not _is_name(name))
    return [*problems, *named]


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and ":" not in name
