"""The commands at the terminal, from `top` to `silence`: reads options, calls, writes.

Imports what a command needs when it runs: the libraries are an extra, and help is instant without them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.access import DEFAULT_URL, Access
from rebalance_exporters.terminal.completion import SHELLS, complete_groups, make_script
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock

if TYPE_CHECKING:
    from rebalance_contract import AlertSilence, CoordinatorEvent
    from rebalance_exporters.terminal.client import Api
    from rebalance_exporters.terminal.explain import Facts

F = TypeVar("F", bound=Callable[..., Any])

_LIBRARIES = frozenset({"httpx", "rich", "msgspec"})
#: What `top --sort` takes and how grave findings are; what these repeat needs a library to be read.
SORTS = ("lost", "rebalances", "finding", "lag", "members", "state", "group")
SEVERITIES = ("page", "ticket", "info")
_UNKNOWN = 3

_ACCESS_OPTIONS = (
    click.option("--url", envvar="REBALANCE_MONITOR_URL", default=DEFAULT_URL, show_default=True, help="The exporter."),
    click.option("--user", envvar="REBALANCE_MONITOR_USER", metavar="NAME", help="User of its web config."),
    click.option(
        "--password-file",
        type=click.Path(path_type=Path),
        envvar="REBALANCE_MONITOR_PASSWORD_FILE",
        help="File whose first line is the password.",
    ),
    click.option(
        "--ca-file",
        type=click.Path(path_type=Path),
        envvar="REBALANCE_MONITOR_CA_FILE",
        help="CA that signed its certificate (PEM).",
    ),
    click.option("--cluster", envvar="REBALANCE_MONITOR_CLUSTER", metavar="NAME", help="One of several clusters."),
)
_ACCESS_NAMES = frozenset({"url", "user", "password_file", "ca_file", "cluster"})
_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
_ZONE = click.option("--utc/--local", "utc", default=True, show_default=True, help="Times in UTC or of this machine.")
#: Files of brokers' logs beside what the monitor knows, for `explain` here and `replay` of the console script.
LOGS = click.option(
    "--logs",
    multiple=True,
    type=click.File("rb"),
    metavar="FILE",
    help="A broker's log beside it, gzip or not; - for standard input. May be given several times.",
)
TIME_ZONE = click.option(
    "--time-zone",
    default="UTC",
    show_default=True,
    metavar="NAME",
    help="Zone of the times in --logs that do not say it, as Europe/Berlin.",
)
_GROUP = click.argument("group", shell_complete=complete_groups)


@dataclass(frozen=True, slots=True)
class LogReader:
    """What reads files of brokers' logs: files, group and time zone to events in order. The console script has it."""

    read: Callable[[Sequence[Any], str, str], list[CoordinatorEvent]]


@dataclass(frozen=True, slots=True)
class _Where:
    """The options of `_reads_exporter`."""

    access: Access
    cluster: str | None


def _reads_exporter(command: F) -> F:
    """Add the options that say where the exporter is; the command gets them as `where`."""

    @functools.wraps(command)
    def call(*, url: str, user: str | None, password_file: Path | None, ca_file: Path | None, **others: Any) -> Any:
        context = click.get_current_context()
        access = Access(_typed(context), url, user, password_file, ca_file, flags=tuple(_flags_to_repeat(context)))
        return command(where=_Where(access, others.pop("cluster")), **others)

    return functools.reduce(lambda made, option: option(made), reversed(_ACCESS_OPTIONS), cast("F", call))


def _typed(context: click.Context) -> str:
    """Return the command as it was typed, `silence add` for example."""
    names = []
    while context.parent is not None:
        names.append(context.info_name or "")
        context = context.parent
    return " ".join(reversed(names)) or context.info_name or ""


def _flags_to_repeat(context: click.Context) -> Iterator[str]:
    """Yield the options that say where the exporter is, as far as they were typed."""
    for option in context.command.params:
        typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in _ACCESS_NAMES and typed:
            yield option.opts[0]
            yield str(context.params[option.name])


