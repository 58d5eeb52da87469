"""The JSON API: answers requests about groups with the stream's own objects, encoded by the contract."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

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
    MESSAGES_PATH,
    OPENAPI_PATH,
    OVERVIEW_PATH,
    REBALANCES,
    REPORT_PATH,
    STREAM_PATH,
    FindingRow,
    FindingsAnswer,
    GroupsAnswer,
    Readiness,
)
from rebalance_exporters.advice.advised import without_avoided
from rebalance_exporters.advice.answers import describe_findings, make_answer
from rebalance_exporters.api.overview import make_overview
from rebalance_exporters.api.period import make_report
from rebalance_exporters.api.requests import (
    DAY_MS,
    find_group,
    names_like,
    read_advised_since_ms,
    read_limit,
    read_number,
    read_period,
    read_target,
)
from rebalance_exporters.api.stream_events import EventSource, Filter
from rebalance_exporters.messages.answers import answer
from rebalance_exporters.messages.matching import TEXT_LIMIT, read_matcher
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.fleet import FleetSnapshot
from rebalance_exporters.state.health import read_until_ms
from rebalance_exporters.state.kept import GroupKey
from rebalance_exporters.state.view import View
from rebalance_exporters.web.responses import RequestError, json_response, raw_json
from rebalance_exporters.web.shared_answers import SharedAnswers

#: How many different responses are made concurrently, and how many more may wait. Python runs one thread at a time in
#: any case, and each further thread delays health pages and scrapes.
_REPORTS, _ANSWERS = (1, 8), (2, 32)


@dataclass(frozen=True, slots=True)
class AnswerSources:
    """What the API's responses are made from."""

    view: View
    judge: Callable[[], Readiness]
    clock_ms: Callable[[], int]
    read_owners: Callable[[], Owners]
    followers: EventSource
    version: str


def make_routes(sources: AnswerSources) -> list[Route]:
    """Return the routes of the API; each response is made from one snapshot."""
    api = _Api(sources)
    # A report takes a second if many rebalances are kept; it must delay neither the page nor `top`.
    reports, answers = SharedAnswers(*_REPORTS), SharedAnswers(*_ANSWERS)
    return [
        Route(OVERVIEW_PATH, answers.endpoint(api.show_overview)),
        Route(FINDINGS_PATH, answers.endpoint(api.list_findings)),
        Route(REPORT_PATH, reports.endpoint(api.report)),
        Route(STREAM_PATH, api.follow),
        Route(MESSAGES_PATH, answers.endpoint(_explain_message)),
        Route(OPENAPI_PATH, _describe),
        Route(GROUPS_PATH, answers.endpoint(api.list_groups)),
        Route(f"{GROUPS_PATH}/{{rest:name}}", answers.endpoint(api.show_group)),
    ]


