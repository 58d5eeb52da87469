"""Rows and states written by an earlier version are read: tests/golden/kept/COMMIT.jsonl.gz.

Each file was written by the code of that commit from three of the recorded stories: `{"row": …}` as printed by `replay
--output all`, and `{"group": …, "state": …}`, the group's entry in the state store of the membership query, as base64.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from exporters.replayed import topic_row
from rebalance_contract import Finding, GroupImpact, GroupLag, RebalanceImpact, topics
from rebalance_exporters.state.view import FINDINGS, IMPACT, LAG, View
from rebalance_streaming.diagnosis.restoring import decode_restored
from rebalance_streaming.engine.rows import decode_input
from rebalance_streaming.groups.model import dump_state, load_state

FILES = sorted((Path(__file__).parents[1] / "golden" / "kept").glob("*.jsonl.gz"))
KEPT = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file."""
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    return [line["row"] for line in read(file) if "row" in line]


@KEPT
def test_the_exporter_reads_rows_of_an_earlier_version(file: Path) -> None:
    """No row is rejected, and totals are those counted by that version."""
    rows = rows_of(file)
    view = View(group_expiry_seconds=3_600, keep_rebalances=1_000)
    view.apply([written for row in rows if (written := topic_row(row)) is not None])
    fleet = view.fleet()
    assert not any(fleet.refused.values())
    expected = {row["group"]: row["counters"]["rebalances"] for row in rows if row["kind"] == "group"}
    assert len(expected) == 3
    assert {group: dict(facts.counters.rebalances) for (_, group), facts in fleet.groups.items()} == expected


@KEPT
def test_the_diagnosis_restores_rows_of_an_earlier_version(file: Path) -> None:
    """It starts with their findings, lag and impact."""
    restored = []
    for row in rows_of(file):
        written = topic_row(row)
        if written is not None and written.topic in (FINDINGS, LAG, IMPACT):
            # In the stream's format, without spaces.
            restored.append(decode_restored(written.topic, json.dumps(row, separators=(",", ":")).encode()))
    assert {type(each) for each in restored} >= {Finding, GroupLag, GroupImpact, RebalanceImpact}


@KEPT
def test_commits_of_an_earlier_version_are_read(file: Path) -> None:
    """The diagnosis reads the last 15 minutes of the activity topic at its start."""
    commits = [row for row in rows_of(file) if row["kind"] == "commits"]
    read_rows = [decode_input(topics.ACTIVITY.name, b"", json.dumps(row).encode()) for row in commits]
    assert len(read_rows) > 5
    assert None not in read_rows


@KEPT
def test_the_state_of_an_earlier_version_is_read(file: Path) -> None:
    """The membership query continues from the entries of its state store."""
    kept = {line["group"]: base64.b64decode(line["state"]) for line in read(file) if "state" in line}
    states = {group: load_state(blob) for group, blob in kept.items()}
    assert {group for group, state in states.items() if state.snapshot.group == group} == {*kept}
    assert len(kept) == 3
    assert all(load_state(dump_state(state)) == state for state in states.values())
