"""Clients in other languages for plays: builds a Go program, and installs the modules of a Node.js program.

Returns the paths of what a play starts. Sources and pins are in `programs/go` (go.mod, go.sum) and `programs/node`
(package-lock.json); the results are in the cache, in directories named after a checksum of the sources. An incomplete
directory is never visible there. Development tools only: nothing of this is in a wheel.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from rebalance_deploy.errors import UserError
from rebalance_deploy.jars import cache_directory
from rebalance_deploy.processes import ChildProcess

_PROGRAMS = Path(__file__).parent / "programs"


def go_program() -> Path:
    """Return the path of the Go program, after building it if needed. Raises UserError if Go is missing or fails."""
    return _made("go", _build_go) / "plays"


def node_program() -> tuple[Path, Path]:
    """Return the paths of the Node.js program and of its modules, which npm fetches if they are not in the cache.

    Raises UserError if npm is missing or fails.
    """
    made = _made("node", _install_node)
    return _PROGRAMS / "node" / "consume_kafkajs.js", made / "node_modules"


def find_tool(name: str) -> str:
    """Return the path of a tool. Raises UserError if it is not on the PATH."""
    found = shutil.which(name)
    if found is None:
        raise UserError(f"this play needs {name}, which is not on the PATH")
    return found


def _made(language: str, make: Callable[[Path, Path], None]) -> Path:
    source = _PROGRAMS / language
    files = sorted(path for path in source.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()[:16]
    directory = cache_directory() / "clients" / f"{language}-{digest}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".work-{language}-", dir=directory.parent))
        try:
            make(source, work)
            # If several processes build it at once, the first one wins; the results are the same.
            if not directory.is_dir():
                work.rename(directory)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return directory


def _build_go(source: Path, target: Path) -> None:
    _run([find_tool("go"), "build", "-buildvcs=false", "-trimpath", "-o", target / "plays", "."], source, target)


def _install_node(source: Path, target: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, target)
    _run([find_tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target, target)


def _run(command: list[str | Path], directory: Path, target: Path) -> None:
    log = target / "made.log"
    with ChildProcess(command, log_path=log, cwd=directory, env={**os.environ}) as tool:
        if tool.wait() != 0:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            raise UserError(f"{command[0]} failed: {lines[-1] if lines else 'it said nothing'}")
