"""Completion of the command line in bash, zsh and fish, of group names too."""

from __future__ import annotations

import contextlib
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from rebalance_exporters.terminal.access import DEFAULT_URL, Access

SHELLS = ("bash", "zsh", "fish")

PROGRAM = "rebalance-monitor"
#: Where click looks for the shell's question.
_VARIABLE = "_REBALANCE_MONITOR_COMPLETE"
#: Somebody waits with a finger on the tab key.
_TIMEOUT_SECONDS = 1.0


def make_script(shell: str, root: click.Command) -> str:
    """Return the script that teaches a shell to complete the whole command line."""
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(root, {}, PROGRAM, _VARIABLE)
    # Without click's look at the version of the bash on this machine, which need not be the one that reads the script.
    return completion.source_template % completion.source_vars()


def complete_groups(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of groups that begin so; none when anything is wrong, for a shell has no place for errors."""
    with contextlib.suppress(Exception):
        return [CompletionItem(each) for each in _ask_names(context.params) if each.startswith(incomplete)]
    return []


def _ask_names(options: dict[str, Any]) -> list[str]:
    from rebalance_exporters.terminal.client import Api  # noqa: PLC0415

    access = Access(
        command="top",
        url=options.get("url") or DEFAULT_URL,
        user=options.get("user"),
        password_file=options.get("password_file"),
        ca_file=options.get("ca_file"),
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    with Api(access) as api:
        names = {row.group for row in api.overview(options.get("cluster")).groups}
    # A name that no shell could take apart, or that would write on the terminal, is typed by hand or not at all.
    return sorted(name for name in names if name.isprintable() and name)
