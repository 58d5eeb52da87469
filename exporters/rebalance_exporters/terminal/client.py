"""Queries the exporter's API and returns its answers as objects; every error becomes one sentence.

Receives the exporter's address; returns answers and the bytes of its event stream. Independent of output.
"""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Generator, Iterator
from http import HTTPStatus
from typing import Self, TypeVar
from urllib.parse import quote

import httpx

from rebalance_contract import AlertSilence, ContractError, Finding, GroupSnapshot, decode, encode
from rebalance_contract.api import (
    ADVICE,
    FINDINGS_PATH,
    GROUPS_PATH,
    OVERVIEW_PATH,
    REBALANCES,
    REPORT_PATH,
    SILENCES_PATH,
    STREAM_PATH,
    FindingsAnswer,
    MadeSilence,
    Overview,
    RebalanceAnswer,
    RebalanceRow,
    RebalancesAnswer,
    Refusal,
    SilenceRequest,
    SilencesAnswer,
)
from rebalance_contract.api_reports import AdviceAnswer, PeriodReport
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.escaping import safe

_T = TypeVar("_T")

#: Advice if the exporter is not at its address.
_OTHER = "pass the address of a running exporter: `--url http://HOST:9642`"

#: The number of an operating system error, which does not help the reader.
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
#: The stream sends something every 5 s; a longer silence means a broken connection.
_STREAM_SILENCE_SECONDS = 20.0


class ApiError(ExporterError):
    """The exporter did not answer, or not as expected."""


class UnreachableError(ApiError):
    """There was no answer, or it was incomplete: worth a retry."""


class NotFoundError(ApiError):
    """The exporter answered that the requested object does not exist."""


