"""The founding incidents happen on real brokers with the real clients, and their cured forms stay quiet.

These tests check the clients' reports, the brokers' log, and the monitor's findings: the right cause, culprit and
advice for the sick form, and none for the cured one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.stories.performing import performing, unwatched
from e2e.stories.watching import Watcher, watching
from rebalance_devtools.stories import held_interpreter, idle_lock, join_barrier, long_batches, owner_lock
from rebalance_devtools.stories.judging import mistakes_of_cured, mistakes_of_sick
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.record import METRICS_TOPIC
from rebalance_devtools.stories.script import failed_commits, processed_twice
from rebalance_devtools.stories.story import Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

_JUDGED_SECONDS = 300.0

_EVICTED = re.compile(r"[Mm]ember (?P<member>\S+) in group \S+ has failed, removing it")
_LEFT = re.compile(r"[Mm]ember (?:MemberMetadata\(memberId=)?(?P<member>[\w.-]+)[, ].*has left group")


def evicted(run: StoryRun) -> list[str]:
    """Return the members whose session expired, by the brokers' log, in order."""
    return [match["member"] for line in run.broker_lines if (match := _EVICTED.search(line))]


def left(run: StoryRun) -> list[str]:
    """Return the members that left by themselves, by the brokers' log, in order."""
    return [match["member"] for line in run.broker_lines if (match := _LEFT.search(line))]


@contextmanager
def watched(story: Story, directory: Path, **options: Any) -> Iterator[tuple[StoryRun, Watcher]]:
    """Play to the outcome with a running monitor, and yield both while the clients still run."""
    watch = partial(watching, directory / "monitor")
    with performing(story, directory, watch, metrics_topic=METRICS_TOPIC, **options) as (play, watcher):
        yield play.run(), watcher


def perform(story: Story, directory: Path, *, cured: bool, seed: int, kafka_version: str | None = None) -> StoryRun:
    """Play to the outcome without a monitor."""
    options: dict[str, Any] = {"cured": cured, "seed": seed, "kafka_version": kafka_version}
    with performing(story, directory, unwatched, **options) as (play, _):
        return play.run()


def await_right_findings(run: StoryRun, story: Story, watcher: Watcher) -> None:
    """Wait for the findings that the monitor must make for a sick form. A rebalance is judged 20 s after its end."""
    deadline = time.monotonic() + _JUDGED_SECONDS
    expected = story.expect(run.parameters)
    while mistakes := mistakes_of_sick(run, expected, watcher.findings()):
        reported = [(each.rule, each.primary, each.state, each.rebalance_ids) for each in watcher.findings()]
        assert time.monotonic() < deadline, (mistakes, reported)
        threading.Event().wait(0.5)


def holds_idle_lock(run: StoryRun) -> None:
    """Expired after the topic became idle, and back under other ids."""
    silent_ms = next(event["t_ms"] for event in run.events if event["event"] == "traffic_ends")
    back = {event["member_id"] for event in run.events if event["event"] == "assigned" and event["t_ms"] > silent_ms}
    assert evicted(run)
    assert back - set(evicted(run))


def holds_join_barrier(run: StoryRun) -> None:
    """The newcomer waits until the first member's max.poll.interval is over and it leaves by itself."""
    stopped_ms = next(event["t_ms"] for event in run.events if event["event"] == "stops_polling")
    (assigned_ms,) = [e["t_ms"] for e in run.events if e["event"] == "assigned" and e["name"] == join_barrier.NEWCOMER]
    # On a busy machine it is later; an expired session would be in the broker's log.
    assert -3_000 <= assigned_ms - stopped_ms - run.parameters["max_poll_ms"] <= 10_000
    assert set(left(run)) == set(run.member_ids(join_barrier.CULPRIT))
    assert not evicted(run)


def holds_long_batches(run: StoryRun) -> None:
    """Commits are rejected, records are delivered twice, and no session expires."""
    assert failed_commits(run.events) >= 1
    assert processed_twice(run.events) >= run.parameters["batch"]
    assert not evicted(run)


def holds_batches_in_spring(run: StoryRun) -> None:
    """Records are delivered twice, no session expires, and nobody is told of a rejected commit."""
    assert failed_commits(run.events) == 0
    assert processed_twice(run.events) >= run.parameters["batch"]
    assert not evicted(run)


def holds_held_interpreter(run: StoryRun) -> None:
    """Sessions expire while the clients work, and later commits are rejected."""
    assert failed_commits(run.events) >= 1
    assert len(evicted(run)) >= failed_commits(run.events)
    assert not left(run)


