"""The home of a Spark that this application starts itself, and the imports of its Python workers."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_streaming.spark import spark_home
from rebalance_streaming.spark.spark_home import use_installed_pyspark


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without a configured home, as usual. Changes of the environment are undone."""
    monkeypatch.setenv("SPARK_HOME", "")
    monkeypatch.delenv("SPARK_HOME")


def test_it_is_made_once(tmp_path: Path):
    """It has the jars and the scripts, and no archive of PySpark."""
    use_installed_pyspark(tmp_path / "cache")
    home = Path(os.environ.pop("SPARK_HOME"))
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()
    use_installed_pyspark(tmp_path / "cache")
    assert Path(os.environ["SPARK_HOME"]) == home
    assert list((tmp_path / "cache").iterdir()) == [home]


def test_who_chose_a_home_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An existing installation of Spark is used unchanged."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    use_installed_pyspark(tmp_path)
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert list(tmp_path.iterdir()) == []


def test_of_two_at_once_one_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The other one finds it afterwards, and leaves nothing behind."""
    make_directory = spark_home.tempfile.mkdtemp

    def be_late(**how: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(spark_home.tempfile, "mkdtemp", make_directory)
            use_installed_pyspark(tmp_path)
            patch.delenv("SPARK_HOME")
        return make_directory(**how)

    monkeypatch.setattr(spark_home.tempfile, "mkdtemp", be_late)
    use_installed_pyspark(tmp_path)
    assert [Path(os.environ["SPARK_HOME"])] == list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path: Path):
    """A container's file system may be read-only: Spark starts as usual."""
    (tmp_path / "file").touch()
    use_installed_pyspark(tmp_path / "file")
    assert "SPARK_HOME" not in os.environ


def _installed(folder: Path) -> Path:
    """Create the files of a PySpark installation."""
    for name in ("bin", "jars"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").touch()
    return folder / "__init__.py"


def _homes(cache: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Start in each of these installations, one after the other; return the homes."""
    homes = []
    for number, folder in enumerate(folders):
        with monkeypatch.context() as patch:
            patch.setattr(spark_home.pyspark, "__file__", str(_installed(folder)))
            use_installed_pyspark(cache)
            homes.append(Path(os.environ.pop("SPARK_HOME")))
        os.utime(homes[-1], (number, number))
    return homes


def _unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release the locks of homes, as processes do when they exit."""
    lock = spark_home.fcntl.flock
    monkeypatch.setattr(spark_home.fcntl, "flock", lambda file, how: None if how == fcntl.LOCK_SH else lock(file, how))


def test_few_homes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each checkout has a home; the last used ones are kept, however many there were."""
    cache = tmp_path / "cache"
    _unlocked(monkeypatch)
    homes = _homes(cache, [tmp_path / f"checkout-{number}" for number in range(7)], monkeypatch)
    assert sorted(cache.iterdir()) == sorted(homes[-4:])


def test_a_home_in_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However many others started since, and even if its installation is not visible here."""
    cache = tmp_path / "cache"
    homes = _homes(cache, [tmp_path / f"checkout-{number}" for number in range(7)], monkeypatch)
    shutil.rmtree(tmp_path / "checkout-0")
    use_installed_pyspark(cache)
    assert {*homes} < {*cache.iterdir()}


def test_a_home_without_its_installation_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A removed checkout needs none; other content of a directory of that name is not touched."""
    cache = tmp_path / "cache"
    _unlocked(monkeypatch)
    _, other = _homes(cache, [tmp_path / "gone", tmp_path / "other"], monkeypatch)
    shutil.rmtree(tmp_path / "gone")
    foreign = cache / "spark-events"
    foreign.mkdir()
    (foreign / "kept").touch()
    use_installed_pyspark(cache)
    assert {*cache.iterdir()} == {other, foreign, Path(os.environ["SPARK_HOME"])}
    assert (foreign / "kept").exists()


def test_a_home_that_is_removed_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another process may have found it unused a moment before. The removed one is not kept open."""
    lock, removed = spark_home.fcntl.flock, []

    def be_late(file: int, how: int) -> None:
        if not removed:
            removed.append(next(tmp_path.glob("spark-*")))
            shutil.rmtree(removed[0])
        lock(file, how)

    monkeypatch.setattr(spark_home.fcntl, "flock", be_late)
    use_installed_pyspark(tmp_path)
    assert Path(os.environ["SPARK_HOME"]) == removed[0]
    assert (removed[0] / "jars").is_dir()
    opened = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert [each for each in opened if each.is_relative_to(tmp_path)] == removed


_JOB = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from rebalance_streaming.spark.session import WORKERS_PARENT
from rebalance_streaming.spark.spark_home import use_installed_pyspark

def begun_with(_):
    import sys
    names = sorted(sys.modules)
    yield from names
    import pyspark
    yield pyspark.__file__

use_installed_pyspark(Path(sys.argv[1]))
settings = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    WORKERS_PARENT: sys.argv[2],
}
spark = SparkSession.builder.config(map=settings).getOrCreate()
print(*spark.sparkContext.parallelize([0], 1).mapPartitions(begun_with).collect())
spark.stop()
"""


@pytest.mark.spark
def test_workers_have_what_is_installed_and_import_it_once(tmp_path: Path):
    """A real job's worker reports its initial modules, and the path of PySpark."""
    module = "rebalance_streaming.spark.worker_daemon"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", _JOB, tmp_path, module]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=800)
    reported = answer.stdout.split()
    assert {"pandas", "pyarrow.compute", "rebalance_streaming.wire.commits"} <= set(reported)
    assert "site-packages/pyspark/__init__.py" in reported[-1]