@contextlib.contextmanager
def _needing_libraries() -> Generator[None]:
    """Turn a missing library into one sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _LIBRARIES:
            raise
        raise ExporterError(
            f"this command needs {library}, which is not installed: pip install 'rebalance-monitor[terminal]'"
        ) from error


@contextlib.contextmanager
def _until_interrupted() -> Generator[None]:
    """Make Ctrl-C the ordinary end of what goes on by itself."""
    with contextlib.suppress(KeyboardInterrupt):
        yield


@contextlib.contextmanager
def _asking(where: _Where) -> Generator[Api]:
    with _needing_libraries():
        from rebalance_exporters.terminal.client import Api  # noqa: PLC0415

        with Api(where.access) as api:
            yield api


@click.command(short_help="Show all groups, worst first, live.")
@click.option("--sort", type=click.Choice(SORTS), default="lost", show_default=True, help="What comes first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Rows to show; 0 for all.")
@click.option("--once", is_flag=True, help="Write the table once, as always when not at a terminal.")
@click.option("--interval", type=click.FloatRange(min=0.5), default=2.0, show_default=True, help="Seconds to refresh.")
@_JSON
@_ZONE
@_reads_exporter
def top(*, where: _Where, sort: str, limit: int | None, once: bool, interval: float, as_json: bool, utc: bool) -> None:
    """Show all groups, the one that lost most time first.

    LOST is the time that partitions were not consumed in the last 15 minutes, added up over the partitions.
    """
    with _until_interrupted(), _asking(where) as api:
        from rebalance_exporters.terminal import top as table  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        view = table.TopOptions(sort, limit, where.cluster, _clock(utc))
        screen = Screen()
        if as_json:
            click.echo(safe_json(table.read_json(api, view), indent=2))
        elif once or not screen.is_live:
            table.show_once(api, view, screen, _aside)
        else:
            table.watch(api, view, screen, threading.Event(), interval)


@click.command(short_help="Say why a group rebalanced and what to change.")
@_GROUP
@click.option("--at", metavar="TIME", help="The rebalance at a time: 2026-03-01T14:05, 14:05, or 90m (ago).")
@click.option("--rebalance", "rebalance_id", metavar="ID", help="The rebalance with this id; `history` lists them.")
@LOGS
@TIME_ZONE
@click.option("--markdown", is_flag=True, help="Write Markdown, for a ticket or a chat.")
@_JSON
@_ZONE
@_reads_exporter
def explain(
    *,
    where: _Where,
    group: str,
    at: str | None,
    rebalance_id: str | None,
    logs: tuple[Any, ...],
    time_zone: str,
    markdown: bool,
    as_json: bool,
    utc: bool,
) -> None:
    """Say why a group rebalanced, what it cost and what to change: the latest time, or another."""
    if at is not None and rebalance_id is not None:
        raise click.UsageError("--at and --rebalance do not go together: each names one rebalance")
    if markdown and as_json:
        raise click.UsageError("--markdown and --json do not go together")
    with _asking(where) as api:
        from rebalance_exporters.terminal import explain as explaining  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import Question, gather  # noqa: PLC0415
        from rebalance_exporters.terminal.report import write_markdown  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        facts = gather(api, Question(group, where.cluster, at, rebalance_id, _clock(utc)))
        if logs:
            facts = replace(facts, lines=_read_logs(logs, group, time_zone))
        report = explaining.explain(facts, where.access)
        if as_json:
            click.echo(safe_json(_facts_json(facts), indent=2))
        elif markdown:
            click.echo(write_markdown(report))
        else:
            Screen().report(report)


def _read_logs(files: Sequence[Any], group: str, time_zone: str) -> tuple[CoordinatorEvent, ...]:
    reader = click.get_current_context().find_object(LogReader)
    if reader is None:
        raise ExporterError("--logs needs the console script rebalance-monitor, which reads brokers' logs")
    return tuple(reader.read(files, group, time_zone))


def _facts_json(facts: Facts) -> dict[str, object]:
    from rebalance_exporters.terminal import coordinator_log  # noqa: PLC0415

    return {
        "at_ms": facts.now_ms,
        "group": facts.snapshot,
        "rebalance": facts.rebalance,
        "findings": facts.findings,
        "firing": facts.standing,
        "note": facts.choice,
        "trouble": facts.trouble,
        **({} if facts.lines is None else {"broker_log": coordinator_log.around(facts.lines, facts.rebalance)}),
    }


@click.command(short_help="Say what a line of a log means, or which messages are in a log.")
@click.argument("message", required=False)
@click.option("--file", "path", type=click.Path(path_type=Path), metavar="FILE", help="A log, also as .gz; - reads it.")
@click.option("--group", metavar="NAME", shell_complete=complete_groups, help="The group, where the line has no name.")
@_JSON
@_ZONE
@_reads_exporter
def why(*, where: _Where, message: str | None, path: Path | None, group: str | None, as_json: bool, utc: bool) -> None:
    """Say what MESSAGE means: a line of a log, or a piece of one. Without it a log is read from a file or pipe.

    It says which diagnoses the message may stand for, how they are told apart, and what to change. Where the group is
    in the line or given, and the monitor answers, it also says what the monitor knows of that group now.

    \b
    Exit codes:
      0  at least one message is known
      1  none is
    """
    from_pipe = message is None and path is None and not sys.stdin.isatty()
    if (message is None) == (path is None) and not from_pipe:
        raise click.UsageError("say which message, or name a log with --file FILE")
    with _needing_libraries():
        from rebalance_exporters.terminal import asking_why  # noqa: PLC0415

        question = asking_why.Question(where.access, where.cluster, group, _clock(utc), as_json)
        is_known = asking_why.answer(question, message) if message is not None else asking_why.read(question, path)
    sys.exit(0 if is_known else 1)


@click.command(short_help="List a group's rebalances with causes and totals.")
@_GROUP
@click.option("--since", default="24h", show_default=True, metavar="TIME", help="24h, 7d, or a time as for explain.")
@_JSON
@_ZONE
@_reads_exporter
def history(*, where: _Where, group: str, since: str, as_json: bool, utc: bool) -> None:
    """List the rebalances of a group, with what they come to at the end."""
    clock = _clock(utc)
    with _asking(where) as api:
        from rebalance_exporters.terminal import history as past  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import read_time  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        since_ms = read_time(since, _now_ms(), clock)
        rebalances = api.rebalances(group, where.cluster, since_ms=since_ms)
        causes = past.find_causes(rebalances, api.findings(where.cluster, group) if rebalances else ())
        totals = past.add_up(rebalances, causes)
        if as_json:
            rules = {of: finding.rule for of, finding in causes.items()}
            body = {"group": group, "since_ms": since_ms, "rebalances": rebalances, "causes": rules, "totals": totals}
            click.echo(safe_json(body, indent=2))
        else:
            screen = Screen()
            if not rebalances:
                screen.line(f"{group}: no rebalance since {clock.moment(since_ms)}")
                screen.line(f"the latest one that is kept: {where.access.suggest('explain', group)}", "dim")
                return
            screen.grid(past.tell_history(rebalances, causes, clock))
            screen.line()
            for line in past.tell_totals(totals):
                screen.line(line)
            screen.line(
                f"why: {where.access.suggest('explain', group, '--rebalance', rebalances[0].rebalance_id)}", "dim"
            )


@click.command(short_help="Say which settings would have avoided a group's rebalances.")
@_GROUP
@click.option("--since", default="24h", show_default=True, metavar="TIME", help="24h, 7d, or a time as for explain.")
@click.option("--markdown", is_flag=True, help="Write Markdown, for a ticket or a chat.")
@_JSON
@_ZONE
@_reads_exporter
def advise(*, where: _Where, group: str, since: str, markdown: bool, as_json: bool, utc: bool) -> None:
    """Say, for each setting that could change, how many of a group's rebalances it would have avoided, and its cost.

    It is computed from the group's own rebalances: one counts as avoided by a value if its row shows that the value
    would have been enough. From what a row shows to what it leaves open is a range. LOST is the time that partitions
    were without commits, REBALANCING how long rebalances took at least.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json do not go together")
    clock = _clock(utc)
    with _asking(where) as api:
        from rebalance_exporters.terminal.advise import tell_advice  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import read_time  # noqa: PLC0415
        from rebalance_exporters.terminal.report import write_markdown  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        answer = api.advice(group, where.cluster, since_ms=read_time(since, _now_ms(), clock))
        if as_json:
            click.echo(safe_json(answer, indent=2))
        elif markdown:
            click.echo(write_markdown(tell_advice(answer, clock, where.access)))
        else:
            Screen().report(tell_advice(answer, clock, where.access))


