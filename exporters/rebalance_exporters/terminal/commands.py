"""The terminal commands, from `top` to `completion`: each reads options, calls the API and writes the result.

Modules that need a library are imported when a command runs: the libraries are an extra, and help is instant without
them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.check_command import check
from rebalance_exporters.terminal.completion import SHELLS, complete_groups, make_script
from rebalance_exporters.terminal.options import (
    GROUP,
    JSON,
    LOGS,
    MARKDOWN,
    NO_INPUT,
    SINCE,
    TIME_ZONE,
    ZONE,
    ApiTarget,
    LogReader,
    clock_of,
    needing_libraries,
    open_api,
    print_remark,
    read_now_ms,
    reads_exporter,
    until_interrupted,
)
from rebalance_exporters.terminal.silence_commands import announce, silence

if TYPE_CHECKING:
    from rebalance_contract import CoordinatorEvent
    from rebalance_exporters.terminal.explain import Facts
    from rebalance_exporters.terminal.report import TextReport

#: Values of `top --sort`; the table's own list needs a library to be read.
SORTS = ("lost", "rebalances", "finding", "lag", "members", "state", "group")


@click.command(short_help="Show all groups, worst first, live.")
@click.option("--sort", type=click.Choice(SORTS), default="lost", show_default=True, help="Sort order.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Number of rows to show; 0 for all.")
@click.option("--once", is_flag=True, help="Print the table once; the default if standard output is not a terminal.")
@click.option(
    "--interval", type=click.FloatRange(min=0.5), default=2.0, show_default=True, help="Refresh interval in seconds."
)
@JSON
@ZONE
@reads_exporter
def top(
    *, target: ApiTarget, sort: str, limit: int | None, once: bool, interval: float, as_json: bool, utc: bool
) -> None:
    """Show all groups, by default the one that lost most time first.

    LOST is the time that partitions were not consumed in the last 15 minutes, summed over the partitions.
    """
    with until_interrupted(), open_api(target) as api:
        from rebalance_exporters.terminal import top as table  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        view = table.TopOptions(sort, limit, target.cluster, clock_of(utc))
        screen = Screen()
        if as_json:
            click.echo(safe_json(table.read_json(api, view), indent=2))
        elif once or not screen.is_live:
            table.show_once(api, view, screen, print_remark)
        else:
            table.watch(api, view, screen, threading.Event(), interval)


@click.command(short_help="Explain why a group rebalanced and what to change.")
@GROUP
@click.option("--at", metavar="TIME", help="Explain the rebalance at this time: 2026-03-01T14:05, 14:05, or 90m (ago).")
@click.option(
    "--rebalance", "rebalance_id", metavar="ID", help="Explain the rebalance with this id; `history` lists the ids."
)
@LOGS
@TIME_ZONE
@MARKDOWN
@JSON
@ZONE
@reads_exporter
def explain(
    *,
    target: ApiTarget,
    group: str,
    at: str | None,
    rebalance_id: str | None,
    logs: tuple[Any, ...],
    time_zone: str,
    markdown: bool,
    as_json: bool,
    utc: bool,
) -> None:
    """Explain why a group rebalanced, what it cost and what to change; by default its latest rebalance."""
    if at is not None and rebalance_id is not None:
        raise click.UsageError("--at and --rebalance do not go together: each names one rebalance")
    if markdown and as_json:
        raise click.UsageError("--markdown and --json do not go together")
    with open_api(target) as api:
        from rebalance_exporters.terminal import explain as explaining  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import Question, gather  # noqa: PLC0415

        facts = gather(api, Question(group, target.cluster, at, rebalance_id, clock_of(utc)))
        if logs:
            facts = replace(facts, lines=_read_logs(logs, group, time_zone))
        report = explaining.explain(facts, target.access)
        _write(_facts_json(facts), report, as_json=as_json, markdown=markdown)


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


@click.command(short_help="Explain a log message, or list the known messages in a log.")
@click.argument("message", required=False)
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Log file, plain or gzip; - for standard input.",
)
@click.option(
    "--group", metavar="NAME", shell_complete=complete_groups, help="The group, if the line does not name it."
)
@JSON
@ZONE
@reads_exporter
def why(
    *, target: ApiTarget, message: str | None, path: Path | None, group: str | None, as_json: bool, utc: bool
) -> None:
    """Explain MESSAGE, a log line or a part of one. Without MESSAGE, read a log from --file or a pipe.

    It lists the diagnoses that the message may indicate, how to distinguish them, and what to change. If the line or
    --group names the group, and the exporter answers, it also shows the present state of that group.

    \b
    Exit codes:
      0  at least one message is known
      1  no message is known
      2  there was no input
    """
    if message is not None and path is not None:
        raise click.UsageError("pass a MESSAGE or --file FILE, not both")
    if message is None and path is None and sys.stdin.isatty():
        raise click.UsageError(NO_INPUT)
    with needing_libraries():
        from rebalance_exporters.terminal import asking_why  # noqa: PLC0415

        question = asking_why.WhyQuestion(target.access, target.cluster, group, clock_of(utc), as_json)
        is_known = asking_why.answer(question, message) if message is not None else asking_why.read(question, path)
    sys.exit(0 if is_known else 1)


@click.command(short_help="List a group's rebalances with causes and totals.")
@GROUP
@SINCE
@JSON
@ZONE
@reads_exporter
def history(*, target: ApiTarget, group: str, since: str, as_json: bool, utc: bool) -> None:
    """List the rebalances of a group, followed by their totals."""
    clock = clock_of(utc)
    with open_api(target) as api:
        from rebalance_exporters.terminal import history as past  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import read_time  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

        since_ms = read_time(since, read_now_ms(), clock)
        rebalances = api.rebalances(group, target.cluster, since_ms=since_ms)
        causes = past.find_causes(rebalances, api.findings(target.cluster, group) if rebalances else ())
        totals = past.add_up(rebalances, causes)
        if as_json:
            rules = {of: finding.rule for of, finding in causes.items()}
            body = {"group": group, "since_ms": since_ms, "rebalances": rebalances, "causes": rules, "totals": totals}
            click.echo(safe_json(body, indent=2))
        else:
            screen = Screen()
            if not rebalances:
                screen.line(f"{group}: no rebalance since {clock.moment(since_ms)}")
                screen.line(f"the latest one that is kept: {target.access.suggest('explain', group)}", "dim")
                return
            screen.grid(past.describe_history(rebalances, causes, clock))
            screen.line()
            for line in past.describe_totals(totals):
                screen.line(line)
            screen.line(
                f"why: {target.access.suggest('explain', group, '--rebalance', rebalances[0].rebalance_id)}", "dim"
            )


@click.command(short_help="Show which settings would have avoided a group's rebalances.")
@GROUP
@SINCE
@MARKDOWN
@JSON
@ZONE
@reads_exporter
def advise(*, target: ApiTarget, group: str, since: str, markdown: bool, as_json: bool, utc: bool) -> None:
    """Show for each setting how many of a group's rebalances another value would have avoided, and its cost.

    It is computed from the group's own rebalances: a rebalance counts as avoided if its row shows that the value would
    have been sufficient. Where a row does not decide this, the result is a range. LOST is the time that partitions
    were without commits, REBALANCING the minimum duration of the rebalances.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json do not go together")
    clock = clock_of(utc)
    with open_api(target) as api:
        from rebalance_exporters.terminal.advise import describe_advice  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import read_time  # noqa: PLC0415

        answer = api.advice(group, target.cluster, since_ms=read_time(since, read_now_ms(), clock))
        _write(answer, describe_advice(answer, clock, target.access), as_json=as_json, markdown=markdown)


