"""Shell completion for bash, zsh and fish, including group names."""

from __future__ import annotations

import contextlib
import shlex
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from rebalance_exporters.terminal.access import DEFAULT_URL, Access

SHELLS = ("bash", "zsh", "fish")

PROGRAM = "rebalance-monitor"
#: Environment variable in which click looks for the shell's request.
_VARIABLE = "_REBALANCE_MONITOR_COMPLETE"
#: Short, because the user is waiting for the completion.
_TIMEOUT_SECONDS = 1.0


def make_script(shell: str, root: click.Command) -> str:
    """Return the script that makes a shell complete the whole command line."""
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(root, {}, PROGRAM, _VARIABLE)
    # Skips click's check of this machine's bash version: another bash may read the script.
    return completion.source_template % completion.source_vars()


def complete_groups(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of groups with this prefix; empty on any error, because a shell cannot show one."""
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
    return sorted(filter(_is_plain, names))


def _is_plain(name: str) -> bool:
    """Whether a shell takes a name literally: shells insert completions without quoting, and clients choose names.

    A name that begins like an option is not offered either.
    """
    return shlex.quote(name) == name and not name.startswith("-")
