"""One server of the Java world in a child process, with a log of its own.

Receives which pinned jars it is made of; hands on a process that can be started, stopped and killed, and the reason
when it fails. It is a guarded child: it cannot outlive this process.
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

# A server of a demo or a test lives for minutes: the quick compiler alone starts a broker in 2.5 instead of 3.1 s, and
# with 1.9 instead of 3.4 s of CPU, and so small a heap needs no collector with threads and tables of its own. For a
# benchmark of the broker itself drop the last two options.
QUICK_START = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

#: What the JVM has to say of an archive that does not fit it, or its jars, is of use to nobody: it goes on without.
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
    """A server that runs in `directory`, made where it is missing, and writes its log there.

    `name` is what people read when it fails. Where `keep_log` is given, the directory is one that will be removed, and
    the log of a failure is copied there. `archives` is a directory in the cache for the classes that the server loads
    (JEP 350): the JVM writes them when it is stopped in an orderly way, and with them starts in half of the time.
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
        """The process id, null if it was not started or was stopped."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.is_running

    def start(self, main: str, *arguments: str | Path) -> None:
        """Start the server's main class; it does not answer yet when this returns."""
        java = find_java()
        self._archive = None if self._archives is None else self._archives / _archive_name(java, self._jvm_options)
        self._process = self._run(java, self._sharing(), main, *arguments)

    def request_stop(self) -> None:
        """Ask it to stop and return at once: to stop several servers side by side."""
        if self._process:
            self._process.request_stop()

    def stop(self, deadline_seconds: float) -> None:
        """Stop it in an orderly way, by force after the deadline. Does nothing if it was not started."""
        if self._process:
            exit_code = self._process.terminate(deadline_seconds)
            self._process = None
            # What a JVM that was killed has written may be a part.
            if exit_code != 128 + signal.SIGKILL:
                self._keep_archive()

    def kill(self) -> None:
        """Kill it as a crash would. Does nothing if it was not started."""
        if self._process:
            self._process.kill()
            self._process = None

    def run(self, main: str, *arguments: str | Path) -> ChildProcess:
        """Start a main class of the same jars that writes to the same log."""
        return self._run(find_java(), (), main, *arguments)

    def _run(self, java: Java, sharing: Sequence[str], main: str, *arguments: str | Path) -> ChildProcess:
        self.directory.mkdir(parents=True, exist_ok=True)
        # Kafka 3.9 and ZooKeeper read the one, Kafka 4 the other.
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
        """Return the JVM's options to use the archive of classes or, where there is none, to write one at its end."""
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
        """Return the error that names the server and what befell it, with the line of its log that says why."""
        log = self.log_path
        if self._keep_log is not None and log.exists():
            log = Path(shutil.copy(log, self._keep_log))
        return UserError(f"{self.name} {what}: {reason_line(log)} (log: {log})")


def _archive_name(java: Java, options: Sequence[str]) -> str:
    """Return a name that no other Java or collector shares; the JVM looks itself whether the jars are those of then."""
    collector = " ".join(each for each in options if each.startswith("-XX:+Use"))
    stamp = f"{java.executable.resolve()} {java.version_text} {collector}"
    return f"classes-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"


def reason_line(log: Path) -> str:
    """Return the line of a server's log that says best why it ended: its last error, else its last line."""
    lines = (
        [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    )
    # An error's cause is the last one in its chain; Kafka logs the same failure again on every layer it passes.
    causes = [line for line in lines if re.search(r"Caused by:|Exception: |ERROR|Error: ", line)]
    return (causes or lines or ["it wrote no log"])[-1]
