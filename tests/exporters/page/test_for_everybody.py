"""Accessibility of the page: axe-core on every view, and the Tab order."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from exporters.contract_rows import NOW_MS, group_row, silence_row
from exporters.page.axe import violations
from exporters.page.browser import Browser
from exporters.page.live import make_rebalance, make_view, put, put_finding, showing
from exporters.page.storm import storm_view
from exporters.page.test_past_view import night_view
from rebalance_contract import GroupSnapshot
from rebalance_exporters.state.view import View

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

GROUP = "#/groups/prod/checkout-audit"
HOUR = f"?from={NOW_MS - 3_600_000}&to={NOW_MS}"
LINE = "Member m3 sending LeaveGroup request to coordinator due to consumer poll timeout has expired."


@pytest.fixture(scope="module")
def storm() -> View:
    """A fleet in trouble."""
    return storm_view()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280], ids=["phone", "desktop"])
def test_axe_finds_nothing(browser: Browser, storm: View, width: int, dark: bool) -> None:
    """No view violates a rule of WCAG 2.1 AA that axe-core checks, with all collapsible parts open."""
    latest = storm.rebalances(("prod", "checkout-audit"))[0].rebalance_id
    views = ("#/", GROUP, f"{GROUP}{HOUR}", f"{GROUP}/rebalances/{latest}", f"#/past{HOUR}", f"#/why/{quote(LINE)}")
    with showing(browser, storm, width=width, dark=dark):
        found = {}
        for address in (*views, "#/groups/prod/none", "#/past"):
            browser.run("location.hash = arguments[0]", address)
            browser.wait(lambda address=address: browser.run(SHOWN) == address.split("/")[1].partition("?")[0])
            browser.wait_loaded()
            browser.wait(lambda: browser.text("main > section:not([hidden]) h1"))
            browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
            found[address] = violations(browser)
        assert {address: each for address, each in found.items() if each} == {}


#: The visible view, by the first part of its address.
SHOWN = """
const shown = document.querySelector("main > section:not([hidden])").id;
return {fleet: "", rebalance: "groups", group: "groups"}[shown] ?? shown;
"""


def test_axe_finds_nothing_in_trouble(browser: Browser) -> None:
    """The same with several clusters, a silenced group, a finding about a cluster, and without groups."""
    rows = (group_row(), group_row(GroupSnapshot("dr", "mirror")), silence_row(), put(make_rebalance("1")))
    view = make_view(*rows, put_finding(), put_finding(group=""))
    with showing(browser, view):
        assert violations(browser) == []
        browser.run("location.hash = '#/groups/prod/payments'")
        browser.wait(lambda: browser.find(".part-rebalances a"))
        assert violations(browser) == []
    with showing(browser, make_view()):
        assert violations(browser) == []


def test_tab_walks_in_the_order_of_reading(browser: Browser) -> None:
    """Every control is reached once, from top to bottom; every stop is visible and has an outline."""
    with showing(browser, night_view()):
        browser.run("document.getElementById('look-back').open = true")
        browser.wait(lambda: browser.find("#look-back input"))
        stops = []
        for _ in range(80):
            browser.press(Keys.TAB)
            stop = browser.run(STOP)
            if stop is None or (stops and stop["which"] == stops[0]["which"]):
                break
            stops.append(stop)
        names = [stop["which"] for stop in stops if stop["which"] not in {"from", "to"}]
        assert names[:5] == ["skip", "rebalance-monitor", "line", "Why?", "zone"]
        assert {"Look back", "Show", "1 h", "last night", "filter", "sort", "payments", "orders"} <= set(names)
        assert len(names) == len(set(names))
        assert all(stop["outlined"] for stop in stops), [stop for stop in stops if not stop["outlined"]]
        below = [stop["y"] for stop in stops[1:]]
        # A form may be beside the heading, but at most one line above its predecessor.
        assert all(after >= before - 60 for before, after in pairwise(below)), stops


#: The focused element: its name, its place, and whether the focus is visible.
STOP = """
const e = document.activeElement;
if (e === document.body) return null;
const style = getComputedStyle(e), box = e.getBoundingClientRect();
return {which: e.id || e.dataset.key || e.innerText.trim() || e.getAttribute("aria-label"), y: box.top + scrollY,
  outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0};
"""


def test_landmarks_and_live_regions(browser: Browser) -> None:
    """A screen reader finds banner, main and searches by name, heading levels without gaps; changes are announced."""
    with showing(browser, night_view(), "#/groups/prod/payments"):
        browser.wait(lambda: browser.find(".part-rebalances a"))
        nodes = [each for each in browser.command("Accessibility.getFullAXTree")["nodes"] if not each["ignored"]]
        roles = [each["role"]["value"] for each in nodes]
        assert [roles.count(role) for role in ("banner", "main", "contentinfo", "search")] == [1, 1, 1, 1]
        levels = browser.run(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].filter((e) => e.offsetParent)"
            ".map((e) => Number(e.tagName[1]))"
        )
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels)), levels
        live = browser.run(
            "return [...document.querySelectorAll('[role=status],[role=alert],[aria-live]')].map((e) => e.id)"
        )
        assert {"connection", "trouble", "announcement", "matches"} <= set(live)
        headers = browser.run(
            "return [...document.querySelectorAll('table')].filter((e) => e.offsetParent).map((e) =>"
            " [e.caption?.textContent, [...e.querySelectorAll('thead th')].every((th) => th.scope === 'col')])"
        )
        assert headers
        assert all(caption and scoped for caption, scoped in headers)
