"""The home of a Spark that this application starts itself, and what its Python workers begin with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_streaming.spark import spark_home
from rebalance_streaming.spark.spark_home import use_installed_pyspark


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as most do: nobody chose a home. What a test sets is undone."""
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
    """A Spark that somebody installed is theirs to arrange."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    use_installed_pyspark(tmp_path)
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert list(tmp_path.iterdir()) == []


def test_of_two_at_once_one_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The other one finds it there when it is done, and leaves nothing behind."""
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
    """A container's file system may be read-only: Spark starts as it always did."""
    (tmp_path / "file").touch()
    use_installed_pyspark(tmp_path / "file")
    assert "SPARK_HOME" not in os.environ


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
settings = {"spark.master": "local[1]", "spark.ui.enabled": "false", WORKERS_PARENT: sys.argv[2]}
spark = SparkSession.builder.config(map=settings).getOrCreate()
print(*spark.sparkContext.parallelize([0], 1).mapPartitions(begun_with).collect())
spark.stop()
"""


@pytest.mark.spark
def test_workers_have_what_is_installed_and_import_it_once(tmp_path: Path):
    """A real job's worker says what it began with, and where it has PySpark from."""
    module = "rebalance_streaming.spark.worker_daemon"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", _JOB, tmp_path, module]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=800)
    told = answer.stdout.split()
    assert {"pandas", "pyarrow.compute", "rebalance_streaming.wire.commits"} <= set(told)
    assert "site-packages/pyspark/__init__.py" in told[-1]
