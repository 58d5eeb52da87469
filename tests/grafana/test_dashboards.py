"""The committed dashboards as Grafana reads them: complete, linked, and equal to the generator's output."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from grafana.generate import colours
from grafana.generate.boards import render, write
from grafana.generate.sdk import JSONEncoder, dashboard

from grafana.boards import (
    FILES,
    GRAFANA,
    UIDS,
    all_panels,
    boards,
    closed_label,
    overrides,
    panels,
    read_list,
    variables,
)
from grafana.linter import RULES
from rebalance_contract import GroupState, RebalanceReason, Severity
from rebalance_exporters.config import ExportConfig
from rebalance_streaming.wire.metrics.errors import Reason

PROMETHEUS = GRAFANA.parent / "deploy" / "prometheus"
LINT = yaml.safe_load((GRAFANA / ".lint").read_text())["exclusions"]
BOARD = pytest.mark.parametrize("uid", sorted(UIDS))


def test_what_is_committed_is_what_is_generated() -> None:
    """The JSON must not be edited by hand, and must be regenerated after changes."""
    assert {file.stem: file.read_text() for file in FILES} == render()


def test_the_live_page_can_be_elsewhere(tmp_path: Path) -> None:
    """One argument of the generator sets another URL in its only place; nothing else changes."""
    write(tmp_path, "https://monitor.example.com/")
    for file in FILES:
        assert (tmp_path / file.name).read_text() == file.read_text().replace(
            "http://localhost:9642", "https://monitor.example.com"
        )


@BOARD
def test_round_trip(uid: str) -> None:
    """The SDK reads back every key of the JSON: none is misspelt."""
    assert _round_trip(boards()[uid]) == boards()[uid]


def test_round_trip_finds_a_mistyped_key() -> None:
    """A key unknown to the SDK is lost, which the test above would detect."""
    board = copy.deepcopy(boards()["kafka-rebalance-fleet"])
    board["panels"][1]["options"]["colourMode"] = "value"
    assert _round_trip(board) != board


def _round_trip(board: dict[str, Any]) -> dict[str, Any]:
    read = dashboard.Dashboard.from_json(copy.deepcopy(board))
    text: dict[str, Any] = json.loads(json.dumps(read, cls=JSONEncoder))
    for each in (*text["links"], *text["annotations"]["list"]):
        # The SDK adds it to everything it writes.
        assert each.pop("placement") == "inControlsMenu"
    return text


@BOARD
def test_nothing_is_hidden_in_a_menu(uid: str) -> None:
    """Links and marks are at the top: newer versions of Grafana treat a placement as one in a menu."""
    assert boards()[uid]["links"]
    assert not [
        each for each in (*boards()[uid]["links"], *boards()[uid]["annotations"]["list"]) if "placement" in each
    ]


@BOARD
def test_form(uid: str) -> None:
    """Classic JSON of the schema that Grafana 10 reads, in UTC, protected against accidental changes."""
    board = boards()[uid]
    assert board["schemaVersion"] == 39
    assert board["timezone"] == "utc"
    assert not board["editable"]
    assert "id" not in board
    assert board["description"]


@BOARD
def test_panels_explain_themselves(uid: str) -> None:
    """Every panel has a title, a description with the good state and what to do, a unit and a text for no data."""
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
    """Ids and titles are unique, and no panel overlaps another or exceeds the grid."""
    board = boards()[uid]
    rows = [each for each in board["panels"] if each["type"] == "row"]
    everything = [*rows, *panels(board)]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in panels(board)}) == len(panels(board))
    # Panels of a collapsed row are below its heading, where other rows are until it is opened.
    for shown in (board["panels"], *([row, *row["panels"]] for row in rows)):
        taken: set[tuple[int, int]] = set()
        for panel in shown:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert at["x"] + at["w"] <= 24
            assert not cells & taken, panel["title"]
            taken |= cells
    assert all(bool(row["panels"]) == row["collapsed"] for row in rows)


#: Grid units in a window of 1280 x 720: 38 pixels each, below about 150 of Grafana's own.
FIRST_SCREEN = 15


def _bottom(uid: str, title: str) -> int:
    [at] = [panel["gridPos"] for panel in panels(boards()[uid]) if panel["title"] == title]
    bottom: int = at["y"] + at["h"]
    return bottom


def test_the_first_screen_answers() -> None:
    """Group, cause, culprit, beginning and change are visible without scrolling, even on a small screen."""
    shown = ("Who", "Since", "Open findings and what to change")
    assert all(_bottom("kafka-rebalance-fleet", title) <= FIRST_SCREEN for title in ("Which group", "Why", *shown))
    assert all(_bottom("kafka-rebalance-group", title) <= FIRST_SCREEN for title in ("What is wrong", *shown))


def test_a_group_is_one_story() -> None:
    """Problem, culprit, beginning, impact, what to do, and only then the details."""
    titles = [panel["title"] for panel in panels(boards()["kafka-rebalance-group"])]
    story = [
        "What is wrong",
        "Who",
        "Since",
        "Time lost",
        "Open findings and what to change",
        "State over time",
    ]
    assert [titles.index(title) for title in story] == sorted(titles.index(title) for title in story)
    assert titles.index("State") == max(titles.index(title) for title in titles[: titles.index(story[-2])])
    collapsed = [each["title"] for each in boards()["kafka-rebalance-group"]["panels"] if each.get("collapsed")]
    assert collapsed == ["Assignment", "Headroom", "Settings", "Partitions"]


def test_words_have_a_size() -> None:
    """A name, or a time in words, is as large as two lines of it fit; Grafana's default is a single line."""
    sizes = {
        panel["title"]: panel["options"]["text"]["valueSize"]
        for _, panel in all_panels()
        if panel["type"] == "stat"
        and (panel["options"]["textMode"] == "name" or panel["fieldConfig"]["defaults"]["unit"] == "dateTimeFromNow")
    }
    assert sizes.keys() == {"Which group", "Why", "What is wrong", "Who", "Since", "Last rebalance"}
    assert all(size <= 26 for size in sizes.values())