@click.command(short_help="Sum up a period: time lost by group, causes, what changed, what to set.")
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="24h, 7d, or a time as for explain.")
@click.option("--until", metavar="TIME", help="The end of the period; now where it is not given.")
@click.option(
    "--html",
    "html_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page that needs no other file.",
)
@click.option("--markdown", is_flag=True, help="Write Markdown, for a ticket or a chat.")
@_JSON
@_ZONE
@_reads_exporter
def report(
    *,
    where: _Where,
    since: str,
    until: str | None,
    html_file: Path | None,
    markdown: bool,
    as_json: bool,
    utc: bool,
) -> None:
    """Sum up what rebalances cost: groups by time lost, their causes, what changed, and which settings to change.

    LOST is the time that partitions were without commits because of rebalances, added up over the partitions.
    What changed is told against the period of the same length before, where the exporter keeps rebalances since then.
    How many it keeps is its setting export.keep_rebalances.
    """
    if (html_file is not None) + markdown + as_json > 1:
        raise click.UsageError("--html, --markdown and --json do not go together")
    clock = _clock(utc)
    with _asking(where) as api:
        from rebalance_exporters.terminal import period, period_html  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import read_time  # noqa: PLC0415
        from rebalance_exporters.terminal.report import write_markdown  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        since_ms = read_time(since, _now_ms(), clock)
        until_ms = None if until is None else read_time(until, _now_ms(), clock)
        told = api.report(where.cluster, since_ms=since_ms, until_ms=until_ms)
        if as_json:
            click.echo(safe_json(told, indent=2))
        elif html_file is not None:
            _write_file(html_file, period_html.write_html(told, clock, where.access))
        elif markdown:
            click.echo(write_markdown(period.tell_period(told, clock, where.access)))
        else:
            Screen().report(period.tell_period(told, clock, where.access))


