"""One Chromium for all tests of the page."""

from collections.abc import Iterator

import pytest

from exporters.page.browser import Browser, starting_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A running browser; `show` makes it forget what was before."""
    with starting_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running
