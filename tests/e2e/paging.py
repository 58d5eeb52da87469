"""The real Prometheus and the real Alertmanager beside a running monitor, and the notifications they send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from e2e.pages import page
from prometheus.rig import Inbox, webhook_receiver
from rebalance_deploy.observability import AlertmanagerOptions, PrometheusOptions, alerting

_LINES = "cause", "who", "change", "since", "impact", "scope", "now"
FINDING, DOWN, WATCHDOG = "KafkaRebalanceFinding", "KafkaRebalanceMonitorDown", "KafkaRebalanceWatchdog"


class Paged(NamedTuple):
    """The receivers, and the URLs of Alertmanager and Prometheus."""

    inbox: Inbox
    pager_url: str
    prometheus_url: str


@contextmanager
def paged(directory: Path, exporter_url: str) -> Iterator[Paged]:
    """Let Prometheus watch an exporter and Alertmanager page a receiver."""
    with webhook_receiver() as inbox:
        # The scrape time-out equals the interval: a scrape that a busy exporter answers too late would restart the
        # `for` time of every condition.
        links = {"link_monitor": exporter_url}
        watching = PrometheusOptions(links=links, scrape_seconds=5, hold_seconds=2)
        # Only a repeated notification has lines that became known after the first one.
        options = AlertmanagerOptions(group_wait_seconds=1, group_interval_seconds=2, repeat_seconds=4)
        with alerting(directory, exporter_url, inbox.url, watching, options) as both:
            yield Paged(inbox, both.alertmanager.url, both.prometheus.url)


def alerts(inbox: Inbox, name: str) -> list[dict[str, Any]]:
    """Return the notifications about an alert at the receiver of everything, oldest first."""
    return [each for body in inbox.bodies("/alerts") for each in body["alerts"] if each["labels"]["alertname"] == name]


def has_all_lines(alert: dict[str, Any]) -> bool:
    """Whether an alert has all lines of a page; lines without a known value are left out."""
    return not missing_lines(alert)


def missing_lines(alert: dict[str, Any]) -> set[str]:
    """Return the lines of a page that an alert does not have."""
    return {line for line in _LINES if not alert["annotations"].get(line)}


def hold_page_is_whole(alert: dict[str, Any], exporter_url: str, group: str) -> None:
    """Check for cause, culprit, change, beginning, impact, scope, remedy, and the link to the group's page."""
    annotations = alert["annotations"]
    assert alert["labels"] | {"cluster": "default", "group": group} == alert["labels"]
    assert has_all_lines(alert), annotations
    assert annotations["explain_url"] == f"{exporter_url}/#/groups/default/{group}"


def heard(pager_url: str) -> set[str]:
    """Return the alerts that are not muted."""
    open_alerts = json.loads(page(f"{pager_url}/api/v2/alerts"))
    return {each["labels"]["alertname"] for each in open_alerts if each["status"]["state"] == "active"}
