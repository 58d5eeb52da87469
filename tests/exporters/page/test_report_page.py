"""The report's page in a real browser: it is self-contained, fits, and prints."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.page.browser import Browser
from exporters.terminal.clusters import HOSTILE, WEEKLY
from rebalance_contract.api_reports import PeriodReport
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.period_html import write_html

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

LONG = "x" * 240


def show(browser: Browser, folder: Path, report: PeriodReport = WEEKLY, **window: int | bool) -> None:
    """Open the page of a report."""
    page = folder / "report.html"
    page.write_text(write_html(report, Clock(), Access("report", "https://monitor.example")), encoding="utf-8")
    browser.show(page.as_uri(), **window)


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    """With any names the page is no wider than the window, and the browser logs no errors."""
    groups = tuple(replace(each, group=LONG, owner=LONG) for each in WEEKLY.groups)
    for report in (WEEKLY, replace(WEEKLY, groups=groups, changed=groups)):
        show(browser, tmp_path, report, width=width, height=720, dark=dark)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(16, 20, 27)") == dark


def test_the_first_screen_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    """At 1280 x 720: the cost, the advised settings, the times, and the changes."""
    show(browser, tmp_path, width=1280, height=720)
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    assert [each for each in (".tiles", ".pair") if browser.run(bottom, each) > 720] == []
    assert browser.texts(".settings code") == ["session.timeout.ms: 30000", "max.poll.records", "metadata_max_age_ms"]
    heights = browser.run("return [...document.querySelectorAll('.value')].map(e => e.getBoundingClientRect().height)")
    assert len(heights) == 28
    assert max(heights) > 50


def test_names_of_strangers_run_nothing(browser: Browser, tmp_path: Path) -> None:
    """They are text, in the page and in the addresses of links."""
    group = replace(WEEKLY.groups[0], group=f'"><img src=x onerror=document.title="owned">{HOSTILE}', cluster="a/b#c")
    show(browser, tmp_path, replace(WEEKLY, groups=(group,)))
    assert "owned" not in browser.run("return document.title")
    assert browser.find("img") == []
    links = browser.run("return [...document.links].map(e => e.getAttribute('href'))")
    assert [each for each in links if each.startswith("https://monitor.example/#/groups/a%2Fb%23c/%22%3E%3Cimg")]
    assert {each.partition("#/groups/")[0] for each in links} == {"https://monitor.example/"}


def test_a_week_is_one_sheet(browser: Browser, tmp_path: Path) -> None:
    """With lists of maximum length."""
    report = replace(
        WEEKLY,
        groups=(WEEKLY.groups[0],) * 10,
        changed=(WEEKLY.groups[0],) * 6,
        causes=(WEEKLY.causes[0],) * 8,
        settings=(WEEKLY.settings[0],) * 5,
        worth=(WEEKLY.worth[1],) * 5,
        rebalanced_groups=12,
    )
    show(browser, tmp_path, report)
    sheets = browser.command("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(sheets))) == 1
