"""Settings files that are read again while the exporter runs: who owns what, certificates, passwords.

Receives paths; hands out what the files said when they were last understood. A file that is not understood changes
nothing: the former content stays in force, and metrics and the log say so.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Self

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.metrics.monitor import Reload
from rebalance_exporters.owners import Owners, load_owners
from rebalance_exporters.web.auth import PasswordCheck
from rebalance_exporters.web.config import WebConfig, load_web_config, make_tls_context

_log = logging.getLogger(__name__)

OWNERS, WEB_CONFIG = "owners", "web_config"


class SwitchingContext(ssl.SSLContext):
    """Gives every new connection the context that is in force then; those that stand keep theirs."""

    current: ssl.SSLContext

    @classmethod
    def starting_with(cls, context: ssl.SSLContext) -> Self:
        """Make one that begins with a context."""
        switching = cls(ssl.PROTOCOL_TLS_SERVER)
        switching.current = context
        return switching

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a connection; asyncio calls this and nothing else."""
        return self.current.wrap_bio(*args, **kwargs)


class Settings:
    """What the files say. Making it reads them, and raises ExporterError; afterwards `reload` reads them again."""

    def __init__(self, owners_file: str, web_config_file: str, clock_ms: Callable[[], int]) -> None:
        self._owners_file, self._web_config_file = owners_file, web_config_file
        self._clock_ms = clock_ms
        self._reloads: dict[str, Reload] = {}
        self.owners = load_owners(owners_file)
        web = load_web_config(web_config_file)
        self.passwords = PasswordCheck(web.users)
        self.tls = None if web.tls is None else SwitchingContext.starting_with(make_tls_context(web.tls))
        for name, file in ((OWNERS, owners_file), (WEB_CONFIG, web_config_file)):
            if file:
                self._reloads[name] = Reload(name, True, clock_ms())

    @property
    def reloads(self) -> tuple[Reload, ...]:
        """How the last reading of each file went."""
        return tuple(self._reloads.values())

    def read_owners(self) -> Owners:
        """Return the owners in force."""
        return self.owners

    def read_passwords(self) -> PasswordCheck:
        """Return the users in force."""
        return self.passwords

    def reload(self) -> None:
        """Read all files again."""
        for name, read in self._readers():
            try:
                read()
            except ExporterError as error:
                self._keep(name, str(error))
            except Exception as error:
                # What libraries make of odd content, as YAML of a date that there is not, must not end what serves.
                self._keep(name, f"the {name} file cannot be used: {type(error).__name__}")
            else:
                _log.info("read the %s file again", name)
                self._reloads[name] = Reload(name, True, self._clock_ms())

    def _keep(self, name: str, problem: str) -> None:
        _log.error("%s; what it said before stays in force", problem)
        self._reloads[name] = Reload(name, False, self._reloads[name].succeeded_ms)

    def _readers(self) -> Sequence[tuple[str, Callable[[], None]]]:
        readers = {OWNERS: self._reload_owners, WEB_CONFIG: self._reload_web_config}
        return [(name, read) for name, read in readers.items() if name in self._reloads]

    def _reload_owners(self) -> None:
        self.owners = load_owners(self._owners_file)

    def _reload_web_config(self) -> None:
        web = load_web_config(self._web_config_file)
        if (web.tls is None) != (self.tls is None):
            raise ExporterError(f"{self._web_config_file}: TLS is switched on or off by a restart only")
        self._switch_tls(web)
        # What was right before is asked again: a user may be gone or have another password.
        self.passwords = PasswordCheck(web.users)

    def _switch_tls(self, web: WebConfig) -> None:
        if web.tls is not None and self.tls is not None:
            self.tls.current = make_tls_context(web.tls)
