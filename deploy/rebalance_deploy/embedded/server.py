"""Runs a Java server in a child process with its own log.

Takes the name of a set of pinned jars; returns a process that can be started, stopped and killed, and the reason for a
failure. It is a guarded child: it cannot outlive this process.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from rebalance_deploy import jars
from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import Java, find_java
from rebalance_deploy.processes import ChildProcess

# A server of a demo or a test runs for minutes: with only the quick compiler a broker starts in 2.5 instead of 3.1 s,
# with 1.9 instead of 3.4 s of CPU, and a small heap needs no collector with its own threads and tables. For a benchmark
# of the broker itself drop the last two options.
QUICK_START = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: Silences the JVM's warnings about an archive that does not match the JVM or the jars; it then starts without it.
_SHARING = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")

_LOG4J2 = """<Configuration status="WARN" shutdownHook="disable">
<Appenders><Console name="out" target="SYSTEM_OUT"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
_LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class JavaServer:
    """A server that runs in `directory`, created if missing, and writes its log there.

    `name` appears in error messages. `keep_log` is for a directory that will be removed: the log is copied to this path
    after a failure. `archives` is a directory in the cache for the classes that the server loads (JEP 350): the JVM
    writes them at an orderly stop, and starts in half of the time with them.
    """

    def __init__(
        self,
        name: str,
        log_path: Path,
        *,
        jar_set: str,
        jvm_options: Sequence[str] = QUICK_START,
        keep_log: Path | None = None,
        archives: Path | None = None,
    ) -> None:
        """Prepare a server. Starts nothing yet."""
        self.name = name
        self.directory = log_path.parent
        self.log_path = log_path
        self._jar_set = jar_set
        self._jvm_options = tuple(jvm_options)
        self._keep_log = keep_log
        self._archives = archives
        self._archive: Path | None = None
        self._process: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """The process id, or None if it was not started or was stopped."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.is_running

    def start(self, main: str, *arguments: str | Path) -> None:
        """Start the server's main class; the server may not answer yet when this returns."""
        java = find_java()
        self._archive = None if self._archives is None else self._archives / _archive_name(java, self._jvm_options)
        self._process = self._run(java, self._sharing(), main, *arguments)

    def request_stop(self) -> None:
        """Request a stop without waiting, to stop several servers in parallel."""
        if self._process:
            self._process.request_stop()

    def stop(self, deadline_seconds: float) -> None:
        """Stop the server in an orderly way, by force after the deadline. Does nothing if it was not started."""
        if self._process:
            exit_code = self._process.terminate(deadline_seconds)
            self._process = None
            # A JVM that was killed may have written only a part.
            if exit_code != 128 + signal.SIGKILL:
                self._keep_archive()

    def kill(self) -> None:
        """Kill the server, as in a crash. Does nothing if it was not started."""
        if self._process:
            self._process.kill()
            self._process = None

    def run(self, main: str, *arguments: str | Path) -> ChildProcess:
        """Start another main class of the same jars; its output goes to the same log."""
        return self._run(find_java(), (), main, *arguments)

    def _run(self, java: Java, sharing: Sequence[str], main: str, *arguments: str | Path) -> ChildProcess:
        self.directory.mkdir(parents=True, exist_ok=True)
        # Kafka 4 reads the first file, Kafka 3.9 and ZooKeeper the second.
        (self.directory / "log4j2.xml").write_text(_LOG4J2)
        (self.directory / "log4j.properties").write_text(_LOG4J)
        logging = (
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
            f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}",
        )
        jvm: list[str | Path] = [java.executable, *self._jvm_options, *sharing, *logging]
        command = [*jvm, "-cp", jars.classpath(self._jar_set), main, *arguments]
        return ChildProcess(command, log_path=self.log_path, cwd=self.directory)

    def _sharing(self) -> tuple[str, ...]:
        """Return the JVM options that use the archive of classes or, if there is none, write one at exit."""
        if self._archive is None:
            return ()
        if self._archive.exists():
            return (*_SHARING, f"-XX:SharedArchiveFile={self._archive}")
        return (*_SHARING, f"-XX:ArchiveClassesAtExit={self._written}")

    def _keep_archive(self) -> None:
        if self._archive is not None and self._written.exists():
            jars.keep(self._written, self._archive)
            self._written.unlink()

    @property
    def _written(self) -> Path:
        return self.directory / "classes.jsa"

    def failure(self, what: str) -> UserError:
        """Return an error with the server's name, the failure `what`, and the line of the log that explains it best."""
        log = self.log_path
        if self._keep_log is not None and log.exists():
            log = Path(shutil.copy(log, self._keep_log))
        return UserError(f"{self.name} {what}: {reason_line(log)} (log: {log})")


def _archive_name(java: Java, options: Sequence[str]) -> str:
    """Return a name unique to this Java and collector; the JVM itself verifies that the jars have not changed."""
    collector = " ".join(each for each in options if each.startswith("-XX:+Use"))
    stamp = f"{java.executable.resolve()} {java.version_text} {collector}"
    return f"classes-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"


def reason_line(log: Path) -> str:
    """Return the line of a server's log that explains its end best: its last error, else its last line."""
    lines = (
        [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    )
    # The root cause is the last in the chain; Kafka logs the same failure again in every layer.
    causes = [line for line in lines if re.search(r"Caused by:|Exception: |ERROR|Error: ", line)]
    return (causes or lines or ["it wrote no log"])[-1]
