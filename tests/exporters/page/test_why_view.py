"""The page's search for log messages, in a real browser: the meaning of a line, with the findings of its group."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from exporters.page.browser import Browser
from exporters.page.storm import storm_view
from exporters.serving import serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

GROUP = "payments-enricher"
LINE = f"WARNING:kafka.coordinator:Heartbeat failed for group {GROUP} because it is rebalancing"


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of a page with a storm in one group of many."""
    with serving(storm_view()) as served:
        yield f"http://127.0.0.1:{served.port}"


def ask(browser: Browser, base: str, text: str) -> None:
    """Open the view of a text and wait for the answer."""
    browser.show(f"{base}/#/why/{quote(text, safe='')}")
    browser.wait_live()
    browser.wait(lambda: (heading := browser.text("#why h1")) and not heading.startswith("Looking"))


def test_a_line_is_typed_and_explained(browser: Browser, base: str) -> None:
    """From any view; the address can be shared, and the findings of the group come first."""
    browser.show(f"{base}/#/")
    browser.wait_live()
    browser.run("document.getElementById('line').focus()")
    browser.press(*LINE, Keys.ENTER)
    browser.wait(lambda: browser.text("#why h1") == "The group is rebalancing, and this member joins again")
    assert browser.run("return location.hash") == f"#/why/{quote(LINE, safe='')}"
    assert browser.shows("#why .notices li", f"{GROUP} in prod now:")
    first = browser.texts("#why details[open] .finding li")[0]
    assert first.startswith("crash loop [found now]: ")
    assert "group_instance_id" in browser.texts("#why .advice code")
    assert browser.shows("#why details[open]", "kafka-python 1.1.0 to 3.0.2")
    assert not browser.complaints()


def test_the_groups_link_leads_to_the_group(browser: Browser, base: str) -> None:
    """One click from a line to the timeline."""
    ask(browser, base, LINE)
    browser.run("document.querySelector('#why .notices a').click()")
    browser.wait(lambda: browser.shows("#group h1", GROUP))


def test_a_piece_and_what_is_not_known_get_no_verdict(browser: Browser, base: str) -> None:
    """All messages with the fragment, collapsed; no match is invented."""
    ask(browser, base, "heartbeat failed")
    assert browser.text("#why h1").startswith("Part of several messages")
    assert len(browser.find("#why details")) > 2
    assert not browser.find("#why details[open]")
    ask(browser, base, "connection refused")
    assert browser.text("#why h1") == "Not known: no message about consumer groups has this text"
    assert not browser.find("#why details, #why .notices")


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "a/b?c=d#e%2F", "\u202egpj.exe", "'\"><script>"])
def test_a_hostile_line_stays_text(browser: Browser, base: str, text: str) -> None:
    """From a log, or from a link to this page."""
    ask(browser, base, text)
    assert browser.run("return document.querySelectorAll('#why img, #why script').length") == 0
    assert browser.texts("#why .asked") == [text.replace("\u202e", "\\u{202e}")]
    assert not browser.complaints()


def test_a_line_that_is_too_long_is_asked_in_part(browser: Browser, base: str) -> None:
    """A pasted file is not rejected."""
    ask(browser, base, LINE + " x" * 4_000)
    assert browser.text("#why h1") == "The group is rebalancing, and this member joins again"


@pytest.mark.parametrize("between", ["\n", " "], ids=["lines", "a text field"])
def test_the_cause_at_the_end_of_a_stack_trace_is_asked(browser: Browser, base: str, between: str) -> None:
    """Its frames are not sent: they exceed the limit of the API, and have no meaning."""
    frame = "\tat org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.run(K.java:1313)"
    packed = f"{frame} ~[spring-kafka-3.1.2.jar!/:3.1.2]"
    cause = (
        "Caused by: org.apache.kafka.common.errors.FencedInstanceIdException: The broker rejected this static consumer"
    )
    lines = ["ERROR Stopping (groupId=x)", "a.b.C: failed", *[frame] * 40, *[packed] * 40, cause, "\t... 40 more"]
    ask(browser, base, between.join(lines))
    assert browser.text("#why h1") == "Another process uses the same group.instance.id"


def test_what_is_harmless_has_no_causes(browser: Browser, base: str) -> None:
    """An empty list has no heading."""
    ask(browser, base, "MemberIdRequiredException")
    assert browser.shows("#why details[open]", "harmless")
    assert "May be" not in browser.texts("#why details[open] h2")


def test_it_fits_a_phone(browser: Browser, base: str) -> None:
    """Nothing is wider than the screen."""
    browser.show(f"{base}/#/why/{quote(LINE, safe='')}", width=360, height=740)
    browser.wait(lambda: browser.shows("#why h1", "The group is rebalancing"))
    assert browser.run("return document.documentElement.scrollWidth") <= 360