#: Width in pixels that Grafana reserves beside a panel's title, for a mark on the left and as much on the right.
_TITLE_FRAME = 48
#: Average width of a title's letter in pixels.
_LETTER_PIXELS = 7.2


@BOARD
def test_titles_of_tiles_fit(uid: str) -> None:
    """On a small screen no title of a single number is truncated."""
    for panel in panels(boards()[uid]):
        if panel["type"] == "stat":
            width = 1264 * panel["gridPos"]["w"] / 24
            assert len(panel["title"]) * _LETTER_PIXELS <= width - _TITLE_FRAME, panel["title"]


def test_trends_leave_numbers_legible() -> None:
    """A trend is only drawn below a number on a coloured background: otherwise both have the text colour."""
    trends = [panel for _, panel in all_panels() if panel["options"].get("graphMode") == "area"]
    assert trends
    assert all(panel["options"]["colorMode"] == "background" for panel in trends)


def test_windows_are_named() -> None:
    """Counts of the last minutes say so in the title: the numbers beside it are for the whole time range."""
    for uid, panel in all_panels():
        title, names = panel["title"], overrides(panel, "displayName")
        for target in panel["targets"] if panel["type"] in ("stat", "table") else ():
            found = set(re.findall(r'^(?:max|sum) by \(cluster, group\) .*window="(\d+)m"', target["expr"]))
            shown = names.get(("byName", f"Value #{target['refId']}"), title)
            assert all(shown.endswith(f", {minutes} min") for minutes in found), (uid, shown)
            assert bool(found) == bool(re.search(r", \d+ min$", shown)), (uid, shown)


def test_what_never_happens_has_no_name() -> None:
    """Panels of rare events name what they happened to, out of nine inputs or hundreds of groups."""
    seldom = ("Log positions lost", "Inputs that changed", "Set aside", "Share of time rebalancing, worst ten groups")
    found = [panel for _, panel in all_panels() if panel["title"] in seldom]
    assert len(found) == len(seldom)
    assert all(re.search(r" > 0\)?$", target["expr"]) for panel in found for target in panel["targets"])


