"""The page's silences and deploys, in a real browser: authorised users have a form, others see the list."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporters.contract_rows import NOW_MS, SILENCE, group_row, make_view, silence_row, stream_rows
from exporters.page.axe import violations
from exporters.page.browser import Browser
from exporters.serving import hash_password, serving
from rebalance_contract import AlertSilence
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.state.view import View

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

#: Fields of the form.
WRITTEN = ("groups", "reason", "start")
LOGGED_IN = f"Basic {base64.b64encode(b'alice:secret').decode()}"


@pytest.fixture
def view() -> View:
    """Two groups, one of them silenced, and a silence that is over."""
    over = silence_row(silence_id="over", ends_at_ms=NOW_MS - 1_000, reason="<i>moved</i>", expired_by="bob")
    return make_view(*stream_rows(), group_row(), group_row(group="orders"), silence_row(), over)


@contextmanager
def showing(browser: Browser, view: View, directory: Path, address: str, *, users: bool = True) -> Iterator[None]:
    """Open an address as alice, or of an exporter without log-in, and wait for the list."""
    web = directory / "web.yml"
    web.write_text(f"basic_auth_users: {{alice: {hash_password('secret')}}}\n" if users else "")
    browser.command("Network.enable")
    browser.command("Network.setExtraHTTPHeaders", headers={"Authorization": LOGGED_IN} if users else {})
    try:
        with serving(view, web_config_file=str(web) if users else "") as served:
            browser.show(f"http://127.0.0.1:{served.port}/{address}")
            browser.wait_live()
            browser.wait(lambda: browser.text("#maintenance h1").startswith("Maintenance: "))
            yield
            assert browser.complaints() == []
            browser.driver.get("about:blank")
    finally:
        browser.command("Network.setExtraHTTPHeaders", headers={})


def known(view: View) -> dict[str, AlertSilence]:
    """The silences of the view, by their reasons."""
    return {each.reason: each for each in view.fleet().silences.by_name.values()}


def write(browser: Browser, name: str, text: str) -> None:
    """Replace the text of a field in the form."""
    (field,) = browser.find(f"#wish-{name}")
    field.clear()
    field.send_keys(text)


def choose(browser: Browser, name: str, value: str) -> None:
    """Choose from a list in the form."""
    browser.click(f"#wish-{name} option[value='{value}']")
    browser.run(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event('change'))",
        f"wish-{name}",
        value,
    )


def test_a_silence_is_made_listed_and_ended(browser: Browser, view: View, tmp_path: Path) -> None:
    """With its groups, reason and duration as typed; the list shows it until it is ended."""
    with showing(browser, view, tmp_path, "#/maintenance"):
        assert browser.text("#maintenance h1") == "Maintenance: 1 in force, 0 to come"
        assert browser.shows("#maintenance td", SILENCE.reason)
        write(browser, "groups", "orders\npay*")
        write(browser, "length", "2")
        choose(browser, "unit", "3600000")
        write(browser, "by", "bob & co")
        write(browser, "reason", "<b>upgrade</b>")
        browser.click(".wish button[type=submit]")
        made = browser.wait(lambda: known(view).get("<b>upgrade</b>"))
        assert (made.groups, made.kind, made.created_by) == (("orders", "pay*"), "silence", "alice")
        assert (made.on_behalf_of, made.ends_at_ms - made.starts_at_ms) == ("bob & co", 7_200_000)
        browser.wait(lambda: browser.text("#maintenance h1") == "Maintenance: 2 in force, 0 to come")
        assert browser.shows("#maintenance td", "bob & co (as alice)")
        browser.wait(
            lambda: browser.text("#maintenance [role=status]").endswith(": it covers 2 of the groups known now.")
        )
        browser.click(f"#maintenance [data-key='end {made.silence_id}']")
        browser.wait(lambda: browser.text("#maintenance h1") == "Maintenance: 1 in force, 0 to come")
        assert known(view)["<b>upgrade</b>"].expired_by == "alice"


def test_a_deploy_is_announced_from_a_groups_page(browser: Browser, view: View, tmp_path: Path) -> None:
    """The link fills in the group; only a deploy has a version."""
    with showing(browser, view, tmp_path, "#/maintenance?cluster=prod&group=orders"):
        assert browser.run("return document.getElementById('wish-groups').value") == "orders"
        assert not browser.find("#wish-version")[0].is_displayed()
        choose(browser, "kind", "deploy")
        assert browser.find("#wish-version")[0].is_displayed()
        write(browser, "version", "1.2")
        write(browser, "reason", "deploy 1.2")
        browser.click(".wish button[type=submit]")
        made = browser.wait(lambda: known(view).get("deploy 1.2"))
        assert (made.kind, made.version, made.groups, made.on_behalf_of) == ("deploy", "1.2", ("orders",), None)
        browser.wait(lambda: browser.shows("#maintenance td", "deploy announced 1.2"))


def test_what_is_refused_is_said_and_stays_in_the_form(browser: Browser, view: View, tmp_path: Path) -> None:
    """The input is not lost, also where a cluster appears meanwhile."""
    with showing(browser, view, tmp_path, "#/maintenance"):
        write(browser, "groups", "a*b")
        write(browser, "reason", "typo")
        browser.click(".wish button[type=submit]")
        reported = browser.wait(lambda: browser.text("#maintenance [role=alert]:not([hidden])"))
        assert "that is not at its end" in reported
        assert browser.run("return document.getElementById('wish-groups').value") == "a*b"
        assert "typo" not in known(view)
        view.apply([group_row(cluster="test", group="another")])
        browser.wait(lambda: browser.texts("#wish-cluster option") == ["prod", "test"])
        assert browser.run("return document.getElementById('wish-cluster').value") == "prod"
        assert browser.run("return document.getElementById('wish-reason').value") == "typo"
        # The browser itself logs that the request was rejected.
        assert [each for each in browser.complaints() if "400" not in each] == []


def test_another_zone_keeps_what_was_typed(browser: Browser, view: View, tmp_path: Path) -> None:
    """The start is the same time in the other zone, and a silence begins then."""
    with showing(browser, view, tmp_path, "#/maintenance"):
        browser.command("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
        write(browser, "groups", "orders")
        write(browser, "reason", "upgrade")
        browser.run("document.getElementById('wish-start').value = '2026-03-02T10:00'")
        assert "From, UTC" in browser.texts("#maintenance label")
        browser.click("#zone")
        browser.wait(lambda: "From, GMT+5:30" in browser.texts("#maintenance label"))
        values = {name: browser.run(f"return document.getElementById('wish-{name}').value") for name in WRITTEN}
        assert values == {"groups": "orders", "reason": "upgrade", "start": "2026-03-02T15:30"}
        browser.click("#zone")
        browser.wait(lambda: "From, UTC" in browser.texts("#maintenance label"))
        assert browser.run("return document.getElementById('wish-start').value") == "2026-03-02T10:00"


def test_without_users_it_is_to_be_read_only(browser: Browser, view: View, tmp_path: Path) -> None:
    """Without log-in there are no users: existing silences are shown, and what to set."""
    with showing(browser, view, tmp_path, "#/maintenance", users=False):
        assert browser.shows("#maintenance", "Read only: silences are taken only from users who log in")
        assert browser.shows("#maintenance td", SILENCE.reason)
        assert not browser.find("#maintenance form, #maintenance button")


def test_an_exporter_that_may_not_write_offers_no_form(browser: Browser, view: View, tmp_path: Path) -> None:
    """The brokers' error is shown before the user types anything."""

    def refuse(_: AlertSilence) -> None:
        raise ExporterError("the exporter may not write to silences")

    web = tmp_path / "web.yml"
    web.write_text(f"basic_auth_users: {{alice: {hash_password('secret')}}}\n")
    browser.command("Network.enable")
    browser.command("Network.setExtraHTTPHeaders", headers={"Authorization": LOGGED_IN})
    refusal = "the exporter may not write to silences"
    with serving(view, web_config_file=str(web), write_silence=refuse, silence_refusal=lambda _: refusal) as served:
        browser.show(f"http://127.0.0.1:{served.port}/#/maintenance")
        browser.wait_live()
        browser.wait(lambda: browser.shows("#maintenance", f"Read only: {refusal}."))
        assert not browser.find("#maintenance form, #maintenance button")
    browser.command("Network.setExtraHTTPHeaders", headers={})


def test_what_begins_and_ends_by_itself_is_shown_so(browser: Browser, view: View, tmp_path: Path) -> None:
    """Silences made at another exporter appear without reloading; text written by others is shown as text."""
    with showing(browser, view, tmp_path, "#/maintenance"):
        view.apply([silence_row(silence_id="later", starts_at_ms=NOW_MS + 600_000, reason="upgrade & more")])
        browser.wait(lambda: browser.text("#maintenance h1") == "Maintenance: 1 in force, 1 to come")
        assert browser.shows("#maintenance button", "Remove")
        browser.click("#maintenance summary")
        assert browser.shows("#maintenance details td", "<i>moved</i>")
        assert browser.shows("#maintenance details td", "by bob")
        assert violations(browser) == []