class _Api:
    """Handlers of requests; they raise RequestError for requests that cannot be answered."""

    def __init__(self, sources: AnswerSources) -> None:
        self._sources = sources
        self._view = sources.view

    def show_overview(self, request: Request) -> Response:
        sources = self._sources
        overview = make_overview(
            self._view.fleet(),
            sources.judge(),
            sources.clock_ms(),
            version=sources.version,
            owners=sources.read_owners(),
            cluster=request.query_params.get("cluster"),
        )
        return json_response(overview)

    def list_groups(self, request: Request) -> Response:
        cluster, limit = request.query_params.get("cluster"), read_limit(request)
        fleet = self._view.fleet()
        read_until = read_until_ms(fleet)
        keys = sorted(key for key in fleet.groups if cluster in {None, key[0]})
        after = contract.split_key(request.query_params.get("after"))
        keys = keys[bisect_right(keys, after) :]
        chosen = keys[:limit]
        settled = tuple(_settle(fleet.groups[key], read_until) for key in chosen)
        last = chosen[-1] if chosen else after
        return json_response(GroupsAnswer(settled, contract.group_key(*last) if len(chosen) < len(keys) else None))

    def show_group(self, request: Request) -> Response:
        target, fleet = read_target(request), self._view.fleet()
        # The rebalances of a group that was deleted are still kept.
        looks_back = target.rebalance_id is not None or target.below in {REBALANCES, ADVICE}
        groups = {*fleet.groups, *self._view.rebalanced_groups()} if looks_back else fleet.groups
        key = find_group(target.group, request, groups)
        if target.rebalance_id is not None:
            return self._show_rebalance(fleet, key, target.rebalance_id)
        if target.below == REBALANCES:
            return self._list_rebalances(fleet, key, request)
        if target.below == ADVICE:
            return self._advise(key, request)
        return json_response(_settle(fleet.groups[key], read_until_ms(fleet)))

    def list_findings(self, request: Request) -> Response:
        wanted = {name: request.query_params.get(name) for name in ("cluster", "group", "rule", "severity", "state")}
        found: list[FindingRow] = []
        fleet = self._view.fleet()
        past = [key for key in self._view.rebalanced_groups() if key[1] == wanted["group"]]
        for key in dict.fromkeys((*fleet.findings, *past)):
            is_asked = wanted["group"] == key[1]
            chosen = [
                finding
                for finding in (self._findings_of(fleet, key) if is_asked else fleet.findings[key].findings)
                if all(value in {None, getattr(finding, name)} for name, value in wanted.items())
            ]
            # Searching the past of all groups would take too long for one request.
            found += self._describe(key, chosen) if is_asked else map(without_avoided, chosen)
        found.sort(key=lambda each: (each.started_at_ms, each.finding_id), reverse=True)
        return json_response(FindingsAnswer(tuple(found)))

    def report(self, request: Request) -> Response:
        sources = self._sources
        now_ms = sources.clock_ms()
        period = read_period(request, now_ms)
        report = make_report(
            self._view.past(),
            self._view.fleet(),
            sources.judge().of(period.cluster),
            now_ms,
            period,
            version=sources.version,
            owners=sources.read_owners(),
        )
        return json_response(report)

    async def follow(self, request: Request) -> Response:
        followers = self._sources.followers
        if followers.is_full:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{followers.limit} follow already: try again later")
        wanted = Filter(request.query_params.get("cluster"), request.query_params.get("group"))
        followed = followers.follow(wanted, request.headers.get("last-event-id"))
        # Ask proxies not to buffer events, which would delay them.
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        return _Events(followers, followed, headers)

    def _list_rebalances(self, fleet: FleetSnapshot, key: GroupKey, request: Request) -> Response:
        limit, since_ms = read_limit(request), read_number(request, "since_ms")
        until_ms = read_number(request, "until_ms")
        found = [
            kept
            for kept in self._view.rebalances(key)
            if (since_ms is None or kept.completed_ms is None or kept.completed_ms >= since_ms)
            and (until_ms is None or kept.started_ms < until_ms)
        ]
        # The rows are JSON already and are sent as received, including fields unknown to this version.
        return raw_json(b'{"rebalances":[%s]}' % b",".join(map(fleet.document, found[:limit])))

    def _show_rebalance(self, fleet: FleetSnapshot, key: GroupKey, rebalance_id: str) -> Response:
        kept = self._view.rebalance(key, rebalance_id)
        if kept is None:
            ids = [each.rebalance_id for each in self._view.rebalances(key)]
            text = f"no rebalance {rebalance_id!r} of group {key[1]!r} is kept"
            raise RequestError(HTTPStatus.NOT_FOUND, text, names_like(rebalance_id, ids))
        found = [each for each in self._findings_of(fleet, key) if rebalance_id in each.rebalance_ids]
        found.sort(key=lambda each: not each.primary)
        findings = contract.encode(self._describe(key, found))
        return raw_json(b'{"rebalance":%s,"findings":%s}' % (fleet.document(kept), findings))

    def _findings_of(self, fleet: FleetSnapshot, key: GroupKey) -> tuple[contract.Finding, ...]:
        """Return the findings of one group, those of the past first."""
        of_group = fleet.findings.get(key)
        return (*self._view.past_findings(key), *(of_group.findings if of_group else ()))

    def _describe(self, key: GroupKey, findings: Sequence[contract.Finding]) -> tuple[FindingRow, ...]:
        """Return findings of one group with what their advice would have avoided in the last day."""
        if not findings:
            return ()
        now_ms = self._sources.clock_ms()
        return describe_findings(findings, self._view.past(key), max(0, now_ms - DAY_MS), now_ms)

    def _advise(self, key: GroupKey, request: Request) -> Response:
        now_ms = self._sources.clock_ms()
        since_ms = read_advised_since_ms(request, now_ms)
        readiness = self._sources.judge().of(key[0])
        return json_response(make_answer(self._view.past(key), key, readiness, since_ms, now_ms))


class _Events(StreamingResponse):
    """The events for one follower, which is counted as long as the response lasts."""

    def __init__(self, source: EventSource, events: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until either side ends the response."""
        with self._source.counted():
            await super().__call__(scope, receive, send)


@functools.cache
def _description() -> bytes:
    return openapi.render().encode()


async def _describe(_: Request) -> Response:
    return raw_json(_description())


def _explain_message(request: Request) -> Response:
    text = request.query_params.get("text", "")
    if not text.strip():
        raise RequestError(HTTPStatus.BAD_REQUEST, "text is missing: add ?text= with a line of a log")
    if len(text) > TEXT_LIMIT:
        raise RequestError(
            HTTPStatus.BAD_REQUEST, f"text has {len(text)} characters: {TEXT_LIMIT} are looked at, send one line"
        )
    return json_response(answer(text, read_matcher()))


def _settle(group: contract.GroupSnapshot, read_until: Mapping[str, int]) -> contract.GroupSnapshot:
    """Return a group with its settlement added to the counters, if it is due."""
    counters = contract.counters_at(group, read_until.get(group.cluster))
    return group if counters is group.counters else replace(group, counters=counters, settlement=None)
