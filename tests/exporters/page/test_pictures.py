"""The documentation's screenshots of page and report are up to date."""

from __future__ import annotations

import json

import pytest

from exporters.page.browser import Browser
from exporters.page.pictures import TEXTS, read_texts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_pictures_show_what_the_page_says_today(browser: Browser) -> None:
    """Word for word: if it fails, take them again with `make pictures`, and check them."""
    assert read_texts(browser) == json.loads(TEXTS.read_text())
