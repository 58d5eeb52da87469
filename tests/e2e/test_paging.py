"""From a sick consumer to a page and its resolution: the real monitor, the real Prometheus, the real Alertmanager.

`make test` also has a shorter version with the demo's sick consumer (test_demo.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinators import committed_offsets
from e2e.pages import page
from e2e.paging import DOWN, FINDING, WATCHDOG, alerts, has_all_lines, heard, hold_page_is_whole, paged
from e2e.rig import Rig, running_rig, samples
from prometheus.rig import Inbox
from rebalance_deploy.demo import workload
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

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
#: Windows longer than a minute last a twentieth: 15 s without progress are harm, half a minute of quiet resolves.
SCALE = "detect.window_scale=0.05"


def test_a_sick_consumer_pages_and_its_cure_resolves(tmp_path: Path) -> None:
    """Harm pages with cause, impact, scope, remedy and links; the cure resolves it; a blind monitor mutes the rest."""
    with running_rig(tmp_path, SCALE) as rig, paged(tmp_path, rig.url) as (inbox, pager_url, _):
        producer = ChildProcess(workload.producer_command(rig.broker.bootstrap), log_path=tmp_path / "producer.log")
        with producer:
            rig.start(WELL)
            wait_for(lambda: committed_offsets(rig.broker.bootstrap, GROUP), "offsets to fall behind of")
            rig.leave(WELL)
            rig.clients["sick"] = rig.spawn(SICK)
            page = wait_for(lambda: _critical(inbox), lambda: json.dumps(inbox.bodies("/alerts"))[-2_000:], 240)
            # A late timer makes one departure look like another; the next one follows 46 s later.
            wait_for(lambda: "poll_overrun" in _causes(rig), lambda: _causes(rig), 200)
            wait_for(lambda: _poll_timeouts(rig), "the departure in the totals of its group", 200)
            hold_page_is_whole(page, rig.url, GROUP)
            wait_for(lambda: inbox.bodies("/pagerduty"), "somebody to be woken")

            rig.clients.pop("sick").kill()
            rig.start(WELL)
            wait_for(lambda: _is_over(inbox), lambda: [_short(each) for each in alerts(inbox, FINDING)], 240)

            before = len(alerts(inbox, DOWN))
            rig.monitor.export.process.kill()
            wait_for(lambda: _fires(alerts(inbox, DOWN)[before:]), "the page about blindness", 180)
            wait_for(lambda: heard(pager_url) == {DOWN, WATCHDOG}, lambda: heard(pager_url), 180)


def _critical(inbox: Inbox) -> dict[str, Any] | None:
    # Windows are short: while the member is out, the group is empty, and a finding without subjects may come first.
    found = (each for each in alerts(inbox, FINDING) if each["labels"]["severity"] == "critical")
    return next((each for each in found if each["labels"].get("group") == GROUP and has_all_lines(each)), None)


def _fires(reported: list[dict[str, Any]]) -> bool:
    return any(each["status"] == "firing" for each in reported)


def _causes(rig: Rig) -> set[str]:
    findings = json.loads(page(f"{rig.url}/api/v1/findings?group={GROUP}"))["findings"]
    return {each["rule"] for each in findings if each["primary"]}


def _poll_timeouts(rig: Rig) -> float:
    wanted = {"cluster": "default", "group": GROUP, "change": "poll_timeout"}
    name = "kafka_rebalance_member_changes_total"
    return sum(value for each, labels, value in samples(rig.url) if each == name and labels == wanted)


def _is_over(inbox: Inbox) -> bool:
    last = [each for each in alerts(inbox, FINDING) if each["labels"]["severity"] == "critical"]
    return bool(last) and last[-1]["status"] == "resolved"


def _short(alert: dict[str, Any]) -> tuple[str, str, str]:
    return alert["status"], alert["labels"]["severity"], alert["annotations"]["summary"]
