"""Answers that cost processor time: few are made at a time, and equal requests that come meanwhile share one.

Receives what makes an answer; hands on a response for each request. Health pages and scrapes run elsewhere, so that
they are answered however many ask for these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from rebalance_exporters.shared_tasks import SharedTasks
from rebalance_exporters.web.responses import RequestError

Make = Callable[[Request], Response]

#: When whoever was turned away may ask again: the answers that wait take about as long.
_RETRY_SECONDS = 5


class SharedAnswers:
    """Used from one event loop at a time; makes its answers in threads of its own."""

    def __init__(self, at_once: int, waiting: int) -> None:
        """`at_once` answers are made side by side, up to `waiting` further ones wait for that."""
        self._limit = at_once + waiting
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="answers")
        self._running: SharedTasks[tuple[bytes, bytes], Response] = SharedTasks()

    def endpoint(self, make: Make) -> Callable[[Request], Awaitable[Response]]:
        """Return what serves a route whose answers depend on path and query alone."""

        async def serve(request: Request) -> Response:
            made = await self._make(request, make)
            # Whoever sends a response adds headers to it, and this one may go to several.
            return Response(made.body, made.status_code, dict(made.headers))

        return serve

    async def _make(self, request: Request, make: Make) -> Response:
        scope = request.scope
        # The path as it was sent: %2F stands for a slash in a name, and is one in the decoded path.
        wanted = (scope.get("raw_path") or scope["path"].encode(), scope["query_string"])
        if wanted not in self._running and len(self._running) >= self._limit:
            text = f"{self._limit} answers are being made or waited for: ask again in {_RETRY_SECONDS} s"
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, text, retry_after_seconds=_RETRY_SECONDS)
        return await self._running.result(wanted, lambda: self._run(request, make))

    async def _run(self, request: Request, make: Make) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._threads, make, request)
