"""The page in a real browser, against the real application: what a person sees, and what stays live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    WINDOWS,
    group_row,
    impact_row,
    lag_row,
    probed_lag_row,
    query_row,
    rebalance_row,
    silence_row,
    stream_rows,
)
from exporters.page.browser import Browser, starting_browser
from exporters.page.storm import storm_view
from exporters.serving import reserving_port, serving
from exporters.test_overview import FINDING
from rebalance_contract import (
    Advice,
    Alternative,
    Evidence,
    Finding,
    Generation,
    GroupSnapshot,
    Member,
    Moves,
    Rebalance,
    RebalanceImpact,
    Silence,
    Subject,
    SubjectMember,
    TopicLag,
    decode,
    encode,
)
from rebalance_exporters import stream_events
from rebalance_exporters.rebalance_text import tell_rebalance
from rebalance_exporters.terminal.words import why
from rebalance_exporters.view import FINDINGS, GROUPS, REBALANCES, Row, View

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


@contextmanager
def showing(browser: Browser, view: View, address: str = "#/", **window: int | bool) -> Iterator[str]:
    """Open the page on a view and wait until it is live; hands out the server's address."""
    with serving(view) as served:
        base = f"http://127.0.0.1:{served.port}/"
        browser.show(f"{base}{address}", **window)
        browser.wait_live()
        browser.wait(lambda: "Loading" not in browser.text("main"))
        yield base
        browser.driver.get("about:blank")


def make_view(*rows: Row) -> View:
    """A view of a stream that is well."""
    view = View(group_expiry_seconds=3600, keep_rebalances=1_000)
    view.apply([*stream_rows(), *rows])
    return view


def make_rebalance(rebalance_id: str, group: str = "payments", **changes: object) -> Rebalance:
    """A rebalance in which one of PAYMENTS' members left and another one took over."""
    value = rebalance_row(rebalance_id, group=group).value
    assert value is not None
    before, left = PAYMENTS.members[0], Member("c-9", "c-gone", "/10.0.0.9", partitions={"orders": [2]})
    after = PAYMENTS.members[:2]
    made = replace(
        decode(value, Rebalance),
        reason="departure",
        generations=(Generation(7, "departure", assigned_at_ms=NOW_MS - 60_000),),
        members_before=(before, left),
        members_after=after,
        joined=("c-2",),
        left=("c-9",),
        started_before_ms=NOW_MS - 65_000,
        completed_at_ms=NOW_MS - 60_000,
        join_ended_at_ms=NOW_MS - 62_000,
        sync_ms=2_000,
        duration_min_ms=5_000,
        duration_max_ms=5_000,
        moves=Moves({"orders": [2]}, kept=3),
    )
    return replace(made, **changes)


def put(rebalance: Rebalance) -> Row:
    """A rebalance under its key."""
    key = f"{rebalance.cluster}/{rebalance.group}/{rebalance.rebalance_id}"
    return Row(REBALANCES, key.encode(), encode(rebalance))


def put_finding(**changes: object) -> Row:
    """A finding with all that one can have, under its key."""
    full = replace(
        FINDING,
        rebalances=1,
        rebalance_ids=("1",),
        subject=Subject((SubjectMember("c-9", "c-gone", "/10.0.0.9"),)),
        evidence=(Evidence("log", "members", "4 departures", "lost, not leaving"),),
        alternatives=(Alternative("rolling_deploy", "no new host"),),
        missing=("no client metrics from 10.0.0.9",),
        advice=(Advice("session.timeout.ms", "10 s", "45 s", "3 x the longest pause"),),
    )
    finding: Finding = replace(full, **changes)
    return Row(FINDINGS, f"prod/{finding.group}/{finding.rule}/".encode(), encode(finding))


def losing(group: str, seconds: int) -> list[Row]:
    """A group that lost some time in the last minutes."""
    windows = {name: replace(window, lost_partition_ms=seconds * 1_000) for name, window in WINDOWS.items()}
    return [group_row(group=group), lag_row(group=group, windows=windows)]


def group_names(browser: Browser) -> list[str]:
    """The names in the table, from above."""
    return browser.texts("#groups tbody a.name")


def test_the_group_that_lost_most_time_is_first(browser: Browser) -> None:
    """Rows are in the order of time lost, and can be put in another one by button and by list."""
    view = make_view(*losing("calm", 0), *losing("bad", 9), *losing("worst", 30), *losing("ill", 20))
    with showing(browser, view):
        assert group_names(browser) == ["worst", "ill", "bad", "calm"]
        assert browser.text("#groups [aria-sort='descending']").startswith("Lost")
        browser.click("#groups thead button")
        assert group_names(browser) == ["bad", "calm", "ill", "worst"]
        assert browser.text("#groups [aria-sort='ascending']") == "Group"
        browser.run("const s = document.getElementById('sort'); s.value = 'lost'; s.dispatchEvent(new Event('change'))")
        assert group_names(browser)[0] == "worst"


