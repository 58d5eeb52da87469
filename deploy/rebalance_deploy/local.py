"""Stream, prober and exporter as child processes on one machine, supervised.

They meet in Kafka only, so any may die and come back alone. A process that fails before it has ever run well is
not started again: its error is for a person to mend.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Self

import msgspec

from rebalance_contract.api import Readiness
from rebalance_contract.epochs import SUPERSEDED_EXIT_CODE
from rebalance_deploy import components, jars
from rebalance_deploy.counts import fetch
from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say, configure, logs_json, say_progress
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.progress import Pace, StepProgress, figures_of, time_left
from rebalance_deploy.settings import Sources
from rebalance_exporters.config import ExportConfig
from rebalance_kafka.backoff import Backoff

PROCESSES = ("stream", "probe", "export")
_RAN_WELL_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 30.0
#: More than the stream's own wait for its last batch.
_STOP_SECONDS = 45.0
#: A machine that is busy with other things takes minutes for what takes one otherwise; one that ended is reported.
_READY_SECONDS = 300.0
#: How often the progress of the catch-up is reported, and how long the page is waited for meanwhile.
_TELL_SECONDS, _ANSWER_SECONDS = 5.0, 1.0
#: Where a server answers that listens on every interface.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
#: In whatever form its log is.
_ANNOUNCEMENT = re.compile(r"serving on (\S+)/metrics")


def arguments(sources: Sources) -> list[str]:
    """Return the command-line arguments that make a child see the same settings."""
    file = [] if sources.file is None else ["--config", str(sources.file)]
    return [*file, *(part for flag in sources.flags for part in ("--set", flag))]


@dataclass(slots=True)
class Supervised:
    """One child process and what is known of its past."""

    name: str
    sources: Sources
    log_directory: Path | None = None
    process: ChildProcess = field(init=False)
    _started: float = field(init=False)
    _proven: bool = field(init=False, default=False)
    _backoff: Backoff = field(init=False, default_factory=lambda: Backoff(1.0, _LONGEST_PAUSE_SECONDS))

    def start(self, *options: str) -> None:
        """Start the process, this once with further `options`.

        Its output goes to its log file, or to where this process's goes.
        """
        log = None if self.log_directory is None else self.log_directory / f"{self.name}.log"
        command = [sys.executable, "-m", "rebalance_deploy", self.name, *arguments(self.sources), *options]
        self.process = ChildProcess(command, log_path=log, grace_seconds=_STOP_SECONDS)
        self._started = time.monotonic()

    def restart_if_ended(self, stop: threading.Event, say: Say) -> None:
        """Start the process again if it ended, waiting longer each time. Raises UserError if it never ran well."""
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
    """Run all processes until `stop` is set, then stop them side by side.

    Whenever `reload` is set all are told to read their settings files again.
    """
    # Wrong settings, and brokers that do not answer, are reported once, here, and not by every child.
    stream = components.stream_config(sources)
    log = configure(components.log_config(sources), "up", stream.kafka)
    components.probe_config(sources)
    export = components.export_config(sources)
    from rebalance_streaming.cluster import Cluster  # noqa: PLC0415

    Cluster(stream).check_reachable()
    children = _start_all(sources, None)
    catch_up = CatchUpReport(ready_url(export) if sys.stderr.isatty() or logs_json() else None)
    try:
        while not stop.wait(1):
            for child in children:
                child.restart_if_ended(stop, log.warn)
            catch_up.tell(say_progress, time.monotonic())
            if reload.is_set():
                reload.clear()
                for child in children:
                    child.process.request_reload()
    finally:
        _stop_all(children)


SayProgress = Callable[[str, Mapping[str, object]], None]


@dataclass(slots=True)
class CatchUpReport:
    """Tells who waits how far the monitor is, until it is ready: a line every few seconds, with figures for programs.

    It is no bar, as three other processes write to the same terminal. `url` is the readiness page; null: says nothing.
    """

    url: str | None
    _pace: Pace = field(default_factory=Pace)
    _next_seconds: float = 0.0

    def tell(self, say: SayProgress, now_seconds: float) -> None:
        """Ask the page once, and say what it answers when it is time to."""
        if self.url is None:
            return
        _, text = fetch(self.url, accept="application/json", timeout_seconds=_ANSWER_SECONDS)
        verdict = _verdict(text)
        if verdict is None:
            return
        if verdict.ready:
            say(verdict.text, figures_of(StepProgress("ready", 0, "", share=1.0), Pace()))
            self.url = None
        elif verdict.share is not None:
            step = verdict.text.partition(":")[0]
            reading = StepProgress(step, 0, "", share=verdict.share)
            self._pace.take(reading, now_seconds)
            if now_seconds >= self._next_seconds:
                self._next_seconds = now_seconds + _TELL_SECONDS
                say(f"{verdict.text}{_at_pace(self._pace)}", figures_of(reading, self._pace))


def _verdict(text: str) -> Readiness | None:
    """Return what the readiness page answered; null when it did not."""
    try:
        return msgspec.json.decode(text, type=Readiness)
    except msgspec.MsgspecError:
        return None


def _at_pace(pace: Pace) -> str:
    rate, left = pace.share_rate, time_left(pace)
    return f", {100 * rate:.2g} % a second, {left}" if rate is not None and left else ""


def ready_url(export: ExportConfig) -> str | None:
    """Return where an exporter on this machine says whether it is ready; null where that cannot be known, or asked."""
    if export.listen_port == 0 or export.web_config_file:
        return None
    host = _LOOPBACK.get(export.listen_host, export.listen_host)
    return f"http://{f'[{host}]' if ':' in host else host}:{export.listen_port}/-/ready"


def loopback_sources(
    bootstrap: str,
    directory: Path,
    *flags: str,
    port: int = 0,
    zookeeper: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Sources:
    """Return the settings of a monitor on loopback only, with its checkpoint in `directory`; `flags` go over them.

    `port` is the exporter's; 0 takes any free one.
    """
    settings = (
        f"kafka.bootstrap.servers={bootstrap}",
        f"stream.checkpoint={directory / 'checkpoint'}",
        "export.listen_host=127.0.0.1",
        f"export.listen_port={port}",
        "probe.listen_host=127.0.0.1",
        "probe.listen_port=0",
        "stream.listen_host=127.0.0.1",
        "stream.listen_port=0",
        *((f"probe.zookeeper={zookeeper}",) if zookeeper else ()),
    )
    return Sources(environment=environment, flags=(*settings, *flags))


class Monitor:
    """Stream, prober and exporter with their output in files, unsupervised: for the demo, tests and benchmarks.

    A process that ends is an error. Leaving the context stops all.
    """

    def __init__(self, sources: Sources, log_directory: Path) -> None:
        """Start the processes; their logs go to `stream.log`, `probe.log` and `export.log`."""
        self._log_directory = log_directory
        self.stream, self.probe, self.export = _start_all(sources, log_directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _stop_all([self.stream, self.probe, self.export])

    @property
    def url(self) -> str:
        """Where the exporter serves, as it announced itself; empty before that."""
        log = self._log_directory / "export.log"
        for line in log.read_text().splitlines() if log.exists() else []:
            if found := _ANNOUNCEMENT.search(line):
                return found[1]
        return ""

    def wait_until_ready(self, stop: threading.Event, say: Say, *, timeout_seconds: float = _READY_SECONDS) -> bool:
        """Wait for the readiness page; false when told to stop meanwhile. Raises UserError when it never comes."""
        deadline, said = time.monotonic() + timeout_seconds, ""
        while not stop.wait(0.25):
            self.check()
            status, text = fetch(f"{self.url}/-/ready") if self.url else (0, "waiting for the exporter")
            if status == HTTPStatus.OK:
                say(f"the monitor is ready: {self.url}/metrics")
                return True
            if text != said:
                say(f"not ready: {text}")
                said = text
            if time.monotonic() > deadline:
                raise UserError(
                    f"the monitor was not ready after {timeout_seconds:.0f} s: {text}; see {self._log_directory}"
                )
        return False

    def check(self) -> None:
        """Raise UserError with the last line of its log if a process ended."""
        for child in (self.stream, self.probe, self.export):
            if not child.process.is_running:
                lines = child.process.log_path.read_text().splitlines() if child.process.log_path else []
                raise UserError(f"{child.name} ended: {lines[-1] if lines else 'without a word'}")


def _start_all(sources: Sources, log_directory: Path | None) -> list[Supervised]:
    # Here and not in the stream: the download is shown to who waits, and its time is not that of a start.
    if components.stream_config(sources).master:
        jars.resolve("connector")
    children = [Supervised(name, sources, log_directory) for name in PROCESSES]
    for child in children:
        child.start()
    return children


def _stop_all(children: list[Supervised]) -> None:
    """Stop the processes side by side, giving the stream time for its last batch."""
    for child in children:
        child.process.request_stop()
    for child in children:
        child.process.terminate(_STOP_SECONDS)
