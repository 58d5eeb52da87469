"""Address of the exporter and credentials for it. Needs no library, so that the command line can import it at once."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.escaping import safe

DEFAULT_URL = "http://127.0.0.1:9642"
_LOOPBACK = re.compile(r"localhost\.?|127(?:\.[0-9]+){1,3}|::1")


@dataclass(frozen=True, slots=True)
class Access:
    """The exporter's address, the user of its web config and the CA that signed its certificate.

    `command` is the command as typed. `flags` are the options to repeat in suggested commands; environment variables
    apply to those anyway.
    """

    command: str
    url: str = DEFAULT_URL
    user: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: float = 10.0
    flags: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ExporterError if the address or the combination of options is not valid."""
        parts = _split(self.url)
        if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ExporterError(f"--url {safe(self.url)} is no address: type it as {DEFAULT_URL}")
        if parts.username or parts.password:
            raise ExporterError(
                "--url must not hold a password, others can see it: use --user NAME --password-file FILE"
            )
        if (self.user is None) != (self.password_file is None):
            missing = "--password-file FILE" if self.password_file is None else "--user NAME"
            raise ExporterError(f"--user and --password-file go together: add {missing}")

    @property
    def is_local(self) -> bool:
        """Whether the exporter is on this machine, so that no proxy is used."""
        parts = _split(self.url)
        return parts is not None and _LOOPBACK.fullmatch(parts.hostname or "") is not None

    def read_password(self) -> str:
        """Return the first line of the password file. Raises ExporterError if there is none."""
        assert self.password_file is not None
        try:
            lines = self.password_file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ExporterError(f"cannot read --password-file {self.password_file}: {error}") from error
        if not lines or not lines[0]:
            raise ExporterError(f"--password-file {self.password_file} is empty: its first line must be the password")
        return lines[0]

    def command_line(self, command: str, *arguments: str) -> str:
        """Return a command to run next, for the same exporter."""
        words = (*arguments, *self.flags)
        return safe(" ".join(("rebalance-monitor", command, *map(shlex.quote, words))))

    def suggest(self, command: str, *arguments: str) -> str:
        """Return a command to run next, in backquotes for use in a sentence."""
        return f"`{self.command_line(command, *arguments)}`"


def _split(url: str) -> SplitResult | None:
    """Return the parts of an address, None for one with an unmatched bracket or a port out of range."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
