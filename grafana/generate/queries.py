"""PromQL of the panels: builds expressions with Grafana's variables from names of metrics.

Metrics of a group are first reduced to one series per cluster and group, so that two exporters that watch the same
cluster count as one. Metrics of an exporter keep their `instance`. No expression needs the recording rules.
"""

from __future__ import annotations

from rebalance_contract import Severity, severity_rank
from rebalance_exporters.metrics.series import PREFIX

_GROUPS = 'cluster=~"$cluster",group=~"$group"'
_CLUSTERS = 'cluster=~"$cluster"'


def of_groups(metric: str, where: str = "") -> str:
    """Return a selector for a metric of the chosen groups."""
    return f"{PREFIX}{metric}{{{_join(_GROUPS, where)}}}"


def of_clusters(metric: str, where: str = "") -> str:
    """Return a selector for a metric of the chosen clusters."""
    return f"{PREFIX}{metric}{{{_join(_CLUSTERS, where)}}}"


def of_exporters(metric: str) -> str:
    """Return a selector for a metric of all scraped exporters."""
    return f"{PREFIX}{metric}"


def per_group(vector: str, *labels: str, by: str = "max") -> str:
    """Return a vector reduced to one series per cluster, group and further labels."""
    return f"{by} by ({', '.join(('cluster', 'group', *labels))}) ({vector})"


def rate(metric: str, *labels: str) -> str:
    """Return the rate of a counter of groups per second."""
    return per_group(f"rate({of_groups(metric)}[$__rate_interval])", *labels)


def increase(metric: str, *labels: str, over: str = "$__range") -> str:
    """Return the increase of a counter of groups within a range, by default the dashboard's time range."""
    return per_group(f"increase({of_groups(metric)}[{over}])", *labels)


def growth(metric: str, *labels: str, where: str = "") -> str:
    """Return the increase of a gauge of groups per second, negative if it decreases."""
    return per_group(f"deriv({of_groups(metric, where)}[$__rate_interval])", *labels)


def gauge(metric: str, *labels: str, where: str = "") -> str:
    """Return a gauge of groups."""
    return per_group(of_groups(metric, where), *labels)


def window(metric: str, length: str, *, by: str = "max") -> str:
    """Return the value of one of the stream's sliding windows; `length` is 1m, 5m or 15m."""
    return per_group(of_groups(f"window_{metric}", f'window="{length}"'), by=by)


_FINDING = ("cluster", "group", "rule", "severity")


def of_findings(metric: str, *labels: str, where: str = "") -> str:
    """Return a metric of open findings: one series per cluster, group, rule, severity and further labels."""
    return gauge(f"finding_{metric}", "rule", "severity", *labels, where=where)


def severity_codes() -> str:
    """Return the severity of open findings: 3 page, 2 ticket, 1 info."""
    return of_findings("severity_code")


def gravest() -> str:
    """Return the rank of open findings: by severity, then causes first, then by confidence, then oldest first.

    The rank is 10 times the severity, plus 1 for a cause, plus the confidence. The start time subtracts less than 1 %
    of confidence, so that it only decides between otherwise equal findings.
    """
    since = f"{of_findings('start_timestamp_seconds')} / 1e12"
    return f"10 * {severity_codes()} + {of_findings('primary')} + {of_findings('confidence')} - {since}"


def asking() -> str:
    """Return open findings above severity info, with the rank of `gravest`."""
    return f"{gravest()} > {10 * (severity_rank(Severity.TICKET) + 1) - 1}"


def leading() -> str:
    """Return the highest-ranked open finding above severity info."""
    return f"topk(1, {asking()})"


def leading_per_group() -> str:
    """Return the same for every group; without a finding above severity info, the latest cause, such as a deploy.

    Findings about a whole cluster are left out.
    """
    lately = f"{of_findings('primary')} + {of_findings('start_timestamp_seconds')} / 1e12"
    first = "topk by (cluster, group) (1, {})"
    found = f"{first.format(asking())} or on (cluster, group) {first.format(lately)}"
    return f"({found}) and on (cluster, group) {per_group(of_groups('group_info'))}"


def with_details(findings: str, *labels: str) -> str:
    """Add labels of `finding_info` to findings; if two exporters have different values, one is chosen."""
    each = ", ".join(_FINDING)
    info = f"topk by ({each}) (1, {of_findings('info', *labels)})"
    return f"({findings}) * on ({each}) group_left ({', '.join(labels)}) {info}"


def named(vector: str, label: str, otherwise: str) -> str:
    """Add the label `name`, with the value of another label, or a text if that is empty."""
    return f'label_replace(label_replace({vector}, "name", "{otherwise}", "", ""), "name", "$1", "{label}", "(.+)")'


def or_nobody(vector: str, name: str) -> str:
    """Replace an empty vector by a series with the value 0 and a name, or with -1 if no exporter is scraped."""
    nobody = f'label_replace(0 * max({PREFIX}monitor_ready), "name", "{name}", "", "")'
    blind = 'label_replace(vector(-1), "name", "no exporter is scraped", "", "")'
    return f"{vector} or on () {nobody} or on () {blind}"


def or_unknown(vector: str) -> str:
    """Add NaN for groups without a value, so that a table keeps the column."""
    return f"{vector} or NaN * {per_group(of_groups('group_info'))}"


def or_none_known(count: str) -> str:
    """Replace an empty count by 0, but only while an exporter is scraped."""
    return f"{count} or 0 * max({PREFIX}monitor_ready)"


def with_coordinator(vector: str) -> str:
    """Add the label `coordinator`; if two exporters have different values, one is chosen."""
    known = per_group(of_groups("group_info", 'coordinator!=""'), "coordinator")
    return f"({vector}) * on (cluster, group) group_left (coordinator) topk by (cluster, group) (1, {known})"


def _join(*matchers: str) -> str:
    return ",".join(filter(None, matchers))


def max_of_query(metric: str) -> str:
    """Return each query's value of a metric of the monitor itself."""
    return f"max by (cluster, query) ({of_clusters(f'monitor_{metric}')})"


def max_of_exporter(metric: str, *labels: str) -> str:
    """Return each exporter's value of a metric of the monitor itself, by further labels."""
    return f"max by ({', '.join(('instance', *labels))}) ({of_exporters(f'monitor_{metric}')})"


def max_growth(selected: str, labels: str) -> str:
    """Return a counter's increase in the dashboard's time range, the maximum by labels, as several may report it."""
    return f"max by ({labels}) (increase({selected}[$__range]))"
