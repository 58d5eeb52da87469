"""Finds the Java that runs Kafka, Spark and Ivy.

Takes the environment and the directory where JDKs are installed; returns one `Java` that is new enough. It starts
nothing but `java -version`.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rebalance_deploy.errors import UserError

MINIMUM_VERSION = 17
INSTALLED_JDKS = Path("/usr/lib/jvm")
_INSTALL = "sudo apt-get install openjdk-17-jdk-headless"
_ANSWER_TIMEOUT_SECONDS = 60
# "17.0.15", "25" and the old "1.8.0_392" all follow the word version, in quotes.
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')


@dataclass(frozen=True)
class Java:
    """A Java that answered `-version`: its executable and its version."""

    executable: Path
    version: int
    version_text: str

    @property
    def home(self) -> Path:
        """The directory for JAVA_HOME, links resolved."""
        return self.executable.resolve().parent.parent


def find_java(
    *, environ: Mapping[str, str] = os.environ, installed: Path = INSTALLED_JDKS, minimum: int = MINIMUM_VERSION
) -> Java:
    """Return the first Java of at least version `minimum`, from JAVA_HOME, then PATH, then `installed`.

    A JAVA_HOME that is too old is skipped, because it is often set for another program. Raises UserError with the
    command that installs a JDK if no Java is new enough.
    """
    rejected: list[Java] = []
    for executable in _candidates(environ, installed):
        java = ask_version(executable)
        if java is None:
            continue
        if java.version >= minimum:
            return java
        rejected.append(java)
    if rejected:
        found = ", ".join(f"{java.executable} ({java.version_text})" for java in rejected)
        problem = f"Java {minimum} or newer is needed, found only {found}"
    else:
        problem = f"Java {minimum} or newer is needed, found none in JAVA_HOME, on PATH or in {installed}"
    raise UserError(f"{problem}: install one (Debian, Ubuntu: {_INSTALL}) or set JAVA_HOME to it")


def ask_version(executable: Path) -> Java | None:
    """Return the Java that `executable -version` reports, or None if it does not run or is not a Java."""
    try:
        answer = subprocess.run(
            [executable, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or match is None:
        return None
    return Java(executable, int(match[2]), match[1])


def _candidates(environ: Mapping[str, str], installed: Path) -> Iterator[Path]:
    if java_home := environ.get("JAVA_HOME"):
        yield Path(java_home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(on_path)
    yield from sorted(installed.glob("*/bin/java"))
