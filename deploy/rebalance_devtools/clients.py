"""Installs old third-party Kafka clients for the stories, each pinned and in its own directory.

Takes a client's name; returns the directory that a child process gets as PYTHONPATH. Two versions of one client cannot
be installed in one environment, and none of them belongs in the monitor's own, so this process never imports them. The
requirements of a client, with checksums, are in `stories/requirements/<name>.txt`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from rebalance_deploy.errors import UserError
from rebalance_deploy.jars import CACHE_VARIABLE, cache_directory, only_one
from rebalance_deploy.processes import ChildProcess

REQUIREMENTS = Path(__file__).parent / "stories" / "requirements"
#: Written last into a client's directory: the checksum of its requirements and the Python it was installed with.
_STAMP = ".requirements-sha256"
_WORK = ".work-"


def known_clients(requirements: Path = REQUIREMENTS) -> tuple[str, ...]:
    """Return the names of all available clients, such as `kafka-python-1.4.6`."""
    return tuple(sorted(path.name.removesuffix(".txt") for path in requirements.glob("*.txt")))


def client_environment(name: str, *, requirements: Path = REQUIREMENTS) -> Path:
    """Return the directory to put on PYTHONPATH for a client, installing it if the cache lacks it.

    Needs the network only then. If several processes call this at once, one installs and the others wait; an incomplete
    directory is never visible. Raises UserError for an unknown name, a failure of pip (with its last error), or a cache
    that cannot be written.
    """
    pinned = requirements / f"{name}.txt"
    if not pinned.is_file():
        raise UserError(f"there is no client named {name}: choose one of {', '.join(known_clients(requirements))}")
    directory = cache_directory() / "clients" / name
    stamp = _stamp(pinned)
    if not _is_installed(directory, stamp):
        try:
            with only_one(directory.parent, "installing clients"):
                # Another process may have installed it while holding the lock.
                if not _is_installed(directory, stamp):
                    _install(name, pinned, directory, stamp)
        except OSError as error:
            raise UserError(
                f"the cache {directory.parent} cannot be used ({error.strerror or error}): make room there or set"
                f" {CACHE_VARIABLE} to a directory you own"
            ) from error
    return directory


def _stamp(pinned: Path) -> str:
    """Return the identity of an installation: the checksum of its requirements, and the tag of this Python."""
    return f"{hashlib.sha256(pinned.read_bytes()).hexdigest()} {sys.implementation.cache_tag}\n"


def _is_installed(directory: Path, stamp: str) -> bool:
    written = directory / _STAMP
    return written.is_file() and written.read_text() == stamp


def _install(name: str, pinned: Path, directory: Path, stamp: str) -> None:
    """Install with pip into a temporary directory next to the final one, then rename it. Requires the lock."""
    _say(f"installing {name} ...")
    # Left by a process that was killed; we hold the lock, so no other process uses them.
    for left in directory.parent.glob(f"{_WORK}*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_WORK, dir=directory.parent))
    try:
        _run_pip(name, pinned, work / "site", directory.with_name(f"{name}.log"))
        (work / "site" / _STAMP).write_text(stamp)
        shutil.rmtree(directory, ignore_errors=True)
        (work / "site").replace(directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_pip(name: str, pinned: Path, target: Path, log: Path) -> None:
    log.unlink(missing_ok=True)
    options = ("--target", target, "--require-hashes", "--no-compile", "--disable-pip-version-check")
    command: list[str | Path] = [sys.executable, "-m", "pip", "install", *options, "-r", pinned]
    # pip must not see the PYTHONPATH of this process.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with ChildProcess(command, log_path=log, env=env) as pip:
        if pip.wait() == 0:
            return
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    reason = (errors or lines or ["it said nothing"])[-1]
    raise UserError(f"{name} could not be installed, pip says: {reason} (log: {log})")


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - progress, for the person who waits
