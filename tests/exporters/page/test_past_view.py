"""Looking back at an incident, and at one of several clusters, in a real browser."""

from __future__ import annotations

from dataclasses import replace

import pytest
from selenium.webdriver.common.keys import Keys

from exporters.contract_rows import NOW_MS, PAYMENTS, group_row
from exporters.page.browser import Browser
from exporters.page.live import group_names, make_rebalance, make_view, put, put_finding, showing
from rebalance_contract import GroupSnapshot
from rebalance_exporters.state.view import View

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HOUR_MS = 3_600_000
NIGHT_MS = NOW_MS - 12 * HOUR_MS
STRETCH = f"?from={NIGHT_MS - HOUR_MS}&to={NIGHT_MS + HOUR_MS}"


def night_view() -> View:
    """A group that rebalanced a minute ago and twelve hours ago, with a finding each, and one that did just now."""
    then = {"started_before_ms": NIGHT_MS, "started_after_ms": NIGHT_MS, "join_ended_at_ms": None}
    old = make_rebalance("then", **then, completed_at_ms=NIGHT_MS + 9_000)
    resolved = put_finding(
        finding_id="old",
        rule="crash_loop",
        state="resolved",
        started_at_ms=NIGHT_MS,
        resolved_at_ms=NIGHT_MS + 60_000,
        rebalance_ids=("then",),
        summary="It died of the night",
    )
    other = make_rebalance("other", group="orders")
    return make_view(
        group_row(),
        group_row(group="orders"),
        put(make_rebalance("now")),
        put(old),
        put(other),
        put_finding(),
        resolved,
    )


def test_a_group_as_it_was(browser: Browser) -> None:
    """A link with a period shows its rebalances and findings, and nothing current."""
    with showing(browser, night_view(), f"#/groups/prod/payments{STRETCH}"):
        browser.wait(lambda: browser.shows(".part-rebalances", "Rebalances"))
        assert browser.text("#group .lead") == "As it was: 2026-09-21 01:13 to 03:13 UTC."
        links = browser.run("return [...document.querySelectorAll('.part-rebalances tbody a')].map(({href}) => href)")
        assert [str(link).rpartition("/")[2] for link in links] == ["then"]
        assert browser.texts(".part-findings .summary") == ["It died of the night"]
        assert browser.text(".part-facts") == browser.text(".part-members") == ""
        browser.click(".stretch a.now")
        browser.wait(lambda: browser.shows(".part-facts", "Coordinator"))
        browser.wait(lambda: len(browser.find(".part-rebalances tbody tr")) == 2)


FILL_AND_SUBMIT = """
const [from, to] = document.querySelectorAll("#look-back input");
[from.value, to.value] = arguments;
document.querySelector("#look-back button[type=submit]").click();
"""


def test_the_fleet_of_a_night(browser: Browser) -> None:
    """From all groups to last night's, then to one group: by the form's two fields and by a link."""
    with showing(browser, night_view()):
        browser.click("#look-back summary")
        # All at once: the page redraws the form a moment after it was opened.
        browser.run(FILL_AND_SUBMIT, "2026-09-21T01:00", "2026-09-21T03:00")
        browser.wait(lambda: browser.shows("#past h1", "2026-09-21 01:00 to 03:00 UTC"))
        browser.wait(lambda: browser.texts("#past a.name") == ["payments"])
        assert browser.text("#past .lead").startswith("1 group rebalanced, 1 time")
        assert browser.focused() == "2026-09-21 01:00 to 03:00 UTC"
        browser.run("document.querySelector('#past a.name').focus()")
        browser.press(Keys.ENTER)
        browser.wait(lambda: browser.shows("#group .lead", "As it was: 2026-09-21 01:00 to 03:00 UTC."))
        browser.click(".crumbs a")
        browser.wait(lambda: browser.texts("#past a.name") == ["payments"])
        before = "[...document.querySelectorAll('#past .stretch a')].find(({innerText}) => innerText === '← before')"
        browser.run(f"{before}.click()")
        browser.wait(lambda: browser.shows("#past h1", "2026-09-20 23:00 to 2026-09-21 01:00 UTC"))
        browser.wait(lambda: browser.shows("#past .lead", "0 groups rebalanced"))
        # A new connection loads everything, and the form is made anew: whoever stands in a field stays there.
        browser.run("window.old = document.querySelector('#past [data-key=to]'); old.focus()")
        browser.run("dispatchEvent(new Event('online'))")
        browser.wait(lambda: browser.run("return !old.isConnected"))
        assert browser.run("return document.activeElement.dataset.key") == "to"


