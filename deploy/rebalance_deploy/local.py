"""Stream, prober and exporter as child processes on one machine, supervised.

They communicate only through Kafka, so each can fail and be restarted alone. A process that ends before it has run for
`_RAN_WELL_SECONDS` is not restarted: a person has to correct the error.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from rebalance_contract.epochs import SUPERSEDED_EXIT_CODE
from rebalance_deploy import components, jars
from rebalance_deploy.catch_up import CatchUpReport, ready_url
from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say, configure, logs_json, say_progress
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.settings import Sources
from rebalance_kafka.backoff import Backoff

PROCESSES = ("stream", "probe", "export")
_RAN_WELL_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 30.0
#: Longer than the stream's own wait for its last batch.
_STOP_SECONDS = 45.0


def arguments(sources: Sources) -> list[str]:
    """Return the command-line arguments with which a child loads the same settings."""
    file = [] if sources.file is None else ["--config", str(sources.file)]
    return [*file, *(part for flag in sources.flags for part in ("--set", flag))]


@dataclass(slots=True)
class Supervised:
    """One child process and its restart history."""

    name: str
    sources: Sources
    log_directory: Path | None = None
    process: ChildProcess = field(init=False)
    _started: float = field(init=False)
    _proven: bool = field(init=False, default=False)
    _backoff: Backoff = field(init=False, default_factory=lambda: Backoff(1.0, _LONGEST_PAUSE_SECONDS))

    def start(self, *options: str) -> None:
        """Start the process; the additional `options` are not kept for restarts.

        Its output goes to its log file or, without one, to the output of this process.
        """
        log = None if self.log_directory is None else self.log_directory / f"{self.name}.log"
        command = [sys.executable, "-m", "rebalance_deploy", self.name, *arguments(self.sources), *options]
        self.process = ChildProcess(command, log_path=log, grace_seconds=_STOP_SECONDS)
        self._started = time.monotonic()

    def restart_if_ended(self, stop: threading.Event, say: Say) -> None:
        """Restart the process if it ended, with back-off.

        Raises UserError if it never ran for `_RAN_WELL_SECONDS`, or if another process superseded it.
        """
        ran_seconds = time.monotonic() - self._started
        if ran_seconds >= _RAN_WELL_SECONDS:
            self._proven = True
        if self.process.is_running:
            return
        if self.process.exit_code == SUPERSEDED_EXIT_CODE:
            raise UserError(f"{self.name} ended, since another {self.name} took over, and is not started again")
        if not self._proven:
            log = f", see {self.process.log_path}" if self.process.log_path else ""
            raise UserError(f"{self.name} ended with exit code {self.process.exit_code} at its start{log}")
        if ran_seconds >= _RAN_WELL_SECONDS:
            self._backoff.succeed()
        pause_seconds = self._backoff.fail()
        say(f"{self.name} ended after {ran_seconds:.0f} s; starting it again in {pause_seconds:.0f} s")
        if not stop.wait(pause_seconds):
            self.start()


def run(sources: Sources, stop: threading.Event, reload: threading.Event) -> None:
    """Run all processes until `stop` is set, then stop them in parallel.

    Whenever `reload` is set, all of them reload their settings files.
    """
    # Wrong settings and unreachable brokers are reported once, here, and not by every child.
    stream = components.stream_config(sources)
    log = configure(components.log_config(sources), "up", stream.kafka)
    components.probe_config(sources)
    export = components.export_config(sources)
    from rebalance_streaming.brokers.cluster import Cluster  # noqa: PLC0415

    Cluster(stream).check_reachable()
    children = start_all(sources, None)
    catch_up = CatchUpReport(ready_url(export) if sys.stderr.isatty() or logs_json() else None)
    try:
        while not stop.wait(1):
            for child in children:
                child.restart_if_ended(stop, log.warn)
            catch_up.report(say_progress, time.monotonic())
            if reload.is_set():
                reload.clear()
                for child in children:
                    child.process.request_reload()
    finally:
        stop_all(children)


def start_all(sources: Sources, log_directory: Path | None) -> list[Supervised]:
    """Start the processes; their output goes to `stream.log` etc. in a directory or, if None, to our own output."""
    # Here and not in the stream, so that the user sees the download and it does not count as start-up time.
    if components.stream_config(sources).master:
        jars.resolve("connector")
    children = [Supervised(name, sources, log_directory) for name in PROCESSES]
    for child in children:
        child.start()
    return children


def stop_all(children: list[Supervised]) -> None:
    """Stop the processes in parallel, giving the stream time for its last batch."""
    for child in children:
        child.process.request_stop()
    for child in children:
        child.process.terminate(_STOP_SECONDS)