@click.command(short_help="Summarize a period: time lost by group, causes, changes, settings to change.")
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="24h, 7d, or a time as for explain.")
@click.option("--until", metavar="TIME", help="End of the period; default: now.")
@click.option(
    "--html",
    "html_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a self-contained HTML page.",
)
@MARKDOWN
@JSON
@ZONE
@reads_exporter
def report(
    *,
    target: ApiTarget,
    since: str,
    until: str | None,
    html_file: Path | None,
    markdown: bool,
    as_json: bool,
    utc: bool,
) -> None:
    """Summarize the cost of rebalances: groups by time lost, causes, changes, and which settings to change.

    LOST is the time that partitions were without commits because of rebalances, summed over the partitions. Changes are
    relative to the preceding period of the same length, if the exporter still has its rebalances
    (export.keep_rebalances).
    """
    if (html_file is not None) + markdown + as_json > 1:
        raise click.UsageError("--html, --markdown and --json do not go together")
    clock = clock_of(utc)
    with open_api(target) as api:
        from rebalance_exporters.terminal import period, period_html  # noqa: PLC0415
        from rebalance_exporters.terminal.gather import read_time  # noqa: PLC0415

        since_ms = read_time(since, read_now_ms(), clock)
        until_ms = None if until is None else read_time(until, read_now_ms(), clock)
        answer = api.report(target.cluster, since_ms=since_ms, until_ms=until_ms)
        if html_file is not None:
            _write_file(html_file, period_html.write_html(answer, clock, target.access))
        else:
            _write(answer, period.describe_period(answer, clock, target.access), as_json=as_json, markdown=markdown)


