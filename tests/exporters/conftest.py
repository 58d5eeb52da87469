"""Fixtures shared by all tests of the exporter."""

import asyncio
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


class _Hurried(ModuleType):
    """asyncio with sleeps that take a tenth of their time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@pytest.fixture(scope="session", autouse=True)
def cheap_applications() -> Iterator[None]:
    """Reduce the cost of hundreds of applications: bcrypt's cost without users, and uvicorn's pauses at shutdown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rebalance_exporters.web.auth._DEFAULT_COST", 4)
        patch.setattr("uvicorn.server.asyncio", _Hurried("asyncio"))
        yield
