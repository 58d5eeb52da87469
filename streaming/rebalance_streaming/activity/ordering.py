"""The order of packed commits among probes: lag at the time of a probe is that of the commits until then.

Commits and probes are read from different topics. The rows of commits end where a probe was made (`pack_commits`), so
that they can be put before it or after it as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rebalance_contract import CommitActivity, OffsetActivity, ProbeActivity

Probed = OffsetActivity | ProbeActivity


def probe_times(rows: Iterable[Probed], into: defaultdict[str, list[int]]) -> None:
    """Add the times at which end offsets were probed, by group."""
    for row in rows:
        if isinstance(row, OffsetActivity) and row.ends and row.probed_at_ms not in into[row.group][-1:]:
            into[row.group].append(row.probed_at_ms)


def probed_at(row: Probed) -> int:
    """Return the time of a probe."""
    return row.probed_at_ms if isinstance(row, OffsetActivity) else row.probe.probed_at_ms


class CommitTimes:
    """The time of each row of commits, which never falls within a group: a row that comes too late is ignored."""

    def __init__(self) -> None:
        self._latest: dict[str, int] = {}

    def of(self, row: CommitActivity) -> int:
        """Return the time of a group's next row: of its last commit, which clients may set, but within its pane."""
        at_ms = row.last_commit_ms
        if row.pane_counts and not row.is_history:
            start_ms = row.pane_counts[-1][0]
            at_ms = min(max(at_ms, start_ms), start_ms + row.pane_ms - 1)
        self._latest[row.group] = at_ms = max(at_ms, self._latest.get(row.group, at_ms))
        return at_ms
