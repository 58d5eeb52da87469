import itertools
import os
import signal
import ssl
import threading
from pathlib import Path

import httpx
import pytest

from exporters.contract_rows import group_row, make_view, stream_rows
from exporters.serving import DEADLINE_SECONDS, Served, hash_password, make_certificate, serving
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import Signals, _obeying
from waiting import wait_for

PATHS = [
    "/",
    "/metrics",
    "/-/healthy",
    "/-/ready",
    "/healthz",
    "/readyz",
    "/api/v1/groups",
    "/api/v1/stream",
    "/nowhere",
]


def write_web_config(folder: Path, text: str = "", **passwords: str) -> str:
    """Write a web config file with users and return its path."""
    users = "".join(f"  {name}: {hash_password(password)}\n" for name, password in passwords.items())
    file = folder / "web.yml"
    file.write_text(text + (f"basic_auth_users:\n{users}" if users else ""))
    return str(file)


def tls(folder: Path, name: str, more: str = "") -> str:
    """A TLS section with a certificate of its own."""
    make_certificate(folder, name)
    return f"tls_server_config:\n  cert_file: {name}.crt\n  key_file: {name}.key\n{more}"


def ask(served: Served, path: str, auth: tuple[str, str] | None = None) -> httpx.Response:
    """Get a page over plain HTTP."""
    # Over plain HTTP the machine's certificate store is not read, which would take longest.
    return httpx.get(f"http://127.0.0.1:{served.port}{path}", auth=auth, verify=False, timeout=DEADLINE_SECONDS)


def trust(folder: Path, name: str, client: str = "") -> ssl.SSLContext:
    """Return the TLS context of a client that trusts one certificate only, and presents another."""
    context = ssl.create_default_context(cafile=str(folder / f"{name}.crt"))
    if client:
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
    return context


def ask_safely(served: Served, context: ssl.SSLContext) -> int:
    """Return the status of the health page over TLS."""
    return httpx.get(f"https://localhost:{served.port}/-/healthy", verify=context, timeout=DEADLINE_SECONDS).status_code


def reloads_of(served: Served, name: str) -> bool:
    """Whether the last reload of a file succeeded."""
    return next(each.successful for each in served.settings.reloads if each.file == name)


def reload(served: Served, name: str, *, successful: bool) -> None:
    """Trigger a reload and wait until it is done."""
    before = served.settings.reloads
    served.signals.reload.set()
    wait_for(lambda: served.settings.reloads != before, lambda: before)
    assert reloads_of(served, name) is successful


