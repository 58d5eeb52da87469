"""The pages of a process about itself, over a real socket."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from exporters.contract_rows import NOW_MS
from exporters.serving import hash_password, make_certificate
from rebalance_contract.settings import authority
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.server import make_app, make_view
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.web.own_pages import HEALTH_PATHS, Web, serving_pages
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import listen
from waiting import wait_for

WEB = Web("stream", "127.0.0.1", 0)


@dataclass
class FakeHealth:
    """A process whose health is set by the test."""

    problem: str | None = None
    missing: str | None = None

    def unhealthy(self) -> str | None:
        return self.problem

    def unready(self) -> str | None:
        return self.missing


@contextmanager
def served(
    health: FakeHealth, web: Web = WEB, reload: threading.Event | None = None, verify: ssl.SSLContext | bool = False
) -> Iterator[httpx.Client]:
    """Serve a process's pages while the block runs."""
    registry = CollectorRegistry()
    Counter("looks", "What somebody counted.", registry=registry).inc(3)
    with (
        serving_pages(web, health, registry, lambda: NOW_MS, reload or threading.Event()) as url,
        httpx.Client(base_url=url, verify=verify, timeout=120) as client,
    ):
        yield client


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_interface_of_ipv6_is_every_interface_of_ipv4_too():
    """A probe uses either; the printed address can be opened."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has IPv6 switched off")
    web = replace(WEB, host="::")
    with serving_pages(web, FakeHealth(), CollectorRegistry(), lambda: NOW_MS, threading.Event()) as url:
        assert url.startswith("http://[::]:")
        port = url.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            answer = httpx.get(f"http://{host}:{port}/-/healthy", verify=False, trust_env=False, timeout=120)
            assert answer.status_code == 200


def test_one_address_of_ipv6_is_that_alone():
    """Only `::` includes IPv4."""
    with pytest.raises(ExporterError, match=r"cannot listen on ::ffff:0:0:1 port 0"):
        listen("::ffff:0:0:1", 0, "stream")
    assert (authority("::1", 9644), authority("10.0.0.1", 9644)) == ("[::1]:9644", "10.0.0.1:9644")


def test_health_and_metrics_are_answered():
    """200 with a word, or 503 with the reason on one line."""
    health = FakeHealth()
    with served(health) as client:
        assert (client.get("/-/healthy").status_code, client.get("/-/healthy").text) == (200, "healthy\n")
        assert (client.get("/-/ready").status_code, client.get("/-/ready").text) == (200, "ready\n")
        health.problem, health.missing = "nobody\nlooks", "starting"
        for path in ("/-/healthy", "/healthz"):
            assert (client.get(path).status_code, client.get(path).text) == (503, "nobody looks\n")
        for path in ("/-/ready", "/readyz"):
            assert (client.get(path).status_code, client.get(path).text) == (503, "starting\n")
        assert "looks_total 3.0" in client.get("/metrics").text
        openmetrics = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert openmetrics.text.endswith("# EOF\n")
        assert client.get("/other").status_code == 404


def test_metrics_are_served_whatever_a_client_accepts():
    """In the format that the exporter chooses too: a header that cannot be understood gets text."""
    text, openmetrics = Style.TEXT, Style.OPENMETRICS
    cases = {
        "application/openmetrics-text; version=abc": text,
        "application/openmetrics-text; version=": text,
        "text/plain; version=abc": text,
        "text/plain; q=abc": text,
        ";;,=;": text,
        "": text,
        "*/*": text,
        "application/openmetrics-text": openmetrics,
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1": openmetrics,
    }
    with served(FakeHealth()) as client:
        for accept, style in cases.items():
            answer = client.get("/metrics", headers={"accept": accept})
            assert (answer.status_code, answer.headers["content-type"]) == (200, style.value), accept
            assert "looks_total 3.0" in answer.text, accept
            assert answer.text.endswith("# EOF\n") == (style is openmetrics), accept


@pytest.mark.parametrize("free", [False, True])
def test_health_is_answered_without_a_password_by_choice_only(tmp_path: Path, free: bool):
    """A supervisor need not know the password; metrics always require it."""
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  prom: {hash_password('right')}\n")
    web = replace(WEB, web_config_file=str(file), health_without_password=free)
    with served(FakeHealth(), web) as client:
        for path in HEALTH_PATHS:
            assert client.get(path).status_code == (200 if free else 401), path
            assert client.get(path, auth=("prom", "right")).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", auth=("prom", "right")).status_code == 200


@pytest.mark.parametrize("free", [False, True])
def test_the_exporter_has_the_same_choice(tmp_path: Path, free: bool):
    """Its health pages are part of its site, and nothing else is open."""
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  prom: {hash_password('right')}\n")
    config = ExportConfig(kafka={"bootstrap.servers": "x"}, web_config_file=str(file), health_without_password=free)
    settings = Settings("", str(file), lambda: NOW_MS)
    app = make_app(config, make_view(config), lambda: ReadProgress(loaded=True), lambda: NOW_MS, settings=settings)

    async def ask(*paths: str) -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://exporter") as client:
            return [(await client.get(path)).status_code for path in paths]

    asked = ask("/-/healthy", "/-/ready", "/", "/metrics", "/api/v1/overview")
    assert asyncio.run(asked) == [*((200, 503) if free else (401, 401)), 401, 401, 401]


@pytest.mark.tools
def test_certificates_are_switched_while_it_runs(tmp_path: Path):
    """Setting the event, as SIGHUP does, reads them again."""
    for name in ("old", "new"):
        make_certificate(tmp_path, name)
    file = tmp_path / "web.yml"
    file.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")

    def install(name: str) -> None:
        for ending in ("crt", "key"):
            (tmp_path / f"server.{ending}").write_bytes((tmp_path / f"{name}.{ending}").read_bytes())

    install("old")
    trusted, reload = ssl.create_default_context(cafile=str(tmp_path / "new.crt")), threading.Event()
    with served(FakeHealth(), replace(WEB, web_config_file=str(file)), reload, trusted) as client:
        with pytest.raises(httpx.ConnectError):
            client.get("/-/healthy")
        install("new")
        reload.set()

        def answers() -> bool:
            try:
                return client.get("/-/healthy").status_code == 200
            except httpx.ConnectError:
                return False

        wait_for(answers, "the new certificate")


def test_what_cannot_be_served_is_one_sentence(tmp_path: Path):
    """A port in use, and a missing file."""
    with served(FakeHealth()) as client:
        port = client.base_url.port
        assert port is not None
        sentence = f"cannot listen on 127.0.0.1 port {port} .*stream.listen_port"
        with pytest.raises(ExporterError, match=sentence), served(FakeHealth(), replace(WEB, port=port)):
            pass
    missing = tmp_path / "none.yml"
    with (
        pytest.raises(ExporterError, match=r"none\.yml"),
        served(FakeHealth(), replace(WEB, web_config_file=str(missing))),
    ):
        pass
