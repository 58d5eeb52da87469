"""Work that whoever asks for the same while it goes on takes part in, instead of beginning it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SharedTasks(Generic[Key, Result]):
    """What goes on, by what is wanted; used from one event loop at a time."""

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Task[Result]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, wanted: Key) -> bool:
        return wanted in self._running

    async def result(self, wanted: Key, begin: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what is wanted, or raise what its making raised; whoever asks once it has ended begins it anew."""
        task = self._running.get(wanted)
        if task is None:
            task = self._running[wanted] = asyncio.create_task(begin())
            task.add_done_callback(lambda _: self._running.pop(wanted))
        # A client that goes away must not take the result from those who wait with it.
        return await asyncio.shield(task)
