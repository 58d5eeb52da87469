"""The wheel of this checkout, and virtual environments that pip installs it into."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = "rebalance-monitor"
#: A version in the lock file, without its hashes: with hashes pip rejects the wheel, which has none.
_PINNED = re.compile(r"^[\w.-]+==[^\\\n]+", re.MULTILINE)

_OTHERS = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"}


def build_wheel(target: Path) -> Path:
    """Build the wheel without network access and return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1_000, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = target.glob("*.whl")
    return path


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel installed."""

    directory: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def command(self) -> Path:
        """Its console script."""
        return self.directory / "bin" / _NAME

    def run(self, *command: str | Path, timeout_seconds: float = 120) -> str:
        """Run a command to its end, outside the checkout, and return its standard output."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=own_variables(),
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def libraries(self) -> set[str]:
        """Return the names of all installed distributions."""
        lines = self.run(self.python, "-m", "pip", "list", "--format", "freeze").splitlines()
        return {re.split("==| @ ", line)[0].lower() for line in lines}


def own_variables() -> dict[str, str]:
    """Return this process's environment variables without those that make Python find modules of another environment.

    Bytecode of imported modules is kept, because pip does not compile them (see `install`).
    """
    return {key: value for key, value in os.environ.items() if key not in _OTHERS}


def install(wheel: Path, directory: Path, extra: str = "", *clients: str) -> Environment:
    """Create an environment and let pip install the wheel with one extra and client libraries, in locked versions.

    Needs an index that pip can reach, or its cache.
    """
    subprocess.run([sys.executable, "-m", "venv", directory], check=True, timeout=120)
    locked = directory / "locked.txt"
    locked.write_text("\n".join(_PINNED.findall((ROOT / "requirements" / "runtime.txt").read_text())))
    environment = Environment(directory)
    wanted = f"{_NAME}[{extra}] @ {wheel.as_uri()}" if extra else f"{_NAME} @ {wheel.as_uri()}"
    pip = (environment.python, "-m", "pip", "--disable-pip-version-check")
    # Compiling all modules of Spark and pandas takes longer than unpacking them; few are imported.
    how = ("--quiet", "--no-compile", "--constraint", locked)
    environment.run(*pip, "install", *how, wanted, *clients, timeout_seconds=900)
    environment.run(*pip, "check")
    return environment