def test_no_pies() -> None:
    """No pie charts, and no plug-ins that Grafana does not include."""
    kinds = {panel["type"] for _, panel in all_panels()}
    assert kinds == {"stat", "table", "timeseries", "state-timeline", "heatmap"}


@BOARD
def test_variables(uid: str) -> None:
    """Data source, cluster and, on dashboards of groups, group can be selected; several, and all of them by `.*`."""
    found = variables(boards()[uid])
    own = {"fleet": {"group"}, "group": {"group", "topic"}, "monitor": set()}[uid.removeprefix("kafka-rebalance-")]
    assert set(found) == {"datasource", "cluster", "monitor"} | own
    assert all(found[name]["multi"] for name in {"cluster"} | own)
    of_one = {"group"} if uid == "kafka-rebalance-group" else set()
    for name in {"cluster"} | own - of_one:
        assert found[name]["includeAll"]
        assert found[name]["allValue"] == ".*"
        assert found[name]["current"]["value"] == ["$__all"]
    for name in of_one:
        # With neither a selection nor All, Grafana starts with the first value.
        assert not found[name]["includeAll"]
        assert "current" not in found[name]


def _has_colour(panel: dict[str, Any], target: dict[str, Any]) -> bool:
    fixed = overrides(panel, "color")
    assert all(colour["mode"] == "fixed" for colour in fixed.values())
    return ("byFrameRefID", target["refId"]) in fixed or any(how in ("byName", "byRegexp") for how, _ in fixed)


def test_names_have_fixed_colours() -> None:
    """Names of the product have one colour each; the palette is for external names, assigned in turn."""
    for _, panel in all_panels():
        mode = panel["fieldConfig"]["defaults"]["color"]["mode"]
        expected = {"timeseries": "palette-classic", "state-timeline": "fixed"}.get(panel["type"], "thresholds")
        assert mode == expected, panel["title"]
        for target in panel["targets"] if panel["type"] == "timeseries" else ():
            if "{{" not in target["legendFormat"] or closed_label(target["expr"], target["legendFormat"]):
                assert _has_colour(panel, target), (panel["title"], target["legendFormat"])


@pytest.mark.parametrize(
    ("colours_of", "names"),
    [
        (colours.REASONS, set(RebalanceReason)),
        (colours.STATES, set(GroupState)),
        (colours.SEVERITIES, set(Severity)),
        (colours.GENERATIONS, {"completed", "aborted"}),
        (colours.CHANGES, {"joined", "left", "expired", "poll_timeout", "replaced"}),
        (colours.CLIENT_METRICS, {"decoded", "too_slow", "failed", "dropped", *Reason}),
        (colours.DECODING, {"decoded", "tombstone", "unsupported", "corrupt"}),
    ],
)
def test_no_two_names_look_alike(colours_of: dict[str, str], names: set[str]) -> None:
    """Every name of a closed set has a colour of its own."""
    assert colours_of.keys() == names
    assert len(set(colours_of.values())) == len(names)


def test_state_timelines_show_what_values_stand_for() -> None:
    """Grafana ignores the colours of value mappings in a timeline whose colours come from thresholds."""
    found = [panel for _, panel in all_panels() if panel["type"] == "state-timeline"]
    assert {panel["title"] for panel in found} == {"State over time", "Findings over time"}
    for panel in found:
        assert panel["fieldConfig"]["defaults"]["color"]["mode"] == "fixed"
        [mapped] = panel["fieldConfig"]["defaults"]["mappings"]
        assert all(each["color"] and each["text"] for each in mapped["options"].values())


