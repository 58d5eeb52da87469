"""Recordings of real incidents, replayed with a deploy announced for their whole duration.

The announcement is a line of the recording, as the recorder writes those of the silences topic.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from accuracy.recordings import Recording, recordings
from rebalance_contract import AlertSilence, Finding, Severity, SilenceKind, decode, encode
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import Replay, make_engine

pytestmark = pytest.mark.recordings

#: Incidents that look like a deploy, and others, which must be reported nevertheless.
DEPLOYS = ("rolling_deploy-1",)
FAULTS = (
    *("crash_loop-1", "poll_overrun-1", "static_id_conflict-1", "short_lived_consumers-1", "process_pause-1"),
    *("held_interpreter-sick-1", "idle_lock-sick-4", "join_barrier-sick-1", "long_batches-sick-1"),
)


def lines(recording: Recording) -> list[dict[str, Any]]:
    return [json.loads(each) for each in recording.lines(())]


def announcement(of: list[dict[str, Any]], **changes: Any) -> bytes:
    """Return the recorder's line of a deploy that was announced for the whole recording."""
    first_ms, last_ms = (edge(line["timestamp_ms"] for line in of) for edge in (min, max))
    fields: dict[str, Any] = {
        "cluster": "elsewhere",
        "silence_id": "d",
        "groups": ("*",),
        "starts_at_ms": first_ms,
        "ends_at_ms": last_ms + 60_000,
        "created_at_ms": first_ms,
        "created_by": "ci",
        "reason": "deploy 1.2",
        "kind": SilenceKind.DEPLOY,
        "version": "1.2",
    }
    row = AlertSilence(**(fields | changes))
    line = {
        "topic": "rebalance-monitor.silences",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": first_ms,
        "key_hex": b"elsewhere/d".hex(),
        "value_hex": encode(row).hex(),
    }
    return json.dumps(line).encode() + b"\n"


def findings(recording: Recording, *more: bytes) -> list[Finding]:
    replay = Replay(engine=make_engine("default"))
    rows = [*replay.feed(read_lines([[*more, *recording.lines(())]])), *replay.finish()]
    found = ({name: value for name, value in row.items() if name != "kind"} for row in rows if row["kind"] == "finding")
    return [decode(json.dumps(each).encode(), Finding) for each in found]


@cache
def as_announced(recording_name: str) -> tuple[list[Finding], list[Finding]]:
    """Return the findings without the announcement, and with it."""
    (recording,) = [each for each in recordings() if each.name == recording_name]
    return findings(recording), findings(recording, announcement(lines(recording)))


def primaries(found: list[Finding]) -> dict[str, str]:
    return {name: each.rule for each in found if each.primary for name in each.rebalance_ids}


@pytest.mark.parametrize("name", DEPLOYS)
def test_a_recorded_deploy_is_the_announced_one(name: str):
    """All joins and departures belong to the deploy; the finding names it, and advises no action."""
    without, found = as_announced(name)
    (deploy,) = [each for each in found if each.variant == "announced"]
    assert deploy.severity == Severity.INFO
    before, after = primaries(without), primaries(found)
    assert {each for each, rule in before.items() if rule == "rolling_deploy"} <= set(deploy.rebalance_ids)
    assert before.keys() == after.keys()
    assert [each.value for each in deploy.evidence if each.source == "announcement"] == ["deploy 1.2"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_recorded_fault_is_reported_as_it_is_without_the_announcement(name: str):
    """A crash loop, a poll limit, a conflict: faults that need action need it during a deploy, too."""
    without, found = as_announced(name)
    grave = {(each.rule, each.severity) for each in without if each.severity != Severity.INFO}
    assert grave
    assert grave <= {(each.rule, each.severity) for each in found}


def test_instances_that_are_killed_are_part_of_the_deploy():
    """A pipeline that kills instances deploys nevertheless; its cost is the subject of the deploy's advice."""
    without, found = as_announced("ungraceful_shutdown-1")
    assert "ungraceful_shutdown" in primaries(without).values()
    (deploy,) = [each for each in found if each.variant == "announced"]
    assert primaries(found).keys() == set(deploy.rebalance_ids)
    assert [each.parameter for each in deploy.advice] == ["code"]


def test_a_line_that_is_no_silence_is_passed_over():
    """Like any other useless line; all other findings are the same."""
    (recording,) = [each for each in recordings() if each.name == DEPLOYS[0]]
    odd = announcement(lines(recording), reason="")
    assert findings(recording, odd) == as_announced(DEPLOYS[0])[0]
