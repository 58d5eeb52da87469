"""Very large inputs: groups, batches of new groups, gaps that end together. No query ends, no message is too big."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from e2e.rig import Rig, family, read_topic
from faults.observing import CONFIG, decoded_rows, restarts, total
from faults.reporting import Figures
from faults.written_log import LARGEST_BYTES, Record, WrittenLog, large_group, now_ms, running_log
from rebalance_contract import GroupSnapshot, RebalanceImpact, topics
from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_devtools.bench import fill
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

_SECONDS = 600.0
_MESSAGE_BYTES = 1_000_000
#: Minimum size of one member of `fill.group_value` with one partition.
_MEMBER_BYTES = 120


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    """A log of large groups, and a monitor watching it."""
    with running_log(tmp_path_factory.mktemp("sizes")) as running:
        yield running


def in_one_batch(rig: Rig, write: Callable[[], None]) -> None:
    """Write while the stream's processes are suspended, so that they read everything in one batch."""
    pids = family(rig.monitor.stream.process.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        write()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def largest_message(rig: Rig) -> int:
    """Return the size of the largest value in any of the monitor's topics."""
    names = (each.full_name(CONFIG.topic_prefix) for each in topics.TOPICS)
    return max(len(value or b"") for name in names for _, value in read_topic(rig.broker.bootstrap, name))


def groups(log: WrittenLog, prefix: str) -> dict[str, GroupSnapshot]:
    """Return the rows of all groups with this prefix."""
    found = decoded_rows(log.rig, CONFIG.groups_topic, GroupSnapshot)
    return {each.group: each for each in found if each.group.startswith(prefix)}


@pytest.mark.faults(22, fast=0, full=1)
def test_groups_of_any_size_are_counted(log: WrittenLog, figures: Figures):
    """Up to the largest record that the broker accepts: each is shown, truncated if needed, and all members count."""
    before = restarts(log.rig)
    members = {"size-1500": 1_500, "size-3000": 3_000, "size-10000": 10_000}
    members["size-largest"] = LARGEST_BYTES // _MEMBER_BYTES * 9 // 10
    wide = large_group("size-wide", 20, 1_000)
    log.generations["size-wide"] = 1
    records = [wide, *(log.generation(group, count) for group, count in members.items())]
    figures.note("largest record", max(len(value) for *_, value in records) / 1e6, "MB")
    log.write(records)
    log.write(log.generation(group, count) for group, count in members.items())
    log.await_generations("size-wide", *members)
    rows = groups(log, "size-")
    assert {group: row.member_count for group, row in rows.items()} == {**members, "size-wide": 20}
    for group, row in rows.items():
        whole = len(row.members) == row.member_count and all(each.partitions is not None for each in row.members)
        assert row.is_truncated == (not whole), group
    assert rows["size-largest"].is_truncated
    assert largest_message(log.rig) <= MAX_ROW_BYTES
    assert total(log.rig, "truncated_rows_total", topic="groups") > 0
    assert restarts(log.rig) == before
    log.rig.monitor.check()


@pytest.mark.faults(23, fast=0, full=1)
def test_very_many_new_groups_in_one_batch(log: WrittenLog, figures: Figures):
    """15,000 names of 40 characters, each with a generation and a commit, read at once."""
    before, now = restarts(log.rig), now_ms()
    names = [f"{number:05d}-a-new-group-with-a-rather-long-name"[:40] for number in range(15_000)]
    assert {len(name) for name in names} == {40}

    def write() -> None:
        log.write(log.generation(name) for name in names)
        log.write(
            (log.partition_of(name), fill.commit_key(name, "orders", 0), fill.commit_value(1, now)) for name in names
        )

    in_one_batch(log.rig, write)
    wanted = set(names)
    wait_for(lambda: groups(log, "").keys() >= wanted, "all groups to be shown", _SECONDS, every=2)
    figures.note("largest message", (largest := largest_message(log.rig)) / 1e6, "MB")
    assert largest < _MESSAGE_BYTES
    assert restarts(log.rig) == before
    log.rig.monitor.check()


@pytest.mark.faults(24, fast=0, full=1)
def test_very_many_partitions_that_resume_together(log: WrittenLog, figures: Figures):
    """30 groups of 1,000 partitions and one of 20,000 stop committing around a rebalance, and resume in one batch."""
    before, ends = restarts(log.rig), now_ms()
    sizes = {**{f"resumes-{number:02d}": 1_000 for number in range(30)}, "resumes-large": 20_000}

    def commits(at_ms: int) -> Iterator[Record]:
        for group, count in sizes.items():
            for partition in range(count):
                key = fill.commit_key(group, "orders", partition)
                yield log.partition_of(group), key, fill.commit_value(at_ms - ends + 60_000, at_ms)

    def write() -> None:
        for seconds in (50, 45, 40):
            log.write(commits(ends - seconds * 1_000), at_ms=ends - seconds * 1_000)
        log.write(log.generation(group) for group in sizes)
        log.write(commits(now_ms()))

    in_one_batch(log.rig, write)

    def reported() -> set[str]:
        rows = decoded_rows(log.rig, topics.IMPACT.full_name(CONFIG.topic_prefix), RebalanceImpact)
        return {each.group for each in rows if each.silences}

    wait_for(lambda: reported() >= sizes.keys(), lambda: f"silences of {sizes.keys() - reported()}", _SECONDS, every=2)
    figures.note("largest message", (largest := largest_message(log.rig)) / 1e6, "MB")
    assert largest < _MESSAGE_BYTES
    assert restarts(log.rig) == before
    log.rig.monitor.check()
