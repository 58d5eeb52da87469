"""The committed dashboards as Grafana reads them: complete, linked, and what the generator makes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from grafana.generate.boards import render, write
from grafana.generate.sdk import JSONEncoder, dashboard

from grafana.boards import FILES, GRAFANA, UIDS, all_panels, boards, links, panels, read_list, variables
from grafana.linter import RULES
from rebalance_exporters.config import ExportConfig

PROMETHEUS = GRAFANA.parent / "deploy" / "prometheus"
#: Where the live page reads and makes its addresses.
PAGE = GRAFANA.parent / "exporters" / "rebalance_exporters" / "page" / "static" / "links.js"
LINT = yaml.safe_load((GRAFANA / ".lint").read_text())["exclusions"]
BOARD = pytest.mark.parametrize("uid", sorted(UIDS))

#: What Grafana puts into a link by itself, apart from variables.
LINK_MACROS = r"__(url_time_range|data\.fields\.\w+|field\.labels\.\w+)"


def test_what_is_committed_is_what_is_generated() -> None:
    """Nobody edits the JSON by hand, and nobody forgets to generate it anew."""
    assert {file.stem: file.read_text() for file in FILES} == render()


def test_the_live_page_can_be_elsewhere(tmp_path: Path) -> None:
    """One argument of the generator puts another URL at the one place where it stands; nothing else changes."""
    write(tmp_path, "https://monitor.example.com/")
    for file in FILES:
        assert (tmp_path / file.name).read_text() == file.read_text().replace(
            "http://localhost:9642", "https://monitor.example.com"
        )


@BOARD
def test_round_trip(uid: str) -> None:
    """The SDK reads back every key of the JSON: none is mistyped."""
    decoded = dashboard.Dashboard.from_json(copy.deepcopy(boards()[uid]))
    assert json.loads(json.dumps(decoded, cls=JSONEncoder)) == boards()[uid]


def test_round_trip_finds_a_mistyped_key() -> None:
    """A key that the SDK does not know is lost on the way, which the test above would see."""
    board = copy.deepcopy(boards()["kafka-rebalance-fleet"])
    board["panels"][1]["options"]["colourMode"] = "value"
    assert json.loads(json.dumps(dashboard.Dashboard.from_json(copy.deepcopy(board)), cls=JSONEncoder)) != board


@BOARD
def test_form(uid: str) -> None:
    """Classic JSON of the schema that Grafana 10 reads, in UTC, which no user can change by accident."""
    board = boards()[uid]
    assert board["schemaVersion"] == 39
    assert board["timezone"] == "utc"
    assert not board["editable"]
    assert "id" not in board
    assert board["description"]


@BOARD
def test_panels_explain_themselves(uid: str) -> None:
    """Every panel has a title, says what it is, what good looks like and what to do, has a unit and a text for none."""
    for panel in panels(boards()[uid]):
        what, good, otherwise = panel["description"].split("\n\n")
        assert panel["title"]
        assert what
        assert re.match(r"\*\*Good:\*\* \S", good)
        assert re.match(r"\*\*Otherwise:\*\* \S", otherwise)
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["fieldConfig"]["defaults"]["noValue"]


@BOARD
def test_panels_have_a_place(uid: str) -> None:
    """Ids and titles are unique, and no panel lies on another or beyond the edge."""
    board = boards()[uid]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert len({panel["title"] for panel in panels(board)}) == len(panels(board))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_no_pies() -> None:
    """Nothing is shown as a part of a circle, or by a plug-in that Grafana does not bring."""
    kinds = {panel["type"] for _, panel in all_panels()}
    assert kinds == {"stat", "table", "timeseries", "state-timeline", "heatmap"}


@BOARD
def test_variables(uid: str) -> None:
    """Data source, cluster and, where groups are shown, group can be chosen; several, and all of them by `.*`."""
    found = variables(boards()[uid])
    assert set(found) == {"datasource", "cluster", "monitor"} | (
        {"group"} if uid != "kafka-rebalance-monitor" else set()
    )
    for name in found.keys() & {"cluster", "group"}:
        assert found[name]["multi"]
        assert found[name]["includeAll"]
        assert found[name]["allValue"] == ".*"
        assert found[name]["current"]["value"] == ["$__all"]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_linter(rule: str) -> None:
    """The dashboards keep the rules of dashboard-linter, apart from those that `.lint` leaves out, which they break."""
    complaints = [f"{uid}: {text}" for uid, board in boards().items() for text in RULES[rule](board)]
    assert bool(complaints) == (rule in LINT), complaints


def test_linter_exclusions_have_reasons() -> None:
    """A rule that is left out is one there is, and the file says why."""
    assert LINT.keys() <= RULES.keys()
    assert all(each["reason"] for each in LINT.values())


def _break_units(panel: dict[str, Any]) -> None:
    del panel["fieldConfig"]["defaults"]["unit"]


def _break_range(panel: dict[str, Any]) -> None:
    panel["targets"][0]["expr"] = "rate(kafka_rebalance_rebalances_total[5m])"


def _break_counter(panel: dict[str, Any]) -> None:
    panel["targets"][0]["expr"] = 'sum(kafka_rebalance_rebalances_total{group=~"$group"})'


def _break_promql(panel: dict[str, Any]) -> None:
    panel["targets"][0]["expr"] += ")"


def _break_source(panel: dict[str, Any]) -> None:
    panel["datasource"] = {"type": "prometheus", "uid": "mine"}


def _break_text(panel: dict[str, Any]) -> None:
    panel["description"] = ""


def _break_targets(panel: dict[str, Any]) -> None:
    panel["targets"] = []


@pytest.mark.parametrize(
    ("rule", "break_it"),
    [
        ("panel-units-rule", _break_units),
        ("target-rate-interval-rule", _break_range),
        ("target-counter-agg-rule", _break_counter),
        ("target-promql-rule", _break_promql),
        ("panel-datasource-rule", _break_source),
        ("panel-title-description-rule", _break_text),
        ("panel-no-targets-rule", _break_targets),
    ],
)
def test_linter_sees(rule: str, break_it: Callable[[dict[str, Any]], None]) -> None:
    """The rules as written here find what they are about."""
    board = copy.deepcopy(boards()["kafka-rebalance-fleet"])
    break_it(panels(board)[0])
    assert list(RULES[rule](board))


def test_marks_are_exact() -> None:
    """Rebalances are marked at the time that the series has as its value, not when it was scraped."""
    [mark] = boards()["kafka-rebalance-group"]["annotations"]["list"]
    assert mark["useValueForTime"]
    assert "kafka_rebalance_last_rebalance_timestamp_seconds" in mark["expr"]
    assert mark["expr"].endswith("* 1000")
    assert mark["enable"]


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
    """A link to a dashboard names one, and its parameters are variables there or Grafana's own."""
    plain = re.sub(r"\$\{(\w+):queryparam\}", r"var-\1=x", url.replace("${__url_time_range}", "from=1&to=2"))
    path, query = urlsplit(plain).path, dict(parse_qsl(urlsplit(plain).query))
    target = boards()[path.removeprefix("/d/")]
    assert {name.removeprefix("var-") for name in query if name.startswith("var-")} <= variables(target).keys()
    if query:
        assert {"from", "to", "var-datasource"} <= query.keys(), "keeps the time and what is chosen"


