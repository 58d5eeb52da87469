"""The demo's offer to install Prometheus and Alertmanager: the question, the action and the output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_deploy.demo import programs
from rebalance_deploy.demo.programs import offer_programs

INSTALLER = Path(__file__).resolve().parents[2] / ".ci" / "prerequisites"


@pytest.fixture
def said() -> list[str]:
    """The output of the demo."""
    return []


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian machine without the two programs: PATH is a single directory, and the user is root."""
    (tmp_path / "apt-get").write_text("#!/bin/sh\nexit 99\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def installer(directory: Path, exit_code: int = 0) -> Path:
    """Return a fake installer that records its arguments."""
    program = directory / "installer"
    program.write_text(f"#!/bin/sh\necho \"$@\" > '{directory}/arguments'\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def test_without_a_terminal_it_says_how(bare: Path, said: list[str]) -> None:
    """Without a terminal no question can be asked, so nothing is installed."""
    offer_programs(said.append, None, installer=installer(bare))
    assert said == [
        "the demo also shows alert notifications where prometheus and prometheus-alertmanager are installed: start it"
        " with --yes to install them"
    ]
    assert not (bare / "arguments").exists()


def test_a_no_is_a_no(bare: Path, said: list[str]) -> None:
    """After a refusal there is no second question, and nothing happens."""
    asked: list[str] = []

    def refuse(question: str) -> bool:
        asked.append(question)
        return False

    offer_programs(said.append, refuse, installer=installer(bare))
    assert (len(asked), said) == (1, [])
    assert not (bare / "arguments").exists()


@pytest.mark.processes
def test_a_yes_installs_what_is_missing(bare: Path, said: list[str]) -> None:
    """The installer gets the path of the running Python and the requested component."""
    offer_programs(said.append, lambda _: True, installer=installer(bare))
    assert (bare / "arguments").read_text() == f"{sys.executable} pages\n"
    assert said == ["installing prometheus and prometheus-alertmanager; their services are not started"]


@pytest.mark.processes
def test_an_installation_that_fails_is_reported(bare: Path, said: list[str]) -> None:
    """The demo continues."""
    offer_programs(said.append, lambda _: True, installer=installer(bare, exit_code=100))
    assert said[-1].endswith("could not be installed: the demo goes on without notifications")


@pytest.mark.parametrize("lacking", ["apt-get", "root", "checkout"])
def test_nothing_is_offered_where_it_cannot_be_done(
    bare: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """Another operating system, a user without sudo, or a wheel without the installer."""
    program = installer(bare)
    if lacking == "apt-get":
        (bare / "apt-get").unlink()
    elif lacking == "root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    else:
        program.unlink()
    offer_programs(said.append, pytest.fail, installer=program)
    assert said == []


def test_a_user_who_is_not_root_uses_sudo(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a manual installation."""
    (bare / "sudo").write_text("")
    (bare / "sudo").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert programs._become_root() == [str(bare / "sudo")]


def test_nothing_is_asked_where_nothing_is_missing(
    bare: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with both programs is not asked."""
    for name in ("prometheus", "promtool", "alertmanager", "amtool"):
        (bare / name).write_text("")
        (bare / name).chmod(0o755)
    offer_programs(said.append, pytest.fail, installer=installer(bare))
    assert said == []


@pytest.mark.processes
def test_the_installer_knows_what_pages_need(tmp_path: Path) -> None:
    """Prometheus and Alertmanager, and no JDK: without root, both packages are named."""
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", str(INSTALLER), sys.executable, "pages"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_000,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("missing: prometheus prometheus-alertmanager.")