def test_the_table_is_live(browser: Browser) -> None:
    """What the stream writes is seen without reloading: states, new groups, groups that go, findings, the verdict."""
    view = make_view(group_row(), group_row(group="b"))
    with showing(browser, view):
        assert browser.text("#verdict") == "None of 2 groups has a finding to act on; none rebalancing now."
        view.apply([group_row(state="PreparingRebalance", rebalancing_since_ms=NOW_MS - 4_000), put_finding()])
        browser.wait(lambda: browser.shows("#verdict", "1 of 2 groups has a finding to act on; 1 rebalancing now."))
        browser.wait(lambda: browser.shows("#groups .unsettled", "PreparingRebalance 4 s"))
        assert browser.shows("#groups .badge", "ticket")
        assert browser.shows("#groups .finding-cell", "crash loop")
        view.apply([group_row(group="c"), Row(GROUPS, b"prod/b", None)])
        browser.wait(lambda: sorted(group_names(browser)) == ["c", "payments"])
        view.apply([Row(FINDINGS, b"prod/payments/crash_loop/", None), group_row()])
        browser.wait(lambda: browser.shows("#verdict", "None of 2 groups"))


def test_the_whole_cluster_has_a_line_of_its_own(browser: Browser) -> None:
    """A finding about a cluster stands above the table for as long as it fires."""
    view = make_view(group_row(), put_finding(group="", rule="fleet_storm", severity="page", summary="5 groups storm"))
    with showing(browser, view):
        assert browser.texts("#cluster-findings li") == ["▲ page cluster prod: fleet storm: 5 groups storm"]
        view.apply([Row(FINDINGS, b"prod//fleet_storm/", None)])
        browser.wait(lambda: not browser.find("#cluster-findings li"))


def test_a_group_is_explained_and_stays_live(browser: Browser) -> None:
    """Findings come with evidence, alternatives, what is missing and advice; timeline and tables follow the events."""
    view = make_view(group_row())
    with showing(browser, view, "#/groups/prod/payments"):
        assert browser.text("#group h1") == "payments"
        assert browser.shows(".part-rebalances", "None is kept")
        view.apply([put(make_rebalance("1")), put_finding()])
        browser.wait(lambda: browser.shows(".finding", "crash loop"))
        said = browser.find("#announcement")[0]
        browser.wait(lambda: said.get_attribute("textContent") == "Finding, firing, ticket: crash loop")
        told = browser.text(".finding")
        for part in (
            "c-1 comes and goes",
            "90% sure",
            "members 4 departures",
            "lost, not leaving",
            "rolling deploy: no new host",
            "no client metrics from 10.0.0.9",
            "session.timeout.ms: 10 s → 45 s",
            "from: 3 x the longest pause",
            "c-gone@10.0.0.9",
        ):
            assert part in told
        browser.wait(lambda: len(browser.find(".timeline .mark-link.grave")) == 1)
        assert browser.texts(".timeline .lane-name") == ["c-gone@10.0.0.9", "c@10.0.0.1", "c@10.0.0.2"]
        assert "orders:2" in " ".join(browser.texts(".timeline .owned-text"))
        assert browser.shows(".part-rebalances td", "departure (left: c-gone@10.0.0.9; joined: c@10.0.0.2)")
        view.apply(
            [put(make_rebalance("2", started_before_ms=NOW_MS - 20_000, completed_at_ms=None, outcome="ongoing"))]
        )
        browser.wait(lambda: len(browser.find(".part-rebalances tbody tr")) == 2)
        view.apply([group_row(generation=8, members=PAYMENTS.members[:1])])
        browser.wait(lambda: len(browser.find(".part-members tbody tr")) == 1)
        assert browser.complaints() == []