class Api:
    """A connection to one exporter, closed by its `with` block. Every method raises ApiError."""

    def __init__(self, access: Access) -> None:
        access.check()
        self._access = access
        self._http = httpx.Client(
            base_url=access.url,
            auth=_read_auth(access),
            verify=_read_ca(access),
            timeout=access.timeout_seconds,
            trust_env=not access.is_local,
            headers={"accept": "application/json"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def access(self) -> Access:
        """The address and credentials in use, for messages."""
        return self._access

    def overview(self, cluster: str | None = None) -> Overview:
        """Return all groups, or those of one cluster."""
        return self._read(OVERVIEW_PATH, Overview, cluster=cluster)

    def group(self, group: str, cluster: str | None = None) -> GroupSnapshot:
        """Return the current snapshot of one group."""
        return self._read(_path(group), GroupSnapshot, cluster=cluster)

    def rebalances(
        self, group: str, cluster: str | None = None, *, limit: int | None = None, since_ms: int | None = None
    ) -> tuple[RebalanceRow, ...]:
        """Return the rebalances of a group that the exporter keeps, newest first."""
        path = f"{_path(group)}/{REBALANCES}"
        return self._read(path, RebalancesAnswer, cluster=cluster, limit=limit, since_ms=since_ms).rebalances

    def rebalance(self, group: str, rebalance_id: str, cluster: str | None = None) -> RebalanceAnswer:
        """Return one rebalance and the findings about it."""
        path = f"{_path(group)}/{REBALANCES}/{quote(rebalance_id, safe='')}"
        try:
            return self._read(path, RebalanceAnswer, cluster=cluster)
        except NotFoundError as error:
            raise NotFoundError(
                f"no rebalance {safe(rebalance_id)} of group {safe(group)} is kept: "
                f"see those that are, with their ids, with {self._access.suggest('history', group, '--since', '7d')}"
            ) from error

    def findings(
        self, cluster: str | None = None, group: str | None = None, state: str | None = None
    ) -> tuple[Finding, ...]:
        """Return findings; those about a whole cluster have an empty group name."""
        found = self._read(FINDINGS_PATH, FindingsAnswer, cluster=cluster, group=group, state=state).findings
        return tuple(each for each in found if group in {None, each.group} and state in {None, each.state})

    def advice(self, group: str, cluster: str | None = None, *, since_ms: int) -> AdviceAnswer:
        """Return what settings would have avoided in a group's rebalances since a time."""
        try:
            return self._read(f"{_path(group)}/{ADVICE}", AdviceAnswer, cluster=cluster, since_ms=since_ms)
        except NotFoundError as error:
            # Raises NotFoundError itself if there is no such group.
            self.group(group, cluster)
            raise ApiError(
                f"the exporter at {self._where} has no advice: it is older than this version, upgrade it"
            ) from error

    def report(self, cluster: str | None = None, *, since_ms: int, until_ms: int | None = None) -> PeriodReport:
        """Return the cost of rebalances from `since_ms` until `until_ms`, null for now."""
        try:
            return self._read(REPORT_PATH, PeriodReport, cluster=cluster, since_ms=since_ms, until_ms=until_ms)
        except NotFoundError as error:
            raise ApiError(
                f"the exporter at {self._where} has no reports: it is older than this version, upgrade it"
            ) from error

    def silences(self, cluster: str | None = None) -> SilencesAnswer:
        """Return active and future silences, and those that ended recently."""
        return self._read(SILENCES_PATH, SilencesAnswer, cluster=cluster)

    def silence(self, wanted: SilenceRequest) -> MadeSilence:
        """Create a silence."""
        headers = {"content-type": "application/json"}
        with self._explained():
            answer = self._http.post(SILENCES_PATH, content=encode(wanted), headers=headers)
        return self._taken(answer, SILENCES_PATH, MadeSilence)

    def expire(self, silence_id: str, cluster: str | None = None) -> AlertSilence:
        """End a silence now."""
        path = f"{SILENCES_PATH}/{quote(silence_id, safe='')}"
        with self._explained():
            answer = self._http.delete(path, params=_given(cluster=cluster))
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"there is no silence {safe(silence_id)}: see {self._access.suggest('silence list')}")
        return self._taken(answer, path, AlertSilence)

    @contextlib.contextmanager
    def stream(
        self, cluster: str | None = None, group: str | None = None, last_event_id: str | None = None
    ) -> Generator[Iterator[bytes]]:
        """Open the event stream; iterating it can raise UnreachableError if the connection breaks."""
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        if last_event_id is not None:
            headers["last-event-id"] = last_event_id
        timeout = httpx.Timeout(self._access.timeout_seconds, read=_STREAM_SILENCE_SECONDS)
        query = _given(cluster=cluster, group=group)
        with (
            self._explained(),
            self._http.stream("GET", STREAM_PATH, params=query, headers=headers, timeout=timeout) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                answer.read()
                raise self._refusal(answer)
            yield answer.iter_bytes()

    def _read(self, path: str, kind: type[_T], **query: str | int | None) -> _T:
        with self._explained():
            answer = self._http.get(path, params=_given(**query))
        return self._taken(answer, path, kind)

    def _taken(self, answer: httpx.Response, path: str, kind: type[_T]) -> _T:
        if not answer.is_success:
            raise self._refusal(answer)
        try:
            return decode(answer.content, kind)
        except ContractError as error:
            raise ApiError(
                f"{self._where} answers {path} with something else than this version expects ({safe(str(error))}): "
                f"compare its version, at {self._where}/, with `rebalance-monitor --version`"
            ) from error

    @property
    def _where(self) -> str:
        return safe(self._access.url.rstrip("/"))

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise UnreachableError(
                f"{self._where} did not answer in time: see what it waits for with `curl {self._where}/-/ready`"
            ) from error
        except httpx.ConnectError as error:
            raise self._explain_connect(error) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise UnreachableError(
                f"the connection to {self._where} broke ({_reason(error)}): try again, or {_OTHER}"
            ) from error

    def _explain_connect(self, error: httpx.ConnectError) -> ApiError:
        reason = _reason(error)
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return ApiError(
                f"the certificate of {self._where} is signed by nobody this machine trusts ({reason}): "
                "name the CA with --ca-file FILE"
            )
        return UnreachableError(
            f"no answer from {self._where} ({reason}): start it with `rebalance-monitor export "
            f"--bootstrap-server HOST:PORT`, or {_OTHER}"
        )

    def _refusal(self, answer: httpx.Response) -> ApiError:
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            return self._explain_unauthorized()
        try:
            refusal = decode(answer.content, Refusal)
        except ContractError:
            return self._explain_stranger(answer)
        text = safe(refusal.error)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return NotFoundError(f"{text}; {self._nearest(refusal.did_you_mean)}")
        if answer.status_code == HTTPStatus.CONFLICT and refusal.did_you_mean:
            return ApiError(f"{text}: add --cluster, for example --cluster {safe(refusal.did_you_mean[0])}")
        return _kind(answer)(f"{self._where} answers {answer.status_code}: {text}")

    def _nearest(self, names: tuple[str, ...]) -> str:
        if not names:
            return f"see all groups with {self._access.suggest('top')}"
        meant = ", ".join(map(safe, names))
        return f"did you mean {meant}? Type {self._access.suggest(self._access.command, names[0])}"

    def _explain_unauthorized(self) -> ApiError:
        if self._access.user is None:
            return ApiError(f"{self._where} asks for a user: add --user NAME --password-file FILE")
        return ApiError(
            f"{self._where} does not take the password of user {safe(self._access.user)}: "
            f"compare --password-file {self._access.password_file} with basic_auth_users of the exporter's web config"
        )

    def _explain_stranger(self, answer: httpx.Response) -> ApiError:
        return _kind(answer)(
            f"{self._where} answers {answer.status_code} and not as a rebalance-monitor does: "
            f"see what it is with `curl {self._where}/`, or {_OTHER}"
        )


def _kind(answer: httpx.Response) -> type[ApiError]:
    """Return the error type for an unexpected answer: server errors are worth a retry, refusals are not."""
    return UnreachableError if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR else ApiError


def _path(group: str) -> str:
    return f"{GROUPS_PATH}/{quote(group, safe='')}"


def _given(**query: str | int | None) -> dict[str, str | int]:
    return {name: value for name, value in query.items() if value is not None}


def _read_auth(access: Access) -> httpx.BasicAuth | None:
    return None if access.user is None else httpx.BasicAuth(access.user, access.read_password())


def _read_ca(access: Access) -> ssl.SSLContext:
    # The system's certificate store, where companies install their CA, instead of the one that comes with httpx.
    try:
        return ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ExporterError(f"cannot read --ca-file {access.ca_file} as PEM certificates: {error}") from error


def _reason(error: Exception) -> str:
    return safe(_ERRNO.sub("", str(error))) or type(error).__name__
