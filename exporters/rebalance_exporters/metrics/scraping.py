"""Concurrent requests for /metrics share one rendering and one compression."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rebalance_exporters.metrics.formats import Style, compress
from rebalance_exporters.shared_tasks import SharedTasks

Rendering = tuple[Style, bool]


class SharedScrapes:
    """Used from one event loop. A request during a rendering gets its result, which is at most a moment old."""

    def __init__(self, render: Callable[[Style], bytes]) -> None:
        self._render = render
        self._running: SharedTasks[Rendering, bytes] = SharedTasks()

    async def body(self, style: Style, *, gzip: bool) -> bytes:
        """Return the exposition in a format, compressed if asked for."""
        return await self._running.result((style, gzip), lambda: self._make(style, gzip=gzip))

    async def _make(self, style: Style, *, gzip: bool) -> bytes:
        if gzip:
            return await asyncio.to_thread(compress, await self.body(style, gzip=False))
        return await asyncio.to_thread(self._render, style)