def test_a_silenced_group_is_marked_and_keeps_its_findings(browser: Browser) -> None:
    """In the table, which asks nobody to act on it, and on its page, which says until when, who and why; live."""
    view = make_view(group_row(), put_finding())
    with showing(browser, view):
        assert browser.text("#verdict").startswith("1 of 1 group has a finding")
        view.apply([silence_row()])
        browser.wait(lambda: browser.shows("#groups .finding-cell", "silenced: "))
        assert browser.shows("#groups .finding-cell", "crash loop")
        assert browser.text("#verdict") == "None of 1 group has a finding to act on; none rebalancing now."
    deploy = silence_row(kind="deploy", reason="<b>1.2</b>", created_by="ci & co")
    view.apply([deploy, put(make_rebalance("1", started_before_ms=NOW_MS - 50_000, completed_at_ms=NOW_MS - 40_000))])
    with showing(browser, view, "#/groups/prod/payments"):
        told = browser.text(".silence")
        assert told == "deploy announced until 2026-09-21 15:12:20 UTC by ci & co: <b>1.2</b>"
        assert browser.shows(".finding", "crash loop")
        assert browser.shows(".part-rebalances td", "during an announced deploy: <b>1.2</b> by ci & co")
        view.apply([silence_row(ends_at_ms=NOW_MS, expired_by="alice")])
        browser.wait(lambda: not browser.find(".silence"))
        assert browser.complaints() == []


@pytest.mark.parametrize(
    ("slope", "shown"),
    [
        (None, "1000"),
        (-0.04, "1000"),
        (-0.34, "1000 (\N{MINUS SIGN}0.3/s)"),
        (2.0, "1000 (+2/s)"),
        (1_234.5, "1000 (+1235/s)"),
    ],
)
def test_growth_of_lag_is_shown_where_there_is_any(browser: Browser, slope: float | None, shown: str) -> None:
    """A growth that would round to nothing has no sign either."""
    windows = {**WINDOWS, "5m": replace(WINDOWS["5m"], lag_slope=slope)}
    with showing(browser, make_view(group_row(), probed_lag_row(windows=windows)), "#/groups/prod/payments"):
        browser.wait(lambda: f"Lag\n{shown}" in browser.texts(".facts > *"))


def test_a_rebalance_is_explained(browser: Browser) -> None:
    """Its address, as alerts link to it, shows phases, who had what before and after, and the cause."""
    view = make_view(group_row(), put(make_rebalance("1")), put(make_rebalance("2", started_before_ms=NOW_MS)))
    view.apply([put_finding()])
    with showing(browser, view, "#/groups/prod/payments/rebalances/1"):
        assert browser.text("#rebalance h1") == "Rebalance of 2026-09-21 14:12:20 UTC"
        assert browser.text("#rebalance .lead") == "◆ ticket c-1 comes and goes"
        assert browser.texts("#rebalance [aria-label=Phases] tbody tr") == [
            "join: until all members were there at least 3 s 14:12:18",
            "sync: the leader assigns the partitions 2 s 14:12:20",
        ]
        assert browser.texts("#rebalance [aria-label='Before and after'] tbody tr") == [
            "c-gone@10.0.0.9 1 → gone none \u22121 orders:2 none",
            "c@10.0.0.1 3 → 3 none none orders:0-1 refunds:0",
            "c@10.0.0.2 joined → 1 +1 orders:2 none none",
        ]
        assert browser.shows("#rebalance .facts", "1 changed owner, 3 stayed")
        browser.click("#rebalance nav a")
        browser.wait(
            lambda: browser.shows("#rebalance .lead", "No finding") or browser.shows("#rebalance .lead", "Not judged")
        )
        assert browser.driver.current_url.endswith("/rebalances/2")
        assert browser.complaints() == []


def test_a_rebalance_is_told_in_the_same_words_as_in_the_terminal(browser: Browser) -> None:
    """What both say of one rebalance is written once; the page draws the arrows only."""
    rebalance = make_rebalance("1", left=("c-9", "c-10"), moves=None, generation_from=3)
    impact = replace(decode(impact_row("1").value or b"", RebalanceImpact), lag_before=3, lag_peak=40)
    text = tell_rebalance(rebalance, impact)
    view = make_view(group_row(), put(rebalance), impact_row("1", lag_before=3, lag_peak=40))
    with showing(browser, view, "#/groups/prod/payments/rebalances/1"):
        said = {"Why": why(text), "Took": text.took, "Partitions": text.partitions, "Lag": text.lag}
        said |= {"Members": text.members, "Without commits": text.without_commits, "Generation": text.generations}
        shown = {label: words for label, _, words in (each.partition("\n") for each in browser.texts(".facts > *"))}
        assert {label: shown[label].replace("\N{RIGHTWARDS ARROW}", "->") for label in said} == said
        phases = [each.rpartition(" ")[0] for each in browser.texts("#rebalance [aria-label=Phases] tbody tr")]
        assert phases == [f"{each.what} {each.took}" for each in text.phases]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("#/groups/prod/paymens", "no group 'paymens' in cluster 'prod'. Did you mean payments?"),
        ("#/groups/prod/payments/rebalances/77", "no rebalance '77' of group 'payments' is kept."),
    ],
)
def test_what_does_not_exist_is_said(browser: Browser, address: str, text: str) -> None:
    """A wrong link says what is wrong and what may have been meant, and the page stays usable."""
    with showing(browser, make_view(group_row()), address):
        browser.wait(lambda: browser.shows("main .trouble", text))
        browser.click("main > section:not([hidden]) .crumbs a")
        browser.wait(lambda: group_names(browser) == ["payments"])


