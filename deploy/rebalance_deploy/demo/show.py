"""Runs the demo: a real Kafka, a real workload with one sick consumer, and the monitor, whose findings are printed.

After two minutes the sick consumer gets the value that the monitor advises, and its group recovers. The primary finding
is checked continuously; at the end the counts are compared with the broker's own log.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from rebalance_contract import Finding, FindingState, Rebalance, Severity, decode
from rebalance_deploy.broker_log import read_truth
from rebalance_deploy.counts import Counted, expected, read_counts
from rebalance_deploy.demo import workload
from rebalance_deploy.demo.alerting import fires, printed_pages
from rebalance_deploy.demo.cure import SETTING, Cure
from rebalance_deploy.demo.headline import Headline
from rebalance_deploy.demo.standstill import Standstill
from rebalance_deploy.embedded import DEFAULT_VERSION
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.observability import Alerting
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from rebalance_exporters.terminal.words import describe, describe_finding
from rebalance_kafka.follower import Follower
from rebalance_streaming.config import StreamConfig

#: Longer than the sick consumer's pause, so that it can leave its group cleanly.
_LEAVE_SECONDS = 25.0
_SETTLE_SECONDS = 120.0
_NEWS_SECONDS = 0.5
#: Contents of the owners file for the demo's groups.
OWNERS = """\
[[owners]]
group = "payments-.*"
team = "payments"

[[owners]]
group = ".*"
team = "shop"
"""
#: The demo has few groups and shows all metrics. Because a person is watching, findings begin within a minute and end
#: within two. On one machine no record is so late that a rebalance needs 20 s to settle.
_SETTINGS = (
    "export.collect_partitions=true",
    "export.collect_members=true",
    "detect.thresholds.resolve_after_ms=60000",
    "detect.thresholds.storm_window_ms=120000",
    "detect.settle_ms=10000",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo; without a duration it runs until it is stopped.

    `cure_after_seconds` is the time from the start of the workload until the sick consumer gets the advised value; if
    there is none yet, it waits for one.
    """

    duration_seconds: float | None = None
    cure_after_seconds: float = 120.0
    kafka_version: str = DEFAULT_VERSION
    port: int = 9642


@dataclass(frozen=True, slots=True)
class _Show:
    """State shared by the functions of the demo."""

    broker: EmbeddedKafka
    monitor: Monitor
    servers: Alerting | None
    directory: Path
    clients: dict[str, ChildProcess]
    stack: ExitStack
    stop: threading.Event
    say: Say


def run(options: DemoOptions, stop: threading.Event, say: Say) -> int:
    """Run the demo until `stop`, or for the chosen duration; return the process's exit code.

    With a duration the code is 0 only if every rebalance in the broker's log was counted, and the primary finding was
    right in every check.
    """
    directory = Path(tempfile.mkdtemp(prefix="rebalance-monitor-demo-"))
    say(f"logs and data in {directory}, removed at the end if all goes well")
    code = _perform(options, directory, stop, say)
    if code == 0:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _perform(options: DemoOptions, directory: Path, stop: threading.Event, say: Say) -> int:
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedKafka(directory / "kafka", kafka_version=options.kafka_version))
        say(f"Kafka {options.kafka_version} runs at {broker.bootstrap}")
        create_topics(broker.bootstrap, workload.TOPICS)
        owners = directory / "owners.toml"
        owners.write_text(OWNERS)
        settings = loopback_sources(
            broker.bootstrap,
            directory,
            *_SETTINGS,
            f"export.owners_file={owners}",
            port=options.port,
            environment=dict(os.environ),
        )
        monitor = stack.enter_context(Monitor(settings, directory))
        if not monitor.wait_until_ready(stop, say):
            return 0
        servers = stack.enter_context(printed_pages(directory, monitor.url, say))
        show = _Show(broker, monitor, servers, directory, {}, stack, stop, say)
        _start_workload(show)
        _say_what_to_try(monitor.url, servers, say)
        return _play(show, options)


def _play(show: _Show, options: DemoOptions) -> int:
    sick = workload.SICK
    show.say(
        f"{len(show.clients)} client processes started. {sick.client_id} of group {sick.group} is sick: it works "
        f"{sick.seconds_per_poll:.0f} s on each poll with {SETTING}={sick.max_poll_interval_ms}"
    )
    with Standstill() as standstill:
        headline = _show_news(show, options, standstill)
    if options.duration_seconds is None or show.stop.is_set():
        return 0
    show.say("the workload stops; every group empties, which is a rebalance too")
    _stop_workload(show.clients.values())
    code = _compare(show)
    show.say(headline.total())
    return 1 if headline.wrong else code


def _say_what_to_try(url: str, servers: Alerting | None, say: Say) -> None:
    group = workload.SICK.group
    if servers is not None:
        say(
            f"Prometheus: {servers.prometheus.url}/alerts  Alertmanager: {servers.alertmanager.url}; "
            "notifications appear here"
        )
    say("three things to try in the meantime:")
    say(f"  1. open {url}/#/groups/{StreamConfig().cluster}/{group}")
    say(f"  2. rebalance-monitor explain {group} --url {url}")
    say(f"  3. rebalance-monitor top --url {url}")


