"""The committed dashboards as data, and their expressions as Grafana would send them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import yaml

GRAFANA = Path(__file__).parents[2] / "grafana"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
UIDS = {"kafka-rebalance-fleet", "kafka-rebalance-group", "kafka-rebalance-monitor"}

#: Substitutes for Grafana's own macros, and for variables with all values selected.
MACROS = {"__rate_interval": "5m", "__range": "10m", "__interval": "15s"}
ALL = {"cluster": ".*", "group": ".*", "topic": ".*"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a panel, and its place; `instant` queries a single moment instead of a range."""

    board: str
    panel: str
    ref: str
    expr: str
    legend: str
    instant: bool

    def __str__(self) -> str:
        return f"{self.board.removeprefix('kafka-rebalance-')}: {self.panel} ({self.ref})"


@cache
def boards() -> Mapping[str, dict[str, Any]]:
    """Return the committed dashboards by uid. Shared between tests: do not modify them."""
    return {board["uid"]: board for board in (json.loads(file.read_text()) for file in FILES)}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels without row headings, including those of collapsed rows."""
    found = [panel for each in board["panels"] for panel in (each, *each.get("panels", ()))]
    return [panel for panel in found if panel["type"] != "row"]


def overrides(panel: dict[str, Any], prefix: str) -> dict[tuple[str, str], Any]:
    """Return a panel's field overrides: the values of one property by (matcher, matched value)."""
    return {
        (over["matcher"]["id"], over["matcher"]["options"]): each["value"]
        for over in panel["fieldConfig"]["overrides"]
        for each in over["properties"]
        if each["id"] == prefix
    }


def all_panels() -> list[tuple[str, dict[str, Any]]]:
    """Return the panels of all dashboards with their dashboard's uid."""
    return [(uid, panel) for uid, board in boards().items() for panel in panels(board)]


def queries() -> list[Asked]:
    """Return the queries of all panels."""
    return [
        Asked(uid, panel["title"], target["refId"], target["expr"], target["legendFormat"], target["instant"])
        for uid, panel in all_panels()
        for target in panel["targets"]
    ]


def closed_label(expr: str, legend: str) -> str | None:
    """Return the last label of a legend if its values are a closed set with a colour each, otherwise null."""
    found = re.fullmatch(r".*\{\{(reason|state|change|outcome|kind)\}\}", legend)
    # Names of failed rows and rules are not known in advance.
    return None if found is None or re.search("contract_errors|quarantined", expr) else found[1]


def variables(board: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a dashboard's variables by name."""
    return {each["name"]: each for each in board["templating"]["list"]}


def expand(expr: str, chosen: Mapping[str, str] = ALL) -> str:
    """Return the expression that Grafana would send, with macros and variables replaced. Raises KeyError if unknown."""
    return re.sub(r"\$\{?([a-z_]\w*)\}?", lambda found: {**MACROS, **chosen}[found[1]], expr)


def selectors(expr: str) -> list[promql_parser.VectorSelector]:
    """Return the selectors of an expression. Raises ValueError if it is not valid PromQL."""
    return [node for node in nodes(expr) if isinstance(node, promql_parser.VectorSelector)]


def nodes(expr: str) -> list[promql_parser.Expr]:
    """Return an expression and all its subexpressions. Raises ValueError if it is not valid PromQL."""
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(expr), found.append)
    return found


def links(value: Any) -> Iterator[str]:
    """Yield every URL in a dashboard, from data links and dashboard links."""
    if isinstance(value, dict):
        if isinstance(value.get("url"), str):
            yield value["url"]
        for each in value.values():
            yield from links(each)
    elif isinstance(value, list):
        for each in value:
            yield from links(each)


def read_list(name: str) -> Any:
    """Return the content of a YAML file beside the dashboards."""
    return yaml.safe_load((GRAFANA / name).read_text())
