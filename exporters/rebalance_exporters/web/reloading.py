"""Settings files that are reloaded while the exporter runs: owners, certificates, passwords.

Receives paths; returns the last valid content of the files. An invalid file changes nothing: the previous content stays
in effect, and metrics and the log report it. Files are reloaded on request and when they change, because a certificate
that is renewed in a pod comes without a signal.
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

#: Modification time (ns), inode and size, which show a change without reading the file; null if there is no file.
_Stamp = tuple[int, int, int] | None


class SwitchingContext(ssl.SSLContext):
    """Gives each new connection the context in effect at that time; existing connections keep theirs."""

    current: ssl.SSLContext

    @classmethod
    def starting_with(cls, context: ssl.SSLContext) -> Self:
        """Return one that begins with a context."""
        switching = cls(ssl.PROTOCOL_TLS_SERVER)
        switching.current = context
        return switching

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a connection; asyncio calls no other method."""
        return self.current.wrap_bio(*args, **kwargs)


class Settings:
    """The content of the files. The constructor reads them and raises ExporterError; `reload` reads them again.

    `reload_changed`, which is called periodically, reads only those that changed.
    """

    def __init__(self, owners_file: str, web_config_file: str, clock_ms: Callable[[], int]) -> None:
        self._owners_file, self._web_config_file = owners_file, web_config_file
        self._clock_ms = clock_ms
        self._reloads: dict[str, Reload] = {}
        #: By name: the stamps of the files when they were read, and at the latest check.
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
        """The result of the last reading of each file."""
        return tuple(self._reloads.values())

    def read_owners(self) -> Owners:
        """Return the owners in effect."""
        return self.owners

    def read_passwords(self) -> PasswordCheck:
        """Return the check of the passwords in effect."""
        return self.passwords

    def reload(self) -> None:
        """Read all files again."""
        for name, read in self._readers():
            self._reload(name, read)

    def reload_changed(self) -> None:
        """Read the files that changed since they were read, but not since the previous call.

        So a file that is still being written is not read. Passwords stay in effect if the file has no user left; only
        `reload` switches them off.
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
            # Errors of libraries for odd content, such as an impossible date in YAML, must not stop the server.
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
        """Return the content of the file; takes the stamps of it and of the files that it names before reading them."""
        file = Path(self._web_config_file)
        self._read[WEB_CONFIG] = {**_stamps(self._read.get(WEB_CONFIG, ())), **_stamps([file])}
        web = load_web_config(self._web_config_file)
        self._read[WEB_CONFIG] = {**_stamps(_files_of(web.tls)), file: self._read[WEB_CONFIG][file]}
        return web

    def _take_up(self, web: WebConfig) -> None:
        if (web.tls is None) != (self.tls is None):
            raise ExporterError(f"{self._web_config_file}: TLS is switched on or off by a restart only")
        self._switch_tls(web)
        # Remembered passwords are checked again: a user may be gone or have another password.
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
        # Follow links: a Kubernetes Secret is renewed by replacing a link.
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
