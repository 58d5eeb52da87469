"""The JSON API: receives requests about groups, answers with the stream's own objects as the contract writes them."""

from __future__ import annotations

import difflib
import functools
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import rebalance_contract as contract
from rebalance_contract import openapi
from rebalance_contract.api import (
    ADVICE,
    FINDINGS_PATH,
    GROUPS_PATH,
    LONGEST_REPORT,
    MESSAGES_PATH,
    OPENAPI_PATH,
    OVERVIEW_PATH,
    REBALANCES,
    REPORT_PATH,
    STREAM_PATH,
    FindingsAnswer,
    GroupsAnswer,
    Readiness,
    Refusal,
)
from rebalance_exporters.advice_answers import make_answer
from rebalance_exporters.health import read_until_ms
from rebalance_exporters.kept import GroupKey
from rebalance_exporters.messages.answers import answer
from rebalance_exporters.messages.matching import TEXT_LIMIT, read_matcher
from rebalance_exporters.overview import make_overview
from rebalance_exporters.owners import Owners
from rebalance_exporters.period import Period, make_report
from rebalance_exporters.stream_events import EventSource, Filter
from rebalance_exporters.view import Picture, View

#: How long a period is that is asked for without its beginning: of one group's advice, of a report.
_DAY_MS = 86_400_000
_WEEK_MS = 7 * _DAY_MS
_REPORT_LIMIT = 20

_BAD_REQUEST = 400
_NOT_FOUND = 404
_AMBIGUOUS = 409
_UNAVAILABLE = 503


def json_response(body: object, status_code: int = 200) -> Response:
    """Answer with an object of the contract, or anything made of them."""
    return _raw_json(contract.encode(body), status_code)


def _raw_json(text: bytes, status_code: int = 200) -> Response:
    return Response(text, status_code, {"cache-control": "no-store"}, media_type="application/json")


def error_response(status_code: int, text: str, did_you_mean: Iterable[str] = ()) -> Response:
    """Answer with what is wrong and the names that look like the one asked for."""
    return json_response(Refusal(text, tuple(did_you_mean)), status_code)


