"""The command `check`: always an exit code and one line, for monitoring systems that run checks."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import click

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.completion import complete_groups
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.options import JSON, ApiTarget, open_api, reads_exporter

#: Severities of findings. The contract's own set needs a library to be read; a test compares the two.
SEVERITIES = ("page", "ticket", "info")
_UNKNOWN = 3


class _WrongUse(click.UsageError):
    exit_code = _UNKNOWN


class _CheckCommand(click.Command):
    """A command with exit code 3, unknown, for wrong use: the usual code, 2, means critical in a check."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            # Monitoring systems read standard output only.
            click.echo(_describe_unknown(f"wrong use: {error.format_message()}", as_json=False))
            raise _WrongUse(error.format_message(), error.ctx) from error


@click.command(cls=_CheckCommand, short_help="Exit 0, 1, 2 or 3: for cron, CI and Nagios.")
@click.argument("groups", nargs=-1, shell_complete=complete_groups)
@click.option(
    "--max-rebalances",
    type=click.IntRange(min=0),
    metavar="N",
    help="Warn if a group has more rebalances than this in the window.",
)
@click.option(
    "--window",
    type=click.Choice(["1m", "5m", "15m"]),
    default="15m",
    show_default=True,
    help="Window of --max-rebalances.",
)
@click.option(
    "--max-severity",
    type=click.Choice(SEVERITIES),
    default="info",
    show_default=True,
    help="Highest severity of findings that still counts as OK.",
)
@JSON
@reads_exporter
def check(
    *,
    target: ApiTarget,
    groups: tuple[str, ...],
    max_rebalances: int | None,
    window: str,
    max_severity: str,
    as_json: bool,
) -> None:
    """Check in one line whether groups are OK, for cron, CI and Nagios; without GROUPS, all of them.

    \b
    Exit codes:
      0  OK
      1  warning: a finding of severity ticket fires, or a limit is exceeded
      2  critical: a finding of severity page fires
      3  unknown: no answer, stale data, or no such group
    """
    try:
        code, text = _judge(target, groups, (max_rebalances, window, max_severity), as_json)
    except ExporterError as error:
        code, text = _UNKNOWN, _describe_unknown(str(error), as_json)
    except Exception as error:
        # An exit code of 1 would report a bug of this program as a warning about a group.
        traceback.print_exc()
        code, text = (
            _UNKNOWN,
            _describe_unknown(f"a bug in rebalance-monitor: {type(error).__name__}: {error}", as_json),
        )
    click.echo(text)
    sys.exit(code)


def _judge(
    target: ApiTarget, groups: tuple[str, ...], limits: tuple[int | None, str, str], as_json: bool
) -> tuple[int, str]:
    """Return the exit code and the line."""
    with open_api(target) as api:
        from rebalance_contract import FindingState  # noqa: PLC0415
        from rebalance_exporters.terminal import check as checking  # noqa: PLC0415
        from rebalance_exporters.terminal.escaping import safe_json  # noqa: PLC0415

        overview = api.overview(target.cluster)
        of_clusters = () if groups else api.findings(target.cluster, "", FindingState.FIRING)
        verdict = checking.judge(overview, of_clusters, groups, checking.Limits(*limits), target.access)
        return verdict.status, safe_json(verdict.as_json()) if as_json else verdict.line


def _describe_unknown(text: str, as_json: bool) -> str:
    """Return the line if there is nothing to check; needs no library, because one may be missing."""
    if as_json:
        return json.dumps({"status": "UNKNOWN", "exit_code": _UNKNOWN, "text": text, "judgements": []})
    return f"REBALANCES UNKNOWN - {safe(text)}"
