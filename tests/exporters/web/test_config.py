import ssl
import subprocess
from pathlib import Path

import pytest

from exporters.serving import DEADLINE_SECONDS, hash_password, make_certificate
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.web.config import TlsConfig, load_web_config, make_tls_context

PAIR = "cert_file: a.crt, key_file: a.key"


def write(folder: Path, text: str) -> str:
    """Write a web config file and return its path."""
    file = folder / "web.yml"
    file.write_text(text)
    return str(file)


def test_the_form_of_exporter_toolkit_is_read(tmp_path: Path) -> None:
    """All keys are understood, and paths are relative to the file, wherever the exporter was started."""
    hashed = hash_password("secret")
    text = f"""
tls_server_config:
  cert_file: server.crt
  key_file: /etc/keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: clients.crt
  min_version: TLS13
basic_auth_users:
  alice: {hashed}
"""
    config = load_web_config(write(tmp_path, text))
    assert config.tls is not None
    assert config.tls.cert_file == tmp_path / "server.crt"
    assert config.tls.key_file == Path("/etc/keys/server.key")
    assert config.tls.client_ca_file == tmp_path / "clients.crt"
    assert config.tls.client_auth is ssl.CERT_REQUIRED
    assert config.tls.min_version is ssl.TLSVersion.TLSv1_3
    assert config.users == {"alice": hashed}


@pytest.mark.parametrize("text", ["", "{}", "basic_auth_users:", "basic_auth_users: {}"])
def test_an_empty_file_asks_for_nothing(tmp_path: Path, text: str) -> None:
    """As with exporter-toolkit, it means plain HTTP without authentication."""
    config = load_web_config(write(tmp_path, text))
    assert (config.tls, dict(config.users)) == (None, {})


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("tls_config: {}", "unknown key tls_config, did you mean tls_server_config?"),
        ("basic_auth_user: {}", "unknown key basic_auth_user, did you mean basic_auth_users?"),
        (
            f"tls_server_config: {{{PAIR}, cert_fil: b}}",
            r"unknown key tls_server_config.cert_fil, did you mean cert_file",
        ),
        ("tls_server_config: {}", "cert_file is missing; tls_server_config.key_file is missing"),
        ("tls_server_config: a.crt", "tls_server_config must be a table"),
        (f"tls_server_config: {{{PAIR}, min_version: TLS10}}", "min_version is TLS10: use one of TLS12, TLS13"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: RequestClientCert}}", "is RequestClientCert: use one of"),
        (f"tls_server_config: {{{PAIR}, client_ca_file: b}}", "belong together"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: VerifyClientCertIfGiven}}", "belong together"),
        ("basic_auth_users: {alice: secret}", "basic_auth_users.alice is no bcrypt hash"),
        ("basic_auth_users: {alice: $2y$99$abc}", "basic_auth_users.alice is no bcrypt hash"),
        ("basic_auth_users: [alice]", "basic_auth_users must be a table"),
        ("basic_auth_users: {'a:b': x}", "'a:b' is no name of a user"),
    ],
)
def test_what_would_not_protect_is_refused(tmp_path: Path, text: str, reported: str) -> None:
    """A mistyped key or an unsupported check stops the start, with the nearest name as a hint."""
    with pytest.raises(ExporterError, match=reported):
        load_web_config(write(tmp_path, text))


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One error has all problems of the file."""
    with pytest.raises(ExporterError, match=r"unknown key extra.*cert_file is missing.*alice is no bcrypt hash"):
        load_web_config(write(tmp_path, "extra: 1\ntls_server_config: {key_file: k}\nbasic_auth_users: {alice: x}"))


@pytest.mark.tools
@pytest.mark.parametrize("broken", ["server.crt", "server.key", "clients.crt"])
def test_unusable_certificates_are_reported(tmp_path: Path, broken: str) -> None:
    """An unreadable certificate, key or authority is an error that names a file."""
    make_certificate(tmp_path, "server")
    make_certificate(tmp_path, "clients")
    (tmp_path / broken).write_text("not a certificate")
    text = "{cert_file: server.crt, key_file: server.key, client_auth_type: RequireAndVerifyClientCert, \
client_ca_file: clients.crt}"
    config = load_web_config(write(tmp_path, f"tls_server_config: {text}"))
    assert config.tls is not None
    with pytest.raises(ExporterError, match=r"cannot take certificate or key from .*\.crt"):
        make_tls_context(config.tls)


@pytest.mark.tools
@pytest.mark.parametrize("missing", ["server.crt", "server.key", "clients.crt"])
def test_the_file_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    """And no other."""
    for name in ("server", "clients"):
        make_certificate(tmp_path, name)
    tls = TlsConfig(tmp_path / "server.crt", tmp_path / "server.key", ssl.CERT_REQUIRED, tmp_path / "clients.crt")
    make_tls_context(tls)
    (tmp_path / missing).unlink()
    with pytest.raises(ExporterError) as refused:
        make_tls_context(tls)
    expected = f"cannot take certificate or key from {tmp_path / missing} (No such file or directory): check the file"
    assert str(refused.value) == expected


@pytest.mark.tools
def test_a_certificate_and_a_key_that_do_not_belong_together_are_both_named(tmp_path: Path) -> None:
    """OpenSSL does not say which of them is at fault."""
    for name in ("server", "clients"):
        make_certificate(tmp_path, name)
    with pytest.raises(ExporterError, match=r"from .*server\.crt or .*clients\.key \(.*mismatch"):
        make_tls_context(TlsConfig(tmp_path / "server.crt", tmp_path / "clients.key"))


@pytest.mark.tools
def test_an_encrypted_key_is_reported(tmp_path: Path) -> None:
    """Nobody is asked for its password: a server in the background would wait for it without end."""
    make_certificate(tmp_path, "server")
    encrypt = ["openssl", "pkey", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "encrypted.key"]
    subprocess.run(encrypt, check=True, capture_output=True, cwd=tmp_path, timeout=DEADLINE_SECONDS)
    tls = TlsConfig(tmp_path / "server.crt", tmp_path / "encrypted.key")
    with pytest.raises(ExporterError, match=r"the key .*encrypted\.key is encrypted: decrypt it"):
        make_tls_context(tls)