@pytest.mark.parametrize("path", PATHS)
def test_every_path_asks_for_the_password(tmp_path: Path, path: str) -> None:
    """As with exporter-toolkit no path is open, including health pages; the response says how to log in."""
    with serving(make_view(*stream_rows()), web_config_file=write_web_config(tmp_path, alice="secret")) as served:
        refused = ask(served, path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic realm=")
        assert refused.json()["did_you_mean"] == []
        assert ask(served, path, ("alice", "wrong")).status_code == 401


def test_the_right_password_opens_every_page(tmp_path: Path) -> None:
    """Repeatedly, with and without the cache of passwords."""
    with serving(make_view(*stream_rows()), web_config_file=write_web_config(tmp_path, alice="secret")) as served:
        for _ in range(2):
            assert ask(served, "/metrics", ("alice", "secret")).status_code == 200
            assert ask(served, "/-/ready", ("alice", "secret")).status_code == 200


def test_users_change_without_a_restart(tmp_path: Path) -> None:
    """After a reload the new password is valid, and the old, cached one no longer is."""
    with serving(make_view(), web_config_file=write_web_config(tmp_path, alice="old")) as served:
        assert ask(served, "/-/healthy", ("alice", "old")).status_code == 200
        write_web_config(tmp_path, alice="new")
        served.signals.reload.set()
        wait_for(
            lambda: ask(served, "/-/healthy", ("alice", "new")).status_code == 200, lambda: served.settings.reloads
        )
        assert ask(served, "/-/healthy", ("alice", "old")).status_code == 401


def test_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    """A mistake in the file neither locks users out nor lets others in; the metric shows the failed reload."""
    with serving(make_view(), web_config_file=write_web_config(tmp_path, alice="secret")) as served:
        write_web_config(tmp_path, "basic_auth_user: {}\n")
        reload(served, "web_config", successful=False)
        assert ask(served, "/-/healthy").status_code == 401
        text = ask(served, "/metrics", ("alice", "secret")).text
        assert 'monitor_config_reload_successful{file="web_config"} 0.0\n' in text
        write_web_config(tmp_path, alice="secret")
        reload(served, "web_config", successful=True)


def test_a_file_that_a_library_stumbles_over_changes_nothing(tmp_path: Path) -> None:
    """For an impossible date YAML raises no error of its own: this does not stop the server either."""
    with serving(make_view(), web_config_file=write_web_config(tmp_path, alice="secret")) as served:
        write_web_config(tmp_path, "basic_auth_users: 2026-99-99\n")
        reload(served, "web_config", successful=False)
        assert ask(served, "/-/healthy", ("alice", "secret")).status_code == 200


def test_owners_change_without_a_restart(tmp_path: Path) -> None:
    """The owner is a label of group_info and a field of the overview, both updated by the reload."""
    file = tmp_path / "owners.yml"
    file.write_text("owners: [{group: pay.*, team: first}]")
    with serving(make_view(group_row()), owners_file=str(file)) as served:
        assert 'owner="first"' in ask(served, "/metrics").text
        file.write_text("owners: [{group: pay.*, team: second}]")
        served.signals.reload.set()
        wait_for(lambda: 'owner="second"' in ask(served, "/metrics").text, lambda: served.settings.reloads)
        assert ask(served, "/api/v1/overview").json()["groups"][0]["owner"] == "second"


def look_twice(settings: Settings) -> None:
    """Run the two checks that the server makes within a minute."""
    for _ in range(2):
        settings.reload_changed()


def settings_of(folder: Path) -> Settings:
    """Settings of owners and web config, both in a directory."""
    return Settings(str(folder / "owners.yml"), str(folder / "web.yml"), itertools.count(1).__next__)


def test_files_that_change_are_read_without_a_signal(tmp_path: Path) -> None:
    """Each separately, once it has not changed between two checks; unchanged ones are not read again."""
    write_web_config(tmp_path, alice="old")
    owners = tmp_path / "owners.yml"
    owners.write_text("owners: [{group: pay.*, team: first}]")
    settings = settings_of(tmp_path)
    before = settings.reloads
    look_twice(settings)
    assert settings.reloads == before

    owners.write_text("owners: [{group: pay.*, team: the second}]")
    settings.reload_changed()
    assert settings.owners.team_of("c", "payments") == "first"
    settings.reload_changed()
    assert settings.owners.team_of("c", "payments") == "the second"
    assert settings.reloads[1:] == before[1:]

    write_web_config(tmp_path, alice="new")
    os.utime(tmp_path / "web.yml", ns=(1, 1))
    look_twice(settings)
    assert settings.passwords.is_right("alice", "new")
    after = settings.reloads
    look_twice(settings)
    assert settings.reloads == after


def test_a_secret_is_renewed_by_another_link(tmp_path: Path) -> None:
    """As done by kubelets: the name leads through a link to a directory, which is replaced."""
    for name, password in (("first", "old"), ("second", "new")):
        (tmp_path / name).mkdir()
        write_web_config(tmp_path / name, alice=password)
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "web.yml").symlink_to("..data/web.yml")
    settings = Settings("", str(tmp_path / "web.yml"), itertools.count(1).__next__)
    (tmp_path / "next").symlink_to("second")
    (tmp_path / "next").rename(tmp_path / "..data")
    look_twice(settings)
    assert settings.passwords.is_right("alice", "new")


def test_a_change_that_cannot_be_used_is_reported_once_and_mended_without_a_signal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The previous content stays in force."""
    write_web_config(tmp_path, alice="secret")
    settings = Settings("", str(tmp_path / "web.yml"), itertools.count(1).__next__)
    write_web_config(tmp_path, "basic_auth_user: {}\n")
    for _ in range(3):
        look_twice(settings)
    assert [each.successful for each in settings.reloads] == [False]
    assert caplog.text.count("stays in force") == 1
    (tmp_path / "web.yml").unlink()
    look_twice(settings)
    assert settings.passwords.is_right("alice", "secret")
    write_web_config(tmp_path, alice="secret")
    look_twice(settings)
    assert [each.successful for each in settings.reloads] == [True]


def test_passwords_are_not_switched_off_without_a_signal(tmp_path: Path) -> None:
    """An accidentally emptied file opens the page to nobody; disabling them on purpose needs the signal."""
    write_web_config(tmp_path, alice="secret")
    settings = Settings("", str(tmp_path / "web.yml"), itertools.count(1).__next__)
    write_web_config(tmp_path)
    look_twice(settings)
    assert settings.passwords.is_needed
    assert [each.successful for each in settings.reloads] == [False]
    settings.reload()
    assert not settings.passwords.is_needed


def test_the_server_looks_at_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new password is valid without a signal."""
    monkeypatch.setattr("rebalance_exporters.web.server._FILES_TICKS", 1)
    with serving(make_view(), web_config_file=write_web_config(tmp_path, alice="old")) as served:
        write_web_config(tmp_path, alice="new")
        wait_for(
            lambda: ask(served, "/-/healthy", ("alice", "new")).status_code == 200, lambda: served.settings.reloads
        )


