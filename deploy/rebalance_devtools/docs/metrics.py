"""Generates the page that lists every metric, from the tables of metrics.

python -m rebalance_devtools.docs.metrics docs/metrics.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rebalance_contract import DURATION_BUCKETS_MS, STATES_OF, RebalanceReason
from rebalance_exporters.metrics.findings import FINDING_METRICS, SILENCE_METRICS
from rebalance_exporters.metrics.groups import GROUP_LABELS, GROUP_METRICS, STATE_CODES, STATE_SECONDS
from rebalance_exporters.metrics.lag import COMMIT_AGE, LAG_METRICS, PARTITION_LAG, TIME_LAG, WINDOW_METRICS
from rebalance_exporters.metrics.monitor import MONITOR_METRICS
from rebalance_exporters.metrics.series import PREFIX, Metric
from rebalance_exporters.metrics.timings import MEMBER_METRICS, TIMING_METRICS
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.stream_health import StreamHealth

_INTRODUCTION = """\
# Metrics

Everything the exporter's `/metrics` serves, and at the end what stream and prober serve about themselves. This page is
generated from the tables in `exporters/rebalance_exporters/metrics`; change the text there, then run
`make docs`.

All names begin with `{prefix}`. Units are base units. Where a value cannot be known its series is absent; it is never 0
for that reason. Rebalances, generations and members are counted by the stream, at the source, and every child of those
counters exists at 0 from the first scrape of a group on. Time in states, findings and events at wrong times are
counted by the exporter: these start at 0 whenever it starts, so two exporters differ in them. No label holds a
member id, a generation, an offset or the id of a rebalance: with OpenMetrics, `rebalances_total` and
`duration_seconds` carry the latest rebalance's id as exemplar, and the API has the rest.

A deleted group keeps its counters for `export.group_expiry_seconds` and then vanishes. `export.limit_groups` and
`export.limit_members_per_group` bound the number of series; what they leave out is counted in
`monitor_dropped_series_total`.
"""

_SECTIONS: tuple[tuple[str, str, tuple[Metric[Any], ...]], ...] = (
    ("Groups", "From the log: every group has these.", (*GROUP_METRICS, STATE_SECONDS)),
    (
        "Windows",
        "As last computed by the diagnosis, at most a minute ago; absent while it is silent.",
        WINDOW_METRICS,
    ),
    (
        "Commits and lag",
        "From commits and, for lag, from the prober, as the diagnosis publishes them; absent while it is silent.",
        (COMMIT_AGE, TIME_LAG, *LAG_METRICS),
    ),
    ("Partitions", "Off by default: `export.collect_partitions`.", (PARTITION_LAG,)),
    ("Findings", "What the diagnosis says.", FINDING_METRICS),
    ("Silences", "Silences and deploys that people and pipelines requested.", SILENCE_METRICS),
    ("Heartbeats and polls", "Only where clients report.", TIMING_METRICS),
    ("Members", "Off by default: `export.collect_members`. Only where clients report.", MEMBER_METRICS),
)


def render() -> str:
    """Return the whole page as Markdown."""
    sections = [_section(heading, text, metrics, GROUP_LABELS) for heading, text, metrics in _SECTIONS]
    monitor = _section("The monitor itself", "Labels are given in full.", MONITOR_METRICS, ())
    return "\n".join([_INTRODUCTION.format(prefix=PREFIX), *sections, monitor, *_own_pages(), _values()])


def write(file: Path) -> None:
    """Write the page."""
    file.write_text(render(), "utf-8")


def _own_pages() -> Iterator[str]:
    """Yield the sections about metrics that stream and prober serve themselves, without their `process_*` metrics."""
    pages = (
        ("stream", StreamHealth().registry, "`cluster` and `query`, where it is about a query"),
        ("prober", ProbeMetrics().registry, "`what`, a task of the prober, where it is about one"),
    )
    for process, registry, labels in pages:
        families = [family for family in registry.collect() if family.name.startswith(PREFIX)]
        rows = [
            f"| `{each.name}{'_total' if each.type == 'counter' else ''}` | {each.type} | {each.documentation} |"
            for each in families
        ]
        text = f"Served by the {process} itself, with `process_*` of its own. Labels: {labels}."
        yield "\n".join(
            [f"## The {process}'s own page", "", text, "", "| name | type | meaning |", "|---|---|---|", *rows, ""]
        )


def _section(heading: str, text: str, metrics: Iterable[Metric[Any]], common: tuple[str, ...]) -> str:
    labels = f" Labels: {_listed(common)}, then as listed." if common else ""
    rows = [f"| `{each.name}` | {each.type} | {_listed(each.labels)} | {_meaning(each)} |" for each in metrics]
    head = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {heading}", "", f"{text}{labels}", "", *head, *rows, ""])


def _meaning(of: Metric[Any]) -> str:
    return of.help if of.unused is None else f"{of.help} On no dashboard and in no alert. {of.unused}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _values() -> str:
    states = [f"| {kind} | {_listed(names)} |" for kind, names in STATES_OF.items()]
    codes = [f"| {code} | `{state}` |" for state, code in STATE_CODES.items()]
    bounds = ", ".join(f"{bound / 1000:g}" for bound in DURATION_BUCKETS_MS)
    return "\n".join(
        [
            "## Values of labels",
            "",
            f"`reason`: {_listed(RebalanceReason)}.",
            "",
            f"`le` of `duration_seconds`: {bounds}, +Inf.",
            "",
            "`state` by the type of the group:",
            "",
            "| type | states |",
            "|---|---|",
            *states,
            "",
            "`group_state_code`:",
            "",
            "| code | state |",
            "|---:|---|",
            *codes,
            "",
        ]
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
