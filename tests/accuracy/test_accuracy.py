"""Compares what the monitor reports about real groups with the broker's log and the clients' own reports.

The fast scenarios are part of `make test`; `make test-all` plays all and keeps the results for docs/accuracy.md.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

import rebalance_contract as contract
from accuracy import truth
from accuracy.client import SESSION_MS
from accuracy.report import write_results
from accuracy.scenarios import SCENARIOS, Scenario
from accuracy.stage import Stage
from e2e.rig import Rig, read_topic, running_rig
from faults.observing import await_log_read
from rebalance_streaming.config import StreamConfig

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_500)]

AT_ONCE = 4


@dataclass(frozen=True)
class Facts:
    """The facts that are compared.

    `generations` counts all that began, completed or aborted, and group epochs. A member that rejoined under a new id
    within one generation counts once as joined and once as left.
    """

    rebalances: int
    generations: int
    came: int
    went: int
    moved: int


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One broker and one monitor for all scenarios."""
    # The broker sets the session time-out of members of newer groups.
    kinds = ("group.consumer", "group.share")
    names = [f"{kind}.{name}" for kind in kinds for name in ("session.timeout.ms", "max.session.timeout.ms")]
    sessions = dict.fromkeys(names, str(SESSION_MS))
    with running_rig(tmp_path_factory.mktemp("accuracy"), **sessions) as running:
        yield running


@pytest.fixture(scope="module")
def played(rig: Rig, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Stage]]]:
    """Play the selected scenarios, a few at a time."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    chosen = {each.name for call in calls if isinstance(each := call.params.get("scenario"), Scenario)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        together, alone = (
            [each for each in SCENARIOS if each.name in chosen and each.alone is how] for how in (False, True)
        )
        futures = {each.name: pool.submit(_play, rig, each) for each in together}
        if alone:
            wait(futures.values())
        futures |= {each.name: pool.submit(_play, rig, each) for each in alone}
        yield futures
    results = {name: future for name, future in futures.items() if future.done() and future.exception() is None}
    if os.environ.get("ACCURACY_REPORT") and len(results) == len(SCENARIOS):
        _keep(rig, {name: future.result() for name, future in results.items()})


def _play(rig: Rig, scenario: Scenario) -> Stage:
    stage = Stage(rig.broker, rig.directory, f"acc-{scenario.name}")
    try:
        scenario.play(stage)
    finally:
        stage.close()
    return stage


def scenario_params() -> list[Any]:
    """Return every scenario; those that are not fast are marked slow."""
    return [pytest.param(each, id=each.name, marks=() if each.fast else pytest.mark.slow) for each in SCENARIOS]


@pytest.mark.parametrize("scenario", scenario_params())
def test_the_monitor_says_what_happened(scenario: Scenario, played: dict[str, Future[Stage]], rig: Rig):
    """Rebalances, generations, members and moved partitions equal the truth."""
    stage = played[scenario.name].result()
    # All members have left and nothing follows, so the log is complete.
    await_log_read(rig, int(time.time() * 1_000))
    assert monitored_facts(rig, stage.group) == true_facts(stage)
    group = _groups(rig)[stage.group]
    assert group["type"] == scenario.type


def true_facts(stage: Stage) -> Facts:
    """Return the facts from the broker's log and the clients; at the end of a scenario the group has no members."""
    steps, logical, departed = stage.steps(), stage.steps().logical(), stage.departures()
    return Facts(
        rebalances=len(logical),
        generations=steps.generations,
        came=departed,
        went=departed,
        moved=truth.moved_partitions(stage.events(), logical),
    )


def monitored_facts(rig: Rig, group: str) -> Facts:
    """Return the facts from the monitor's topics."""
    counters = _groups(rig)[group]["counters"]
    return Facts(
        rebalances=sum(counters["rebalances"].values()),
        generations=counters["generations_completed"] + counters["generations_aborted"],
        came=counters["members_joined"] + counters["members_replaced"],
        went=counters["members_left"] + counters["members_replaced"],
        moved=counters["partitions_moved"],
    )


def _groups(rig: Rig) -> dict[str, dict[str, Any]]:
    topic = f"{StreamConfig().topic_prefix}groups"
    rows = (_settled(value) for _, value in read_topic(rig.broker.bootstrap, topic) if value)
    return {row["group"]: row for row in rows}


def _settled(value: bytes) -> dict[str, Any]:
    """Return a group's row with its last rebalance in its totals, as readers show it once that has settled."""
    group = contract.decode(value, contract.GroupSnapshot)
    if group.settlement is not None:
        group = replace(group, counters=contract.settled(group.counters, group.settlement))
    row: dict[str, Any] = json.loads(contract.encode(group))
    return row


def _keep(rig: Rig, stages: dict[str, Stage]) -> None:
    """Save the monitored and the true facts for the report."""
    names = [each.name for each in fields(Facts)]
    rows = []
    for name, stage in stages.items():
        said, true = monitored_facts(rig, stage.group), true_facts(stage)
        rows.append(
            (
                name,
                *(
                    str(getattr(said, each))
                    + ("" if getattr(said, each) == getattr(true, each) else f" ({getattr(true, each)})")
                    for each in names
                ),
            )
        )
    write_results("counts", ("scenario", *names), rows)
