"""Prometheus and Alertmanager, which the demo's pages need and a machine may lack, installed if somebody says so.

Receives whether to install without a question; hands on nothing: whoever needs the programs looks for them. They are
installed by `.ci/prerequisites`, as Debian packages whose services are not started; a wheel does not have it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say
from rebalance_deploy.observability import PACKAGES, find_tool

_INSTALLER = Path(__file__).resolve().parents[3] / ".ci" / "prerequisites"


def offer_programs(say: Say, confirm: Callable[[str], bool] | None, *, installer: Path = _INSTALLER) -> None:
    """Install what is missing if `confirm` says yes to the question; null where nobody can be asked.

    Says how to install it where nobody can be asked, or where the installation fails. Nothing happens where nothing is
    missing, and nothing is offered where this program cannot do it.
    """
    missing = _missing()
    become_root = _become_root()
    if not missing or become_root is None or shutil.which("apt-get") is None or not installer.exists():
        return
    names = " and ".join(missing)
    if confirm is None:
        say(f"the demo also shows alert notifications where {names} are installed: start it with --yes to install them")
        return
    if not confirm(f"Install {names} (apt-get), so that the demo also shows alert notifications?"):
        return
    say(f"installing {names}; their services are not started")
    done = subprocess.run([*become_root, str(installer), sys.executable, "pages"], check=False)
    if done.returncode:
        say(f"{names} could not be installed: the demo goes on without notifications")


def _missing() -> list[str]:
    """Return the packages that are missing."""
    missing = set()
    for name, package in PACKAGES.items():
        try:
            find_tool(name)
        except UserError:
            missing.add(package)
    return sorted(missing)


def _become_root() -> list[str] | None:
    """Return what to write before a command that needs root; null where there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    return None if sudo is None else [sudo]
