"""The page in a real browser: on a phone, by keyboard, with contrast, and with hostile names."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    group_row,
    impact_row,
    lag_row,
    stream_rows,
)
from exporters.page.browser import Browser
from exporters.page.live import group_names, losing, make_rebalance, make_view, put, put_finding, showing
from exporters.page.storm import storm_view
from rebalance_contract import (
    Advice,
    Alternative,
    CommitGap,
    Evidence,
    Member,
    Subject,
    SubjectMember,
    TopicLag,
    encode,
)
from rebalance_exporters.state.view import FINDINGS, REBALANCES, Row

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PHONE = {"width": 360, "height": 740}
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "team/a/rebalances/7",
    "a#b?c=d&e%2Ff",
    "\u202egpj.exe\u200f",
    "new\nline\tand\x1b[31m",
    "grüße 群组 🚀",
    "..a",
    " ",
    "x" * 240,
]


#: Whether a name becomes an element does not depend on the width, and overflow occurs on a phone first. Markup, and the
#: longest name, which needs the most room, are tested in the wide table as well.
NAMED = [
    *((name, PHONE, f"{number}-phone") for number, name in enumerate(HOSTILE)),
    (HOSTILE[0], {}, "markup-desktop"),
    (max(HOSTILE, key=len), {}, "longest-desktop"),
]


@pytest.mark.parametrize(("name", "window"), [pytest.param(*case, id=case_id) for *case, case_id in NAMED])
def test_names_are_only_text(browser: Browser, name: str, window: dict[str, int]) -> None:
    """Any name of a group, member, topic or finding is shown as text in every view."""
    member = Member(name, name, name, name, partitions={name: [0, 1]})
    snapshot = replace(PAYMENTS, cluster=name, group=name, members=(member,), protocol=name)
    rebalance = make_rebalance(
        name, name, cluster=name, reason=name, members_before=(), members_after=(member,), joined=(name,), left=()
    )
    finding = put_finding(
        cluster=name, group=name, summary=name, rule=name, rebalance_ids=(name,), evidence=(Evidence(*[name] * 4),),
        alternatives=(Alternative(name, name),), missing=(name,), advice=(Advice(name, name, name, name),),
        subject=Subject((SubjectMember(name, name, name),), (name,)),
    )  # fmt: skip
    key = f"{name}/{name}/{name}"
    view = make_view(
        *stream_rows(cluster=name),
        group_row(snapshot),
        lag_row(cluster=name, group=name, topics={name: TopicLag([0], [1], [1], 1)}),
        impact_row(name, group=name, cluster=name, silences=(CommitGap(name, 0, NOW_MS - 9_000, NOW_MS),)),
        Row(REBALANCES, key.encode(), encode(rebalance)),
        Row(FINDINGS, f"{key}/".encode(), finding.value),
    )
    encoded = quote(name, safe="!'()*~")  # as encodeURIComponent does
    shown = browser_text(name)
    with showing(browser, view, **window):
        browser.wait(lambda: browser.run("return document.querySelector('#groups a.name bdi')?.textContent") == shown)
        browser.find("#groups a.name")[0].send_keys(Keys.ENTER)
        browser.wait(lambda: browser.run("return document.querySelector('#group h1')?.textContent") == shown)
        assert browser.driver.current_url.endswith(f"/groups/{encoded}/{encoded}")
        browser.wait(lambda: browser.find(".part-rebalances td a"))
        assert_harmless(browser)
        browser.find(".part-rebalances td a")[0].send_keys(Keys.ENTER)
        browser.wait(lambda: browser.shows("#rebalance", "Before and after"))
        assert_harmless(browser)
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: not browser.run("return document.getElementById('group').hidden"))
        assert browser.complaints() == []


def browser_text(name: str) -> str:
    """A name as the page shows it: invisible characters are escaped."""
    seen = (each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in name)
    return "".join(seen)


def assert_harmless(browser: Browser) -> None:
    """No element was created from a name, and nothing is wider than the window."""
    made = "return document.querySelectorAll('img, iframe, object, body script, [onerror], a[href^=javascript]').length"
    assert browser.run(made) == 0
    assert browser.run("return document.documentElement.scrollWidth") <= browser.run("return innerWidth")


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser) -> None:
    """At 360 pixels no view is wider than the window, and numbers keep their headings."""
    view = storm_view()
    latest = view.rebalances(("prod", "payments-enricher"))[0].rebalance_id
    group = "#/groups/prod/payments-enricher"
    for address in ("#/", group, f"{group}/rebalances/{latest}"):
        with showing(browser, view, address, **PHONE):
            assert browser.run("return document.documentElement.scrollWidth") <= PHONE["width"]
            assert browser.run(TOO_WIDE) == []
            assert browser.run(HEADING_OF_A_NUMBER) not in {"none", '""', None}


def test_nothing_is_wider_than_the_window(browser: Browser) -> None:
    """From a small tablet to a wide screen the table fits, whichever columns it shows."""
    with showing(browser, storm_view()) as base:
        for width in (480, 761, 1024, 1141, 1241, 1280, 1481, 1920):
            browser.show(base, width=width)
            browser.wait_live()
            beyond = "return document.getElementById('groups').getBoundingClientRect().right - innerWidth"
            assert browser.run(beyond) <= -12, width


#: Elements that reach beyond a phone's right edge.
TOO_WIDE = """
return [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > 361 &&
  !e.closest('thead, .unseen')).map((e) => e.outerHTML.slice(0, 80));
