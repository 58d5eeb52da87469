"""A home directory for a local Spark with which Python workers import the installed PySpark.

Spark puts `python/lib/pyspark.zip` of its home first on its workers' path, and modules imported from an archive are
compiled again by each process: 1.3 instead of 0.3 s of processor time, several times in the first half minute. With a
home without that file the workers import the installed PySpark, which is the same version.

Each installation has its own home in the cache. A process holds a shared lock on its home until it ends, and removes
unlocked homes that were least recently used or whose installation no longer exists.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark

#: The directories of a home that the scripts and the JVM need.
_NEEDED = ("bin", "jars")
_VARIABLE = "SPARK_HOME"
#: Number of home directories to keep, including the current one; those in use are never removed.
_KEPT_HOMES = 4
#: Number of attempts: another process may remove a home between its creation and the lock.
_ATTEMPTS = 3


def use_installed_pyspark(cache: Path) -> None:
    """Set SPARK_HOME to a home of symbolic links in the cache directory, for a JVM that this process starts.

    Does nothing if SPARK_HOME is set, if PySpark is installed without Spark, or if links cannot be created.
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
    """Create a home if it is missing, and lock it until this process ends. Raises OSError if that fails."""
    for _ in range(_ATTEMPTS):
        _make(home, installed)
        if _lock(home):
            with suppress(OSError):
                os.utime(home)
            return
    raise FileNotFoundError(home)


def _lock(home: Path) -> bool:
    """Lock a home until this process ends; return whether it still exists."""
    with suppress(FileNotFoundError):
        opened = os.open(home, os.O_RDONLY)
        with suppress(OSError):  # some file systems do not support locks
            fcntl.flock(opened, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(opened), home.stat()):
                # Never closed, so that the lock is held until the process ends.
                return True
        os.close(opened)
    return False


def _drop_others(home: Path) -> None:
    """Remove other homes that were least recently used, or whose installation no longer exists."""
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
        # Another process has created it meanwhile.
        for name in _NEEDED:
            (made / name).unlink()
        made.rmdir()
        if not home.is_dir():
            raise