def _write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ExporterError(f"cannot write --html {path}: {error.strerror}") from error
    _aside(f"wrote {path}")


@click.command(short_help="Follow rebalances and findings as they come.")
@click.option("--group", metavar="NAME", shell_complete=complete_groups, help="Of one group only.")
@click.option("--json", "as_json", is_flag=True, help="Write every event as a line of JSON.")
@_ZONE
@_reads_exporter
def tail(*, where: _Where, group: str | None, as_json: bool, utc: bool) -> None:
    """Follow what happens: rebalances, findings and changes of state, one line each. Ctrl-C ends it."""
    with _until_interrupted(), _asking(where) as api:
        from rebalance_exporters.terminal import tail as following  # noqa: PLC0415

        if group is not None:
            # A name that does not exist would be followed in silence for ever.
            api.group(group, where.cluster)
        narrator = following.EventTeller(_clock(utc))
        if not as_json:
            narrator.learn(api.overview(where.cluster).groups)
        write = following.as_json if as_json else narrator.tell
        _aside(f"following {where.access.url}; {'times in UTC; ' if utc else ''}Ctrl-C ends")
        whom = following.Following(where.cluster, group, _say, _aside)
        following.follow(api, whom, write, threading.Event())


class _WrongUse(click.UsageError):
    exit_code = _UNKNOWN


