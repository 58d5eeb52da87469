"""`rebalance-monitor demo`, as started by a user: its output and pages, its notifications, and its counts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.demos import demo
from e2e.pages import page
from e2e.paging import DOWN, FINDING, WATCHDOG, alerts, has_all_lines, heard, hold_page_is_whole, missing_lines, paged
from exporters.tables import every_metric
from grafana.boards import Asked, queries, read_list
from grafana.live import Scraped, run
from prometheus.rig import Inbox, run_tool
from rebalance_deploy.demo.workload import SICK
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2_400)]

_READY = re.compile(r"the monitor is ready: (http://\S+)/metrics")
#: Long enough for a diagnosis, which follows 20 s after a rebalance that the sick consumer causes every 12 s, and for
#: Prometheus and Alertmanager to process it.
_SECONDS = 180
_CURE_SECONDS = 60
#: Additional time for a busy machine; an exit is noticed sooner.
_DEADLINE_SECONDS = 300.0
#: It has a sample only while a group is silenced.
_ASKED_FOR = {"kafka_rebalance_group_silenced"}


def url_of(log: Path) -> str:
    """Return the printed address of a demo's exporter, or an empty text before it was printed."""
    match = _READY.search(log.read_text()) if log.exists() else None
    return "" if match is None else match[1]


def test_the_demo_shows_every_metric_names_its_sick_consumer_and_counts_every_rebalance(tmp_path: Path) -> None:
    """Exit code 0, the sick consumer explained, every metric of the table on /metrics, no complaints by promtool.

    Every panel of the dashboards has data, except those that are empty while everything is healthy. The sick consumer
    gets the value that the monitor advises. A Prometheus and an Alertmanager that watch the demo report that consumer,
    with cause, impact, remedy and links; after the end of the demo they only report that the monitor is gone.
    """
    log, text = tmp_path / "demo.log", ""
    with demo(log, "--duration", str(_SECONDS), "--cure-after", str(_CURE_SECONDS)) as running:
        url = wait_for(lambda: url_of(log), log.read_text, 2 * _DEADLINE_SECONDS)
        with paged(tmp_path, url) as (inbox, pager_url, prometheus_url):
            wait_for(lambda: started(log, running), log.read_text, _DEADLINE_SECONDS)
            missing = {metric.family_name for metric in every_metric()} - _ASKED_FOR

            def all_there() -> bool:
                nonlocal text
                text = page(f"{url}/metrics")
                found = text_string_to_metric_families(text + "\n")
                # A family without a sample has only its headers.
                missing.difference_update(each.name for each in found if each.samples)
                return not missing

            wait_for(all_there, lambda: f"{sorted(missing)} on /metrics", _DEADLINE_SECONDS)
            checked = check_metrics(text + "\n")
            empty = panels_to_fill()

            def all_filled() -> bool:
                here = Scraped(prometheus_url)
                empty.difference_update((each.board, each.panel) for each in filling(empty) if run(here, each))
                return not empty

            wait_for(all_filled, lambda: f"{sorted(empty)} to show something", _DEADLINE_SECONDS)
            pages = wait_for(lambda: alerts_of(inbox, SICK.group), lambda: heard_of(inbox, log), _DEADLINE_SECONDS)
            assert running.wait(600) == 0, log.read_text()
            wait_for(lambda: alerts(inbox, DOWN), "somebody to be informed of the blindness", _DEADLINE_SECONDS)
            wait_for(lambda: heard(pager_url) == {DOWN, WATCHDOG}, lambda: heard(pager_url), _DEADLINE_SECONDS)
    said = log.read_text()
    assert re.search(r"FIRING (ticket|page): poll_overrun", said)
    assert re.search(r"the advice is followed: enricher-2 starts again with max.poll.interval.ms=(?!6000 )\d+", said)
    assert (count := re.search(r"counted (\d+) of (\d+) rebalances", said))
    assert count[1] == count[2]
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    hold_page_is_whole(pages[0], url, SICK.group)


@pytest.mark.slow
def test_the_group_is_calm_once_the_advice_is_followed(tmp_path: Path) -> None:
    """All findings are resolved within two minutes, and no member leaves again."""
    log = tmp_path / "demo.log"
    with demo(log, "--cure-after", "60"):
        wait_for(lambda: "the advice is followed" in log.read_text(), log.read_text, 360)
        wait_for(lambda: "calm: nothing is left to say" in log.read_text(), log.read_text, 240)
        calm = log.read_text()
        assert not re.search(r"FIRING (ticket|page): (?!rebalance_storm)", calm.partition("the advice is followed")[2])
    assert re.search(r"was stopped and started: [12]\b", calm)


def started(log: Path, running: ChildProcess) -> bool:
    """Return whether a demo has started its clients. Raises AssertionError if it ended."""
    said = log.read_text()
    assert running.is_running, said
    return "client processes started" in said


def panels_to_fill() -> set[tuple[str, str]]:
    """Return the panels of the dashboards, by dashboard and title, that have data in every healthy monitor."""
    may_be_empty = {(each["dashboard"], each["panel"]) for each in read_list("empty.yml")}
    return {(each.board, each.panel) for each in queries()} - may_be_empty


def filling(panels: Set[tuple[str, str]]) -> list[Asked]:
    """Return the queries of panels."""
    return [each for each in queries() if (each.board, each.panel) in panels]


def alerts_of(inbox: Inbox, group: str) -> list[dict[str, Any]]:
    """Return the complete notifications about findings of a group; the first may be sent before everything is known."""
    found = (each for each in alerts(inbox, FINDING) if each["labels"].get("group") == group)
    return [each for each in found if has_all_lines(each)]


def heard_of(inbox: Inbox, log: Path) -> str:
    """Return what is missing in each notification about findings, and the end of a demo's output."""
    missing = [(each["labels"].get("group"), sorted(missing_lines(each))) for each in alerts(inbox, FINDING)]
    return f"{missing}\n{log.read_text()[-2_000:]}"


def check_metrics(text: str) -> subprocess.CompletedProcess[str]:
    """Let promtool check names, types and texts of a live page."""
    return run_tool("promtool", "check", "metrics", text=text)
