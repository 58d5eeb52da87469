"""Reads generations of classic groups from a broker's own log, to verify the monitor's counts.

The coordinator logs every generation it completes (Kafka: GroupMetadataManager; the old GroupCoordinator uses the same
messages). This is independent of the topic that the monitor reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_STABILIZED = re.compile(r"Stabilized group (?P<group>.+?) generation (?P<generation>\d+)")
_ASSIGNED = re.compile(
    r"Assignment received from leader .+? for group (?P<group>.+?) for generation (?P<generation>\d+)"
)
_EMPTIED = re.compile(r"Group (?P<group>.+?) with generation (?P<generation>\d+)(?: \(.*?\))? is now empty")


@dataclass(slots=True)
class GroupTruth:
    """Generations of one group: those whose join phase ended, and those that got an assignment or are empty."""

    begun: set[int] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)

    @property
    def generation(self) -> int:
        """The group's current generation; 0 if the log has none."""
        return max(self.begun | self.completed, default=0)


def read_truth(lines: Iterable[str]) -> dict[str, GroupTruth]:
    """Return the generations of every classic group mentioned in a broker's log."""
    groups: dict[str, GroupTruth] = {}
    for line in lines:
        if match := _STABILIZED.search(line):
            groups.setdefault(match["group"], GroupTruth()).begun.add(int(match["generation"]))
        elif match := _ASSIGNED.search(line) or _EMPTIED.search(line):
            groups.setdefault(match["group"], GroupTruth()).completed.add(int(match["generation"]))
    return groups
