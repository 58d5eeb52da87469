"""What all tests of the exporter share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cheap_start() -> Iterator[None]:
    """An application without users starts with bcrypt's lowest cost: most tests make one, and none of it is used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rebalance_exporters.auth._DEFAULT_COST", 4)
        yield
