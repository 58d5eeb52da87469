"""Tasks that are shared by concurrent requests for the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SharedTasks(Generic[Key, Result]):
    """The running tasks, by what they make; used from one event loop at a time."""

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Task[Result]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, wanted: Key) -> bool:
        return wanted in self._running

    async def result(self, wanted: Key, begin: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Wait for the running task, or begin one if there is none; return its result or raise its exception."""
        task = self._running.get(wanted)
        if task is None:
            task = self._running[wanted] = asyncio.create_task(begin())
            task.add_done_callback(lambda _: self._running.pop(wanted))
        # A client that disconnects must not cancel the task for the others.
        return await asyncio.shield(task)
