"""The API of silences and announced deploys: list, create, and end early.

They are the only thing that a request can change, so they are accepted only from authenticated users; without users in
the web config they are refused from any address. A browser sends JSON to another site only if that site allows it
(CORS), which the exporter never does, so no page elsewhere can use the password that a browser remembers.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import fields, replace
from http import HTTPStatus

from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rebalance_contract import AlertSilence, ContractError, GroupState, decode, silence_problems
from rebalance_contract.api import MOST_SILENCES, SILENCES_PATH, MadeSilence, SilenceRequest, SilencesAnswer
from rebalance_exporters.api.requests import read_limit
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.state.silences import covered
from rebalance_exporters.state.view import View
from rebalance_exporters.web.auth import user_of
from rebalance_exporters.web.responses import RequestError, json_response

#: Maximum number per cluster in force or to come, far more than it needs; ended ones do not count.
MAX_IN_FORCE = 200
_MAX_BODY = 262_144
_BODY_SECONDS = 10.0

NO_USERS = (
    "silences are taken only from users who log in: name some under basic_auth_users in the file of "
    "export.web_config_file"
)

WriteSilence = Callable[[AlertSilence], None]
Refusal = Callable[[str], str | None]


def refuse_silence(_: AlertSilence) -> None:
    """Refuse to write, for an application without a Kafka cluster. Raises ExporterError."""
    raise ExporterError("this exporter has no topic to keep silences in")


def silence_routes(
    view: View, clock_ms: Callable[[], int], write: WriteSilence, refusal: Refusal = lambda _: None
) -> list[Route]:
    """Return the routes; `write` writes a silence to where all exporters read it, or raises ExporterError.

    `refusal` returns why silences of a cluster cannot be written, as far as known in advance; null: no known reason.
    """
    silences = _Silences(view, clock_ms, write, refusal)
    return [
        Route(SILENCES_PATH, silences.list, methods=["GET"]),
        Route(SILENCES_PATH, silences.add, methods=["POST"]),
        Route(f"{SILENCES_PATH}/{{silence_id}}", silences.expire, methods=["DELETE"]),
    ]


class _Silences:
    """Handlers of requests; they raise RequestError for requests that cannot be answered."""

    def __init__(self, view: View, clock_ms: Callable[[], int], write: WriteSilence, refusal: Refusal) -> None:
        self._view = view
        self._clock_ms = clock_ms
        self._write_silence = write
        self._refusal = refusal

    def list(self, request: Request) -> Response:
        cluster = request.query_params.get("cluster")
        known = self._view.fleet().silences.by_name.values()
        chosen = [each for each in known if cluster in {None, each.cluster}]
        chosen.sort(key=lambda each: (each.ends_at_ms, each.silence_id), reverse=True)
        limit = read_limit(request, MOST_SILENCES) or MOST_SILENCES
        user = user_of(request.scope)
        why_not = NO_USERS if user is None else self._why_read_only(cluster)
        left_out = max(0, len(chosen) - limit)
        return json_response(SilencesAnswer(self._clock_ms(), tuple(chosen[:limit]), user, why_not, left_out))

    def _why_read_only(self, cluster: str | None) -> str | None:
        """Return why no silence can be written, to one cluster or to any; null if one of them may take it."""
        known = {key[0] for key in self._view.fleet().groups}
        first = None
        for each in sorted(known if cluster is None else {cluster}):
            refusal = self._refusal(each)
            if refusal is None:
                return None  # the others are not asked: each that does not answer takes seconds
            first = first or refusal
        return first

    async def add(self, request: Request) -> Response:
        user = _known_user(request)
        try:
            wanted = decode(await _read_body(request), SilenceRequest)
        except ContractError as error:
            raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from error
        # In threads: they wait for the view's lock and visit every group, and must not block the event loop.
        made = await run_sync(_make, wanted, user, self._view, self._clock_ms())
        await self._write(made)
        return json_response(await run_sync(_with_covered, made, self._view), HTTPStatus.CREATED)

    async def expire(self, request: Request) -> Response:
        user, now_ms = _known_user(request), self._clock_ms()
        wanted = request.path_params["silence_id"], request.query_params.get("cluster")
        found = await run_sync(_find, *wanted, self._view)
        if found.ends_at_ms > now_ms:
            found = replace(found, ends_at_ms=max(now_ms, found.starts_at_ms), expired_by=user)
            await self._write(found)
        return json_response(found)

    async def _write(self, silence: AlertSilence) -> None:
        try:
            await run_sync(self._write_silence, silence)
        except ExporterError as error:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error


def _known_user(request: Request) -> str:
    user = user_of(request.scope)
    if user is None:
        raise RequestError(HTTPStatus.FORBIDDEN, NO_USERS)
    return user


async def _read_body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be JSON: send content-type: application/json"
        )
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_BODY:
                    raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {_MAX_BODY} bytes")
    except (TimeoutError, ClientDisconnect) as error:
        raise RequestError(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {_BODY_SECONDS:g} s") from error
    return bytes(body)


def _make(wanted: SilenceRequest, user: str, view: View, now_ms: int) -> AlertSilence:
    """Return the requested silence. Raises RequestError that says what is wrong with it."""
    fleet = view.fleet()
    clusters = sorted({cluster for cluster, _ in fleet.groups})
    cluster = wanted.cluster
    if cluster is None and len(clusters) == 1:
        cluster = clusters[0]
    if cluster is None or cluster not in clusters:
        text = "there is no group yet" if not clusters else f"say which cluster: {', '.join(clusters)}"
        raise RequestError(HTTPStatus.BAD_REQUEST, text, clusters)
    starts_ms = now_ms if wanted.starts_at_ms is None else wanted.starts_at_ms
    made = AlertSilence(
        cluster=cluster,
        silence_id=secrets.token_hex(6),
        groups=tuple(dict.fromkeys(wanted.groups)),
        starts_at_ms=starts_ms,
        ends_at_ms=starts_ms + wanted.duration_ms,
        created_at_ms=now_ms,
        created_by=user,
        reason=wanted.reason.strip(),
        kind=wanted.kind,
        version=wanted.version,
        on_behalf_of=wanted.on_behalf_of,
    )
    problems = list(silence_problems(made))
    if made.ends_at_ms <= now_ms:
        problems.append("it would be over already")
    if problems:
        raise RequestError(HTTPStatus.BAD_REQUEST, "; ".join(problems))
    standing = [each for each in fleet.silences.by_name.values() if each.cluster == cluster]
    if sum(each.ends_at_ms > now_ms for each in standing) >= MAX_IN_FORCE:
        raise RequestError(HTTPStatus.CONFLICT, f"{MAX_IN_FORCE} silences are in force or to come: end some first")
    return made


def _with_covered(made: AlertSilence, view: View) -> MadeSilence:
    """Return a silence with the number of groups that it covers; a mistyped name covers none."""
    groups = view.fleet().groups
    present = [key for key, group in groups.items() if group.state != GroupState.DELETED]
    values = {each.name: getattr(made, each.name) for each in fields(made)}
    return MadeSilence(**values, covered_groups=sum(1 for _ in covered(made, present)))


def _find(silence_id: str, cluster: str | None, view: View) -> AlertSilence:
    known = view.fleet().silences.by_name.values()
    found = [each for each in known if each.silence_id == silence_id and cluster in {None, each.cluster}]
    if not found:
        raise RequestError(HTTPStatus.NOT_FOUND, f"no silence {silence_id!r} is known")
    return found[0]