class _CheckCommand(click.Command):
    """A command whose wrong use is "unknown": the usual code for that, 2, is "critical" to who runs checks."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            # Who runs checks looks at standard output only.
            click.echo(_tell_unknown(f"wrong use: {error.format_message()}", as_json=False))
            raise _WrongUse(error.format_message(), error.ctx) from error


@click.command(cls=_CheckCommand, short_help="Exit 0, 1, 2 or 3: for cron, CI and Nagios.")
@click.argument("groups", nargs=-1, shell_complete=complete_groups)
@click.option("--max-rebalances", type=click.IntRange(min=0), metavar="N", help="Warn when a group has more.")
@click.option(
    "--window", type=click.Choice(["1m", "5m", "15m"]), default="15m", show_default=True, help="In this time."
)
@click.option(
    "--max-severity",
    type=click.Choice(SEVERITIES),
    default="info",
    show_default=True,
    help="The gravest finding that is still all right.",
)
@_JSON
@_reads_exporter
def check(
    *,
    where: _Where,
    groups: tuple[str, ...],
    max_rebalances: int | None,
    window: str,
    max_severity: str,
    as_json: bool,
) -> None:
    """Say in one line whether groups are well, for cron, CI and Nagios; all groups when none is named.

    \b
    Exit codes:
      0  well
      1  a finding of severity ticket fires, or a limit is passed
      2  a finding of severity page fires
      3  not known: no answer, old data, or no such group
    """
    try:
        code, text = _judge(where, groups, (max_rebalances, window, max_severity), as_json)
    except ExporterError as error:
        code, text = _UNKNOWN, _tell_unknown(str(error), as_json)
    except Exception as error:
        # An exit code of 1 would call a bug of this program a ticket about a group.
        traceback.print_exc()
        code, text = _UNKNOWN, _tell_unknown(f"a bug in rebalance-monitor: {type(error).__name__}: {error}", as_json)
    click.echo(text)
    sys.exit(code)


def _judge(
    where: _Where, groups: tuple[str, ...], limits: tuple[int | None, str, str], as_json: bool
) -> tuple[int, str]:
    """Return the exit code and the line."""
    with _asking(where) as api:
        from rebalance_contract import FindingState  # noqa: PLC0415
        from rebalance_exporters.terminal import check as checking  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415

        overview = api.overview(where.cluster)
        of_clusters = () if groups else api.findings(where.cluster, "", FindingState.FIRING)
        verdict = checking.judge(overview, of_clusters, groups, checking.Limits(*limits), where.access)
        return verdict.status, safe_json(verdict.as_json()) if as_json else verdict.line


def _tell_unknown(text: str, as_json: bool) -> str:
    """Return the line when there is nothing to judge; needs no library, for one may be what is missing."""
    if as_json:
        return json.dumps({"status": "UNKNOWN", "exit_code": _UNKNOWN, "text": text, "judgements": []})
    return f"REBALANCES UNKNOWN - {safe(text)}"


_GROUPS = click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
_LENGTH = click.option("--for", "length", required=True, metavar="TIME", help="How long: 30m, 2h, 1d.")
_REASON = click.option("--reason", required=True, help="Why, for who wonders later.")


@click.group(short_help="Hold alerts of groups back for a time.")
def silence() -> None:
    """Hold alerts of groups back for a time: their findings stay on the page, marked, and nobody is called.

    Nothing that is counted changes. The exporter has to know who asks: add and expire need --user and --password-file,
    as in its web config.
    """


@silence.command("add", short_help="Silence groups.")
@_GROUPS
@_LENGTH
@_REASON
@click.option("--from", "start", metavar="TIME", help="When it begins: 2026-03-01T22:00, 22:00, or 30m (from now).")
@_JSON
@_ZONE
@_reads_exporter
def add_silence(
    *, where: _Where, groups: tuple[str, ...], length: str, reason: str, start: str | None, as_json: bool, utc: bool
) -> None:
    """Silence GROUPS from now, or a later time, on.

    A name that ends with * stands for all names that begin like it; '*' alone for the whole cluster.
    """
    _silence(where, groups, _Wish("silence", reason, length, start), as_json=as_json, clock=_clock(utc))


@silence.command("list", short_help="List silences in force and to come.")
@click.option("--all", "ended", is_flag=True, help="Those that ended, too.")
@_JSON
@_ZONE
@_reads_exporter
def list_silences(*, where: _Where, ended: bool, as_json: bool, utc: bool) -> None:
    """List silences: until when, who asked for them, and why."""
    with _asking(where) as api:
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415
        from rebalance_exporters.terminal.silences import tell_all  # noqa: PLC0415

        answer = api.silences(where.cluster)
        if as_json:
            click.echo(safe_json(answer, indent=2))
            return
        grid = tell_all(answer, _clock(utc), ended=ended)
        if grid.rows:
            Screen().grid(grid)
        else:
            Screen().line("no group is silenced")


@silence.command("expire", short_help="End a silence now.")
@click.argument("silence_id", metavar="ID")
@_JSON
@_ZONE
@_reads_exporter
def expire_silence(*, where: _Where, silence_id: str, as_json: bool, utc: bool) -> None:
    """End the silence ID now; `silence list` shows ids."""
    with _asking(where) as api:
        _tell_silence(where, api.expire(silence_id, where.cluster), as_json=as_json, clock=_clock(utc))


@click.command(short_help="Announce a deploy, for pipelines.")
@_GROUPS
@_LENGTH
@_REASON
@_JSON
@_ZONE
@_reads_exporter
def announce(*, where: _Where, groups: tuple[str, ...], length: str, reason: str, as_json: bool, utc: bool) -> None:
    """Announce a deploy of GROUPS, from the pipeline that makes it, before it begins.

    Rebalances in that time show it as what explains them, and their alerts are held back as by a silence. Ended sooner:
    `silence expire` with the id that --json prints.
    """
    _silence(where, groups, _Wish("deploy", reason, length, None), as_json=as_json, clock=_clock(utc))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is to be silenced why and for how long, as it was typed."""

    kind: str
    reason: str
    length: str
    start: str | None