def holds_owner_lock(run: StoryRun) -> None:
    """Every newcomer gives up without having owned a partition; Kafka has no group."""
    owned = [event for event in run.events if event["name"] != owner_lock.CULPRIT and event.get("partitions")]
    assert owned == []
    assert {event["name"] for event in run.events if event["event"] == "gave_up"} == {
        f"consumer{number}" for number in range(2, run.parameters["newcomers"] + 2)
    }


# One is in `make test`: the one that needs a ZooKeeper and a client that Kafka does not see as a member. Recordings of
# all are judged there too (tests/accuracy/test_diagnoses.py).
SICK = (
    pytest.param(join_barrier.STORY, 2, holds_join_barrier, id="join_barrier", marks=pytest.mark.slow),
    pytest.param(owner_lock.STORY, 2, holds_owner_lock, id="owner_lock"),
    pytest.param(idle_lock.FAST, 4, holds_idle_lock, id="idle_lock", marks=pytest.mark.slow),
    pytest.param(long_batches.STORY, 2, holds_long_batches, id="long_batches", marks=pytest.mark.slow),
    pytest.param(long_batches.IN_SPRING, 2, holds_batches_in_spring, id="long_batches_spring", marks=pytest.mark.slow),
    pytest.param(held_interpreter.STORY, 2, holds_held_interpreter, id="held_interpreter", marks=pytest.mark.slow),
    pytest.param(idle_lock.REAL, 1, holds_idle_lock, id="idle_lock_real", marks=pytest.mark.slow),
    # The remedies that users tried first: the incident continues, and so do its cause, culprit and advice.
    pytest.param(idle_lock.WRONG_CURE, 6, holds_idle_lock, id="idle_lock_wrong_cure", marks=pytest.mark.slow),
    pytest.param(join_barrier.WRONG_CURE, 6, holds_join_barrier, id="join_barrier_wrong_cure", marks=pytest.mark.slow),
    pytest.param(long_batches.WRONG_CURE, 6, holds_long_batches, id="long_batches_wrong_cure", marks=pytest.mark.slow),
    pytest.param(
        held_interpreter.WRONG_CURE, 6, holds_held_interpreter, id="held_interpreter_wrong_cure", marks=pytest.mark.slow
    ),
    pytest.param(owner_lock.WRONG_CURE, 6, holds_owner_lock, id="owner_lock_wrong_cure", marks=pytest.mark.slow),
)

CURED = (
    pytest.param(join_barrier.STORY, 2, id="join_barrier", marks=pytest.mark.slow),
    pytest.param(owner_lock.STORY, 1, id="owner_lock", marks=pytest.mark.slow),
    pytest.param(owner_lock.UPGRADED, 1, id="owner_lock_upgraded", marks=pytest.mark.slow),
    pytest.param(idle_lock.FAST, 4, id="idle_lock", marks=pytest.mark.slow),
    pytest.param(idle_lock.UPGRADED, 4, id="idle_lock_upgraded", marks=pytest.mark.slow),
    pytest.param(long_batches.STORY, 2, id="long_batches", marks=pytest.mark.slow),
    pytest.param(long_batches.IN_SPRING, 2, id="long_batches_spring", marks=pytest.mark.slow),
    pytest.param(held_interpreter.STORY, 2, id="held_interpreter", marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("story", "seed", "holds"), SICK)
def test_the_incident_happens_and_is_explained(
    story: Story, seed: int, holds: Callable[[StoryRun], None], tmp_path: Path
) -> None:
    """The reported symptom occurs by the same mechanism, and the monitor names cause, culprit and cure."""
    with watched(story, tmp_path, cured=False, seed=seed) as (run, watcher):
        assert run.symptoms >= story.enough
        holds(run)
        await_right_findings(run, story, watcher)


@pytest.mark.parametrize(("story", "seed"), CURED)
def test_the_cure_cures(story: Story, seed: int, tmp_path: Path) -> None:
    """With the advice followed there is no symptom, no lost member, and no finding."""
    with watched(story, tmp_path, cured=True, seed=seed) as (run, watcher):
        assert run.symptoms == 0
        assert evicted(run) == []
        assert {event["event"] for event in run.events}.isdisjoint({"commit_failed", "gave_up"})
        assert mistakes_of_cured(run, watcher.findings()) == []


@pytest.mark.slow
@pytest.mark.parametrize("story", [idle_lock.FAST, join_barrier.STORY], ids=lambda story: story.id)
def test_the_symptom_occurs_on_the_newest_broker(story: Story, tmp_path: Path) -> None:
    """The clients cause the stories: a current broker does not prevent them."""
    run = perform(story, tmp_path, cured=False, seed=5, kafka_version="4.3.1")
    assert run.symptoms >= story.enough
