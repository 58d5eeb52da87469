"""The console script `rebalance-monitor`. Commands import what they need when they run, so that `--help` is fast."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from rebalance_deploy import __version__
from rebalance_deploy.embedded import DEFAULT_VERSION, VERSIONS
from rebalance_exporters.terminal.commands import COMMANDS
from rebalance_exporters.terminal.options import LOGS, TIME_ZONE, LogReader
from rebalance_kafka.signals import set_on_signals
from rebalance_streaming.recordings.outputs import OUTPUTS

if TYPE_CHECKING:
    from rebalance_contract import CoordinatorEvent
    from rebalance_deploy.progress import Bar, Measure
    from rebalance_deploy.settings import Sources
    from rebalance_streaming.recordings.replay import ReplayProgress

F = TypeVar("F", bound=Callable[..., Any])

_CONFIG_FLAGS = (
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="REBALANCE_MONITOR_CONFIG",
        help="Settings file (TOML); docs/configuration.md lists the settings.",
    ),
    click.option(
        "--set", "flags", multiple=True, metavar="KEY=VALUE", help="Override a setting, for example cluster=prod."
    ),
)
_AS_JSON = "rebalance_deploy.as_json"


def _note_json(context: click.Context, _option: click.Parameter, value: bool) -> None:
    context.meta[_AS_JSON] = value


#: Option of every command that reports progress; `_sources` turns it into a setting.
_JSON_FLAG = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_note_json,
    help="Write log lines and progress to standard error as JSON objects, as with log.format = json.",
)
_CLUSTER_FLAG = click.option("--bootstrap-server", metavar="HOST:PORT", help="Bootstrap servers, separated by commas.")


#: Flags named as in other exporters; each sets a setting of `export`.
_EXPORT_FLAGS = {
    "limit_groups": click.option(
        "--limit.groups", "limit_groups", type=int, help="Maximum number of groups that get series."
    ),
    "limit_members_per_group": click.option(
        "--limit.members-per-group",
        "limit_members_per_group",
        type=int,
        help="Maximum number of members per group that get series.",
    ),
    "collect_partitions": click.option(
        "--collect.partitions", "collect_partitions", is_flag=True, help="Export lag per partition too."
    ),
    "collect_members": click.option(
        "--collect.members", "collect_members", is_flag=True, help="Export heartbeats and polls per member too."
    ),
    "owners_file": click.option("--owners.file", "owners_file", metavar="FILE", help="File that maps groups to teams."),
    "web_config_file": click.option(
        "--web.config.file", "web_config_file", metavar="FILE", help="File with TLS and basic-auth settings."
    ),
}


def _exporting(command: F) -> F:
    for option in reversed(_EXPORT_FLAGS.values()):
        command = option(command)
    return command


def _export_settings(given: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(
        f"export.{key}={str(value).lower() if value is True else value}" for key, value in given.items() if value
    )


def _configured(command: F) -> F:
    for option in (_JSON_FLAG, *_CONFIG_FLAGS, _CLUSTER_FLAG):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="rebalance-monitor")
@click.pass_context
def cli(context: click.Context) -> None:
    """Counts, times and explains the rebalances of Kafka consumer groups."""
    # The terminal depends only on the API and the contract; the reader of brokers' logs belongs to the stream.
    context.obj = LogReader(_read_logs)


@cli.command()
@_configured
@click.option(
    "--query",
    "queries",
    multiple=True,
    type=click.Choice(["membership", "activity", "diagnosis"]),
    help="Run only this query; may be repeated. By default all three run.",
)
@click.option("--rebuild", is_flag=True, help="Replace a lost checkpoint by a new one, made from the published topics.")
@click.option(
    "--set-aside", is_flag=True, help="With --rebuild: rename an existing checkpoint instead of refusing to start."
)
def stream(
    config: Path | None,
    flags: tuple[str, ...],
    bootstrap_server: str | None,
    queries: tuple[str, ...],
    *,
    rebuild: bool,
    set_aside: bool,
) -> None:
    """Run the Spark application that reads __consumer_offsets."""
    from rebalance_deploy import components  # noqa: PLC0415

    if set_aside and not rebuild:
        raise click.UsageError("--set-aside goes with --rebuild; without it the stream continues from its checkpoint")
    if queries:
        flags = (*flags, f"stream.queries={','.join(dict.fromkeys(queries))}")
    sources = _sources(config, flags, bootstrap_server)
    components.run_stream(sources, _stop_event(), _reload_event(), rebuild=rebuild, may_set_aside=set_aside)


@cli.command()
@_configured
def probe(config: Path | None, flags: tuple[str, ...], bootstrap_server: str | None) -> None:
    """Poll brokers, and ZooKeeper if configured, for what the log does not contain."""
    from rebalance_deploy import components  # noqa: PLC0415

    components.run_probe(_sources(config, flags, bootstrap_server), _stop_event(), _reload_event())


@cli.command()
@_configured
@_exporting
def export(config: Path | None, flags: tuple[str, ...], bootstrap_server: str | None, **settings: object) -> None:
    """Serve /metrics, the web UI and the API from the topics of the stream."""
    from rebalance_deploy import components  # noqa: PLC0415

    flags = (*_export_settings(settings), *flags)
    # SIGHUP is handled from here on, so that a reload before the exporter serves does not end the process.
    components.run_export(_sources(config, flags, bootstrap_server), _stop_event(), _reload_event())


@cli.command()
@_configured
@_exporting
def up(config: Path | None, flags: tuple[str, ...], bootstrap_server: str | None, **settings: object) -> None:
    """Run stream, prober and exporter on this machine against any cluster. SIGHUP is forwarded to all of them."""
    from rebalance_deploy import local  # noqa: PLC0415

    flags = (*_export_settings(settings), *flags)
    local.run(_sources(config, flags, bootstrap_server), _stop_event(), _reload_event())


@cli.command()
@click.option(
    "--duration",
    type=click.FloatRange(min=20),
    metavar="SECONDS",
    help="End after this time; exit code 0 if each rebalance was counted, and the sick consumer was named as cause.",
)
@click.option(
    "--cure-after",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Restart the sick consumer with the advised value after this time; default: 120.",
)
@click.option(
    "--kafka-version",
    type=click.Choice(VERSIONS),
    help=f"Version of the broker; default: {DEFAULT_VERSION}.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=9642,
    show_default=True,
    help="Port of the exporter; 0 picks a free one.",
)
@click.option("--yes", is_flag=True, help="Install Prometheus and Alertmanager without asking if they are missing.")
def demo(duration: float | None, cure_after: float | None, kafka_version: str | None, port: int, *, yes: bool) -> None:
    """Start a real Kafka, a workload with one sick consumer, and the monitor."""
    from rebalance_deploy.demo import programs, show  # noqa: PLC0415

    programs.offer_programs(_say, _confirming(assume_yes=yes))
    chosen = {"cure_after_seconds": cure_after, "kafka_version": kafka_version}
    given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    options = show.DemoOptions(duration_seconds=duration, port=port, **given)
    sys.exit(show.run(options, _stop_event(), _say))


def _confirming(*, assume_yes: bool) -> Callable[[str], bool] | None:
    """Return a function that asks a yes-or-no question, or None without a terminal."""
    if assume_yes:
        return lambda _: True
    if sys.stdin.isatty() and sys.stderr.isatty():
        return lambda question: click.confirm(question, default=False, err=True)
    return None


@cli.command()
@click.argument("file", type=click.File("r", errors="replace"), default="-")
def decode(file: Any) -> None:
    """Decode records given as JSON lines {key_hex, value_hex, ...}; add outcome, type, key and value."""
    from rebalance_streaming.recordings.decode_lines import decode_stream  # noqa: PLC0415

    for line in decode_stream(file):
        click.echo(line)


@cli.command()
@_configured
@click.option("--from-now", is_flag=True, help="Skip the records that the topics already contain.")
@click.option(
    "--to-end", is_flag=True, help="Stop at the present end of the topics instead of following them until Ctrl-C."
)
@click.option("--topics", multiple=True, metavar="TOPIC", help="Further topic to record; may be repeated.")
def record(
    *,
    config: Path | None,
    flags: tuple[str, ...],
    bootstrap_server: str | None,
    from_now: bool,
    to_end: bool,
    topics: tuple[str, ...],
) -> None:
    """Write every record of the monitored topics to standard output, as JSON lines for `replay`."""
    from rebalance_deploy import components  # noqa: PLC0415
    from rebalance_deploy.progress import StepProgress, shown  # noqa: PLC0415
    from rebalance_streaming.recordings.record import RecordProgress  # noqa: PLC0415

    progress, sources = RecordProgress(), _sources(config, flags, bootstrap_server)
    components.log_json_if_asked(sources, "record", connects=True)
    lines = components.record(
        sources,
        topics,
        from_beginning=not from_now,
        to_end=to_end,
        stop=_stop_event(),
        progress=progress,
    )

    def measure() -> StepProgress:
        # Without --to-end there is no end to measure against.
        return StepProgress("recording", progress.records, "records", share=progress.share if to_end else None)

    with shown(measure) as bar:
        _write_lines(lines, bar)


@cli.command()
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option(
    "--until", "until_ms", type=int, metavar="MS", help="Skip records later than this time (epoch milliseconds)."
)
@click.option(
    "--output",
    type=click.Choice(list(OUTPUTS)),
    default="rebalances",
    show_default=True,
    help="Which rows to write. impact: costs of rebalances; timing: heartbeats of members; all: with a field kind.",
)
@LOGS
@TIME_ZONE
@click.option(
    "--without-log",
    is_flag=True,
    help="Ignore the records of the offsets topic, as with sources.log = false.",
)
@_CONFIG_FLAGS[0]
@_CONFIG_FLAGS[1]
@_JSON_FLAG
def replay(
    *,
    files: tuple[Any, ...],
    until_ms: int | None,
    output: str,
    logs: tuple[Any, ...],
    time_zone: str,
    without_log: bool,
    config: Path | None,
    flags: tuple[str, ...],
) -> None:
    """Process recordings as the stream would have: JSON lines; without FILES, or with `-`, from standard input."""
    from rebalance_deploy import components  # noqa: PLC0415
    from rebalance_deploy.progress import shown  # noqa: PLC0415
    from rebalance_streaming.recordings.log_files import read_log_files, to_utc_of  # noqa: PLC0415
    from rebalance_streaming.recordings.replay import CLUSTER, PANE_MS, ReplayProgress  # noqa: PLC0415
    from rebalance_streaming.recordings.replay import replay as run  # noqa: PLC0415

    if logs and not files:
        raise click.UsageError("--logs goes with a recording: name its file, or - for standard input")
    sources = _sources(config, flags, None)
    components.log_json_if_asked(sources, "replay")
    detect = components.detect_config(sources)
    files, progress = files or (sys.stdin.buffer,), ReplayProgress()
    with shown(_measure_replay((*logs, *files), progress)) as bar:
        rows = run(
            files,
            output=output,
            until_ms=until_ms,
            detect=detect,
            logs=read_log_files(logs, cluster=CLUSTER, pane_ms=PANE_MS, time_zone=time_zone),
            to_utc=to_utc_of(time_zone),
            without_log=without_log,
            notify=_say,
            progress=progress,
        )
        _write_lines(rows, bar)


@cli.command()
@click.argument("set_name", default="connector")
@_JSON_FLAG
def jars(set_name: str) -> None:
    """Print the paths of a pinned set of jars for `spark-submit --jars`; fetch missing ones.

    SET_NAME is connector (the default), broker-4.3.1 or broker-3.9.2.
    """
    from rebalance_deploy import components  # noqa: PLC0415
    from rebalance_deploy.jars import resolve  # noqa: PLC0415

    components.log_json_if_asked(_sources(None, (), None), "jars")
    click.echo(",".join(str(path) for path in resolve(set_name)))


for _command in COMMANDS:
    cli.add_command(_command)

# Not part of any wheel. Imported by name, so that nothing here can depend on them.
_DEVELOPERS_TOOLS = "rebalance_devtools"
if importlib.util.find_spec(_DEVELOPERS_TOOLS) is not None:
    importlib.import_module(f"{_DEVELOPERS_TOOLS}.commands").extend(cli)


def _read_logs(files: Sequence[Any], group: str, time_zone: str) -> list[CoordinatorEvent]:
    """Return the coordinators' events of a group from files of brokers' logs, ordered by time."""
    from rebalance_streaming.recordings.log_files import read_log_files  # noqa: PLC0415

    rows = read_log_files(files, cluster="", pane_ms=60_000, time_zone=time_zone)
    return sorted((event for row in rows if row.group == group for event in row.events), key=lambda each: each.at_ms)


def _sources(config: Path | None, flags: tuple[str, ...], bootstrap_server: str | None) -> Sources:
    from rebalance_deploy.settings import Sources  # noqa: PLC0415

    if bootstrap_server:
        flags = (*flags, f"kafka.bootstrap.servers={bootstrap_server}")
    if click.get_current_context().meta.get(_AS_JSON):
        flags = (*flags, "log.format=json")
    return Sources(file=config, environment=os.environ, flags=flags)


def _stop_event() -> threading.Event:
    """Return an event that is set on SIGTERM and Ctrl-C; a second signal of the same kind ends the process at once."""
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGTERM, signal.SIGINT), once=True)
    return stop


def _reload_event() -> threading.Event:
    """Return an event that is set on SIGHUP."""
    reload = threading.Event()
    set_on_signals(reload, (signal.SIGHUP,))
    return reload


def _write_lines(lines: Iterable[bytes], bar: Bar) -> None:
    """Write lines to standard output; stop `bar` at the first line if standard output is a terminal."""
    is_terminal = sys.stdout.isatty()
    for line in lines:
        if is_terminal:
            bar.stop()
        sys.stdout.buffer.write(line + b"\n")
        # Another program may be reading the output as it is written.
        sys.stdout.buffer.flush()


def _measure_replay(files: Sequence[Any], progress: ReplayProgress) -> Measure:
    """Return a function that measures a replay: bytes read (lines if an input is a pipe), then records judged."""
    from rebalance_deploy.progress import StepProgress, raw_positions, step_of, step_of_bytes  # noqa: PLC0415

    positions = raw_positions(files)

    def measure() -> StepProgress:
        if progress.to_judge is not None:
            return step_of("judging", progress.judged, "records", progress.to_judge)
        if positions is None:
            return StepProgress("reading", progress.lines, "lines")
        return step_of_bytes("reading", *positions())

    return measure


def _say(line: str) -> None:
    from rebalance_deploy.logs import say_line  # noqa: PLC0415

    say_line(line)


def _fail(error: Exception) -> NoReturn:
    from rebalance_deploy import logs  # noqa: PLC0415

    if not logs.report_failure(error):
        click.echo(logs.hide_secrets(f"rebalance-monitor: {error}"), err=True)
    sys.exit(getattr(error, "exit_code", 1))


def _user_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that are reported without a stack trace, of the components that were imported."""
    from rebalance_deploy.errors import UserError  # noqa: PLC0415

    kinds: list[type[Exception]] = [UserError]
    for module, name in (
        ("rebalance_streaming.errors", "StreamError"),
        ("rebalance_streaming.recordings.recording", "ReplayError"),
        ("rebalance_exporters.errors", "ExporterError"),
    ):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


def main() -> None:
    """Run the command line; expected errors become one sentence and exit code 1, or the exit code of the error."""
    try:
        cli.main(standalone_mode=True)
    except Exception as error:
        if isinstance(error, _user_errors()):
            _fail(error)
        raise
