"""The fake exporter and the command line, for all tests of the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from exporters.terminal.answering import Exporter, answering, enricher
from exporters.terminal.clusters import NOW_MS
from exporters.terminal.running import Outcome, run
from rebalance_exporters.terminal import commands, silence_commands

Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove colours, proxies, settings and certificates of the user's environment; set the time of the clusters."""
    for name in ("URL", "USER", "PASSWORD_FILE", "CA_FILE", "CLUSTER"):
        monkeypatch.delenv(f"REBALANCE_MONITOR_{name}", raising=False)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "HTTP_PROXY", "http_proxy", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    # Every command reads the machine's certificate store, which takes longer than everything else it does.
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    for module in (commands, silence_commands):
        monkeypatch.setattr(module, "read_now_ms", lambda: NOW_MS)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """An exporter with payments-enricher and a few more groups."""
    with answering(Exporter(enricher())) as serving:
        yield serving


@pytest.fixture
def monitor(exporter: Exporter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `rebalance-monitor` against that exporter, whose address is in the environment."""
    monkeypatch.setenv("REBALANCE_MONITOR_URL", exporter.url)
    return lambda *words: run(capsys, *words)