class RequestError(Exception):
    """A request that cannot be answered: the status, a sentence, and names that may have been meant."""

    def __init__(self, status_code: int, text: str, did_you_mean: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.status_code = status_code
        self.text = text
        self.did_you_mean = tuple(did_you_mean)

    def answer(self) -> Response:
        """Return it as the API tells errors."""
        return error_response(self.status_code, self.text, self.did_you_mean)


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """What the API's answers are made of."""

    view: View
    judge: Callable[[], Readiness]
    clock_ms: Callable[[], int]
    read_owners: Callable[[], Owners]
    followers: EventSource
    version: str


def make_routes(sources: AnswerSources) -> list[Route]:
    """Return the routes of the API; its answers come from one picture each."""
    view = sources.view

    def show_overview(request: Request) -> Response:
        overview = make_overview(
            view.picture(),
            sources.judge(),
            sources.clock_ms(),
            version=sources.version,
            owners=sources.read_owners(),
            cluster=request.query_params.get("cluster"),
        )
        return json_response(overview)

    def list_groups(request: Request) -> Response:
        cluster, limit = request.query_params.get("cluster"), _read_number(request, "limit")
        picture = view.picture()
        read_until = read_until_ms(picture)
        keys = sorted(key for key in picture.groups if cluster in {None, key[0]})
        after = _read_key(request.query_params.get("after"))
        keys = keys[bisect_right(keys, after) :]
        chosen = keys[:limit]
        settled = tuple(_settle(picture.groups[key], read_until) for key in chosen)
        last = chosen[-1] if chosen else after
        return json_response(GroupsAnswer(settled, "/".join(last) if len(chosen) < len(keys) else None))

    def show_group(request: Request) -> Response:
        target, picture = read_target(request), view.picture()
        key = _find_group(target.group, request, picture)
        if target.rebalance_id is not None:
            return _show_rebalance(view, picture, key, target.rebalance_id)
        if target.below == REBALANCES:
            return _list_rebalances(view, picture, key, request)
        if target.below == ADVICE:
            now_ms = sources.clock_ms()
            since_ms = _read_number(request, "since_ms")
            since_ms = max(0, now_ms - _DAY_MS) if since_ms is None else since_ms
            return json_response(make_answer(view.past(key), key, sources.judge(), since_ms, now_ms))
        return json_response(_settle(picture.groups[key], read_until_ms(picture)))

    def list_findings(request: Request) -> Response:
        wanted = {name: request.query_params.get(name) for name in ("cluster", "group", "rule", "severity", "state")}
        found = [
            finding
            for of in view.picture().findings.values()
            for finding in of.findings
            if all(value in {None, getattr(finding, name)} for name, value in wanted.items())
        ]
        found.sort(key=lambda each: (each.started_at_ms, each.finding_id), reverse=True)
        return json_response(FindingsAnswer(tuple(found)))

    def report(request: Request) -> Response:
        now_ms = sources.clock_ms()
        told = make_report(
            view.past(),
            view.picture(),
            sources.judge(),
            now_ms,
            _read_period(request, now_ms),
            version=sources.version,
            owners=sources.read_owners(),
        )
        return json_response(told)

    async def follow(request: Request) -> Response:
        if sources.followers.is_full:
            raise RequestError(_UNAVAILABLE, f"{sources.followers.limit} follow already: try again later")
        wanted = Filter(request.query_params.get("cluster"), request.query_params.get("group"))
        followed = sources.followers.follow(wanted, request.headers.get("last-event-id"))
        # A proxy that collects events before it hands them on would make them late.
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        return _Events(sources.followers, followed, headers)

    return [
        Route(OVERVIEW_PATH, show_overview),
        Route(FINDINGS_PATH, list_findings),
        Route(REPORT_PATH, report),
        Route(STREAM_PATH, follow),
        Route(MESSAGES_PATH, _explain_message),
        Route(OPENAPI_PATH, _describe),
        Route(GROUPS_PATH, list_groups),
        Route(f"{GROUPS_PATH}/{{rest:name}}", show_group),
    ]


class _Events(StreamingResponse):
    """Events for one follower, who counts for as long as the answer goes on."""

    def __init__(self, source: EventSource, events: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends."""
        with self._source.counted():
            await super().__call__(scope, receive, send)


@functools.cache
def _description() -> bytes:
    return openapi.render().encode()


async def _describe(_: Request) -> Response:
    return _raw_json(_description())


def _explain_message(request: Request) -> Response:
    text = request.query_params.get("text", "")
    if not text.strip():
        raise RequestError(_BAD_REQUEST, "text is missing: add ?text= with a line of a log")
    if len(text) > TEXT_LIMIT:
        raise RequestError(_BAD_REQUEST, f"text has {len(text)} characters: {TEXT_LIMIT} are looked at, send one line")
    return json_response(answer(text, read_matcher()))


def _settle(group: contract.GroupSnapshot, read_until: Mapping[str, int]) -> contract.GroupSnapshot:
    """Return a group with the totals that are certain now."""
    counters = contract.counters_at(group, read_until.get(group.cluster))
    return group if counters is group.counters else replace(group, counters=counters, settlement=None)


class _Name(Convertor[str]):
    """The rest of a path, line breaks included, which Starlette's own kind of path does not take."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _Name())


class Target(NamedTuple):
    """What a path below /api/v1/groups is about: a group, or what stands `below` it, or one of its rebalances."""

    group: str
    below: str | None = None
    rebalance_id: str | None = None


def read_target(request: Request) -> Target:
    """Read the path. Slashes of names may be written as %2F or as they are; written so, no name is ambiguous."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    parts = [unquote(part) for part in path.removeprefix(f"{GROUPS_PATH}/").split("/")]
    if len(parts) > 1 and parts[-1] in (REBALANCES, ADVICE):
        return Target("/".join(parts[:-1]), parts[-1])
    if len(parts) > 2 and parts[-2] == REBALANCES:
        return Target("/".join(parts[:-2]), REBALANCES, parts[-1])
    return Target("/".join(parts))


def _list_rebalances(view: View, picture: Picture, key: GroupKey, request: Request) -> Response:
    limit, since_ms = _read_number(request, "limit"), _read_number(request, "since_ms")
    until_ms = _read_number(request, "until_ms")
    found = [
        picture.document(kept)
        for kept in view.rebalances(key)
        if (since_ms is None or kept.completed_ms is None or kept.completed_ms >= since_ms)
        and (until_ms is None or kept.started_ms < until_ms)
    ]
    # The rows are JSON already: they go out as they came in, fields unknown to this version included.
    return _raw_json(b'{"rebalances":[%s]}' % b",".join(found[:limit]))


def _read_number(request: Request, name: str) -> int | None:
    """Return a number of the query string, null where it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(2**63)):
        raise RequestError(_BAD_REQUEST, f"{name} is {text!r}: it must be a whole number, 0 or more")
    return int(text)


def _read_period(request: Request, now_ms: int) -> Period:
    """Return the period that a report is asked for."""
    until_ms = _read_number(request, "until_ms")
    until_ms = now_ms if until_ms is None else until_ms
    since_ms = _read_number(request, "since_ms")
    since_ms = max(0, until_ms - _WEEK_MS) if since_ms is None else since_ms
    if since_ms >= until_ms:
        raise RequestError(_BAD_REQUEST, f"since_ms is {since_ms}: it must be less than until_ms, {until_ms}")
    limit = _read_number(request, "limit")
    if limit is not None and limit > LONGEST_REPORT:
        raise RequestError(_BAD_REQUEST, f"limit is {limit}: at most {LONGEST_REPORT} are told")
    return Period(since_ms, until_ms, request.query_params.get("cluster"), _REPORT_LIMIT if limit is None else limit)


def _read_key(text: str | None) -> GroupKey:
    """Return the group that `next` of an answer names; what comes before all where there is none."""
    cluster, _, group = (text or "").partition("/")
    return cluster, group


def _show_rebalance(view: View, picture: Picture, key: GroupKey, rebalance_id: str) -> Response:
    kept = view.rebalance(key, rebalance_id)
    if kept is None:
        ids = [each.rebalance_id for each in view.rebalances(key)]
        text = f"no rebalance {rebalance_id!r} of group {key[1]!r} is kept"
        raise RequestError(_NOT_FOUND, text, difflib.get_close_matches(rebalance_id, ids))
    of_group = picture.findings.get(key)
    found = [each for each in (of_group.findings if of_group else ()) if rebalance_id in each.rebalance_ids]
    found.sort(key=lambda each: not each.primary)
    return _raw_json(b'{"rebalance":%s,"findings":%s}' % (picture.document(kept), contract.encode(found)))


def _find_group(name: str, request: Request, picture: Picture) -> GroupKey:
    """Return the one group meant. Raises RequestError that says why there is none."""
    cluster = request.query_params.get("cluster")
    found = [key for key in picture.groups if key[1] == name and cluster in {None, key[0]}]
    if len(found) == 1:
        return found[0]
    if found:
        clusters = sorted(key[0] for key in found)
        text = f"group {name!r} exists in {len(clusters)} clusters: add ?cluster= with one of {', '.join(clusters)}"
        raise RequestError(_AMBIGUOUS, text, clusters)
    where = "" if cluster is None else f" in cluster {cluster!r}"
    names = sorted({key[1] for key in picture.groups if cluster in {None, key[0]}})
    raise RequestError(_NOT_FOUND, f"no group {name!r}{where}", difflib.get_close_matches(name, names))