def _silence(where: _Where, groups: Sequence[str], wish: _Wish, *, as_json: bool, clock: Clock) -> None:
    with _asking(where) as api:
        from rebalance_contract import SilenceKind  # noqa: PLC0415
        from rebalance_exporters.terminal.silences import request  # noqa: PLC0415

        wanted = request(
            groups,
            wish.reason,
            length=wish.length,
            start=wish.start,
            cluster=where.cluster,
            kind=SilenceKind(wish.kind),
            now_ms=_now_ms(),
            clock=clock,
        )
        _tell_silence(where, api.silence(wanted), as_json=as_json, clock=clock)


def _tell_silence(where: _Where, made: AlertSilence, *, as_json: bool, clock: Clock) -> None:
    from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
    from rebalance_exporters.terminal.silences import tell_made  # noqa: PLC0415

    if as_json:
        click.echo(safe_json(made, indent=2))
        return
    for line in tell_made(made, _now_ms(), clock, where.access):
        click.echo(safe(line))


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes a shell complete commands, options and group names.

    \b
    To have it in every new shell:
      bash  rebalance-monitor completion bash > ~/.local/share/bash-completion/completions/rebalance-monitor
      zsh   rebalance-monitor completion zsh > ~/.zfunc/_rebalance-monitor    (with ~/.zfunc in fpath before compinit)
      fish  rebalance-monitor completion fish > ~/.config/fish/completions/rebalance-monitor.fish
    Group names come from the exporter that --url or REBALANCE_MONITOR_URL names.
    """
    click.echo(make_script(shell, click.get_current_context().find_root().command))


#: What the console script adds to its own.
COMMANDS: tuple[click.Command, ...] = (
    top,
    explain,
    why,
    history,
    advise,
    report,
    tail,
    check,
    silence,
    announce,
    completion,
)


def _clock(utc: bool) -> Clock:
    return Clock() if utc else Clock(zone=None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _say(line: str) -> None:
    click.echo(line)
    # Somebody may be following through a pipe.
    sys.stdout.flush()


def _aside(line: str) -> None:
    click.echo(safe(line), err=True)