def test_units() -> None:
    """Units are spelled out, shares have one decimal and end at 100 %, and counts are integers.

    A confidence has no unit: it is one of four steps.
    """
    for _, panel in all_panels():
        config = panel["fieldConfig"]
        units_used = {config["defaults"]["unit"], *overrides(panel, "unit").values()}
        assert units_used <= {
            "none",
            "string",
            "short",
            "percentunit",
            "s",
            "dateTimeFromNow",
            "bytes",
            "suffix:/min",
        } | {
            "suffix:/s",
            "dtdurations",
        }
        if panel["type"] == "stat" and config["defaults"]["unit"] == "percentunit":
            assert config["defaults"]["decimals"] == 1
        shares = {field for field, unit in overrides(panel, "unit").items() if unit == "percentunit"}
        assert panel["type"] != "table" or {overrides(panel, "decimals").get(field) for field in shares} <= {0, 1}
        if panel["type"] == "timeseries" and config["defaults"]["unit"] == "percentunit":
            assert config["defaults"]["max"] == 1
        if panel["type"] == "timeseries" and config["defaults"]["unit"] in ("short", "suffix:/min", "suffix:/s"):
            assert config["defaults"].get("min") != 0 or config["defaults"]["custom"]["axisSoftMax"] == 1
        for target in panel["targets"] if panel["type"] == "stat" else ():
            if config["defaults"]["unit"] == "dtdurations":
                assert target["expr"].startswith("ceil("), "milliseconds in words do not fit"
            if "increase(" in target["expr"] and config["defaults"]["unit"] == "short":
                assert target["expr"].startswith("round("), "a count stretched to the range is no whole number"


#: Width of a table in a window of 1280 pixels, without Grafana's frame.
TABLE_PIXELS = 1230
#: Grafana's minimum width of a column without one.
FREE_PIXELS = 150
#: Width of the advice there: two lines of sixty letters, or one if Grafana cannot wrap.
ADVICE_PIXELS = 400


def test_tables_fit() -> None:
    """On a small screen no column of a wide table is beyond the edge, and the longest texts get the rest."""
    for _, panel in all_panels():
        if panel["type"] != "table" or not overrides(panel, "custom.width"):
            continue
        [shown] = [
            each["options"]["include"]["names"]
            for each in panel["transformations"]
            if each["id"] == "filterFieldsByName"
        ]
        widths = {name: width for (_, name), width in overrides(panel, "custom.width").items()}
        free = len(shown) - len(widths)
        assert 1 <= free <= 2, panel["title"]
        available = TABLE_PIXELS * panel["gridPos"]["w"] / 24
        needed = sum(widths.values()) + free * FREE_PIXELS
        assert needed <= available + (FREE_PIXELS if available < 500 else 0), panel["title"]


def test_the_advice_has_what_others_leave_of_the_table() -> None:
    """Only its column has no width; with one group selected, the group's name is after it."""
    for board, first in (("fleet", ["group", "rule"]), ("group", ["rule"])):
        found = panels(boards()[f"kafka-rebalance-{board}"])
        [table] = [each for each in found if each["title"] == "Open findings and what to change"]
        [order] = [each["options"]["indexByName"] for each in table["transformations"] if each["id"] == "organize"]
        labels = [each for each in sorted(order, key=lambda name: order[name]) if not each.startswith("Value")]
        assert labels[: len(first)] == first
        assert labels.index("change") < labels.index("cluster")
        widths = {name for (_, name), _ in overrides(table, "custom.width").items()}
        assert [each for each in labels if each not in widths] == ["change"]
        taken = sum(width for _, width in overrides(table, "custom.width").items())
        assert TABLE_PIXELS - taken >= ADVICE_PIXELS
        assert any('"([0-9]+), which is .*"' in target["expr"] for target in table["targets"])


def test_tables_sort_and_filter() -> None:
    """Findings start with the most important, groups with the costliest; only external texts have a filter."""
    sorted_by = {}
    for uid, panel in all_panels():
        if panel["type"] != "table":
            continue
        [sort] = [each["options"]["sort"] for each in panel["transformations"] if each["id"] == "sortBy"]
        [column] = [each["field"] for each in sort]
        asked = {f"Value #{target['refId']}": target["expr"] for target in panel["targets"]}
        sorted_by[uid.rpartition("-")[2], panel["title"]] = asked.get(column, column)
        assert sort[0]["desc"]
        assert not panel["fieldConfig"]["defaults"]["custom"]["filterable"]
        filtered = {name for (_, name), on in overrides(panel, "custom.filterable").items() if on}
        assert not [name for name in filtered if name.startswith("Value")]
    for board in ("fleet", "group"):
        assert sorted_by[board, "Open findings and what to change"].startswith("10 * ")
    assert "lost_partition_seconds_total" in sorted_by["fleet", "Worst groups"]


