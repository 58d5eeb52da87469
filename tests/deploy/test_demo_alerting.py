"""The demo's notifications when their requirements are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_deploy import observability
from rebalance_deploy.demo import alerting


def test_a_demo_without_the_rules_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel has no rules: with Prometheus installed its demo runs, and explains why it shows no notifications."""
    monkeypatch.setattr(alerting, "find_tool", lambda _: Path("/usr/bin/true"))
    monkeypatch.setattr(observability, "_SHIPPED", tmp_path / "site-packages")
    said: list[str] = []
    with alerting.printed_pages(tmp_path, "http://127.0.0.1:1", said.append) as servers:
        assert servers is None
    (line,) = said
    assert line.startswith("no notifications are shown: ")
    assert line.endswith("run this from a checkout of the project")


def test_a_demo_without_the_programs_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus and Alertmanager are not part of a Python installation."""
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    with alerting.printed_pages(tmp_path, "http://127.0.0.1:1", said.append) as servers:
        assert servers is None
    (line,) = said
    assert line.startswith("no notifications are shown: ")
    assert "apt-get install" in line
