"""Every query of the dashboards with a real Prometheus that scraped the real exporter."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from grafana.boards import ALL, Asked, all_panels, boards, closed_label, expand, overrides, queries
from grafana.live import CLUSTER, Live, live, run
from rebalance_contract import severity_rank

pytestmark = pytest.mark.tools


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One Prometheus for all tests."""
    with live(tmp_path_factory.mktemp("grafana")) as running:
        yield running


@pytest.mark.parametrize("asked", queries(), ids=str)
def test_queries_find_something(here: Live, asked: Asked) -> None:
    """A query returns data, and the names of its series use existing labels."""
    found = run(here, asked)
    assert found
    for series in found:
        missing = set(re.findall(r"\{\{(\w+)\}\}", asked.legend)) - series["metric"].keys()
        assert not missing, (missing, series["metric"])


@pytest.mark.parametrize(
    ("uid", "variable"),
    [(uid, each["name"]) for uid, board in boards().items() for each in board["templating"]["list"] if "sort" in each],
)
def test_variables_offer_something(here: Live, uid: str, variable: str) -> None:
    """The lists of clusters and groups have the scraped ones, whatever else is selected."""
    [query] = [each["query"] for each in boards()[uid]["templating"]["list"] if each["name"] == variable]
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert found
    fleet = here.view.fleet()
    there = {
        "cluster": {CLUSTER},
        "group": {group for _, group in fleet.groups},
        "topic": {
            topic for lag in fleet.lags.values() for topic, reported in lag.topics.items() if reported.total is not None
        },
    }
    assert there[variable]
    assert set(here.values_of(found[2], expand(found[1]))) == there[variable]


def test_marks_are_at_the_very_millisecond(here: Live) -> None:
    """The mark's value is the time reported by the stream, to the millisecond, for every group."""
    [mark] = boards()["kafka-rebalance-group"]["annotations"]["list"]
    reported = {group: snapshot.last_rebalance_ms for (_, group), snapshot in here.view.fleet().groups.items()}
    marked = {each["metric"]["group"]: float(each["value"][1]) for each in here.instant(expand(mark["expr"]))}
    assert marked == reported
    assert len(marked) == 3
    labels = set(re.findall(r"\{\{(\w+)\}\}", mark["titleFormat"] + mark["textFormat"]))
    assert labels <= {"cluster", "group"}


def test_links_name_labels_that_are_there(here: Live) -> None:
    """Labels in a data link exist in its series or row."""
    for uid, panel in all_panels():
        found = [
            series
            for asked in queries()
            if (asked.board, asked.panel) == (uid, panel["title"])
            for series in run(here, asked)
        ]
        assert found, panel["title"]
        wanted = set(re.findall(r"__(?:field\.labels|data\.fields)\.(\w+)", str(panel["fieldConfig"])))
        assert all(wanted <= series["metric"].keys() for series in found), panel["title"]


def test_columns_name_labels_that_are_there(here: Live) -> None:
    """A column of a table that no query fills is a label of one of their results."""
    for uid, panel in all_panels():
        if panel["type"] != "table":
            continue
        asked = [each for each in queries() if (each.board, each.panel) == (uid, panel["title"])]
        labels = {label for each in asked for series in run(here, each) for label in series["metric"]}
        [names] = [
            each["options"]["include"]["names"]
            for each in panel["transformations"]
            if each["id"] == "filterFieldsByName"
        ]
        assert {name for name in names if not name.startswith("Value")} <= labels, panel["title"]


def test_names_of_closed_sets_have_their_colours(here: Live) -> None:
    """If some values of a label have fixed colours, all existing ones have."""
    for uid, panel in all_panels():
        by_name = overrides(panel, "color")
        for asked in queries():
            label = closed_label(asked.expr, asked.legend)
            if (asked.board, asked.panel) == (uid, panel["title"]) and label is not None:
                coloured = {re.sub(r"^/ (.*)\$/$", r"\1", matched) for _, matched in by_name}
                assert {series["metric"][label] for series in run(here, asked)} <= coloured, str(asked)


def test_findings_are_in_the_order_to_read_them(here: Live) -> None:
    """By severity, causes before their consequences, the most certain, the oldest; the first is shown above."""
    firing = [each for of in here.view.fleet().findings.values() for each in of.firing()]
    rank: dict[tuple[str, str], tuple[float, ...]] = {}
    for each in firing:
        place = (severity_rank(each.severity), each.primary, each.confidence, -each.started_at_ms)
        rank[each.group, each.rule] = max(place, rank.get((each.group, each.rule), place))
    expected = sorted(rank, key=lambda name: rank[name], reverse=True)
    for board in ("fleet", "group"):
        table = [
            each for each in queries() if each.board.endswith(board) and each.panel.startswith("Open findings and")
        ]
        [order] = [each for each in table if each.expr.startswith("10 *")]
        found = sorted(run(here, order), key=lambda series: -float(series["value"][1]))
        assert [(series["metric"]["group"], series["metric"]["rule"]) for series in found] == expected
        assert len(found) > 3
        for title in ("Why" if board == "fleet" else "What is wrong", "Who", "Since"):
            [asked] = [each for each in queries() if (each.board, each.panel) == (order.board, title)]
            [series] = run(here, asked)
            assert (series["metric"]["group"], series["metric"]["rule"]) == expected[0]


def test_a_calm_fleet_is_named_so(here: Live) -> None:
    """If no finding needs action, the panels about findings say so."""
    [asked] = [each for each in queries() if each.board.endswith("fleet") and each.panel == "Why"]
    [series] = run(here, asked, ALL | {"group": "nobody"})
    assert (series["metric"], series["value"][1]) == ({"name": "nothing to act on"}, "0")


def test_one_group_can_be_chosen(here: Live) -> None:
    """With the selection in an alert's link, every panel of the groups dashboard shows that group only."""
    chosen = ALL | {"cluster": CLUSTER, "group": "poll-overrun-played-1"}
    for asked in queries():
        if asked.board == "kafka-rebalance-group":
            found = {series["metric"].get("group", chosen["group"]) for series in run(here, asked, chosen)}
            assert found <= {chosen["group"]}, str(asked)


@pytest.mark.parametrize(
    ("board", "panel", "value"),
    [
        ("fleet", "Monitor", 1),
        ("fleet", "Groups", 3),
        ("fleet", "Open findings", None),
        ("monitor", "Not decoded", 1),
        ("monitor", "Rows left out", 1),
        ("monitor", "Over a limit", 0),
    ],
)
def test_numbers_are_right(here: Live, board: str, panel: str, value: float | None) -> None:
    """Single numbers are the published values; growth is measured by rates, so it is approximate."""
    [asked] = [each for each in queries() if each.board.endswith(board) and each.panel == panel]
    [series] = run(here, asked)
    if value is None:
        findings = [each for of in here.view.fleet().findings.values() for each in of.findings]
        # A metric has no members, so one diagnosis of two members of a group is one.
        open_now = (each for each in findings if each.state == "firing" and each.severity in ("page", "ticket"))
        value = len({(each.group, each.rule) for each in open_now})
        assert value > 0
    # `increase` extrapolates to the whole range.
    assert float(series["value"][1]) == pytest.approx(
        value, abs=0.5 if panel in ("Not decoded", "Rows left out") else 0
    )