@BOARD
def test_links_at_the_top_keep_what_is_chosen(uid: str) -> None:
    """From one dashboard to another, time and variables go along."""
    others = [link for link in boards()[uid]["links"] if link["url"].startswith("/d/")]
    assert {link["url"].removeprefix("/d/") for link in others} == UIDS - {uid}
    assert all(link["keepTime"] and link["includeVars"] for link in others)


def test_links_of_alerts_resolve() -> None:
    """Every dashboard that an alert leads to is shipped, and has the variables that the link sets."""
    text = "".join(file.read_text() for file in (PROMETHEUS / "rules").glob("*.yml"))
    found = re.findall(r"\}\}/d/([a-z-]+)\?(.*?)\{\{ end -\}\}\n", text, re.DOTALL)
    named = re.findall(r"/d/([a-z-]+)", text)
    assert len(found) == len(named) == 3
    assert set(named) == UIDS
    for uid, rest in found:
        # A link ends where the annotation does; the next one may set other variables.
        assert set(re.findall(r"var-(\w+)=", rest.split("_url:")[0])) <= variables(boards()[uid]).keys()


def test_deep_links_are_those_of_alerts_and_of_the_page() -> None:
    """Dashboards and alerts lead to a group on the live page in the same way, which the page understands."""
    rules = (PROMETHEUS / "rules" / "kafka-rebalance.yml").read_text()
    assert re.search(r"link_monitor \}\}\{\{ \. \}\}/#/groups/$", rules, re.MULTILINE)
    assert 'const GROUPS = "groups"' in PAGE.read_text()


def test_group_columns_and_lines_lead_on() -> None:
    """Wherever a group is named in a table, or is a line of the fleet, a click leads to its dashboard or live page."""
    for uid, panel in all_panels():
        if panel["type"] == "table" and uid == "kafka-rebalance-fleet":
            [of_group] = [over for over in panel["fieldConfig"]["overrides"] if over["matcher"]["options"] == "group"]
            urls = list(links(of_group))
            assert any("/d/kafka-rebalance-group?" in url for url in urls)
            assert any("/#/groups/" in url for url in urls)
    [shares] = [panel for _, panel in all_panels() if panel["title"].startswith("Share of time rebalancing, worst")]
    assert any("var-group=${__field.labels.group:percentencode}" in url for url in links(shares))


def test_columns_of_tables_exist() -> None:
    """What tables sort, order and dress up are columns that they show."""
    for _, panel in all_panels():
        if panel["type"] != "table":
            continue
        steps = {each["id"]: each["options"] for each in panel["transformations"]}
        assert list(steps) == ["merge", "filterFieldsByName", "organize", "sortBy", "limit"]
        shown = set(steps["filterFieldsByName"]["include"]["names"])
        values = (
            {f"Value #{target['refId']}" for target in panel["targets"]} if len(panel["targets"]) > 1 else {"Value"}
        )
        assert values <= shown
        assert set(steps["organize"]["indexByName"]) == shown
        assert {each["field"] for each in steps["sortBy"]["sort"]} <= shown
        assert {over["matcher"]["options"] for over in panel["fieldConfig"]["overrides"]} <= shown


def test_lists_have_reasons() -> None:
    """What is unused or empty on purpose is said with a reason."""
    assert all(isinstance(reason, str) and reason for reason in read_list("unused.yml").values())
    assert all(entry["reason"] for entry in read_list("empty.yml"))


def test_provisioning() -> None:
    """The provisioning files name the data source's type and the directory as the README mounts them."""
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/kafka-rebalance.yml").read_text())["providers"]
    readme = (GRAFANA / "README.md").read_text()
    assert source["type"] == "prometheus"
    assert f":{provider['options']['path']}" in readme
    assert ":/etc/grafana/provisioning" in readme


def test_the_default_live_page_is_the_exporters() -> None:
    """Where the exporter listens unless told otherwise is where the dashboards look for it."""
    [page] = {variables(board)["monitor"]["query"] for board in boards().values()}
    assert urlsplit(page).port == ExportConfig(kafka={}).listen_port
