"""A home for Spark on this machine whose Python workers import PySpark from where it is installed.

Spark puts `python/lib/pyspark.zip` of its home in front of its workers' path, and what is imported from an archive is
compiled anew by each process: 1.3 instead of 0.3 s of processor time, several times in the first half minute. A
home without that file leaves them the installed PySpark, which is the same one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pyspark

#: What the scripts and the JVM need of a home.
_NEEDED = ("bin", "jars")
_VARIABLE = "SPARK_HOME"


def use_installed_pyspark(cache: Path) -> None:
    """Let a JVM that this process starts have such a home, made of links in a cache directory.

    Nothing changes where somebody chose a home, where PySpark comes without Spark, or where links cannot be made.
    """
    installed = Path(pyspark.__file__).resolve().parent
    if _VARIABLE in os.environ or not all((installed / name).is_dir() for name in _NEEDED):
        return
    home = cache / f"spark-{pyspark.__version__}-{hashlib.sha256(bytes(installed)).hexdigest()[:8]}"
    try:
        _make(home, installed)
    except OSError:
        return
    os.environ[_VARIABLE] = str(home)


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
