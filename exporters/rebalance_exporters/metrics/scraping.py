"""Concurrent requests for /metrics share one rendering and one compression."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rebalance_exporters.metrics.formats import Style, compress
from rebalance_exporters.shared_tasks import SharedTasks

Rendering = tuple[Style, bool]

#: One body may be compressed while the other format is rendered.
_AT_ONCE = 2


class SharedScrapes:
    """Used from one event loop. A request during a rendering gets its result, which is at most a moment old.

    Renders in threads of its own: those of the event loop may be filled by followers of events.
    """

    def __init__(self, render: Callable[[Style], bytes]) -> None:
        self._render = render
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scrapes")
        self._running: SharedTasks[Rendering, bytes] = SharedTasks()

    async def body(self, style: Style, *, gzip: bool) -> bytes:
        """Return the exposition in a format, compressed if asked for."""
        return await self._running.result((style, gzip), lambda: self._make(style, gzip=gzip))

    async def _make(self, style: Style, *, gzip: bool) -> bytes:
        loop = asyncio.get_running_loop()
        if gzip:
            return await loop.run_in_executor(self._threads, compress, await self.body(style, gzip=False))
        return await loop.run_in_executor(self._threads, self._render, style)