def test_texts_of_cells_are_plain() -> None:
    """A cell shows Markdown unrendered, and one line of it."""
    for _, panel in all_panels():
        for mapped in overrides(panel, "mappings").values():
            texts = [each["text"] for each in mapped[0]["options"].values() if isinstance(each, dict)]
            assert not [text for text in texts if "`" in text or "\n" in text]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_linter(rule: str) -> None:
    """The dashboards follow the rules of dashboard-linter, except those excluded in `.lint`, which they violate."""
    complaints = [f"{uid}: {text}" for uid, board in boards().items() for text in RULES[rule](board)]
    assert bool(complaints) == (rule in LINT), complaints


def test_linter_exclusions_have_reasons() -> None:
    """Every excluded rule exists, and the file has the reason."""
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
    """The reimplemented rules detect violations."""
    board = copy.deepcopy(boards()["kafka-rebalance-fleet"])
    break_it(panels(board)[0])
    assert list(RULES[rule](board))


def test_marks_are_exact() -> None:
    """Rebalances are marked at the time in the series' value, and on two panels: a storm would cover a panel."""
    [mark] = boards()["kafka-rebalance-group"]["annotations"]["list"]
    assert not any(boards()[uid]["annotations"]["list"] for uid in UIDS - {"kafka-rebalance-group"})
    marked = [
        panel["title"] for panel in panels(boards()["kafka-rebalance-group"]) if panel["id"] in mark["filter"]["ids"]
    ]
    assert marked == ["State over time", "Share of time rebalancing"]
    assert not mark["filter"]["exclude"]
    assert mark["useValueForTime"]
    assert "kafka_rebalance_last_rebalance_timestamp_seconds" in mark["expr"]
    assert mark["expr"].endswith("* 1000")
    assert mark["enable"]


def test_columns_of_tables_exist() -> None:
    """Columns that tables sort, order and format are columns that they show."""
    for _, panel in all_panels():
        if panel["type"] != "table":
            continue
        steps = {each["id"]: each["options"] for each in panel["transformations"]}
        # Sorting precedes the omission of columns: the sort column may be one of these.
        assert list(steps) == ["merge", "sortBy", "limit", "filterFieldsByName", "organize"]
        shown = set(steps["filterFieldsByName"]["include"]["names"])
        values = (
            {f"Value #{target['refId']}" for target in panel["targets"]} if len(panel["targets"]) > 1 else {"Value"}
        )
        assert {name for name in shown if name.startswith("Value")} <= values
        assert set(steps["organize"]["indexByName"]) == shown
        assert {each["field"] for each in steps["sortBy"]["sort"]} <= shown | values
        assert {over["matcher"]["options"] for over in panel["fieldConfig"]["overrides"]} <= shown


def test_panels_that_may_be_empty_say_so_themselves() -> None:
    """Each listed panel exists, with a reason in the list and a text for when it is empty."""
    there = {(uid, panel["title"]): panel for uid, panel in all_panels()}
    for entry in read_list("empty.yml"):
        panel = there[entry["dashboard"], entry["panel"]]
        assert entry["reason"]
        assert panel["fieldConfig"]["defaults"]["noValue"]


def test_provisioning() -> None:
    """The provisioning files have the data source's type, and the directory that the README mounts."""
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/kafka-rebalance.yml").read_text())["providers"]
    readme = (GRAFANA / "README.md").read_text()
    assert source["type"] == "prometheus"
    assert f":{provider['options']['path']}" in readme
    assert ":/etc/grafana/provisioning" in readme


def test_the_default_live_page_is_the_exporters() -> None:
    """The dashboards' default URL is the exporter's default address."""
    [page] = {variables(board)["monitor"]["query"] for board in boards().values()}
    assert urlsplit(page).port == ExportConfig(kafka={}).listen_port