def test_a_stretch_that_ends_before_it_begins_is_not_taken(browser: Browser) -> None:
    """The form shows an error and stays; a link with such a period opens the form."""
    with showing(browser, night_view(), "#/past?from=9&to=3"):
        browser.wait(lambda: browser.shows("#past h1", "Choose a stretch of time"))
        start, end = browser.find("#past input")
        browser.run("arguments[0].value = '2026-09-21T03:00'; arguments[1].value = '2026-09-21T01:00'", start, end)
        browser.click("#past button[type=submit]")
        assert browser.run("return arguments[0].validationMessage", end) == "It must be later than the time before it."
        assert browser.text("#past h1") == "Choose a stretch of time"


def test_what_happens_now_is_not_written_into_the_past(browser: Browser) -> None:
    """On a page of last night, current events change neither the list nor a field that is being edited."""
    view = night_view()
    with showing(browser, view, f"#/groups/prod/payments{STRETCH}"):
        browser.wait(lambda: browser.find(".part-rebalances tbody tr"))
        browser.run("document.querySelector('.stretch input').value = '2026-01-01T00:00'")
        view.apply([put(make_rebalance("newer")), group_row(replace(PAYMENTS, generation=99))])
        browser.run("location.hash = '#/'")
        browser.wait(lambda: browser.find("#groups tbody tr"))
        browser.driver.back()
        # The hidden view still has its former rows.
        browser.wait(lambda: not browser.run("return document.getElementById('group').hidden"))
        browser.wait_loaded()
        assert len(browser.find(".part-rebalances tbody tr")) == 1


def test_clusters_can_be_distinguished(browser: Browser) -> None:
    """With several clusters there is a choice, which is part of the address; with one there is none."""
    with showing(browser, make_view(group_row())):
        assert not browser.find("#cluster")[0].is_displayed()
    both = make_view(group_row(), group_row(replace(GroupSnapshot("dr", "mirror"), state="Stable")))
    with showing(browser, both) as base:
        assert group_names(browser) == ["payments", "mirror"] or set(group_names(browser)) == {"payments", "mirror"}
        choices = [each.text for each in browser.find("#cluster option")]
        assert choices == ["all", "dr", "prod"]
        browser.find("#cluster option")[1].click()
        browser.wait(lambda: group_names(browser) == ["mirror"])
        assert browser.driver.current_url == f"{base}#/?cluster=dr"
        assert "1 group" in browser.text("#verdict")
        browser.driver.refresh()
        browser.wait(lambda: group_names(browser) == ["mirror"])
        browser.driver.back()


def test_reasons_have_the_colours_of_the_dashboards(browser: Browser) -> None:
    """Each reason has its colour on the timeline and in the table, and another one in the dark theme."""
    for dark, red in ((False, "rgb(224, 47, 68)"), (True, "rgb(242, 73, 92)")):
        with showing(browser, make_view(group_row(), put(make_rebalance("1"))), "#/groups/prod/payments", dark=dark):
            browser.wait(lambda: browser.find(".timeline .mark-shape"))
            colour = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
            assert browser.run(colour, ".timeline .mark-shape", "stroke") == red
            assert browser.run(colour, ".part-rebalances .reason", "borderInlineStartColor") == red
            assert browser.run(colour, ".keys .key", "backgroundColor") == red