def _start_workload(show: _Show) -> None:
    _start_client(show, "producer", workload.producer_command(show.broker.bootstrap))
    for spec in workload.CONSUMERS:
        _start_client(show, spec.client_id, workload.command(show.broker.bootstrap, spec))


def _start_client(show: _Show, name: str, command: list[str]) -> None:
    """Start a client; it replaces the one of the same name."""
    log = show.directory / f"{name}{'-again' * (name in show.clients)}.log"
    show.clients[name] = show.stack.enter_context(ChildProcess(command, log_path=log))


def _stop_workload(clients: Collection[ChildProcess]) -> None:
    for client in clients:
        client.request_stop()
    for client in clients:
        client.terminate(_LEAVE_SECONDS)


def _show_news(show: _Show, options: DemoOptions, standstill: Standstill) -> Headline:
    """Print every rebalance when it is published, with the URL of /metrics, and every finding above severity info.

    Also cures the sick consumer when it is time. Returns the results of checking the primary finding.
    """
    said: set[tuple[str, ...]] = set()
    cure, headline = Cure(workload.SICK, show.say), Headline(workload.SICK, show.say)
    began = time.monotonic()
    deadline = None if options.duration_seconds is None else began + options.duration_seconds
    for row in _follow(show.broker.bootstrap, show.stop, deadline):
        news = None if row is None else _news(row)
        if news is not None and news[0] not in said:
            said.add(news[0])
            show.say(f"{news[1]}  {show.monitor.url}/metrics" if isinstance(row, Rebalance) else news[1])
        if row is not None:
            cure.hear(row)
            if isinstance(row, Finding):
                headline.hear(row)
        elif cure.is_advised and not cure.is_applied and time.monotonic() >= began + options.cure_after_seconds:
            _restart(show, cure.apply())
        else:
            cure.look(lambda: show.servers is not None and fires(show.servers, workload.SICK.group))
        headline.look(time.monotonic(), is_cured=cure.is_applied, stood_still_at=standstill.ended_at)
        show.monitor.check()
        if any(not client.is_running for client in show.clients.values()):
            raise UserError("a client of the workload ended by itself; see its log in the demo's directory")
    return headline


def _restart(show: _Show, spec: workload.ConsumerSpec) -> None:
    show.clients[spec.client_id].terminate(_LEAVE_SECONDS)
    _start_client(show, spec.client_id, workload.command(show.broker.bootstrap, spec))


def _news(row: Rebalance | Finding) -> tuple[tuple[str, ...], str] | None:
    """Return a key and the text of a row, or None if it is not printed; each key is printed only once."""
    if isinstance(row, Rebalance):
        if row.completed_at_ms is None:
            return None
        return (row.group, row.rebalance_id, str(row.generation_to)), describe(row)
    if row.severity == Severity.INFO:
        return None
    words = describe_finding(row)
    if row.state == FindingState.RESOLVED:
        words = words.partition("\n")[0]  # who and why was said before
    return (row.finding_id, row.severity, row.state), words


def _follow(bootstrap: str, stop: threading.Event, deadline: float | None) -> Iterator[Rebalance | Finding | None]:
    """Yield rebalances and findings as the stream publishes them, and None after each poll."""
    config = StreamConfig()
    forms: dict[str, type[Rebalance | Finding]] = {config.rebalances_topic: Rebalance, config.findings_topic: Finding}
    with closing(Follower({"bootstrap.servers": bootstrap}, forms, name="demo")) as follower:
        while not stop.is_set() and (deadline is None or time.monotonic() < deadline):
            records = follower.poll(_NEWS_SECONDS)
            yield from (decode(each.value, forms[each.topic]) for each in records if each.value is not None)
            yield None


def _compare(show: _Show) -> int:
    """Compare the counts with the broker's log until they agree or time is up; return the exit code."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    wanted, counted = _both_counts(show)
    while counted != wanted and time.monotonic() < deadline:
        show.monitor.check()
        time.sleep(0.5)
        wanted, counted = _both_counts(show)
    for group in sorted(wanted | counted):
        verdict = "ok   " if counted.get(group) == wanted.get(group) else "WRONG"
        show.say(f"  {verdict} {group}: the broker's log says {wanted.get(group)}; /metrics {counted.get(group)}")
    total = sum(each.completed for each in wanted.values())
    found = sum(min(each.completed, counted[group].completed) for group, each in wanted.items() if group in counted)
    show.say(f"counted {found} of {total} rebalances that the broker completed in {len(wanted)} groups")
    return 0 if counted == wanted and total > 0 else 1


def _both_counts(show: _Show) -> tuple[dict[str, Counted], dict[str, Counted]]:
    with show.broker.log_path.open(errors="replace") as lines:
        wanted = {group: expected(truth) for group, truth in read_truth(lines).items()}
    return wanted, read_counts(show.monitor.url)
