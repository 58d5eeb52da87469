"""The commands `silence` and `announce`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rebalance_exporters.terminal.completion import complete_groups
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.options import JSON, ZONE, ApiTarget, clock_of, open_api, read_now_ms, reads_exporter

if TYPE_CHECKING:
    from rebalance_contract import AlertSilence
    from rebalance_exporters.terminal.client import Api
    from rebalance_exporters.terminal.silences import SilenceOptions

_GROUPS = click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
_LENGTH = click.option("--for", "length", required=True, metavar="TIME", help="Duration: 30m, 2h, 1d.")
_REASON = click.option("--reason", required=True, help="Reason, shown with the silence.")
_BY = click.option(
    "--by", metavar="WHO", help="Person on whose behalf it is made, if a pipeline or a shared user logs in."
)


@click.group(short_help="Suppress alerts of groups for a time.")
def silence() -> None:
    """Suppress alerts of groups for a time. Their findings stay on the page, marked as silenced.

    Counts and findings do not change. add and expire need --user and --password-file of a user in the exporter's web
    config file.
    """


@silence.command("add", short_help="Silence groups.")
@_GROUPS
@_LENGTH
@_REASON
@click.option(
    "--from", "start", metavar="TIME", help="Start: 2026-03-01T22:00, 22:00, or 30m (from now); default: now."
)
@_BY
@JSON
@ZONE
@reads_exporter
def add_silence(
    *,
    target: ApiTarget,
    groups: tuple[str, ...],
    length: str,
    reason: str,
    start: str | None,
    by: str | None,
    as_json: bool,
    utc: bool,
) -> None:
    """Silence GROUPS, from now or from a later time.

    A name that ends with * matches all groups with that prefix; '*' alone matches the whole cluster.
    """
    with open_api(target) as api:
        from rebalance_exporters.terminal.silences import SilenceOptions  # noqa: PLC0415

        options = SilenceOptions(groups=groups, reason=reason, length=length, start=start, by=by)
        _ask_for(target, api, options, as_json=as_json, clock=clock_of(utc))


@silence.command("list", short_help="List active and pending silences.")
@click.option("--all", "ended", is_flag=True, help="Include those that ended.")
@JSON
@ZONE
@reads_exporter
def list_silences(*, target: ApiTarget, ended: bool, as_json: bool, utc: bool) -> None:
    """List silences: when they end, who made them, and why."""
    with open_api(target) as api:
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
        from rebalance_exporters.terminal.screen import Screen  # noqa: PLC0415
        from rebalance_exporters.terminal.silences import describe_all  # noqa: PLC0415

        answer = api.silences(target.cluster)
        if as_json:
            click.echo(safe_json(answer, indent=2))
            return
        grid = describe_all(answer, clock_of(utc), ended=ended)
        if grid.rows:
            Screen().grid(grid)
        else:
            Screen().line("no group is silenced")
        if answer.left_out:
            Screen().line(f"{answer.left_out} more are not listed, which end sooner")


@silence.command("expire", short_help="End a silence now.")
@click.argument("silence_id", metavar="ID")
@JSON
@ZONE
@reads_exporter
def expire_silence(*, target: ApiTarget, silence_id: str, as_json: bool, utc: bool) -> None:
    """End the silence ID now; `silence list` shows ids."""
    with open_api(target) as api:
        _describe_silence(target, api.expire(silence_id, target.cluster), as_json=as_json, clock=clock_of(utc))


@click.command(short_help="Announce a deploy, for pipelines.")
@_GROUPS
@_LENGTH
@click.option("--version", metavar="NAME", help="Version that is deployed.")
@_BY
@click.option("--reason", help="Reason, shown with the announcement; default: deploy and the version.")
@JSON
@ZONE
@reads_exporter
def announce(
    *,
    target: ApiTarget,
    groups: tuple[str, ...],
    length: str,
    version: str | None,
    by: str | None,
    reason: str | None,
    as_json: bool,
    utc: bool,
) -> None:
    """Announce a deploy of GROUPS. Run this in the deploy pipeline, before the deploy starts.

    Rebalances in that time are attributed to the deploy if their members come and go as in a deploy. Other findings are
    reported unchanged. To end it early, run `silence expire` with the id that --json prints. It needs --user and
    --password-file of a user in the exporter's web config file.
    """
    with open_api(target) as api:
        from rebalance_contract import SilenceKind  # noqa: PLC0415
        from rebalance_exporters.terminal.silences import SilenceOptions  # noqa: PLC0415

        text = reason or ("deploy" if version is None else f"deploy {version}")
        options = SilenceOptions(
            groups=groups, reason=text, length=length, by=by, version=version, kind=SilenceKind.DEPLOY
        )
        _ask_for(target, api, options, as_json=as_json, clock=clock_of(utc))


def _ask_for(target: ApiTarget, api: Api, options: SilenceOptions, *, as_json: bool, clock: Clock) -> None:
    from rebalance_exporters.terminal.silences import request  # noqa: PLC0415

    wanted = request(options, cluster=target.cluster, now_ms=read_now_ms(), clock=clock)
    _describe_silence(target, api.silence(wanted), as_json=as_json, clock=clock)


def _describe_silence(target: ApiTarget, made: AlertSilence, *, as_json: bool, clock: Clock) -> None:
    from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415
    from rebalance_exporters.terminal.silences import describe_made  # noqa: PLC0415

    if as_json:
        click.echo(safe_json(made, indent=2))
        return
    for line in describe_made(made, read_now_ms(), clock, target.access):
        click.echo(safe(line))
