"""Links between dashboards and to the monitor's live page; they keep time range and variables."""

from __future__ import annotations

FLEET, GROUP, MONITOR = "kafka-rebalance-fleet", "kafka-rebalance-group", "kafka-rebalance-monitor"

#: URL parameters for the current values other than cluster and group.
_KEPT = "${datasource:queryparam}&${monitor:queryparam}&${__url_time_range}"


def to_group(cluster: str, group: str) -> dict[str, object]:
    """Return a data link to the dashboard of a group; both are macros of Grafana, see `ROW`."""
    url = f"/d/{GROUP}?var-cluster=${{{cluster}:percentencode}}&var-group=${{{group}:percentencode}}&{_KEPT}"
    return {"title": "Dashboard of this group", "url": url}


def to_live_page(cluster: str, group: str) -> dict[str, object]:
    """Return a data link to a group on the live page, which shows evidence and every rebalance."""
    url = f"${{monitor:raw}}/#/groups/${{{cluster}:percentencode}}/${{{group}:percentencode}}"
    return {"title": "Explain this group (live page)", "url": url, "targetBlank": True}


def to_board(uid: str, title: str) -> dict[str, object]:
    """Return a data link to a dashboard with the current values of the variables."""
    kept = "${cluster:queryparam}&" + _KEPT
    return {"title": title, "url": f"/d/{uid}?{kept}"}


def to_readiness() -> dict[str, object]:
    """Return a data link to the exporter's readiness page."""
    return {"title": "What it waits for (/-/ready)", "url": "${monitor:raw}/-/ready", "targetBlank": True}


#: The macros for the row of a table that has columns `cluster` and `group`.
ROW = ("__data.fields.cluster", "__data.fields.group")
#: The macros for a series with these labels.
SERIES = ("__field.labels.cluster", "__field.labels.group")
