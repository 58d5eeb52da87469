"""The class data archive: which process writes it and when, and that a JVM uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rebalance_streaming.spark import class_archive
from rebalance_streaming.spark.class_archive import ClassArchive

RECORDING = "-XX:+RecordDynamicDumpInfo"
#: Any session: these tests do not use it.
NO_SESSION: Any = None


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Write an empty file in the place of the JVM's; return the written ones."""
    written: list[Path] = []

    def dump(_: SparkSession, path: Path) -> None:
        path.touch()
        written.append(path)

    monkeypatch.setattr(class_archive, "_dump", dump)
    return written


def finish(thread: threading.Thread | None) -> None:
    """Wait for a thread that must exist."""
    assert thread is not None
    thread.join()


def test_the_first_start_records_and_later_ones_use_what_it_wrote(tmp_path: Path, writes: list[Path]):
    """It is written once, and by one process."""
    first, second = (ClassArchive(tmp_path / "cache", []) for _ in range(2))
    assert RECORDING in first.options()
    assert first.write(NO_SESSION)
    assert second.write(NO_SESSION)
    assert len(writes) == 1
    (used,) = [each for each in second.options() if "SharedArchiveFile" in each]
    assert Path(used.partition("=")[2]).is_file()


def test_it_is_written_once_the_start_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: list[Path]):
    """A stream that is stopped earlier writes none."""
    archive, stopped = ClassArchive(tmp_path, []), threading.Event()
    stopped.set()
    finish(archive.write_later(NO_SESSION, stopped))
    assert not writes
    monkeypatch.setattr(class_archive, "_CALM_SECONDS", 0)
    finish(archive.write_later(NO_SESSION, threading.Event()))
    assert len(writes) == 1


def test_where_nothing_is_to_be_written_nobody_waits(tmp_path: Path, writes: list[Path]):
    """An archive exists, as at most starts, or an attempt has just failed."""
    archive = ClassArchive(tmp_path, [])
    archive.write(NO_SESSION)
    assert archive.write_later(NO_SESSION, threading.Event()) is None
    (written,) = tmp_path.glob("*.jsa")
    written.rename(written.with_suffix(".attempt"))
    assert archive.write_later(NO_SESSION, threading.Event()) is None


def test_an_attempt_that_failed_is_not_made_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: list[Path]
):
    """If the attempt crashed the JVM, every start would crash; after a day it is tried again."""

    def fail(_: SparkSession, __: Path) -> None:
        raise RuntimeError("no such command")

    said: list[str] = []
    archive = ClassArchive(tmp_path, [], said.append)
    with monkeypatch.context() as patch:
        patch.setattr(class_archive, "_dump", fail)
        assert not archive.write(NO_SESSION)
    assert said == ["the archive of classes for faster starts was not written (RuntimeError)"]
    assert RECORDING not in archive.options()
    assert not archive.write(NO_SESSION)
    (attempt,) = tmp_path.glob("*.attempt")
    yesterday = time.time() - 90_000
    os.utime(attempt, (yesterday, yesterday))
    assert RECORDING in archive.options()
    assert archive.write(NO_SESSION)
    assert len(writes) == 1


def test_of_two_that_end_their_wait_together_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: list[Path]
):
    """The second one has found an old attempt before the first one began its own."""
    first, second = (ClassArchive(tmp_path, []) for _ in range(2))
    overtakes, begun = [first], list[bool]()
    first._attempt.touch()
    os.utime(first._attempt, (0, 0))
    lock = class_archive.fcntl.flock

    def be_overtaken(file: int, how: int) -> None:
        if overtakes:
            begun.append(overtakes.pop()._begin_attempt())
        lock(file, how)

    monkeypatch.setattr(class_archive.fcntl, "flock", be_overtaken)
    assert second._is_wanted()
    assert not second.write(NO_SESSION)
    assert (begun, writes) == ([True], [])


def test_what_a_failed_attempt_wrote_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The JVM may end while it writes; of a file of 200 MB nothing stays."""

    def fail(_: SparkSession, path: Path) -> None:
        path.touch()
        raise RuntimeError("the JVM is gone")

    monkeypatch.setattr(class_archive, "_dump", fail)
    archive = ClassArchive(tmp_path, [])
    assert not archive.write(NO_SESSION)
    assert RECORDING not in archive.options()
    assert [path.suffix for path in tmp_path.iterdir()] == [".attempt"]


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, writes: list[Path]):
    """A container's file system may be read-only."""
    (tmp_path / "file").touch()
    archive = ClassArchive(tmp_path / "file" / "cache", [])
    assert RECORDING in archive.options()
    assert not archive.write(NO_SESSION)
    assert writes == []


def test_another_installation_has_an_archive_of_its_own(tmp_path: Path, writes: list[Path]):
    """A changed jar gives another class path; unused archives are removed."""
    jar = tmp_path / "a.jar"
    for number in range(5):
        jar.touch()
        os.utime(jar, (number, number))
        archive = ClassArchive(tmp_path / "cache", [jar])
        assert RECORDING in archive.options()
        assert archive.write(NO_SESSION)
        (newest,) = [path for path in (tmp_path / "cache").glob("*.jsa") if path.stat().st_mtime > number + 1_000]
        os.utime(newest, (number + 10, number + 10))
    assert len(list((tmp_path / "cache").iterdir())) == 3


START = """
import sys
from pathlib import Path
from rebalance_deploy import jars
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.class_archive import ClassArchive
from rebalance_streaming.spark.session import start_session

archive = ClassArchive(Path(sys.argv[1]), jars.resolve("connector"))
spark = start_session(StreamConfig(master="local[2]"), jars.resolve("connector"), (*archive.options(), *sys.argv[2:]))
sys.exit(0 if archive.write(spark) else 1)
"""


@pytest.mark.spark
@pytest.mark.timeout(1_300)
def test_sparks_jvm_takes_the_archive_that_it_wrote(tmp_path: Path):
    """With -Xshare:on it refuses to start with an archive that does not match."""
    for options in ((), ("-Xshare:on",)):
        subprocess.run([sys.executable, "-c", START, tmp_path, *options], check=True, timeout=600)
        assert len(list(tmp_path.glob("*.jsa"))) == 1
