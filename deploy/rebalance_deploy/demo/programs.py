"""Offers to install Prometheus and Alertmanager, which the demo needs for its pages.

`.ci/prerequisites` installs them as Debian packages whose services are not started; a wheel does not contain it.
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
    """Install missing programs if `confirm` answers yes; None means that no user can be asked.

    Without `confirm` it only reports how to install them; it also reports if the installation fails. It does nothing if
    no program is missing, or if it cannot install (no root, apt-get or installer).
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
    """Return the prefix for a command that needs root, or None if there is no way to become root."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    return None if sudo is None else [sudo]
