"""Expensive responses: their concurrency, their sharing, and other requests meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exporters.contract_rows import NOW_MS, group_row, make_view, rebalance_row, stream_rows
from rebalance_exporters.api import routes
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.web.headers import SafeHeaders
from rebalance_exporters.web.responses import RequestError, raw_json
from rebalance_exporters.web.shared_answers import SharedAnswers

DEADLINE_SECONDS = 120


class BlockingResponses:
    """Makes responses that block until they are released, and counts them."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.begun, self.release = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def make(self, request: Request) -> Response:
        with self._lock:
            self.made[request.url.query] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.set()
        try:
            assert self.release.wait(DEADLINE_SECONDS)
        finally:
            with self._lock:
                self.at_once -= 1
        if request.url.query == "wrong":
            raise RequestError(400, "that cannot be")
        return raw_json(b'"answer"')


def app_of(responses: BlockingResponses, at_once: int, waiting: int) -> Starlette:
    """An application with this single response."""

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return error.answer()

    route = Route("/answer", SharedAnswers(at_once, waiting).endpoint(responses.make))
    return Starlette(routes=[route], middleware=[Middleware(SafeHeaders)], exception_handlers={RequestError: refuse})


def client_of(app: Starlette) -> httpx.AsyncClient:
    """A client over an in-memory transport."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://exporter", timeout=DEADLINE_SECONDS)


async def begun(what: threading.Event) -> None:
    """Wait until a condition holds, while the event loop runs."""
    assert await asyncio.to_thread(what.wait, DEADLINE_SECONDS)


def test_equal_requests_share_one_answer() -> None:
    """Identical requests during its creation get it, headers included; later ones get a new one."""
    responses = BlockingResponses()

    async def ask() -> list[httpx.Response]:
        async with client_of(app_of(responses, 1, 9)) as client:
            first = [asyncio.create_task(client.get("/answer?of=a")) for _ in range(5)]
            other = asyncio.create_task(client.get("/answer?of=b"))
            await begun(responses.begun)
            first.pop(0).cancel()
            responses.release.set()
            return [*await asyncio.gather(*first, other), await client.get("/answer?of=a")]

    answers = asyncio.run(ask())
    assert responses.made == {"of=a": 2, "of=b": 1}
    assert {(each.status_code, each.text) for each in answers} == {(200, '"answer"')}
    assert {len(each.headers.raw) for each in answers} == {len(answers[0].headers.raw)}
    assert responses.most_at_once == 1


def test_a_slash_in_a_name_is_none_of_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group whose name looks like another one's rebalances path, requested at the same time, is answered."""
    app = make_app(
        ExportConfig(kafka={"bootstrap.servers": "unused:9092"}),
        make_view(group_row(group="a"), group_row(group="a/rebalances"), *stream_rows()),
        lambda: ReadProgress(loaded=True),
        lambda: NOW_MS,
    )

    async def ask() -> list[httpx.Response]:
        async with client_of(app) as client:
            paths = ("/api/v1/groups/a/rebalances", "/api/v1/groups/a%2Frebalances")
            both = [asyncio.create_task(client.get(path)) for path in paths]
            await begun(responses.begun)
            await asyncio.sleep(0)
            responses.release.set()
            return await asyncio.gather(*both)

    with slow_answers(monkeypatch, "find_group") as responses:
        of_group, named_so = asyncio.run(ask())
    assert of_group.json() == {"rebalances": []}
    assert named_so.json()["group"] == "a/rebalances"


def test_too_many_are_turned_away_with_a_time() -> None:
    """Requests above the limit get 503 at once, with a Retry-After time; later there is room."""
    responses = BlockingResponses()

    async def ask() -> tuple[httpx.Response, list[httpx.Response], httpx.Response]:
        async with client_of(app_of(responses, 2, 1)) as client:
            waiting = [asyncio.create_task(client.get(f"/answer?of={n}")) for n in range(3)]
            await begun(responses.begun)
            await asyncio.sleep(0)
            turned_away = await client.get("/answer?of=other")
            shares = asyncio.create_task(client.get("/answer?of=0"))
            await asyncio.sleep(0)
            responses.release.set()
            return turned_away, await asyncio.gather(*waiting, shares), await client.get("/answer?of=other")

    turned_away, answers, later = asyncio.run(ask())
    assert turned_away.status_code == 503
    assert turned_away.headers["retry-after"] == "5"
    assert turned_away.json()["error"] == "3 answers are being made or waited for: ask again in 5 s"
    assert [each.status_code for each in (*answers, later)] == [200] * 5
    assert responses.most_at_once == 2


