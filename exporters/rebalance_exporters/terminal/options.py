"""Options that commands share, and access to the exporter through them.

Modules that need a library are imported when a command runs: the libraries are an extra, and help is instant without
them.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.access import DEFAULT_URL, Access
from rebalance_exporters.terminal.completion import complete_groups
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock

if TYPE_CHECKING:
    from rebalance_contract import CoordinatorEvent
    from rebalance_exporters.terminal.client import Api

F = TypeVar("F", bound=Callable[..., Any])

#: Error of `why` without a message and a log.
NO_INPUT = "no input: pass a MESSAGE, --file FILE, or pipe a log"

_LIBRARIES = frozenset({"httpx", "rich", "msgspec"})

_ACCESS_OPTIONS = (
    click.option(
        "--url", envvar="REBALANCE_MONITOR_URL", default=DEFAULT_URL, show_default=True, help="URL of the exporter."
    ),
    click.option("--user", envvar="REBALANCE_MONITOR_USER", metavar="NAME", help="User name of its web config file."),
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
        help="CA certificate of the exporter (PEM).",
    ),
    click.option(
        "--cluster",
        envvar="REBALANCE_MONITOR_CLUSTER",
        metavar="NAME",
        help="The cluster, if the exporter shows several.",
    ),
)
_ACCESS_NAMES = frozenset({"url", "user", "password_file", "ca_file", "cluster"})
JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
ZONE = click.option(
    "--utc/--local", "utc", default=True, show_default=True, help="Show times in UTC or in this machine's zone."
)
#: Broker logs in addition to the monitor's data, for `explain` here and `replay` of the console script.
LOGS = click.option(
    "--logs",
    multiple=True,
    type=click.File("rb"),
    metavar="FILE",
    help="Broker log to take into account, plain or gzip; - for standard input. May be repeated.",
)
TIME_ZONE = click.option(
    "--time-zone",
    default="UTC",
    show_default=True,
    metavar="NAME",
    help="Time zone of --logs whose times do not name one, such as Europe/Berlin.",
)
GROUP = click.argument("group", shell_complete=complete_groups)
MARKDOWN = click.option("--markdown", is_flag=True, help="Write Markdown, for a ticket or a chat.")
#: For commands about a group's past.
SINCE = click.option(
    "--since",
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Start of the period: 24h, 7d, or a time as for explain.",
)


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reads files of broker logs: (files, group, time zone) to events in order. The console script provides it."""

    read: Callable[[Sequence[Any], str, str], list[CoordinatorEvent]]


@dataclass(frozen=True, slots=True)
class ApiTarget:
    """The exporter to query, and the cluster, null for all."""

    access: Access
    cluster: str | None


def reads_exporter(command: F) -> F:
    """Add the options for the exporter's address; the command gets them as `target`."""

    @functools.wraps(command)
    def call(*, url: str, user: str | None, password_file: Path | None, ca_file: Path | None, **others: Any) -> Any:
        context = click.get_current_context()
        access = Access(_typed(context), url, user, password_file, ca_file, flags=tuple(_flags_to_repeat(context)))
        return command(target=ApiTarget(access, others.pop("cluster")), **others)

    return functools.reduce(lambda made, option: option(made), reversed(_ACCESS_OPTIONS), cast("F", call))


def _typed(context: click.Context) -> str:
    """Return the command as typed, such as `silence add`."""
    names = []
    while context.parent is not None:
        names.append(context.info_name or "")
        context = context.parent
    return " ".join(reversed(names)) or context.info_name or ""


def _flags_to_repeat(context: click.Context) -> Iterator[str]:
    """Yield the options for the exporter's address that were typed."""
    for option in context.command.params:
        typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in _ACCESS_NAMES and typed:
            yield option.opts[0]
            yield str(context.params[option.name])


@contextlib.contextmanager
def needing_libraries() -> Generator[None]:
    """Turn a missing library into one sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _LIBRARIES:
            raise
        raise ExporterError(
            f"this command needs {library}, which is not installed: install the wheel with its extra `terminal`"
        ) from error


@contextlib.contextmanager
def until_interrupted() -> Generator[None]:
    """Treat Ctrl-C as the regular end of a command that runs until interrupted."""
    with contextlib.suppress(KeyboardInterrupt):
        yield


@contextlib.contextmanager
def open_api(target: ApiTarget) -> Generator[Api]:
    """Open the exporter's API; errors of access and missing libraries become ExporterError."""
    with needing_libraries():
        from rebalance_exporters.terminal.client import Api  # noqa: PLC0415

        with Api(target.access) as api:
            yield api


def clock_of(utc: bool) -> Clock:
    """Return a clock in UTC, or in this machine's zone."""
    return Clock() if utc else Clock(zone=None)


def read_now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def print_remark(line: str) -> None:
    """Print a line that is not part of the answer, on standard error."""
    click.echo(safe(line), err=True)