"""
#: The label before a number in a table that is shown as cards.
HEADING_OF_A_NUMBER = """
const number = [...document.querySelectorAll('td.number')].find((e) => e.offsetParent);
return getComputedStyle(number, '::before').content;
"""


@pytest.mark.parametrize("dark", [False, True])
def test_recorded_incidents_are_readable(browser: Browser, dark: bool) -> None:
    """Every view of real incidents has no console errors, loads nothing from other servers, and has enough contrast."""
    view = storm_view()
    latest = view.rebalances(("prod", "checkout-audit"))[0].rebalance_id
    group = "#/groups/prod/checkout-audit"
    for address in ("#/", group, f"{group}/rebalances/{latest}"):
        with showing(browser, view, address, dark=dark) as base:
            assert browser.complaints() == []
            names = browser.run("return performance.getEntriesByType('resource').map(each => each.name)")
            assert names
            assert all(name.startswith(base) for name in names)
            assert browser.run(POOR_CONTRAST) == []


#: Texts with less contrast than WCAG level AA requires.
POOR_CONTRAST = """
const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b; };
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (e) => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > .99) return c.slice(0, 3); }
  return [255, 255, 255]; };
return [...document.querySelectorAll('body *')].filter((e) => e.offsetParent && !e.closest('svg') &&
  [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).map((e) => {
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
  return [(a + .05) / (b + .05), e.className + ': ' + e.textContent.slice(0, 40)]; }).filter(([ratio]) => ratio < 4.5);
"""


def test_everything_that_can_be_used_has_a_name(browser: Browser) -> None:
    """Every link, button, field and table heading has an accessible name, in every view."""
    view = make_view(group_row(), put(make_rebalance("1")), put_finding())
    group = "#/groups/prod/payments"
    for address in ("#/", group, f"{group}/rebalances/1"):
        with showing(browser, view, address):
            nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
            used = [node for node in nodes if not node["ignored"] and node["role"]["value"] in INTERACTIVE]
            assert used
            assert [node for node in used if not node.get("name", {}).get("value")] == []
            roles = {node["role"]["value"] for node in nodes if not node["ignored"]}
            assert {"banner", "main", "heading", "status", "table", "rowheader"} & roles >= {"main", "heading", "table"}


INTERACTIVE = {"link", "button", "searchbox", "combobox", "table", "columnheader", "rowheader"}


def test_the_page_works_by_keyboard(browser: Browser) -> None:
    """The first stop skips to the content, / filters, arrows move between rows, Enter opens, Escape leads back."""
    view = make_view(group_row(), group_row(group="orders"), group_row(group="orders-b"))
    with showing(browser, view):
        browser.press(Keys.TAB)
        assert browser.focused() == "skip"
        browser.press(Keys.ENTER)
        assert browser.focused() == "main"
        browser.press("/")
        assert browser.focused() == "filter"
        browser.press("order")
        browser.wait(lambda: group_names(browser) == ["orders", "orders-b"])
        assert browser.text("#matches") == "2 groups of 3 match"
        browser.find("#groups tbody a.name")[0].send_keys("")
        browser.press(Keys.ARROW_DOWN)
        assert browser.focused() == "orders-b"
        browser.press(Keys.ARROW_UP, Keys.ENTER)
        browser.wait(lambda: browser.text("#group h1") == "orders")
        assert browser.focused() == "orders"
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: group_names(browser) == ["orders", "orders-b"])


def test_the_focus_stays_where_it_is_while_rows_move(browser: Browser) -> None:
    """The focus stays on a row when it moves or is redrawn, and an opened line stays open."""
    view = make_view(*losing("a", 9), *losing("b", 30), put_finding(group="a", severity="info"))
    with showing(browser, view):
        browser.run("document.querySelectorAll('#groups a.name')[1].focus()")
        assert browser.focused() == "a"
        view.apply([*losing("a", 50), group_row(group="a", generation=9)])
        browser.wait(lambda: group_names(browser) == ["a", "b"])
        assert browser.focused() == "a"
        browser.press(Keys.ENTER)
        browser.wait(lambda: browser.find(".part-findings summary"))
        browser.run("document.querySelector('.part-findings summary').focus()")
        browser.press(Keys.ENTER)
        browser.wait(lambda: browser.find("details[open]"))
        view.apply([put_finding(group="a", severity="info", summary="it goes on")])
        browser.wait(lambda: browser.shows("details[open] summary", "it goes on"))
        assert "it goes on" in browser.focused()
