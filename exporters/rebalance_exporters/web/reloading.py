"""Settings files that are read again while the exporter runs: who owns what, certificates, passwords.

Receives paths; hands out what the files said when they were last understood. A file that is not understood changes
nothing: the former content stays in force, and metrics and the log say so. They are read when somebody asks for it, and
when they changed: a certificate that is renewed in a pod comes with no signal.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.metrics.monitor import Reload
from rebalance_exporters.owners import Owners, load_owners
from rebalance_exporters.web.auth import PasswordCheck
from rebalance_exporters.web.config import TlsConfig, WebConfig, load_web_config, make_tls_context

_log = logging.getLogger(__name__)

OWNERS, WEB_CONFIG = "owners", "web_config"

#: What distinguishes one content of a file from another without reading it; null where there is no file.
_Stamp = tuple[int, int, int] | None


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
    """What the files say. Making it reads them, and raises ExporterError; afterwards `reload` reads them again.

    `reload_changed` reads those again that changed since; it is called every so often.
    """

    def __init__(self, owners_file: str, web_config_file: str, clock_ms: Callable[[], int]) -> None:
        self._owners_file, self._web_config_file = owners_file, web_config_file
        self._clock_ms = clock_ms
        self._reloads: dict[str, Reload] = {}
        #: By name: the files as they were when they were read, and as they were at the latest look.
        self._read: dict[str, Mapping[Path, _Stamp]] = {OWNERS: _stamps([Path(owners_file)])}
        self._seen: dict[str, Mapping[Path, _Stamp]] = {}
        self.owners = load_owners(owners_file)
        web = self._load_web_config()
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
            self._reload(name, read)

    def reload_changed(self) -> None:
        """Read those files again that changed since they were read, and not since the call before.

        What is being written is left alone, and so are passwords where no user is left: `reload` switches them off.
        """
        for name, read in self._readers():
            now = _stamps(self._read[name])
            is_settled, self._seen[name] = now == self._seen.get(name), now
            if is_settled and now != self._read[name]:
                self._reload(name, self._renew_web_config if name == WEB_CONFIG else read)

    def _reload(self, name: str, read: Callable[[], None]) -> None:
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
        self._read[OWNERS] = _stamps(self._read[OWNERS])
        self.owners = load_owners(self._owners_file)

    def _reload_web_config(self) -> None:
        self._take_up(self._load_web_config())

    def _renew_web_config(self) -> None:
        web = self._load_web_config()
        if self.passwords.is_needed and not web.users:
            raise ExporterError(f"{self._web_config_file}: passwords are switched off by SIGHUP or a restart only")
        self._take_up(web)

    def _load_web_config(self) -> WebConfig:
        """Read the file, and note how it and those that it names are before they are read."""
        file = Path(self._web_config_file)
        self._read[WEB_CONFIG] = {**_stamps(self._read.get(WEB_CONFIG, ())), **_stamps([file])}
        web = load_web_config(self._web_config_file)
        self._read[WEB_CONFIG] = {**_stamps(_files_of(web.tls)), file: self._read[WEB_CONFIG][file]}
        return web

    def _take_up(self, web: WebConfig) -> None:
        if (web.tls is None) != (self.tls is None):
            raise ExporterError(f"{self._web_config_file}: TLS is switched on or off by a restart only")
        self._switch_tls(web)
        # What was right before is asked again: a user may be gone or have another password.
        self.passwords = PasswordCheck(web.users)

    def _switch_tls(self, web: WebConfig) -> None:
        if web.tls is not None and self.tls is not None:
            self.tls.current = make_tls_context(web.tls)


def _files_of(tls: TlsConfig | None) -> list[Path]:
    if tls is None:
        return []
    return [file for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file is not None]


def _stamps(files: Iterable[Path]) -> dict[Path, _Stamp]:
    return {file: _stamp(file) for file in files}


def _stamp(file: Path) -> _Stamp:
    try:
        # Of what a link leads to: a Secret is renewed by another link.
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
