"""Responses that cost processor time: few are made at a time, and equal concurrent requests share one.

Receives functions that make a response; returns a response for each request. Health pages and scrapes run elsewhere, so
that any number of these requests leaves them unaffected.
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

#: When a refused request may be repeated: the waiting responses take about as long.
_RETRY_SECONDS = 5


class SharedAnswers:
    """Used from one event loop at a time; makes its responses in threads of its own."""

    def __init__(self, at_once: int, waiting: int) -> None:
        """`at_once` responses are made concurrently; up to `waiting` further ones may wait."""
        self._limit = at_once + waiting
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="answers")
        self._running: SharedTasks[tuple[bytes, bytes], Response] = SharedTasks()

    def endpoint(self, make: Make) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a route whose responses depend on path and query alone."""

        async def serve(request: Request) -> Response:
            made = await self._make(request, make)
            # A copy: sending adds headers to a response, and this one may be sent to several clients.
            return Response(made.body, made.status_code, dict(made.headers))

        return serve

    async def _make(self, request: Request, make: Make) -> Response:
        scope = request.scope
        # The path as sent: after decoding, a %2F in a name could not be told from a slash of the path.
        wanted = (scope.get("raw_path") or scope["path"].encode(), scope["query_string"])
        if wanted not in self._running and len(self._running) >= self._limit:
            text = f"{self._limit} answers are being made or waited for: ask again in {_RETRY_SECONDS} s"
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, text, retry_after_seconds=_RETRY_SECONDS)
        return await self._running.result(wanted, lambda: self._run(request, make))

    async def _run(self, request: Request, make: Make) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._threads, make, request)
