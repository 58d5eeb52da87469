"""Panels use exported metrics only, and every exported metric is used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from exporters.tables import every_metric
from grafana.boards import boards, expand, queries, selectors
from prometheus.rig import RULES
from rebalance_exporters.metrics.groups import GROUP_LABELS
from rebalance_exporters.metrics.series import PREFIX

#: Labels that Prometheus adds at the scrape.
TARGET = {"job", "instance"}


def exported() -> Mapping[str, set[str]]:
    """Return the labels of every metric of the exporter by its full name."""
    return {
        metric.full_name: {*metric.labels, *(() if metric.name.startswith("monitor_") else GROUP_LABELS)}
        for metric in every_metric()
    }


@cache
def samples() -> Mapping[str, set[str]]:
    """Return the same by sample name: a histogram has three."""
    histograms = {metric.full_name for metric in every_metric() if metric.type == "histogram"}
    found = {name: labels for name, labels in exported().items() if name not in histograms}
    for name in histograms:
        found |= {name + end: exported()[name] | {"le"} for end in ("_bucket", "_sum", "_count")}
    return found


def _expressions() -> list[str]:
    marks = [mark["expr"] for board in boards().values() for mark in board["annotations"]["list"]]
    names = [each["query"] for board in boards().values() for each in board["templating"]["list"]]
    return [asked.expr for asked in queries()] + marks + [name for name in names if name.startswith("label_values")]


def test_the_table_is_read() -> None:
    """The names come from the exporter's own table, including those about the monitor."""
    assert len(exported()) > 50
    assert f"{PREFIX}duration_seconds_bucket" in samples()


def test_queries_name_what_is_exported() -> None:
    """A query is valid PromQL, selects metrics by existing labels, and aggregates by existing labels."""
    known = samples()
    for asked in queries():
        found = selectors(expand(asked.expr))
        assert found, asked
        for selector in found:
            assert selector.name is not None, asked
            assert selector.name in known, asked
            named = {matcher.name for matcher in selector.matchers.matchers}
            assert named <= known[selector.name] | TARGET, asked
        there = {label for selector in found for label in known[selector.name or ""]} | TARGET
        made = set(re.findall(r'label_replace\(.*?, "([^"]+)", "\$1"', asked.expr))
        grouped = re.findall(r"\b(?:by|on|group_left) \(([^()]*)\)", asked.expr)
        labels = {label.strip() for each in grouped for label in filter(None, each.split(","))}
        assert labels <= there | made, asked


def test_queries_need_no_recording_rules() -> None:
    """The dashboards work with a Prometheus without the shipped rules."""
    assert not [expr for expr in _expressions() if "kafka_rebalance:" in expr]


def test_choices_narrow_queries() -> None:
    """Every query about clusters or groups is restricted to the selected ones."""
    known = samples()
    for asked in queries():
        for selector in selectors(expand(asked.expr, {"cluster": "MY", "group": "OWN", "topic": "ANY"})):
            chosen = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            labels = known[selector.name or ""]
            assert "cluster" not in labels or chosen.get("cluster") == "MY", asked
            assert "group" not in labels or chosen.get("group") == "OWN", asked


def test_every_metric_is_used() -> None:
    """Every exported metric is in a panel, a mark or a rule, or is declared with its other purpose; none is both."""
    text = "".join(_expressions()) + "".join(file.read_text() for file in RULES.glob("*.yml"))
    names = set(re.findall(rf"\b{PREFIX}[a-z0-9_]+", text))
    used = {name for name in exported() if names & {name, f"{name}_bucket", f"{name}_sum", f"{name}_count"}}
    unused = {metric.full_name for metric in every_metric() if metric.unused}
    assert exported().keys() - used == unused
