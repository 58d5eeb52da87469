"""The rules of grafana/dashboard-linter for Prometheus dashboards, under their original names.

Reimplemented, so that the tests need no Go. Each rule is a function of a dashboard that yields complaints; where the
original checks only some kinds of panels, these rules check all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import promql_parser

from grafana.boards import ALL, MACROS, expand, nodes, panels, selectors, variables

Board = dict[str, Any]

#: The units that the original accepts, as far as they are used here.
_UNITS = {
    "none",
    "short",
    "percent",
    "percentunit",
    "bytes",
    "s",
    "string",
    "ms",
    "dtdurations",
    "dateTimeFromNow",
    "cps",
    "cpm",
}
_GROWTH = ("rate", "irate", "increase")
_LABEL_QUERY = re.compile(r"label_values\((.+), *([a-z_]+)\)")


def _targets(board: Board) -> Iterator[tuple[str, str]]:
    for panel in panels(board):
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


def _template_datasource(board: Board) -> Iterator[str]:
    chosen = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
    if [(each["name"], each["label"]) for each in chosen] != [("datasource", "Data source")]:
        yield "has no variable `datasource`"


def _template_named(name: str) -> Callable[[Board], Iterator[str]]:
    def check(board: Board) -> Iterator[str]:
        if name not in variables(board):
            yield f"has no variable `{name}`"

    return check


def _template_label_promql(board: Board) -> Iterator[str]:
    for each in board["templating"]["list"]:
        if each["type"] != "query":
            continue
        found = _LABEL_QUERY.fullmatch(each["query"])
        if found is None or not _parses(found[1]):
            yield f"variable {each['name']}: {each['query']}"


def _template_reload(board: Board) -> Iterator[str]:
    for each in board["templating"]["list"]:
        if each["type"] == "query" and each["refresh"] != 2:
            yield f"variable {each['name']} is not asked for anew when the time changes"


def _panel_datasource(board: Board) -> Iterator[str]:
    for panel in panels(board):
        for each in (panel, *panel.get("targets", ())):
            if each["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
                yield f"{panel['title']} has a data source of its own"


def _panel_title_description(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if not panel.get("title") or not panel.get("description"):
            yield f"panel {panel['id']} has no title or no description"


def _panel_units(board: Board) -> Iterator[str]:
    for panel in panels(board):
        config = panel["fieldConfig"]
        own = [each["value"] for over in config["overrides"] for each in over["properties"] if each["id"] == "unit"]
        for unit in (config["defaults"].get("unit"), *own):
            if unit not in _UNITS:
                yield f"{panel['title']} has the unit {unit}"


def _panel_no_targets(board: Board) -> Iterator[str]:
    for panel in panels(board):
        if not panel.get("targets"):
            yield f"{panel['title']} asks nothing"


def _target_promql(board: Board) -> Iterator[str]:
    for where, expr in _targets(board):
        if not _parses(expr):
            yield f"{where}: {expr}"


def _target_rate_interval(board: Board) -> Iterator[str]:
    for where, expr in _targets(board):
        if re.search(r"\b(i?rate)\([^()]*\[(?!\$__rate_interval\])", expr):
            yield f"{where}: {expr}"


def _target_matches(label: str) -> Callable[[Board], Iterator[str]]:
    def check(board: Board) -> Iterator[str]:
        for where, expr in _targets(board):
            for selector in selectors(expand(expr)):
                if label not in {matcher.name for matcher in selector.matchers.matchers}:
                    yield f"{where}: {selector.name}"

    return check


def _target_counter_agg(board: Board) -> Iterator[str]:
    for where, expr in _targets(board):
        found = nodes(expand(expr))
        grown = [
            argument.vector_selector.name
            for call in found
            if isinstance(call, promql_parser.Call) and call.func.name in _GROWTH
            for argument in call.args
            if isinstance(argument, promql_parser.MatrixSelector)
        ]
        counters = [each.name for each in found if isinstance(each, promql_parser.VectorSelector) and _is_counter(each)]
        if sorted(map(str, grown)) != sorted(map(str, counters)):
            yield f"{where}: {expr}"


def _uneditable(board: Board) -> Iterator[str]:
    if board["editable"]:
        yield "can be edited, and the next update would undo it"


def _is_counter(selector: promql_parser.VectorSelector) -> bool:
    return bool(re.search("_(total|bucket|sum|count)$", selector.name or ""))


def _parses(expr: str) -> bool:
    try:
        promql_parser.parse(expand(expr, ALL))
    except ValueError:
        return False
    except KeyError as error:
        raise AssertionError(f"{error} is neither a variable nor one of {', '.join(MACROS)}: {expr}") from error
    return True


RULES: Mapping[str, Callable[[Board], Iterator[str]]] = {
    "template-datasource-rule": _template_datasource,
    "template-job-rule": _template_named("job"),
    "template-instance-rule": _template_named("instance"),
    "template-label-promql-rule": _template_label_promql,
    "template-on-time-change-reload-rule": _template_reload,
    "panel-datasource-rule": _panel_datasource,
    "panel-title-description-rule": _panel_title_description,
    "panel-units-rule": _panel_units,
    "panel-no-targets-rule": _panel_no_targets,
    "target-promql-rule": _target_promql,
    "target-rate-interval-rule": _target_rate_interval,
    "target-job-rule": _target_matches("job"),
    "target-instance-rule": _target_matches("instance"),
    "target-counter-agg-rule": _target_counter_agg,
    "uneditable-dashboard": _uneditable,
}
