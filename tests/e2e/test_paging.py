"""From a sick consumer to the phone and back: the real monitor, the real Prometheus, the real Alertmanager."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinators import committed_offsets
from e2e.pages import page
from e2e.rig import Rig, running_rig, samples
from prometheus.rig import Inbox, ask, webhook_receiver
from rebalance_deploy.demo import workload
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.observability import alerting
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

GROUP = "payments-enricher"
SICK = ConsumerSpec(
    "confluent-kafka",
    GROUP,
    "payments",
    "sick-1",
    session_timeout_ms=6_000,
    max_poll_interval_ms=6_000,
    seconds_per_poll=40.0,
)
WELL = ConsumerSpec("confluent-kafka", GROUP, "payments", "well-1", session_timeout_ms=6_000)
#: Windows longer than a minute last a twentieth: 15 s without progress are harm, half a minute of peace resolves.
SCALE = "detect.window_scale=0.05"


@contextmanager
def paged(directory: Path, rig: Rig) -> Iterator[tuple[Inbox, str]]:
    """Let Prometheus watch the rig's exporter and Alertmanager page a receiver; yields it and Alertmanager's URL."""
    with webhook_receiver() as inbox:
        options: dict[str, Any] = {"scrape_seconds": 1, "hold_seconds": 2, "group_wait_seconds": 1}
        links = {"link_monitor": rig.monitor.url}
        with alerting(directory, rig.monitor.url, inbox.url, links=links, group_interval_seconds=2, **options) as both:
            yield inbox, both.alertmanager.url


def alerts(inbox: Inbox, name: str) -> list[dict[str, Any]]:
    """Return what the receiver of everything was told of an alert, oldest first."""
    return [each for body in inbox.bodies("/alerts") for each in body["alerts"] if each["labels"]["alertname"] == name]


def test_a_sick_consumer_pages_and_its_cure_resolves(tmp_path: Path) -> None:
    """Harm pages with cause, impact, scope, what to do and links; the cure resolves it; blindness mutes the rest."""
    with running_rig(tmp_path, SCALE) as rig, paged(tmp_path, rig) as (inbox, pager_url):
        producer = ChildProcess(workload.producer_command(rig.broker.bootstrap), log_path=tmp_path / "producer.log")
        with producer:
            rig.start(WELL)
            wait_for(lambda: committed_offsets(rig.broker.bootstrap, GROUP), "offsets to fall behind of")
            rig.leave(WELL)
            rig.clients["sick"] = rig.spawn(SICK)
            page = wait_for(lambda: _critical(inbox), lambda: json.dumps(inbox.bodies("/alerts"))[-2_000:], 240)
            told = page["annotations"]
            assert page["labels"] | {"cluster": "default", "group": GROUP} == page["labels"]
            # A timer that fires late makes one departure look like another; the next one comes 46 s later.
            wait_for(lambda: "poll_overrun" in _causes(rig), lambda: _causes(rig), 200)
            wait_for(lambda: _poll_timeouts(rig), "the departure in the totals of its group", 200)
            assert all(told[line] for line in ("cause", "since", "impact", "scope", "now"))
            assert told["explain_url"] == f"{rig.monitor.url}/#/groups/default/{GROUP}"
            wait_for(lambda: inbox.bodies("/pagerduty"), "somebody to be woken")

            rig.clients.pop("sick").kill()
            rig.start(WELL)
            wait_for(lambda: _is_over(inbox), lambda: [_short(each) for each in alerts(inbox, FINDING)], 240)

            before = len(alerts(inbox, DOWN))
            rig.monitor.export.process.kill()
            wait_for(lambda: _fires(alerts(inbox, DOWN)[before:]), "the page about blindness", 60)
            wait_for(lambda: _heard(pager_url) == {DOWN, "KafkaRebalanceWatchdog"}, lambda: _heard(pager_url), 20)


FINDING, DOWN = "KafkaRebalanceFinding", "KafkaRebalanceMonitorDown"


def _critical(inbox: Inbox) -> dict[str, Any] | None:
    found = (each for each in alerts(inbox, FINDING) if each["labels"]["severity"] == "critical")
    return next((each for each in found if each["labels"].get("group") == GROUP), None)


def _fires(told: list[dict[str, Any]]) -> bool:
    return any(each["status"] == "firing" for each in told)


def _heard(pager_url: str) -> set[str]:
    """Return the alerts that nothing mutes."""
    open_alerts = ask(f"{pager_url}/api/v2/alerts")
    return {each["labels"]["alertname"] for each in open_alerts if each["status"]["state"] == "active"}


def _causes(rig: Rig) -> set[str]:
    findings = json.loads(page(f"{rig.monitor.url}/api/v1/findings?group={GROUP}"))["findings"]
    return {each["rule"] for each in findings if each["primary"]}


def _poll_timeouts(rig: Rig) -> float:
    wanted = {"cluster": "default", "group": GROUP, "change": "poll_timeout"}
    name = "kafka_rebalance_member_changes_total"
    return sum(value for each, labels, value in samples(rig.monitor.url) if each == name and labels == wanted)


def _is_over(inbox: Inbox) -> bool:
    last = [each for each in alerts(inbox, FINDING) if each["labels"]["severity"] == "critical"]
    return bool(last) and last[-1]["status"] == "resolved"


def _short(alert: dict[str, Any]) -> tuple[str, str, str]:
    return alert["status"], alert["labels"]["severity"], alert["annotations"]["summary"]