def test_a_refusal_goes_to_all_who_asked() -> None:
    """An error is returned to each request, and is not cached."""
    responses = BlockingResponses()

    async def ask() -> list[httpx.Response]:
        async with client_of(app_of(responses, 1, 1)) as client:
            both = [asyncio.create_task(client.get("/answer?wrong")) for _ in range(2)]
            await begun(responses.begun)
            responses.release.set()
            return [*await asyncio.gather(*both), await client.get("/answer?right")]

    assert [each.status_code for each in asyncio.run(ask())] == [400, 400, 200]


@contextmanager
def slow_answers(monkeypatch: pytest.MonkeyPatch, *steps: str) -> Iterator[BlockingResponses]:
    """Responses with steps, given by their functions, that begin when they are released."""
    responses = BlockingResponses()

    def wait(step: Callable[..., Any], *given: Any, **named: Any) -> Any:
        responses.made["begun"] += 1
        responses.begun.set()
        assert responses.release.wait(DEADLINE_SECONDS)
        return step(*given, **named)

    for name in steps:
        monkeypatch.setattr(routes, name, partial(wait, getattr(routes, name)))
    try:
        yield responses
    finally:
        responses.release.set()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/overview?n={}",
        "/api/v1/groups?n={}",
        "/api/v1/groups/payments?n={}",
        "/api/v1/groups/payments/rebalances?n={}",
        "/api/v1/groups/payments/rebalances/0-42?n={}",
        "/api/v1/groups/payments/advice?n={}",
        "/api/v1/findings?n={}",
        "/api/v1/report?n={}",
        "/api/v1/messages?text={}",
    ],
)
def test_health_and_scrapes_go_on_beside_any_number_of_answers(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Liveness checks and Prometheus are answered while 60 expensive requests wait."""
    app = make_app(
        ExportConfig(kafka={"bootstrap.servers": "unused:9092"}),
        make_view(group_row(), rebalance_row("0-42"), *stream_rows()),
        lambda: ReadProgress(loaded=True),
        lambda: NOW_MS,
    )
    others = ("/-/healthy", "/-/ready", "/healthz", "/readyz", "/metrics", "/", "/api/v1/silences")

    async def ask() -> tuple[list[httpx.Response], list[httpx.Response], int]:
        async with client_of(app) as client:
            costly = [asyncio.create_task(client.get(path.format(n))) for n in range(1, 61)]
            await begun(responses.begun)
            beside = [await client.get(other) for other in others]
            at_once = responses.made["begun"]
            responses.release.set()
            return beside, await asyncio.gather(*costly), at_once

    with slow_answers(monkeypatch, "json_response", "raw_json") as responses:
        beside, costly, at_once = asyncio.run(ask())
    assert [(each.status_code, str(each.url)) for each in beside if each.status_code != 200] == []
    assert at_once <= 2
    statuses = Counter(each.status_code for each in costly)
    assert set(statuses) == {200, 503}
    assert all("retry-after" in each.headers for each in costly if each.status_code == 503)


def test_reports_do_not_keep_the_overview_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and `top` are answered while the maximum number of reports is made and waits."""
    app = make_app(
        ExportConfig(kafka={"bootstrap.servers": "unused:9092"}),
        make_view(group_row(), *stream_rows()),
        lambda: ReadProgress(loaded=True),
        lambda: NOW_MS,
    )

    async def ask() -> list[httpx.Response]:
        async with client_of(app) as client:
            reports = [asyncio.create_task(client.get(f"/api/v1/report?since_ms={n}")) for n in range(1, 21)]
            await begun(responses.begun)
            answers = [await client.get(path) for path in ("/api/v1/overview", "/api/v1/groups/payments")]
            responses.release.set()
            await asyncio.gather(*reports)
            return answers

    with slow_answers(monkeypatch, "make_report") as responses:
        answers = asyncio.run(ask())
    assert [each.status_code for each in answers] == [200, 200]
