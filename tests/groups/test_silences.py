"""Gaps between commits, and what they say of a rebalance."""

import numpy as np
import pyarrow as pa

from groups.records import Log, member
from rebalance_deploy.bench.fill import commit_key, commit_value
from rebalance_streaming.groups.commits import LogColumns
from rebalance_streaming.groups.events import Silence
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import GroupState, new_state
from rebalance_streaming.groups.silences import CommitRhythm, GroupSilences, note_silences
from rebalance_streaming.wire.commits import KeyCache, decode_commits

T0 = 1_000_000


def take(rhythm: CommitRhythm, cache: KeyCache, *commits: tuple[str, int, int]) -> list[GroupSilences]:
    """Let groups commit: (group, partition, milliseconds after T0)."""
    keys = pa.array([commit_key(group, "orders", partition) for group, partition, _ in commits], pa.binary())
    values = pa.array([commit_value(1, T0 + at) for _, _, at in commits], pa.binary())
    times = np.array([T0 + at for _, _, at in commits], dtype=np.int64)
    log = LogColumns(np.zeros(len(commits), dtype=np.int32), np.arange(len(commits)), times)
    return rhythm.take(decode_commits(keys, values, cache), log)


def test_a_gap_is_told_when_it_ends():
    """Within a batch or across batches; steady commits tell nothing."""
    rhythm, cache = CommitRhythm(), KeyCache()
    assert take(rhythm, cache, ("g", 0, 0), ("g", 1, 0), ("h", 0, 100)) == []
    assert take(rhythm, cache, ("g", 0, 2_000), ("g", 1, 2_000), ("h", 0, 3_000)) == []
    assert take(rhythm, cache, ("g", 1, 11_000), ("g", 0, 4_000), ("h", 0, 12_700)) == [
        GroupSilences("g", (Silence("orders", 1, T0 + 2_000, T0 + 11_000),)),
        GroupSilences("h", (Silence("orders", 0, T0 + 3_000, T0 + 12_700),)),
    ]
    (within,) = take(rhythm, cache, ("g", 0, 6_000), ("g", 0, 40_000), ("g", 0, 42_000), ("g", 0, 80_000))
    assert [(each.last_commit_ms - T0, each.resumed_at_ms - T0) for each in within.silences] == [
        (6_000, 40_000),
        (42_000, 80_000),
    ]


def test_a_slow_rhythm_is_no_silence():
    """A partition that is committed once a minute would otherwise tell of a gap with every commit."""
    commits = [("g", 0, 60_000 * number) for number in range(10)]
    assert take(CommitRhythm(), KeyCache(), *commits) == []
    (broken,) = take(CommitRhythm(), KeyCache(), *commits, ("g", 0, 60_000 * 12))
    assert len(broken.silences) == 1


def test_batches_do_not_matter():
    """One by one or all at once: the same gaps."""
    commits = [("g", p, at) for at in (0, 5_000, 10_000, 40_000, 45_000, 50_000, 51_000, 90_000) for p in (0, 1)]
    (at_once,) = take(CommitRhythm(), KeyCache(), *commits)
    rhythm, cache = CommitRhythm(), KeyCache()
    one_by_one = [silence for each in commits for found in take(rhythm, cache, each) for silence in found.silences]
    assert sorted(at_once.silences, key=str) == sorted(one_by_one, key=str)
    assert len(one_by_one) == 4


def rebalanced() -> tuple[GroupState, int, int]:
    """A group whose second rebalance took 30 s: state, start and end."""
    log = Log().write(1, member("a")).write(2, member("a"), member("b"), after_ms=60_000, sync_ms=30_000)
    state = new_state("test", "g")
    for record in log.records:
        state, _ = fold(state, record)
    assert state.episode is not None
    end = state.episode.rebalance.completed_at_ms
    assert end is not None
    return state, state.episode.rebalance.started_before_ms, end


def test_a_rebalance_knows_what_it_cost():
    """From its start, or the last commit if that was later, to the next one; each partition once."""
    state, start, end = rebalanced()
    gaps = [Silence("orders", 0, start - 4_000, end + 1_000), Silence("orders", 1, start + 2_000, end + 500)]
    state, (rebalance,) = note_silences(state, gaps)
    assert rebalance.silences == tuple(gaps)
    assert rebalance.lost_partition_ms == 31_000 + 28_500
    assert state.picture.counters.lost_partition_ms == 31_000 + 28_500
    assert note_silences(state, gaps) == (state, ())


def test_other_gaps_are_not_its_own():
    """Over before it began, or begun after its end."""
    state, start, end = rebalanced()
    gaps = [Silence("orders", 0, start - 20_000, start - 1_000), Silence("orders", 1, end + 1, end + 20_000)]
    assert note_silences(state, gaps) == (state, ())
    assert note_silences(new_state("test", "g"), gaps)[1] == ()
