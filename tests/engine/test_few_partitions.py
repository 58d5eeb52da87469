"""Topics with few partitions are processed one by one, those with many by column: the resulting state is the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import CommitActivity, TopicCommits
from rebalance_streaming.activity.offsets import FEW
from rebalance_streaming.engine.commit_gaps import CommitRhythm
from rebalance_streaming.engine.lag import LagTable
from rebalance_streaming.observed.progress import Jump, Position, Progress

START_MS = 1_700_000_000_000
TOPIC = "t"
WATCHED = 3
#: Additional partitions that make a topic one with many.
OTHERS = range(WATCHED, WATCHED + FEW)

#: Of one partition in one row: offset or null, ms since the row before, ms from the first to the last commit, commits.
Committed = tuple[int | None, int, int, int]

committed = st.tuples(
    st.none() | st.integers(0, 50) | st.integers(0, 1_000_000),
    st.integers(0, 500),
    st.integers(0, 9_000),
    st.integers(1, 5),
)
#: Rows with the milliseconds before each.
histories = st.lists(
    st.tuples(
        st.integers(10_000, 70_000), st.dictionaries(st.integers(0, WATCHED - 1), committed, min_size=WATCHED - 1)
    ),
    min_size=4,
    max_size=20,
)


def activity(number: int, at_ms: int, committed: dict[int, Committed], *, wide: bool) -> CommitActivity:
    everything = committed | (dict.fromkeys(OTHERS, (1, 0, 0, 1)) if wide else {})
    partitions = list(everything)
    last = [at_ms + since + length for _, since, length, _ in everything.values()]
    rows = TopicCommits(
        partitions=partitions,
        offsets=[offset for offset, *_ in everything.values()],
        committed_at_ms=last,
        first_at_ms=[at_ms + since for _, since, _, _ in everything.values()],
        log_offsets=[number] * len(partitions),
        commits=[commits for *_, commits in everything.values()],
    )
    return CommitActivity("c", "g", 7, number, number, 5_000, ((at_ms // 5_000 * 5_000, 1),), {TOPIC: rows})


class Known:
    """The state of the watched partitions in one run."""

    def __init__(self, history: list[tuple[int, dict[int, Committed]]], *, wide: bool) -> None:
        self._progress, self._lag, self._rhythm = Progress(), LagTable(), CommitRhythm()
        self.silences: set[tuple[int, int, int]] = set()
        at_ms = START_MS
        for number, (pause_ms, committed) in enumerate(history):
            at_ms += pause_ms
            row = activity(number, at_ms, committed, wide=wide)
            self._progress.take_commits(row)
            self._lag.take_commits(row)
            gaps = self._rhythm.take(row)
            self.silences |= {
                (each.partition, each.last_commit_ms, each.resumed_at_ms) for each in gaps if each.partition < WATCHED
            }

    @property
    def positions(self) -> list[Position]:
        return [each for each in self._progress.positions() if each.partition < WATCHED]

    @property
    def jumps(self) -> list[Jump]:
        return [each for each in self._progress.jumps if each.partition < WATCHED]

    @property
    def deleted(self) -> list[tuple[str, int, int]]:
        return self._progress.deleted()

    @property
    def remembered(self) -> list[object]:
        """The content of the ring of each watched partition."""
        whole = START_MS * 2
        return [self._progress.rhythm({TOPIC: [each]}, whole) for each in range(WATCHED)]

    @property
    def committed(self) -> dict[int, int]:
        lag = self._lag.lag("g", START_MS)
        topic = None if lag is None else lag.topics.get(TOPIC)
        pairs = () if topic is None else zip(topic.partitions, topic.committed, strict=True)
        return {partition: offset for partition, offset in pairs if partition < WATCHED}


@pytest.mark.generated
@given(histories)
def test_few_partitions_are_known_as_many_are(history: list[tuple[int, dict[int, Committed]]]) -> None:
    few, many = Known(history, wide=False), Known(history, wide=True)
    assert few.positions == many.positions
    assert few.jumps == many.jumps
    assert few.deleted == many.deleted
    assert few.remembered == many.remembered
    assert few.committed == many.committed
    assert few.silences == many.silences
