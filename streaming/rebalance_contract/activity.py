"""What groups did, packed on the executors: offset commits, end offsets, probes, and what was counted on the way.

Rows of the topic `…activity`, distinguished by `kind`; the key is the group, for counts `topic/partition`. A row stays
below `MAX_ACTIVITY_BYTES`: what is larger is cut into several rows that mean the same together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.probes import Probe

#: No row of the activity topic is larger; half of it is what packers aim at, because names need escaping.
MAX_ACTIVITY_BYTES = 256_000


@dataclass(frozen=True, slots=True)
class TopicCommits:
    """First and last commit per partition of one topic, as parallel lists.

    `offsets` is of the last commit and holds null where that record deleted the committed offset. `committed_at_ms`
    and `first_at_ms` are the coordinator's clock at the last and the first commit, `log_offsets` the position of the
    last record in the group's log partition, which orders commits against group records. `commits` counts the records.
    """

    partitions: list[int]
    offsets: list[int | None]
    committed_at_ms: list[int]
    first_at_ms: list[int]
    log_offsets: list[int]
    commits: list[int]


@dataclass(frozen=True, slots=True)
class CommitActivity:
    """Offset commits of one group, of one pane or, where they are old, of everything before one.

    Only commits that a read-committed consumer would see. A pane may be split over several rows (one per micro-batch,
    or because it is large); within a log partition rows arrive in order, and one whose (`log_era`, `last_log_offset`)
    was seen before is a repetition. `log_era` counts how often the log partition was cut or recreated.
    `pane_counts` has (start of a pane in ms, commits in it), oldest first, of the last 15 minutes only; what was
    committed before is in `topics` and nowhere else. `is_history`: the records were in the log before the monitor
    first looked at it, where compaction had thinned them: they give a position and say nothing of a rhythm.
    """

    cluster: str
    group: str
    log_partition: int
    first_log_offset: int
    last_log_offset: int
    pane_ms: int
    pane_counts: tuple[tuple[int, int], ...]
    topics: dict[str, TopicCommits]
    is_history: bool = False
    log_era: int = 0
    kind: Literal["commits"] = "commits"
    schema_version: int = SCHEMA_VERSION

    @property
    def commits(self) -> int:
        """How many records were packed."""
        return sum(sum(each.commits) for each in self.topics.values())

    @property
    def last_commit_ms(self) -> int:
        """When the newest of them was committed."""
        return max(max(each.committed_at_ms) for each in self.topics.values())


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Offsets of one topic by partition, as parallel lists; null where the leader did not report it."""

    partitions: list[int]
    offsets: list[int | None]


@dataclass(frozen=True, slots=True)
class OffsetActivity:
    """Where the partitions of a group's topics begin and end, and what its coordinator holds as committed, as probed.

    `ends` is the high watermark, `stable_ends` the last stable offset, `starts` the offset of the oldest record that is
    still there. Topics and partitions that are absent were not
    asked, or have not changed since they were reported last. `is_all_committed`: what is absent in `committed`, in all
    rows of one probe, the coordinator does not hold.
    """

    cluster: str
    group: str
    probed_at_ms: int
    ends: dict[str, TopicOffsets] = field(default_factory=dict)
    stable_ends: dict[str, TopicOffsets] = field(default_factory=dict)
    starts: dict[str, TopicOffsets] = field(default_factory=dict)
    committed: dict[str, TopicOffsets] = field(default_factory=dict)
    is_all_committed: bool = False
    kind: Literal["offsets"] = "offsets"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ProbeActivity:
    """What a coordinator or ZooKeeper answered about a group, without the offsets."""

    probe: Probe
    kind: Literal["probe"] = "probe"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CountActivity:
    """What one task counted in one partition of an input topic, up to and including `last_offset`.

    `counts` has (record type, value version, outcome, count); type and version are null where the key does not say,
    for tombstones (the version), and for topics other than the log.
    """

    cluster: str
    topic: str
    partition: int
    last_offset: int
    counts: tuple[tuple[int | None, int | None, str, int], ...]
    log_era: int = 0
    kind: Literal["counts"] = "counts"
    schema_version: int = SCHEMA_VERSION