def test_rebalances_like_the_one_of_a_wrong_link_are_named(browser: Browser) -> None:
    """What may have been meant by the id of a rebalance leads to that rebalance."""
    view = make_view(group_row(), put(make_rebalance("4711")))
    with showing(browser, view, "#/groups/prod/payments/rebalances/4710"):
        browser.wait(lambda: browser.shows("main .trouble", "Did you mean 4711?"))
        browser.click("main .trouble a")
        browser.wait(lambda: browser.shows("#rebalance h1", "Rebalance of"))


def test_a_broken_address_leads_to_all_groups(browser: Browser) -> None:
    """What is no address of the page, or is badly encoded, shows the table."""
    with showing(browser, make_view(group_row()), "#/groups/prod/%E0%A4%A") as base:
        assert group_names(browser) == ["payments"]
        browser.driver.get(f"{base}#/nothing/like/it")
        browser.wait(lambda: browser.driver.current_url.endswith("#/"))


@pytest.mark.parametrize("window", [PHONE, {}], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_only_text(browser: Browser, name: str, window: dict[str, int]) -> None:
    """Whatever a group, member, topic or finding is called, every view shows it as text and nothing comes of it."""
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
        impact_row(name, group=name, cluster=name, silences=(Silence(name, 0, NOW_MS - 9_000, NOW_MS),)),
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
    """A name as the page shows it: what cannot be seen is written out."""
    seen = (each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in name)
    return "".join(seen)


def assert_harmless(browser: Browser) -> None:
    """No element came of a name, and nothing is wider than the window."""
    made = "return document.querySelectorAll('img, iframe, object, body script, [onerror], a[href^=javascript]').length"
    assert browser.run(made) == 0
    assert browser.run("return document.documentElement.scrollWidth") <= browser.run("return innerWidth")


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser) -> None:
    """At 360 pixels no view is wider than the window, and numbers keep their headings beside them."""
    view = storm_view()
    latest = view.rebalances(("prod", "payments-enricher"))[0].rebalance_id
    group = "#/groups/prod/payments-enricher"
    for address in ("#/", group, f"{group}/rebalances/{latest}"):
        with showing(browser, view, address, **PHONE):
            assert browser.run("return document.documentElement.scrollWidth") <= PHONE["width"]
            assert browser.run(TOO_WIDE) == []
            assert browser.run(HEADING_OF_A_NUMBER) not in {"none", '""', None}


def test_nothing_is_wider_than_the_window(browser: Browser) -> None:
    """From a small tablet to a wide screen the table fits beside its margins, whichever columns it shows."""
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
#: What stands before a number in a table that became cards.
HEADING_OF_A_NUMBER = """
const number = [...document.querySelectorAll('td.number')].find((e) => e.offsetParent);
return getComputedStyle(number, '::before').content;
"""


@pytest.mark.parametrize("dark", [False, True])
def test_recorded_incidents_are_readable(browser: Browser, dark: bool) -> None:
    """Every view of real incidents draws without a complaint, loads nothing from elsewhere, and has enough contrast."""
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


#: Texts that stand out less from their ground than WCAG's level AA asks for.
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
    """A screen reader finds a name on every link, button, field and table cell heading, in every view."""
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
    """The first stop skips to the content, / filters, arrows walk the rows, Enter opens, Escape leads back."""
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
    """Who stands on a row stays on it when it moves and when it is written anew, and an opened line stays open."""
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


def test_a_server_that_goes_away_is_seen_and_its_return_too(browser: Browser, port: int) -> None:
    """Without the server the page says that it is stale and since when; a new one is taken up, with what it knows."""
    with serving(make_view(group_row()), port=port):
        browser.show(f"http://127.0.0.1:{port}/")
        browser.wait_live()
        assert not browser.find("#trouble")[0].is_displayed()
    browser.wait(lambda: browser.text("#connection-text") == "STALE, reconnecting")
    assert browser.run("return document.body.dataset.connection") == "stale"
    assert browser.text("#trouble") == (
        "STALE: the exporter does not answer; trying again. What you see is from 2026-09-21 14:13:20 UTC."
    )
    assert group_names(browser) == ["payments"]
    with serving(make_view(group_row(group="another")), port=port):
        browser.wait_live()
        browser.wait(lambda: group_names(browser) == ["another"])
        assert not browser.find("#trouble")[0].is_displayed()
        browser.driver.get("about:blank")


