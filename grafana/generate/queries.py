"""PromQL of the panels: takes names from the table of metrics, hands on expressions with Grafana's variables in them.

Everything about a group is first reduced to one series per cluster and group: two exporters that watch the same cluster
then count as one. What is the exporter's own keeps its `instance`. No expression needs the recording rules.
"""

from __future__ import annotations

from rebalance_exporters.series import PREFIX

_GROUPS = 'cluster=~"$cluster",group=~"$group"'
_CLUSTERS = 'cluster=~"$cluster"'


def of_groups(metric: str, where: str = "") -> str:
    """Select a metric of the chosen groups."""
    return f"{PREFIX}{metric}{{{_join(_GROUPS, where)}}}"


def of_clusters(metric: str, where: str = "") -> str:
    """Select a metric of the chosen clusters."""
    return f"{PREFIX}{metric}{{{_join(_CLUSTERS, where)}}}"


def of_exporters(metric: str) -> str:
    """Select a metric of all exporters that are scraped."""
    return f"{PREFIX}{metric}"


def per_group(vector: str, *labels: str, by: str = "max") -> str:
    """Reduce to one series per cluster, group and further labels."""
    return f"{by} by ({', '.join(('cluster', 'group', *labels))}) ({vector})"


def rate(metric: str, *labels: str) -> str:
    """Return a counter of groups per second."""
    return per_group(f"rate({of_groups(metric)}[$__rate_interval])", *labels)


def increase(metric: str, *labels: str, over: str = "$__range") -> str:
    """Return by how much a counter of groups grew within a range, by default the time shown."""
    return per_group(f"increase({of_groups(metric)}[{over}])", *labels)


def gauge(metric: str, *labels: str, where: str = "") -> str:
    """Return a gauge of groups."""
    return per_group(of_groups(metric, where), *labels)


def window(metric: str, length: str, *, by: str = "max") -> str:
    """Return what one of the stream's sliding windows says: `length` is 1m, 5m or 15m."""
    return per_group(of_groups(f"window_{metric}", f'window="{length}"'), by=by)


def or_none_known(count: str) -> str:
    """Make the absence of a count 0, but only while an exporter is there to say so."""
    return f"{count} or 0 * max({PREFIX}monitor_ready)"


def with_coordinator(vector: str) -> str:
    """Add the label `coordinator`; of two exporters that know different ones, one is taken."""
    known = per_group(of_groups("group_info", 'coordinator!=""'), "coordinator")
    return f"({vector}) * on (cluster, group) group_left (coordinator) topk by (cluster, group) (1, {known})"


def _join(*matchers: str) -> str:
    return ",".join(filter(None, matchers))
