"""PromQL of the panels: takes names from the table of metrics, hands on expressions with Grafana's variables in them.

Everything about a group is first reduced to one series per cluster and group: two exporters that watch the same cluster
then count as one. What is the exporter's own keeps its `instance`. No expression needs the recording rules.
"""

from __future__ import annotations

from rebalance_contract import Severity, gravity
from rebalance_exporters.metrics.series import PREFIX

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


def growth(metric: str, *labels: str, where: str = "") -> str:
    """Return by how much a gauge of groups grows per second, below 0 where it falls."""
    return per_group(f"deriv({of_groups(metric, where)}[$__rate_interval])", *labels)


def gauge(metric: str, *labels: str, where: str = "") -> str:
    """Return a gauge of groups."""
    return per_group(of_groups(metric, where), *labels)


def window(metric: str, length: str, *, by: str = "max") -> str:
    """Return what one of the stream's sliding windows says: `length` is 1m, 5m or 15m."""
    return per_group(of_groups(f"window_{metric}", f'window="{length}"'), by=by)


_FINDING = ("cluster", "group", "rule", "severity")


def of_findings(metric: str, *labels: str, where: str = "") -> str:
    """Return what is known of open findings: one series per cluster, group, rule, severity and further labels."""
    return gauge(f"finding_{metric}", "rule", "severity", *labels, where=where)


def severity_codes() -> str:
    """Return how grave open findings are: 3 page, 2 ticket, 1 info."""
    return of_findings("severity_code")


def gravest() -> str:
    """Return open findings by what to read first: by severity, then causes, then how sure they are, then oldest first.

    10 times the severity, plus 1 for a cause, plus the confidence. The time since when it is open takes off less than
    1 % of confidence, so that it only decides what is equal otherwise.
    """
    since = f"{of_findings('start_timestamp_seconds')} / 1e12"
    return f"10 * {severity_codes()} + {of_findings('primary')} + {of_findings('confidence')} - {since}"


def asking() -> str:
    """Return open findings that ask for somebody, as `gravest` orders them."""
    return f"{gravest()} > {10 * (gravity(Severity.TICKET) + 1) - 1}"


def leading() -> str:
    """Return the one finding that is to be read first of those that ask for somebody."""
    return f"topk(1, {asking()})"


def leading_per_group() -> str:
    """Return the same of every group; where nothing asks for anybody the cause that was found last, such as a deploy.

    Findings about a whole cluster are of no group.
    """
    lately = f"{of_findings('primary')} + {of_findings('start_timestamp_seconds')} / 1e12"
    first = "topk by (cluster, group) (1, {})"
    found = f"{first.format(asking())} or on (cluster, group) {first.format(lately)}"
    return f"({found}) and on (cluster, group) {per_group(of_groups('group_info'))}"


def with_details(findings: str, *labels: str) -> str:
    """Add labels of `finding_info` to findings; of two exporters that say different things, one is taken."""
    each = ", ".join(_FINDING)
    info = f"topk by ({each}) (1, {of_findings('info', *labels)})"
    return f"({findings}) * on ({each}) group_left ({', '.join(labels)}) {info}"


def named(vector: str, label: str, otherwise: str) -> str:
    """Add the label `name`: that of another one, or a text where that is empty."""
    return f'label_replace(label_replace({vector}, "name", "{otherwise}", "", ""), "name", "$1", "{label}", "(.+)")'


def or_nobody(vector: str, name: str) -> str:
    """Make the absence of all series one with the value 0 and a name, and one with -1 where no exporter says so."""
    nobody = f'label_replace(0 * max({PREFIX}monitor_ready), "name", "{name}", "", "")'
    blind = 'label_replace(vector(-1), "name", "no exporter is scraped", "", "")'
    return f"{vector} or on () {nobody} or on () {blind}"


def or_unknown(vector: str) -> str:
    """Give groups of which nothing is known no number, so that a table keeps the column."""
    return f"{vector} or NaN * {per_group(of_groups('group_info'))}"


def or_none_known(count: str) -> str:
    """Make the absence of a count 0, but only while an exporter is there to say so."""
    return f"{count} or 0 * max({PREFIX}monitor_ready)"


def with_coordinator(vector: str) -> str:
    """Add the label `coordinator`; of two exporters that know different ones, one is taken."""
    known = per_group(of_groups("group_info", 'coordinator!=""'), "coordinator")
    return f"({vector}) * on (cluster, group) group_left (coordinator) topk by (cluster, group) (1, {known})"


def _join(*matchers: str) -> str:
    return ",".join(filter(None, matchers))


def max_of_query(metric: str) -> str:
    """Return each query's value of a metric of the monitor's own."""
    return f"max by (cluster, query) ({of_clusters(f'monitor_{metric}')})"


def max_of_exporter(metric: str, *labels: str) -> str:
    """Return each exporter's value of a metric of the monitor's own, by more labels."""
    return f"max by ({', '.join(('instance', *labels))}) ({of_exporters(f'monitor_{metric}')})"


def max_growth(selected: str, labels: str) -> str:
    """Return by how much a counter grew in the range shown, the highest by labels: several may report it."""
    return f"max by ({labels}) (increase({selected}[$__range]))"
