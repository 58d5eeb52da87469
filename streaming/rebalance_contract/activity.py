"""Activity of groups, packed on the executors: offset commits, end offsets, probes and counts of input records.

Rows of the topic `…activity`, distinguished by `kind`; the key is the group, for counts `topic/partition`. A row stays
below `MAX_ACTIVITY_BYTES`: larger ones are split into several rows that together have the same meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rebalance_contract.clients import ClientActivity
from rebalance_contract.codec import SCHEMA_VERSION, decode_tagged
from rebalance_contract.coordinator import CoordinatorActivity
from rebalance_contract.probes import Probe

#: Maximum size of a row of the activity topic; packers aim at half of it, because escaping makes names longer.
MAX_ACTIVITY_BYTES = 256_000


@dataclass(frozen=True, slots=True)
class TopicCommits:
    """First and last commit per partition of one topic, as parallel lists.

    `offsets` has the offset of the last commit, null if that record deleted the committed offset. `committed_at_ms` and
    `first_at_ms` are the times of the last and the first commit by the coordinator's clock. `log_offsets` is the
    position of the last record in the group's log partition, which orders commits relative to group records. `commits`
    counts the records.
    """

    partitions: list[int]
    offsets: list[int | None]
    committed_at_ms: list[int]
    first_at_ms: list[int]
    log_offsets: list[int]
    commits: list[int]


@dataclass(frozen=True, slots=True)
class CommitActivity:
    """Offset commits of one group in one pane; old commits are merged into one row for all panes before.

    Contains only commits that a read-committed consumer would see. A pane may be split over several rows (one per
    micro-batch, at a probe of the group's end offsets, or because it is large); within a log partition rows arrive in
    order, and a row whose (`log_era`, `last_log_offset`) was seen before is a duplicate. `log_era` counts how often the
    log partition was truncated or recreated. `pane_counts` has pairs (start of a pane in ms, commits in it), oldest
    first, of 15 minutes at most; older commits are only in `topics`. A row that is no history has several panes if the
    coordinator's clock went back. `is_history`: the records were in the log before the monitor first read it and may
    have been compacted: they give a position, but no commit interval.
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
        """Number of commit records in this row."""
        return sum(sum(each.commits) for each in self.topics.values())

    @property
    def last_commit_ms(self) -> int:
        """Time of the newest commit."""
        return max(max(each.committed_at_ms) for each in self.topics.values())


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Offsets of one topic by partition, as parallel lists; null where the leader did not report one."""

    partitions: list[int]
    offsets: list[int | None]


@dataclass(frozen=True, slots=True)
class OffsetActivity:
    """Start and end offsets of the partitions of a group's topics, and its committed offsets, as probed.

    `ends` is the high watermark, `stable_ends` the last stable offset, `starts` the offset of the oldest record that
    still exists. Absent topics and partitions were not requested, or have not changed since they were last reported.
    `is_all_committed`: the coordinator has no committed offset for partitions absent from `committed` in all rows of
    one probe.
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
    """The answer of a coordinator or ZooKeeper about a group, without the offsets."""

    probe: Probe
    kind: Literal["probe"] = "probe"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CountActivity:
    """Records that one task counted in one partition of an input topic, up to and including `last_offset`.

    `counts` has (record type, value version, outcome, count). The type is null if the key does not contain it, the
    version for tombstones too; both are null for topics other than the log.
    """

    cluster: str
    topic: str
    partition: int
    last_offset: int
    counts: tuple[tuple[int | None, int | None, str, int], ...]
    log_era: int = 0
    kind: Literal["counts"] = "counts"
    schema_version: int = SCHEMA_VERSION


#: The row types of the activity topic, distinguished by the field `kind`.
Activity = CommitActivity | OffsetActivity | ProbeActivity | CountActivity | ClientActivity | CoordinatorActivity

_ROWS: Mapping[str, type[Activity]] = {
    "commits": CommitActivity,
    "offsets": OffsetActivity,
    "probe": ProbeActivity,
    "counts": CountActivity,
    "clients": ClientActivity,
    "coordinator": CoordinatorActivity,
}


def decode_activity(text: bytes) -> Activity:
    """Return the row in a value of the activity topic. Raises ContractError if it is not valid."""
    return decode_tagged(text, _ROWS, "activity")