def test_a_view_that_asks_for_nothing_outlives_the_server(browser: Browser, port: int) -> None:
    """Where a stretch of time is still to be chosen there is nothing to load anew, and nothing that fails."""
    with serving(make_view(group_row()), port=port):
        browser.show(f"http://127.0.0.1:{port}/#/past")
        browser.wait_live()
    browser.wait(lambda: browser.text("#connection-text") == "STALE, reconnecting")
    with serving(make_view(group_row()), port=port):
        browser.wait_live()
        assert browser.text("#past h1") == "Choose a stretch of time"
        assert not browser.find("#past .trouble")
        browser.driver.get("about:blank")


def test_a_server_that_says_nothing_is_noticed(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that stands but brings nothing any more is taken for dead, and opened anew."""
    monkeypatch.setattr(stream_events, "STATUS_SECONDS", 3_600)
    with showing(browser, make_view(group_row())):
        # For a second only, which a busy machine may not look in.
        browser.run(
            "const told = document.getElementById('connection-text'); window.said = [];"
            "new MutationObserver(() => said.push(told.textContent))"
            ".observe(told, {subtree: true, childList: true, characterData: true})"
        )
        browser.wait(lambda: "STALE, reconnecting" in browser.run("return said"))
        browser.wait_live()


def test_data_that_is_not_fresh_is_said(browser: Browser) -> None:
    """While the exporter answers but the stream does not, the page says so and how old the data is."""
    view = make_view(group_row())
    with showing(browser, view):
        browser.wait(lambda: browser.text("#age") in {"data 1 s old", "data 2 s old"})
        view.apply([query_row(updated_at_ms=NOW_MS - 600_000, last_batch_at_ms=NOW_MS - 600_000)])
        browser.wait(lambda: browser.text("#connection-text") == "Live, data not fresh")
        assert browser.text("#trouble").startswith("NOT UP TO DATE: no word from the membership for 600 s")
        assert browser.text("#age") == "data 10 min old"


def test_times_are_utc_or_local(browser: Browser) -> None:
    """One button turns all times to local ones and back, and the choice is kept."""
    view = make_view(group_row(), put(make_rebalance("1")))
    with showing(browser, view, "#/groups/prod/payments/rebalances/1") as base:
        browser.command("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
        browser.driver.get(f"{base}?again#/groups/prod/payments/rebalances/1")
        browser.wait(lambda: browser.shows("#rebalance h1", "2026-09-21 14:12:20 UTC"))
        browser.click("#zone")
        browser.wait(lambda: browser.shows("#rebalance h1", "2026-09-21 19:42:20 GMT+5:30"))
        browser.driver.refresh()
        browser.wait(lambda: browser.shows("#rebalance h1", "19:42:20"))
        browser.click("#zone")
        browser.wait(lambda: browser.shows("#rebalance h1", "14:12:20 UTC"))


def test_a_thousand_groups_are_no_burden(browser: Browser) -> None:
    """All are drawn when they are asked for, fifty a frame; a change of one group touches its own row only."""
    groups = [replace(GroupSnapshot("prod", f"g{number:04}"), state="Stable") for number in range(1_000)]
    view = make_view(*map(group_row, groups))
    with showing(browser, view):
        assert len(browser.find("#groups tbody tr")) == 50
        browser.run(
            "window.portions = [];"
            "new MutationObserver((all) => portions.push(all.reduce((sum, each) => sum + each.addedNodes.length, 0)))"
            ".observe(document.querySelector('#groups tbody'), {childList: true})"
        )
        browser.click("#show-all")
        browser.wait(lambda: len(browser.find("#groups tbody tr")) == 1_000)
        assert max(browser.run("return portions")) <= 50
        hidden = "return getComputedStyle(document.querySelector('#groups tbody tr')).contentVisibility"
        assert browser.run(hidden) == "auto"
        browser.run(
            "window.touched = new Set();"
            "new MutationObserver((all) => all.forEach((each) => touched.add(each.target.closest('tr')?.textContent)))"
            ".observe(document.querySelector('#groups tbody'), {subtree: true, childList: true, characterData: true})"
        )
        view.apply([group_row(replace(groups[700], members=PAYMENTS.members))])
        browser.wait(lambda: browser.run("return touched.size"))
        assert [text[:5] for text in browser.run("return [...touched]")] == ["g0700"]
        browser.find("#filter")[0].send_keys("g09")
        browser.wait(lambda: browser.text("#matches") == "100 groups of 1000 match")