@pytest.mark.tools
def test_a_renewed_certificate_is_served_without_a_signal(tmp_path: Path) -> None:
    """With the same names: certificate and key of another pair, one after the other."""
    settings = Settings("", write_web_config(tmp_path, tls(tmp_path, "server")), itertools.count(1).__next__)
    assert settings.tls is not None
    first = settings.tls.current
    make_certificate(tmp_path, "other")
    (tmp_path / "other.crt").replace(tmp_path / "server.crt")
    look_twice(settings)
    assert settings.tls.current is first
    assert [each.successful for each in settings.reloads] == [False]
    (tmp_path / "other.key").replace(tmp_path / "server.key")
    look_twice(settings)
    assert settings.tls.current is not first
    assert [each.successful for each in settings.reloads] == [True]


@pytest.mark.tools
def test_certificates_change_without_a_restart(tmp_path: Path) -> None:
    """New connections get the new certificate; earlier ones got the old one."""
    with serving(make_view(), web_config_file=write_web_config(tmp_path, tls(tmp_path, "old"))) as served:
        assert ask_safely(served, trust(tmp_path, "old")) == 200
        write_web_config(tmp_path, tls(tmp_path, "new"))
        reload(served, "web_config", successful=True)
        assert ask_safely(served, trust(tmp_path, "new")) == 200
        with pytest.raises(httpx.ConnectError):
            ask_safely(served, trust(tmp_path, "old"))


@pytest.mark.tools
def test_clients_must_show_a_certificate_where_that_is_asked(tmp_path: Path) -> None:
    """A client without one, or of another authority, gets no response; it can be enabled without a restart."""
    make_certificate(tmp_path, "client")
    section = tls(tmp_path, "server")
    with serving(make_view(), web_config_file=write_web_config(tmp_path, section)) as served:
        assert ask_safely(served, trust(tmp_path, "server")) == 200
        demand = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: client.crt\n"
        write_web_config(tmp_path, section + demand)
        reload(served, "web_config", successful=True)
        assert ask_safely(served, trust(tmp_path, "server", "client")) == 200
        for client in ("", "server"):
            with pytest.raises(httpx.TransportError):
                ask_safely(served, trust(tmp_path, "server", client))


@pytest.mark.tools
def test_tls_is_not_switched_off_by_a_reload(tmp_path: Path) -> None:
    """Clients that rely on TLS are not moved to plain HTTP by a file that lost its section."""
    with serving(make_view(), web_config_file=write_web_config(tmp_path, tls(tmp_path, "server"))) as served:
        write_web_config(tmp_path)
        reload(served, "web_config", successful=False)
        assert ask_safely(served, trust(tmp_path, "server")) == 200


@pytest.mark.tools
def test_old_protocol_versions_are_refused(tmp_path: Path) -> None:
    """min_version: TLS13 rejects TLS 1.2 clients."""
    section = tls(tmp_path, "server", "  min_version: TLS13\n")
    with serving(make_view(), web_config_file=write_web_config(tmp_path, section)) as served:
        context = trust(tmp_path, "server")
        assert ask_safely(served, context) == 200
        context = trust(tmp_path, "server")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(httpx.TransportError):
            ask_safely(served, context)


def test_sighup_reloads_and_sigterm_stops() -> None:
    """Each signal sets its event, and afterwards the previous handlers are restored."""
    assert threading.current_thread() is threading.main_thread()
    signals, before = Signals(), signal.getsignal(signal.SIGHUP)
    with _obeying(signals):
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.reload.wait(60)
        assert not signals.stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.stop.wait(60)
    assert signal.getsignal(signal.SIGHUP) is before
