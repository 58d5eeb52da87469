"""Runs the demo's Prometheus, Alertmanager and notification receiver, and prints pages as they arrive.

Takes the URL of the exporter; returns the two servers, or None if the programs are not installed or the rules are
missing, which only a checkout has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rebalance_deploy.counts import fetch
from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say
from rebalance_deploy.observability import (
    PACKAGES,
    Alerting,
    AlertmanagerOptions,
    PrometheusOptions,
    alerting,
    alerts_of,
    find_tool,
    receiving,
    shipped,
)
from rebalance_exporters.terminal.escaping import safe

#: Interval of scrapes and evaluations; short, because a person is watching.
SCRAPE_SECONDS = 5.0
#: Replaces `for` and `keep_firing_for` of the alerts about groups, which are minutes in the shipped rules, so that the
#: page appears during the incident and is resolved soon after it.
_HOLD_SECONDS, _HELD_FILES = 20.0, "kafka-rebalance.yml"
_WAIT_SECONDS = 1.0
_PROMETHEUS_PORT, _ALERTMANAGER_PORT = 9090, 9093
_RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
#: The lines of a page after the first: the annotation and the label of each.
_LINES = {
    "cause": "Cause",
    "who": "Who",
    "change": "Change",
    "since": "Since",
    "impact": "Impact",
    "scope": "Scope",
    "now": "Now",
    "explain_url": "Explain",
    "runbook_url": "Runbook",
}


@contextmanager
def printed_pages(directory: Path, exporter_url: str, say: Say) -> Iterator[Alerting | None]:
    """Run Prometheus and Alertmanager with the shipped rules and print every page; yields None if any is missing."""
    try:
        for name in PACKAGES:
            find_tool(name)
        shipped("prometheus/rules")
    except UserError as reason:
        say(f"no notifications are shown: {reason}")
        yield None
        return

    printed: set[tuple[str, ...]] = set()

    def on_body(path: str, body: Any) -> None:
        # A notification contains all alerts of its group, including those sent before.
        for alert in alerts_of(path, body):
            key = (alert["fingerprint"], alert["status"], alert["startsAt"], alert["annotations"].get("change", ""))
            if key not in printed:
                printed.add(key)
                say(render_page(alert))

    with (
        receiving(on_body) as phone,
        alerting(
            directory,
            exporter_url,
            phone,
            PrometheusOptions(
                links={"link_monitor": exporter_url, "link_grafana": "", "link_runbooks": _RUNBOOKS.as_uri()},
                scrape_seconds=SCRAPE_SECONDS,
                hold_seconds=_HOLD_SECONDS,
                held_files=_HELD_FILES,
            ),
            AlertmanagerOptions(group_wait_seconds=_WAIT_SECONDS, group_interval_seconds=SCRAPE_SECONDS),
            preferred_ports=(_PROMETHEUS_PORT, _ALERTMANAGER_PORT),
        ) as running,
    ):
        yield running


def fires(servers: Alerting, group: str) -> bool:
    """Return whether an alert of a group is firing; also true if Prometheus does not answer."""
    status, text = fetch(f"{servers.prometheus.url}/api/v1/alerts")
    if status != HTTPStatus.OK:
        return True
    alerts = json.loads(text)["data"]["alerts"]
    return any(each["state"] == "firing" and each["labels"].get("group") == group for each in alerts)


def render_page(alert: Mapping[str, Any]) -> str:
    """Return the lines of a page from an alert in Alertmanager's webhook format; the summary comes first."""
    annotations = {key: safe(" ".join(str(value).split())) for key, value in alert["annotations"].items()}
    severity = safe(str(alert["labels"].get("severity", "")))
    name = safe(str(alert["labels"].get("alertname", "")))
    head = f"ALERT [{safe(str(alert['status'])).upper()}] {annotations.get('summary', name)}  ({severity}, {name})"
    if alert["status"] != "firing":
        return head
    return "\n".join(
        [head, *(f"      {word:<8}{annotations[key]}" for key, word in _LINES.items() if annotations.get(key))]
    )
