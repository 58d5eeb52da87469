"""A browser that tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from exporters.serving import reserving_port

if TYPE_CHECKING:
    from exporters.page.browser import Browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The one that a worker starts once."""
    # Tests without a browser are spared what drives one.
    from exporters.page.browser import starting_browser  # noqa: PLC0415

    with starting_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Iterator[Browser]:
    """A running Chromium for all tests; `show` makes it forget what was before. Between files it shows nothing."""
    yield chromium
    chromium.driver.get("about:blank")


@pytest.fixture
def port() -> Iterator[int]:
    """A port for servers of one test that come one after the other."""
    with reserving_port() as reserved:
        yield reserved
