"""The stream publishes what a replay of the same records prints: all fields of all rows, on recordings.

The stream's own code runs without Spark and Kafka (`live.py`): three queries in micro-batches that begin and end at
any time, and stops in the middle of them. What may differ is listed in `agreement.py`, with the reasons.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import fields
from functools import cache
from typing import Any

import pytest

import goldens
from accuracy.recordings import FAMILIES, FOLDER, read_recording
from engine.agreement import (
    DURATIONS_MAY_DIFFER,
    MAY_DIFFER,
    MAY_DIFFER_AFTER_STARTS,
    Key,
    Place,
    Rows,
    differences,
    leaves,
    published,
    reasons,
    replayed,
)
from engine.live import BUSY, QUICK, Live, Pace
from rebalance_contract import (
    CommitActivity,
    Finding,
    GroupImpact,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    Rebalance,
    RebalanceImpact,
)
from rebalance_streaming.recordings.recording import RecordedLine, read_lines

pytestmark = pytest.mark.recordings

#: Of all protocols, with all sources and with some: incidents, scenes, calm.
STORIES = (
    "crash_loop-1",
    "held_interpreter-sick-2",
    "idle_lock-sick-2-no-metrics",
    "idle_lock-sick-4",
    "join_barrier-sick-1",
    "long_batches-sick-1",
    "mixed_clients_crash-54",
    "owner_lock-sick-6",
    "poll_overrun-1",
    "reconciliation_stuck-1",
    "rolling_deploy-1",
    "scale_in-1",
    "static_id_conflict-1",
)
#: Logs without anything else: deleted offsets and groups, transactions, groups that only commit, other protocols.
LOGS = (
    "expiry-simple-group",
    "new-java-offset-and-group-delete",
    "new-rdk-regex",
    "share-java-join-leave-delete",
    "simple-kp3-assign",
    "streams-java-join-leave-delete",
    "txn-java-commit-abort",
    "upgrade-downgrade-java-coop",
)
#: Of these, the findings differ most after a start.
RESTARTED = (*STORIES[:4], "long_batches-sick-1", "poll_overrun-1", "reconciliation_stuck-1", "short_lived_consumers-1")
#: Those in `make test`; all are in `make test-all`.
FAST = ("crash_loop-1", "long_batches-sick-1", "new-java-offset-and-group-delete", "owner_lock-sick-6", "scale_in-1")
PACES = {"quick": QUICK, "busy": BUSY}
#: How long stream and replay go on after the last record: rebalances are judged 20 s after their end.
QUIET_MS = 120_000
#: How much later than a replay the stream may notice something: its longest batches and pauses, and a look.
LATEST_MS = {"quick": 6_000, "busy": 20_000}
#: How much earlier: its own looks, and end offsets that it has not read yet, which make a share larger.
EARLIEST_MS = {"quick": -2_000, "busy": -8_000}

#: The differences of a run: (live, replayed) by field.
Found = dict[tuple[Place, Key], Any]


def read(name: str) -> list[RecordedLine]:
    """Return the lines of a recording, or of a golden scenario, in the order of their times."""
    if name in goldens.scenarios():
        text = gzip.decompress((goldens.FOLDER / f"{name}.jsonl.gz").read_bytes())
        lines = read_lines([text.splitlines(keepends=True)])
    else:
        folder = next(each for each in (FOLDER, FAMILIES) if (each / f"{name}.truth.json").exists())
        lines = read_lines([read_recording(folder / f"{name}.truth.json").lines(())])
    return sorted(lines, key=lambda line: line.timestamp_ms)


def end_of(lines: list[RecordedLine]) -> RecordedLine:
    """Return a line that only lets time pass until the end."""
    at_ms = lines[-1].timestamp_ms + QUIET_MS
    return RecordedLine(0, 0, at_ms, key_hex=None, value_hex=None, topic="rebalance-monitor.status")


@cache
def compared(name: str, pace: str, stops: int = 0) -> tuple[Rows, Found]:
    """Return the stream's rows, and how they differ from those of a replay.

    It is killed at random moments, with unfinished batches, and started up to 20 s later.
    """
    chance = random.Random(f"{name} {pace} {stops}")
    lines, speed = read(name), PACES[pace]
    live = run(lines, speed, chance, stops)
    rows = published(live)
    return rows, differences(rows, replayed([*lines, end_of(lines)], rows))


def run(lines: list[RecordedLine], pace: dict[str, Pace], chance: random.Random, stops: int) -> Live:
    """Return a stream that has read all lines."""
    live, end_ms = Live(lines, pace, chance), end_of(lines).timestamp_ms
    between = lines[0].timestamp_ms, lines[-1].timestamp_ms + QUIET_MS // 4
    for at_ms in sorted(chance.randint(*between) for _ in range(stops)):
        live.run_until(at_ms)
        live.kill()
        live.now_ms += chance.choice((1_000, 5_000, 20_000))
        live.start()
    live.run_until(end_ms)
    assert live.said == []
    return live


def unexplained(found: Found, *, started: bool = False) -> Found:
    """Return the differences without those that are listed."""
    return {at: values for at, values in found.items() if not reasons(at[0], values, started=started)}


def chosen(names: Iterable[str]) -> list[Any]:
    """Return recordings as parameters; those that are not fast are slow."""
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", chosen([*STORIES, *LOGS]))
def test_stream_and_replay_have_the_same_rows(name: str, pace: str) -> None:
    """Groups, rebalances, commits, lag, impact, timing and findings; batches end anywhere."""
    rows, found = compared(name, pace)
    assert unexplained(found) == {}
    assert {kind for kind, _ in rows} >= {"group", "lag"}


@pytest.mark.parametrize("name", chosen(RESTARTED))
def test_a_stream_that_was_killed_has_the_same_rows(name: str) -> None:
    """Twice, with rows of batches that are repeated, and with the diagnosis' own rows read back."""
    _, found = compared(name, "quick", 2)
    assert unexplained(found, started=True) == {}


