"""Verdicts on groups counted from probes: only what probes and clients show, and the missing sources."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rebalance_streaming.detect.group_view import Condition
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.observed import inputs
from rebalance_streaming.recordings.replay import replay

pytestmark = pytest.mark.recordings

STORIES = Path(__file__).parents[1] / "golden" / "stories"


@cache
def judged(name: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a recording without its log lines, by kind."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(STORIES / f"{name}.jsonl.gz") as file:
        for each in replay([file], output="all", without_log=True):
            row = json.loads(each)
            rows[row["kind"]].append(row)
    return rows


def test_nothing_of_the_log_is_in_what_is_said():
    """No commits, no generations, no evidence from the log; every row has its source."""
    rows = judged("poll_overrun-1")
    assert "commits" not in rows
    assert {each["counted_from"] for each in (*rows["group"], *rows["rebalance"])} == {"probes"}
    assert {each["generation_to"] for each in rows["rebalance"]} == {None}
    sources = {evidence["source"] for each in rows["finding"] for evidence in each["evidence"]}
    assert not sources & {"log", "commits"}


def test_lost_time_is_not_known():
    """It needs commits; without them it is null, not 0."""
    rows = judged("poll_overrun-1")
    assert "rebalance_impact" not in rows
    assert {window["lost_partition_ms"] for each in rows["lag"] for window in each["windows"].values()} == {None}


def test_undetermined_names_the_log():
    """The log comes first among the missing sources."""
    found = [each for each in judged("coordinator_crash-1")["finding"] if each["rule"] == "undetermined"]
    assert found
    assert all(each["missing"][0].startswith("the log:") for each in found)


def test_rules_that_need_commits_are_not_asked():
    """Conditions that use inputs from the log are not evaluated without it, except those that see enough elsewhere."""
    asked = {each.name for each in CONDITIONS if each.looks_at & inputs.LOGGED and each.without_log}
    assert asked == {"crash_loop", "short_lived_consumers", "announced_deploy"}
    assert any(isinstance(each, Condition) and each.looks_at & inputs.LOGGED for each in CONDITIONS)
