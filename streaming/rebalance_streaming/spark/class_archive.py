"""An archive of the classes that Spark's JVM loads (JEP 350), so that later starts need not parse and verify them.

The first start records the classes that it loads, and writes them some time after it has caught up with the log, so
that this does not slow down the diagnosis; later starts map the file. The JVM checks that an archive matches it and its
jars, and ignores one that does not.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

#: Options that suppress the JVM's messages about an archive that does not match; a new one gets another name.
_SILENT = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
#: Number of archives to keep, of about 200 MB each; older ones belong to removed installations.
_KEPT_ARCHIVES = 3
#: Time before a failed attempt is repeated: if writing crashes the JVM, it must not do so after every start.
_RETRY_SECONDS = 86_400
#: Time between catching up with the log and writing the archive.
_CALM_SECONDS = 30


class ClassArchive:
    """The archive of one installation (JVM, Spark and jars). `directory` is a cache and need not exist."""

    def __init__(self, directory: Path, jars: Iterable[Path], warn: Callable[[str], None] = lambda _: None) -> None:
        """`warn` is told if the archive cannot be written, which only costs time."""
        self._warn = warn
        self._path = directory / f"classes-{_installation(jars)}.jsa"
        self._attempt = self._path.with_suffix(".attempt")

    def options(self) -> tuple[str, ...]:
        """Return the JVM's options, either to use the archive or to record classes for it."""
        if self._path.exists():
            with suppress(OSError):
                os.utime(self._path)
            return (*_SILENT, f"-XX:SharedArchiveFile={self._path}")
        return (*_SILENT, "-XX:+RecordDynamicDumpInfo") if self._is_due() else ()

    def write_later(self, spark: SparkSession, stop: threading.Event) -> threading.Thread | None:
        """Start a thread that writes the archive after 30 s, unless `stop` is set before.

        Return the thread; null if there is nothing to write, as at most starts.
        """
        if not self._is_wanted():
            return None

        def run() -> None:
            if not stop.wait(_CALM_SECONDS):
                self.write(spark, stop)

        thread = threading.Thread(target=run, name="class-archive", daemon=True)
        thread.start()
        return thread

    def write(self, spark: SparkSession, stop: threading.Event | None = None) -> bool:
        """Write the archive if it is missing; return whether there is one now. Takes some seconds.

        A failure is no warning once `stop` is set, because the JVM may have ended before.
        """
        try:
            is_due = self._begin_attempt()
        except OSError:
            return False
        if is_due:
            try:
                self._write(spark)
            except Exception as error:
                if stop is None or not stop.is_set():
                    # The text of an error of Java is a stack trace.
                    self._warn(f"the archive of classes for faster starts was not written ({type(error).__name__})")
        return self._path.exists()

    def _begin_attempt(self) -> bool:
        """Return whether this process is to write the archive: only one of several does. Raises OSError."""
        directory = self._path.parent
        directory.mkdir(parents=True, exist_ok=True)
        opened = os.open(directory, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems do not support locks
                fcntl.flock(opened, fcntl.LOCK_EX)
            is_wanted = self._is_wanted()
            if is_wanted:
                self._attempt.touch()
        finally:
            os.close(opened)
        return is_wanted

    def _write(self, spark: SparkSession) -> None:
        written = self._path.with_suffix(f".{os.getpid()}")
        try:
            _dump(spark, written)
            written.replace(self._path)
        finally:
            # What a failed attempt wrote is not an archive.
            written.unlink(missing_ok=True)
        self._attempt.unlink()
        self._drop_old()

    def _is_wanted(self) -> bool:
        return not self._path.exists() and self._is_due()

    def _is_due(self) -> bool:
        try:
            return time.time() - self._attempt.stat().st_mtime > _RETRY_SECONDS
        except OSError:
            return True

    def _drop_old(self) -> None:
        archives = sorted(self._path.parent.glob("classes-*.jsa"), key=lambda each: each.stat().st_mtime, reverse=True)
        for each in archives[_KEPT_ARCHIVES:]:
            each.unlink(missing_ok=True)


def _installation(jars: Iterable[Path]) -> str:
    """Return a name that changes whenever an earlier archive would no longer match."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    spark = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    parts = [_stamp(java.resolve()), _stamp(spark), *(_stamp(jar) for jar in jars), os.environ.get("CLASSPATH", "")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _stamp(path: Path) -> str:
    try:
        return f"{path} {path.stat().st_mtime_ns}"
    except OSError:
        return f"{path}"


def _dump(spark: SparkSession, path: Path) -> None:
    """Let the JVM write its loaded classes, like `jcmd PID VM.cds dynamic_dump`; a JRE does not include jcmd."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for i, value in enumerate(values):
            made[i] = value
        return made

    lang = jvm.java.lang
    named = lang.Class.forName
    # The class of the server is not public, so the method of its interface must be called.
    types = ("javax.management.ObjectName", "java.lang.String", "[Ljava.lang.Object;", "[Ljava.lang.String;")
    invoke = named("javax.management.MBeanServer").getMethod("invoke", array(lang.Class, *map(named, types)))
    commands = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments = array(lang.Object, array(lang.String, "dynamic_dump", f"{path}"))
    signature = array(lang.String, "[Ljava.lang.String;")
    server = lang.management.ManagementFactory.getPlatformMBeanServer()
    invoke.invoke(server, array(lang.Object, commands, "vmCds", arguments, signature))
