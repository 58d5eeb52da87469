"""A browser that is shared by a module's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporters.page.browser import Browser, starting_browser
from exporters.serving import reserving_port


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running Chromium for all tests; `show` makes it forget what was before."""
    with starting_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def port() -> Iterator[int]:
    """A port for servers of one test that come one after the other."""
    with reserving_port() as reserved:
        yield reserved