@pytest.mark.slow
@pytest.mark.parametrize("pace", PACES)
def test_findings_are_noticed_at_about_the_same_time(pace: str) -> None:
    """As soon as the stream has read what a replay judges, give or take a second of the replay's own clock."""
    late = [
        (name, key, one - other)
        for name in STORIES
        for (place, key), (one, other) in compared(name, pace)[1].items()
        if place.path == "detected_at_ms" and not EARLIEST_MS[pace] <= one - other <= LATEST_MS[pace]
    ]
    assert late == []


@pytest.mark.slow
def test_each_listed_exception_occurs() -> None:
    """A field that never differs is to be compared."""
    used = {
        entry
        for pace in PACES
        for name in (*STORIES, *LOGS)
        for (place, _), values in compared(name, pace)[1].items()
        for entry in reasons(place, values)
    }
    assert {*MAY_DIFFER, *DURATIONS_MAY_DIFFER} - used == set()
    used = {
        entry
        for name in RESTARTED
        for (place, _), values in compared(name, "quick", 2)[1].items()
        for entry in reasons(place, values, started=True)
    }
    assert set(MAY_DIFFER_AFTER_STARTS) - used == set()


#: The rows of each kind.
KINDS: dict[str, type[Any]] = {
    "group": GroupSnapshot,
    "rebalance": Rebalance,
    "commits": CommitActivity,
    "lag": GroupLag,
    "rebalance_impact": RebalanceImpact,
    "group_impact": GroupImpact,
    "timing": GroupTiming,
    "finding": Finding,
}


def test_all_fields_are_compared() -> None:
    """Each field of the contract is in the rows, and a different value in any place is a difference."""
    rows = {
        key: row
        for name in ("crash_loop-1", "reconciliation_stuck-1")
        for key, row in compared(name, "quick")[0].items()
    }
    assert {kind for kind, _ in rows} == set(KINDS)
    for (kind, _), row in rows.items():
        assert {each.name for each in fields(KINDS[kind])} == set(row)
    seen: set[tuple[str, str]] = set()
    for key, row in rows.items():
        for path, _ in leaves(row):
            general = key[0], re.sub(r"\[\d+\]", "[]", path)
            if general not in seen and not path.endswith("[]"):
                seen.add(general)
                assert differences({key: row}, {key: changed(row, path)}), general
    assert len(seen) > 200


def changed(row: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a row with another value in one place."""
    found: Any = deepcopy(row)
    *way, last = steps(row, path)
    place = found
    for step in way:
        place = place[step]
    place[last] = "another value"
    return found


def steps(row: Any, path: str) -> Iterator[Any]:
    """Yield the keys and numbers of a path; names may contain dots."""
    while path:
        if path.startswith("["):
            number, _, path = path[1:].partition("]")
            step: Any = int(number)
        else:
            step = max((name for name in row if re.match(rf"{re.escape(name)}($|\.|\[)", path)), key=len)
            path = path[len(step) :]
        path = path.removeprefix(".")
        row = row[step]
        yield step
