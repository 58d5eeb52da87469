"""The estimated effect of settings, on the page of a group, in a real browser."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.advice.test_answers import rows_of, view_of
from exporters.advice.test_estimator import pause
from exporters.contract_rows import NOW_MS, group_row, stream_rows
from exporters.page.browser import Browser
from exporters.page.storm import storm_view
from exporters.serving import serving
from rebalance_contract import encode
from rebalance_exporters.state.view import FINDINGS, Row

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HOUR_MS = 3_600_000
SECTION = ".part-advice section"


def test_a_group_shows_what_would_have_helped(browser: Browser) -> None:
    """A row per setting with value, range and cost; and the settings that would not have helped."""
    with serving(storm_view()) as served:
        browser.show(f"http://127.0.0.1:{served.port}/#/groups/prod/orders-projection")
        browser.wait_live()
        browser.wait(lambda: browser.shows(SECTION, "max.poll.records"))
        first = browser.texts(f"{SECTION} tbody tr:first-child td")
        assert first[0] == "max.poll.records"
        assert first[2].endswith("% of what it is")
        assert int(first[3]) > 1
        assert browser.shows(SECTION, "Would have avoided none: ")
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints() == []


def test_a_finding_says_what_its_advice_would_have_avoided_and_keeps_saying_it(browser: Browser) -> None:
    """It follows the formula, and is in the proposed change at the top of the page, too.

    An updated finding arrives without it, and keeps the earlier estimate.
    """
    view, avoided = storm_view(), "#group [data-rule=poll_overrun] .advice .avoided"
    with serving(view) as served:
        browser.show(f"http://127.0.0.1:{served.port}/#/groups/prod/checkout-audit")
        browser.wait_live()
        reported = browser.wait(lambda: browser.texts(avoided))
        assert browser.text("#group .first-change").startswith("Change max.poll.interval.ms: 11000 → 60000")
        assert [each for each in reported if each.startswith("would have avoided 4 rebalances")] == reported != []
        findings = view.fleet().findings["prod", "checkout-audit"].findings
        (overrun,) = (each for each in findings if each.rule == "poll_overrun")
        anew = replace(overrun, summary="published again", updated_at_ms=overrun.updated_at_ms + 1)
        view.apply([Row(FINDINGS, b"prod/checkout-audit/poll_overrun/anew", encode(anew))])
        browser.wait(lambda: browser.shows("#group [data-rule=poll_overrun] .summary", "published again"))
        assert browser.texts(avoided) == reported
        assert browser.complaints() == []


def test_it_comes_with_what_happens_and_goes_with_the_group(browser: Browser) -> None:
    """A calm group has no table; it appears some seconds after the rebalances, and not on another group's page."""
    view = view_of(*stream_rows(), group_row(), group_row(group="audit"))
    with serving(view) as served:
        browser.show(f"http://127.0.0.1:{served.port}/#/groups/prod/payments")
        browser.wait_live()
        browser.wait(lambda: browser.shows(".part-rebalances", "None is kept"))
        assert browser.find(SECTION) == []
        view.apply(rows_of(pause(at_s=-60)))
        browser.wait(lambda: browser.shows(SECTION, "at most 2"))
        browser.run("location.hash = '#/groups/prod/audit'")
        browser.wait(lambda: browser.text("#group h1") == "audit")
        browser.wait(lambda: browser.find(SECTION) == [])
        assert browser.complaints() == []


def test_the_past_has_none(browser: Browser) -> None:
    """Advice is for the last day: on a page of the past it is neither requested nor shown."""
    group = "/groups/prod/orders-projection"
    asked = "return performance.getEntriesByType('resource').filter(({name}) => name.includes('/advice?')).length"
    with serving(storm_view()) as served:
        browser.show(f"http://127.0.0.1:{served.port}/#{group}")
        browser.wait(lambda: browser.shows(SECTION, "max.poll.records"))
        browser.run(f"location.hash = '#{group}?from={NOW_MS - HOUR_MS}&to={NOW_MS}'")
        browser.wait(lambda: browser.shows(".part-rebalances", "Rebalances") and not browser.find(SECTION))
        browser.click(".stretch a.now")
        browser.wait(lambda: browser.shows(SECTION, "max.poll.records"))
        assert browser.run(asked) == 2
