"""The page in a real browser, with the real application: its content, and its live updates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    WINDOWS,
    group_row,
    impact_row,
    probed_lag_row,
    query_row,
    silence_row,
)
from exporters.page.browser import Browser
from exporters.page.live import group_names, losing, make_rebalance, make_view, put, put_finding, showing
from exporters.serving import serving
from rebalance_contract import (
    GroupSnapshot,
    RebalanceImpact,
    decode,
)
from rebalance_exporters.api import stream_events
from rebalance_exporters.state.view import FINDINGS, GROUPS, Row
from rebalance_exporters.terminal.words import why
from rebalance_exporters.text.rebalances import describe_rebalance

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

#: Has the page wait for answers whose address contains a text until a function of `held` is called, and note in `heard`
#: the findings that the stream brings.
HOLD_ANSWERS = """
    const [text] = arguments, fetchNow = window.fetch, parse = JSON.parse;
    window.held = [];
    window.heard = [];
    window.fetch = async (...request) => {
        const answer = await fetchNow(...request);
        if (String(request[0]).includes(text)) await new Promise((resolve) => held.push(resolve));
        return answer;
    };
    JSON.parse = (read) => {
        const data = parse(read);
        if (data.finding_id) heard.push(data.summary);
        return data;
    };
"""


def test_the_group_that_lost_most_time_is_first(browser: Browser) -> None:
    """Rows are ordered by time lost; a button or a list changes the order."""
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
    """Changes of the stream appear without reloading: states, new groups, removed groups, findings, the verdict."""
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
        # Of two loads at once, the one that began first is answered last.
        browser.run(HOLD_ANSWERS, "overview")
        browser.run("dispatchEvent(new Event('online'))")
        # More than one if the page loads by itself, as it does after a stall of the machine.
        before = browser.wait(lambda: browser.run("return held.length"))
        view.apply([group_row(group="d")])
        browser.run("dispatchEvent(new Event('online'))")
        browser.wait(lambda: browser.run("return held.length") > before)
        browser.run("held.at(-1)()")
        browser.wait(lambda: sorted(group_names(browser)) == ["c", "d", "payments"])
        browser.run("held.slice(0, -1).forEach(answer => answer())")
        view.apply([group_row(group="e")])
        browser.wait(lambda: "e" in group_names(browser))
        assert sorted(group_names(browser)) == ["c", "d", "e", "payments"]


def test_the_whole_cluster_has_a_line_of_its_own(browser: Browser) -> None:
    """A finding about a cluster is above the table while it fires."""
    view = make_view(group_row(), put_finding(group="", rule="fleet_storm", severity="page", summary="5 groups storm"))
    with showing(browser, view):
        assert browser.texts("#cluster-findings li") == ["▲ page cluster prod: fleet storm: 5 groups storm"]
        view.apply([Row(FINDINGS, b"prod//fleet_storm/", None)])
        browser.wait(lambda: not browser.find("#cluster-findings li"))


def test_a_group_is_explained_and_stays_live(browser: Browser) -> None:
    """Findings have evidence, alternatives, missing sources and advice; timeline and tables follow the events."""
    view = make_view(group_row())
    with showing(browser, view, "#/groups/prod/payments"):
        assert browser.text("#group h1") == "payments"
        assert browser.shows(".part-rebalances", "None is kept")
        view.apply([put(make_rebalance("1")), put_finding()])
        browser.wait(lambda: browser.shows(".finding", "crash loop"))
        said = browser.find("#announcement")[0]
        browser.wait(lambda: said.get_attribute("textContent") == "Finding, firing, ticket: crash loop")
        reported = browser.text(".finding")
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
            assert part in reported
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


def test_the_same_finding_comes_first_in_the_table_and_on_the_page_of_a_group(browser: Browser) -> None:
    """By severity, then causes, then confidence, then the oldest first: the order of alerts and dashboards."""
    follows = put_finding(finding_id="4", rule="zombie_member", summary="what follows", primary=False, confidence=0.98)
    unsure = put_finding(
        finding_id="3", rule="network_partition", summary="less sure", confidence=0.6, started_at_ms=NOW_MS - 99
    )
    newer = put_finding(finding_id="2", rule="poll_overrun", summary="newer", confidence=0.9, started_at_ms=NOW_MS)
    first = put_finding(
        finding_id="1", rule="crash_loop", summary="to be read first", confidence=0.9, started_at_ms=NOW_MS - 9
    )
    with showing(browser, make_view(group_row(), follows, unsure, newer, first)):
        assert browser.text("#groups td.finding-cell") == "◆ ticket crash loop +3\nto be read first"
        browser.run("location.hash = '#/groups/prod/payments'")
        browser.wait(lambda: browser.shows(".lead", "to be read first"))
        reported = browser.text(".part-findings")
        places = [reported.index(each) for each in ("to be read first", "newer", "less sure", "what follows")]
        assert places == sorted(places)


def test_of_information_the_latest_comes_first(browser: Browser) -> None:
    """How a group formed is certain, but hours old; later findings are more useful."""
    formed = put_finding(
        finding_id="1", rule="initial_group_formation", severity="info", confidence=0.98, started_at_ms=NOW_MS - 99
    )
    stuck = put_finding(
        finding_id="2",
        rule="reconciliation_stuck",
        severity="info",
        summary="stuck",
        confidence=0.9,
        started_at_ms=NOW_MS,
    )
    with showing(browser, make_view(group_row(), formed, stuck)):
        assert browser.text("#groups td.finding-cell") == "● info reconciliation stuck +1\nstuck"


def test_a_silenced_group_is_marked_and_keeps_its_findings(browser: Browser) -> None:
    """In the table, which advises no action, and on its page, which shows the end, the author and the reason; live."""
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
        reported = browser.text(".silence")
        assert reported == "deploy announced until 2026-09-21 15:12:20 UTC by ci & co: <b>1.2</b>"
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
    """A growth that would round to zero has no sign either."""
    windows = {**WINDOWS, "5m": replace(WINDOWS["5m"], lag_slope=slope)}
    with showing(browser, make_view(group_row(), probed_lag_row(windows=windows)), "#/groups/prod/payments"):
        browser.wait(lambda: f"Lag\n{shown}" in browser.texts(".facts > *"))


def test_a_rebalance_is_explained(browser: Browser) -> None:
    """At its address, the target of links in alerts: phases, assignments before and after, and the cause."""
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
        # What happens while the answer is under way is newer than the answer.
        browser.run(HOLD_ANSWERS, "/rebalances/1")
        browser.run("location.hash = '#/groups/prod/payments/rebalances/1'")
        browser.wait(lambda: browser.run("return held.length"))
        view.apply([put_finding(summary="c-1 comes and goes again")])
        browser.wait(lambda: browser.run("return heard.length"))
        browser.run("held[0]()")
        browser.wait(lambda: browser.shows("#rebalance .lead", "c-1 comes and goes"))
        assert browser.text("#rebalance .lead") == "◆ ticket c-1 comes and goes again"
        assert browser.complaints() == []


def test_topics_may_be_named_as_what_objects_inherit(browser: Browser) -> None:
    """Partitions before and after are shown, of topics with names that mean something to JavaScript."""
    before, after = {"__proto__": [0, 1], "toString": [3]}, {"__proto__": [1], "constructor": [2]}
    member = PAYMENTS.members[0]
    changes = {
        "members_before": (replace(member, partitions=before),),
        "members_after": (replace(member, partitions=after),),
    }
    view = make_view(group_row(), put(make_rebalance("1", **changes)))
    with showing(browser, view, "#/groups/prod/payments/rebalances/1"):
        assert browser.texts("#rebalance [aria-label='Before and after'] tbody tr") == [
            "c@10.0.0.1 3 → 2 +1 constructor:2 \u22122 __proto__:0 toString:3 __proto__:1",
        ]
        assert browser.complaints() == []


def test_a_rebalance_is_described_in_the_same_words_as_in_the_terminal(browser: Browser) -> None:
    """The texts about a rebalance are shared with the terminal; only the page draws arrows."""
    rebalance = make_rebalance("1", left=("c-9", "c-10"), moves=None, generation_from=3)
    impact = replace(decode(impact_row("1").value or b"", RebalanceImpact), lag_before=3, lag_peak=40)
    text = describe_rebalance(rebalance, impact)
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
    """A wrong link shows the error and suggestions, and the page stays usable."""
    with showing(browser, make_view(group_row()), address):
        browser.wait(lambda: browser.shows("main .trouble", text))
        browser.click("main > section:not([hidden]) .crumbs a")
        browser.wait(lambda: group_names(browser) == ["payments"])


def test_rebalances_like_the_one_of_a_wrong_link_are_named(browser: Browser) -> None:
    """Suggestions for a wrong id of a rebalance lead to that rebalance."""
    view = make_view(group_row(), put(make_rebalance("4711")))
    with showing(browser, view, "#/groups/prod/payments/rebalances/4710"):
        browser.wait(lambda: browser.shows("main .trouble", "Did you mean 4711?"))
        browser.click("main .trouble a")
        browser.wait(lambda: browser.shows("#rebalance h1", "Rebalance of"))


def test_a_broken_address_leads_to_all_groups(browser: Browser) -> None:
    """An unknown or badly encoded address shows the table."""
    with showing(browser, make_view(group_row()), "#/groups/prod/%E0%A4%A") as base:
        assert group_names(browser) == ["payments"]
        browser.driver.get(f"{base}#/nothing/like/it")
        browser.wait(lambda: browser.driver.current_url.endswith("#/"))


def test_a_server_that_goes_away_is_seen_and_its_return_too(browser: Browser, port: int) -> None:
    """Without the server the page says that it is stale and since when; it connects to a new one and uses its data."""
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
    """While a period is still to be chosen there is nothing to reload, and no request that could fail."""
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
    """A connection without data is considered dead, and reopened."""
    monkeypatch.setattr(stream_events, "STATUS_SECONDS", 3_600)
    with showing(browser, make_view(group_row())):
        # Only for a second, in which a busy machine may not look.
        browser.run(
            "const text = document.getElementById('connection-text'); window.said = [];"
            "new MutationObserver(() => said.push(text.textContent))"
            ".observe(text, {subtree: true, childList: true, characterData: true})"
        )
        browser.wait(lambda: "STALE, reconnecting" in browser.run("return said"))
        browser.wait_live()


def test_data_that_is_not_fresh_is_said(browser: Browser) -> None:
    """If the exporter answers but the stream does not, the page says so and how old the data are."""
    view = make_view(group_row())
    with showing(browser, view):
        browser.wait(lambda: browser.text("#age") in {"data 1 s old", "data 2 s old"})
        view.apply([query_row(updated_at_ms=NOW_MS - 600_000, last_batch_at_ms=NOW_MS - 600_000)])
        browser.wait(lambda: browser.text("#connection-text") == "Live, data not fresh")
        assert browser.text("#trouble").startswith("NOT UP TO DATE: no status from the membership for 600 s")
        # 10.1 min for some seconds, until the next status of the server.
        browser.wait(lambda: browser.text("#age") == "data 10 min old")


def test_times_are_utc_or_local(browser: Browser) -> None:
    """One button switches all times to local ones and back, and the choice is stored."""
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


def test_two_thousand_groups_are_no_burden(browser: Browser) -> None:
    """All are drawn on request, fifty a frame; a change of one group affects only its own row."""
    groups = [replace(GroupSnapshot("prod", f"g{number:04}"), state="Stable") for number in range(2_000)]
    view = make_view(*map(group_row, groups))
    with showing(browser, view):
        assert len(browser.find("#groups tbody tr")) == 50
        browser.run(
            "window.portions = [];"
            "new MutationObserver((all) => portions.push(all.reduce((sum, each) => sum + each.addedNodes.length, 0)))"
            ".observe(document.querySelector('#groups tbody'), {childList: true})"
        )
        browser.click("#show-all")
        browser.wait(lambda: browser.run("return document.querySelectorAll('#groups tbody tr').length") == 2_000)
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
        browser.wait(lambda: browser.text("#matches") == "100 groups of 2000 match")
