"""What really happened to a group, from the broker's own log and the clients' own callbacks.

This module does not use the offsets topic or the monitor's code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
_PREPARING = re.compile(r"Preparing to rebalance group (?P<group>.+?) in state")
_STABILIZED = re.compile(r"Stabilized group (?P<group>.+?) generation (?P<number>\d+)")
_ASSIGNED = re.compile(r"Assignment received from leader .+? for group (?P<group>.+?) for generation (?P<number>\d+)")
_EMPTIED = re.compile(r"Group (?P<group>.+?) with generation (?P<number>\d+)(?: \(.*?\))? is now empty")
_BUMPED = re.compile(r"\[GroupId (?P<group>.+?)\].*Bumped .*?group epoch to (?P<number>\d+)")
#: The departure of a member of a share group raises its epoch without a log line of its own.
_LEFT_SHARE = re.compile(r"\[GroupId (?P<group>.+?)\].* left the share group")
_EPOCH_TARGET = re.compile(r"\[GroupId (?P<group>.+?)\].*Computed .*?target assignment for epoch (?P<number>\d+)")
_MOVED_ON = re.compile(r"\[GroupId (?P<group>.+?)\].*new assignment state: epoch=(?P<number>-?\d+)")

#: A member left by itself, its session expired, or it was replaced by another with its instance id; in classic and
#: newer groups, whichever protocol the member itself uses.
_DEPARTED = (
    re.compile(r"\[Group(?:Id)? (?P<group>.+?)\] (?:Static m|Dynamic m|M)ember .* has left group through explicit"),
    re.compile(r"Member \S+ in group (?P<group>.+?) has failed, removing it from the group"),
    re.compile(r"unknown member id joins group (?P<group>.+?) in \w+ state\. Replacing previously mapped member"),
    re.compile(r"\[GroupId (?P<group>.+?)\] (?:Static m|M)ember .* left the (?:consumer|share) group"),
    re.compile(r"\[GroupId (?P<group>.+?)\] Member \S+ fenced from the group because"),
)
#: A static member of a newer group that closes remains a member.
_STAYS = "temporarily left"

Place = tuple[str, int]

#: Two heartbeats of 3 s: a group stable for less was not stable (the catalogue's rule for one logical rebalance).
MERGE_WITHIN_MS = 6_000
#: A closing client revokes its partitions before the broker learns of it; rebalances are farther apart.
_BEFORE_MS = 4_000


@dataclass(slots=True)
class Stretch:
    """From the first sign of a generation to its assignment; its join barrier was completed at `released_ms`."""

    begin_ms: int
    released_ms: int
    end_ms: int


@dataclass(slots=True)
class Steps:
    """The generations and epochs of one group in the broker's log, and the stretches of time in which it rebalanced."""

    generations: int = 0
    busy: list[Stretch] = field(default_factory=list)
    preparing_ms: int | None = None
    released_ms: int | None = None

    def touch(self, begin_ms: int, released_ms: int, end_ms: int) -> None:
        """Add a stretch of rebalancing; one that continues the last stretch extends it."""
        if self.busy and begin_ms - self.busy[-1].end_ms <= 0:
            self.busy[-1].end_ms = max(self.busy[-1].end_ms, end_ms)
        else:
            self.busy.append(Stretch(begin_ms, released_ms, end_ms))

    def logical(self) -> list[tuple[int, int]]:
        """Return the logical rebalances: stretches, merged where the next one was released soon after the last.

        This is the definition. It is not based on how long the group was stable, which the monitor's log does not
        record.
        """
        found: list[tuple[int, int]] = []
        for stretch in self.busy:
            if found and stretch.released_ms - found[-1][1] <= MERGE_WITHIN_MS:
                found[-1] = (found[-1][0], stretch.end_ms)
            else:
                found.append((stretch.begin_ms, stretch.end_ms))
        return found


def read_steps(lines: Iterable[str], group: str) -> Steps:
    """Return the steps of one group from a broker's log."""
    steps = Steps()
    for line in lines:
        stamp = _TIME.match(line)
        if stamp is None or group not in line:
            continue
        at_ms = int(datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000)
        _read_classic(steps, line, group, at_ms)
        _read_epochs(steps, line, group, at_ms)
    return steps


def departures(lines: Iterable[str], group: str) -> int:
    """Return the number of members that left, were expelled or were replaced, by a broker's log.

    A member that was expelled because its machine stalled, and that rejoined, counts as one.
    """
    return sum(
        any((match := pattern.search(line)) and match["group"] == group for pattern in _DEPARTED)
        for line in lines
        if group in line and _STAYS not in line
    )


def _read_classic(steps: Steps, line: str, group: str, at_ms: int) -> None:
    if (match := _PREPARING.search(line)) and match["group"] == group:
        steps.preparing_ms = at_ms
    elif (match := _STABILIZED.search(line)) and match["group"] == group:
        steps.generations += 1
        steps.released_ms = at_ms
    elif (match := _ASSIGNED.search(line) or _EMPTIED.search(line)) and match["group"] == group:
        # A generation without members has no join phase to complete.
        steps.generations += _EMPTIED.search(line) is not None
        begin_ms = at_ms if steps.preparing_ms is None else steps.preparing_ms
        steps.touch(begin_ms, at_ms if steps.released_ms is None else steps.released_ms, at_ms)
        steps.preparing_ms = steps.released_ms = None


def _read_epochs(steps: Steps, line: str, group: str, at_ms: int) -> None:
    if (match := _BUMPED.search(line) or _LEFT_SHARE.search(line)) and match["group"] == group:
        steps.generations += 1
        steps.touch(at_ms, at_ms, at_ms)
    elif (match := _MOVED_ON.search(line) or _EPOCH_TARGET.search(line)) and match["group"] == group and steps.busy:
        # A member moves on to a new epoch only while the group converges.
        steps.busy[-1].end_ms = max(steps.busy[-1].end_ms, at_ms)


def moved_partitions(events: Sequence[dict[str, object]], logical: Sequence[tuple[int, int]]) -> int:
    """Return the number of partitions that changed owner in a rebalance, by the clients' callbacks."""
    moved, owners = 0, dict[Place, str]()
    for number, (_, _end) in enumerate(logical):
        until = logical[number + 1][0] - _BEFORE_MS if number + 1 < len(logical) else None
        after = _owners_at(events, until)
        moved += sum(place in owners and owners[place] != owner for place, owner in after.items())
        owners = after
    return moved


def _owners_at(events: Sequence[Mapping[str, Any]], until_ms: int | None) -> dict[Place, str]:
    """Return the owners of partitions at a time, by each client's last report before it; a later claim wins."""
    owners: dict[Place, str] = {}
    latest: dict[str, set[Place]] = {}
    for event in sorted(events, key=lambda each: int(str(each["t_ms"]))):
        if until_ms is not None and int(str(event["t_ms"])) > until_ms:
            break
        name, owned = str(event["name"]), {(t, p) for t, p in event["owned"]}
        for place in owned - latest.get(name, set()):
            owners[place] = name
        for place in latest.get(name, set()) - owned:
            if owners.get(place) == name:
                del owners[place]
        latest[name] = owned
    return owners
