"""Links of the committed dashboards and of alerts: each has a target, and keeps the selection."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from grafana.boards import GRAFANA, UIDS, all_panels, boards, links, variables

DEPLOY = GRAFANA.parent / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
#: The file of the live page that parses and makes its addresses.
PAGE = GRAFANA.parent / "exporters" / "rebalance_exporters" / "page" / "static" / "links.js"
BOARD = pytest.mark.parametrize("uid", sorted(UIDS))

#: Grafana's own link parameters, apart from variables.
LINK_MACROS = r"__(url_time_range|data\.fields\.\w+|field\.labels\.\w+)"


@BOARD
def test_links_resolve(uid: str) -> None:
    """Links lead to shipped dashboards with variables they have, or to pages of the exporter, and keep the time."""
    found = list(links(boards()[uid]))
    assert found
    for url in found:
        macros = re.findall(r"\$\{([^}:]+)(?::\w+)?\}", url)
        assert all(name in variables(boards()[uid]) or re.fullmatch(LINK_MACROS, name) for name in macros), url
        if url.startswith("/d/"):
            assert_board_link(url)
        else:
            page = re.sub(r"\$\{__\w+[^}]+:percentencode\}", "X", url.removeprefix("${monitor:raw}"))
            assert page in ("/", "/-/ready", "/#/groups/X/X"), url


def assert_board_link(url: str) -> None:
    """Check that a link names a dashboard, and that its parameters are variables there or Grafana's own."""
    plain = re.sub(r"\$\{(\w+):queryparam\}", r"var-\1=x", url.replace("${__url_time_range}", "from=1&to=2"))
    path, query = urlsplit(plain).path, dict(parse_qsl(urlsplit(plain).query))
    target = boards()[path.removeprefix("/d/")]
    assert {name.removeprefix("var-") for name in query if name.startswith("var-")} <= variables(target).keys()
    if query:
        assert {"from", "to", "var-datasource"} <= query.keys(), "keeps the time and what is chosen"


@BOARD
def test_links_at_the_top_keep_what_is_chosen(uid: str) -> None:
    """From one dashboard to another, time and variables are kept."""
    others = [link for link in boards()[uid]["links"] if link["url"].startswith("/d/")]
    assert {link["url"].removeprefix("/d/") for link in others} == UIDS - {uid}
    assert all(link["keepTime"] and link["includeVars"] for link in others)


def test_links_of_alerts_resolve() -> None:
    """Every dashboard that an alert links to is shipped, and has the variables that the link sets."""
    text = "".join(file.read_text() for file in (PROMETHEUS / "rules").glob("*.yml"))
    found = re.findall(r"\}\}/d/([a-z-]+)\?(.*?)\{\{ end -\}\}\n", text, re.DOTALL)
    named = re.findall(r"/d/([a-z-]+)", text)
    assert len(found) == len(named) == 3
    assert set(named) == UIDS
    for uid, rest in found:
        # A link ends with its annotation; the next one may set other variables.
        assert set(re.findall(r"var-(\w+)=", rest.split("_url:")[0])) <= variables(boards()[uid]).keys()


def test_deep_links_are_those_of_alerts_and_of_the_page() -> None:
    """Dashboards and alerts use the same addresses of a group on the live page, which the page understands."""
    rules = (PROMETHEUS / "rules" / "kafka-rebalance.yml").read_text()
    address = "/#/{{ if $labels.group }}groups/{{ else }}?cluster={{ end }}\n"
    assert f"link_monitor }}}}{{{{ . }}}}{address}" in rules
    page = PAGE.read_text()
    assert all(each in page for each in ('const GROUPS = "groups"', 'PAST = "past"', "`#/?cluster=${part(cluster)}`"))


def test_the_link_of_an_alert_that_is_over_is_understood_by_the_page() -> None:
    """The pages of a group and of all groups use the time in the address, in Alertmanager's format."""
    template = (DEPLOY / "alertmanager" / "templates" / "page.tmpl").read_text()
    page = PAGE.read_text()
    assert "`from=%s&to=%s`" in template
    assert "`?from=${stretch.fromMs}&to=${stretch.toMs}`" in page
    assert "`#/past?%s&cluster=`" in template


def test_group_columns_and_lines_lead_on() -> None:
    """Every group in a table, or line of the fleet, links to its dashboard or live page."""
    for uid, panel in all_panels():
        if panel["type"] == "table" and uid == "kafka-rebalance-fleet":
            [of_group] = [over for over in panel["fieldConfig"]["overrides"] if over["matcher"]["options"] == "group"]
            urls = list(links(of_group))
            assert any("/d/kafka-rebalance-group?" in url for url in urls)
            assert any("/#/groups/" in url for url in urls)
    [shares] = [panel for _, panel in all_panels() if panel["title"].startswith("Share of time rebalancing, worst")]
    assert any("var-group=${__field.labels.group:percentencode}" in url for url in links(shares))