def _write(answer: object, report: TextReport, *, as_json: bool, markdown: bool) -> None:
    """Write an answer as JSON, or the report about it as Markdown or for the screen."""
    from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
    from rebalance_exporters.terminal.report import write_markdown  # noqa: PLC0415
    from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415

    if as_json:
        click.echo(safe_json(answer, indent=2))
    elif markdown:
        click.echo(write_markdown(report))
    else:
        Screen().report(report)


def _write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ExporterError(f"cannot write --html {path}: {error.strerror}") from error
    print_remark(f"wrote {path}")


@click.command(short_help="Follow rebalances and findings live.")
@click.option("--group", metavar="NAME", shell_complete=complete_groups, help="Show events of this group only.")
@click.option("--json", "as_json", is_flag=True, help="Write each event as a line of JSON.")
@ZONE
@reads_exporter
def tail(*, target: ApiTarget, group: str | None, as_json: bool, utc: bool) -> None:
    """Follow events live: rebalances, findings and state changes, one line each. Stop with Ctrl-C."""
    with until_interrupted(), open_api(target) as api:
        from rebalance_exporters.terminal import tail as following  # noqa: PLC0415

        if group is not None:
            # Raises an error if there is no such group, which would otherwise be followed without any output.
            api.group(group, target.cluster)
        narrator = following.EventNarrator(clock_of(utc))
        if not as_json:
            narrator.learn(api.overview(target.cluster).groups)
        write = following.as_json if as_json else narrator.describe
        print_remark(f"following {target.access.url}; {'times in UTC; ' if utc else ''}Ctrl-C ends")
        whom = following.Following(target.cluster, group, _say, print_remark)
        following.follow(api, whom, write, threading.Event())


def _say(line: str) -> None:
    click.echo(line)
    # The output may be a pipe that is read live.
    sys.stdout.flush()


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete commands, options and group names.

    \b
    To install it for every new shell:
      bash  rebalance-monitor completion bash > ~/.local/share/bash-completion/completions/rebalance-monitor
      zsh   rebalance-monitor completion zsh > ~/.zfunc/_rebalance-monitor    (with ~/.zfunc in fpath before compinit)
      fish  rebalance-monitor completion fish > ~/.config/fish/completions/rebalance-monitor.fish
    Group names come from the exporter at --url or REBALANCE_MONITOR_URL.
    """
    click.echo(make_script(shell, click.get_current_context().find_root().command))


#: The commands that the console script adds to its own.
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
