"""A home for Spark on this machine whose Python workers import PySpark from where it is installed.

Spark puts `python/lib/pyspark.zip` of its home in front of its workers' path, and what is imported from an archive is
compiled anew by each process: 1.3 instead of 0.3 s of processor time, several times in the first half minute. A
home without that file leaves them the installed PySpark, which is the same one.

Each installation has a home of its own in the cache. Whoever uses one holds a shared lock on it until its process ends,
and removes those that were used least recently, or whose installation is gone, and that nobody holds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark

#: What the scripts and the JVM need of a home.
_NEEDED = ("bin", "jars")
_VARIABLE = "SPARK_HOME"
#: So many homes stay, those in use aside: more of them are of installations that are gone, or that nobody starts.
_KEPT_HOMES = 4
#: Another process may remove a home between its making and the lock.
_ATTEMPTS = 3


def use_installed_pyspark(cache: Path) -> None:
    """Let a JVM that this process starts have such a home, made of links in a cache directory.

    Nothing changes where somebody chose a home, where PySpark comes without Spark, or where links cannot be made.
    """
    installed = Path(pyspark.__file__).resolve().parent
    if _VARIABLE in os.environ or not all((installed / name).is_dir() for name in _NEEDED):
        return
    home = cache / f"spark-{pyspark.__version__}-{hashlib.sha256(bytes(installed)).hexdigest()[:8]}"
    try:
        _hold(home, installed)
    except OSError:
        return
    os.environ[_VARIABLE] = str(home)
    _drop_others(home)


def _hold(home: Path, installed: Path) -> None:
    """Make a home unless it is there, and lock it until this process ends. Raises OSError where it cannot be made."""
    for attempt in range(_ATTEMPTS):
        _make(home, installed)
        try:
            # It stays open, and the lock with it.
            opened = os.open(home, os.O_RDONLY)
            with suppress(OSError):  # there are file systems without locks
                fcntl.flock(opened, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(opened), home.stat()):
                break
        except FileNotFoundError:
            if attempt + 1 == _ATTEMPTS:
                raise
    with suppress(OSError):
        os.utime(home)


def _drop_others(home: Path) -> None:
    """Remove homes beside this one whose installation is gone, and those that were used least recently."""
    with suppress(OSError):
        others = [each for each in home.parent.glob("spark-*") if each.is_dir() and each != home]
        others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
        for kept, each in enumerate(others, start=1):
            if kept >= _KEPT_HOMES or not (each / "jars").exists():
                _drop(each)


def _drop(home: Path) -> None:
    """Remove a home unless a process holds it."""
    with suppress(OSError):
        opened = os.open(home, os.O_RDONLY)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in _NEEDED:
                (home / name).unlink(missing_ok=True)
            home.rmdir()
        finally:
            os.close(opened)


def _make(home: Path, installed: Path) -> None:
    if home.is_dir():
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    made.chmod(0o755)
    for name in _NEEDED:
        (made / name).symlink_to(installed / name)
    try:
        made.rename(home)
    except OSError:
        # Another process was faster.
        for name in _NEEDED:
            (made / name).unlink()
        made.rmdir()
        if not home.is_dir():
            raise
