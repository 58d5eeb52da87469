"""The browser shared by tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from exporters.serving import reserving_port

if TYPE_CHECKING:
    from exporters.page.browser import Browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The Chromium of a worker, started once."""
    # Tests without a browser do not import Selenium.
    from exporters.page.browser import starting_browser  # noqa: PLC0415

    with starting_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Iterator[Browser]:
    """A running Chromium for all tests; `show` resets it. Between files it shows an empty page."""
    yield chromium
    chromium.driver.get("about:blank")


@pytest.fixture
def port() -> Iterator[int]:
    """A port for servers of one test that run one after the other."""
    with reserving_port() as reserved:
        yield reserved
