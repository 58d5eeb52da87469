"""Known faults of clients, frameworks and brokers by version, and the upgrade that cures a diagnosis.

The table is data (known_bugs.toml). This module handles versions only; it uses no group and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_contract import Advice
from rebalance_contract.client_settings import parse_version
from rebalance_streaming.detect.catalogue import read_table

#: A client name in addition to the libraries in the contract's client_settings.py; the table has others, too.
STREAMS = "kafka-streams"

#: Number of version components that are compared; shorter versions are padded with zeros, so that 3.0 is 3.0.0.
_PARTS = 4

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KnownBug:
    """One fault. `since` null: all versions before `below` have it; `below` null: no version without it is known.

    `effects` are the ids of the diagnoses that it can cause. `fixed_in` is null while it is open. `variant` is how it
    makes heartbeats starve, null for other effects. `kip848`: it exists only in groups of the KIP-848 protocol.
    """

    client: str
    since: Release | None
    below: Release | None
    effects: tuple[str, ...]
    fixed_in: str | None
    text: str
    sources: tuple[str, ...]
    variant: str | None = None
    kip848: bool = False

    def affects(self, release: Release) -> bool:
        """Whether a version has this fault. An unknown (empty) version has only the faults of all versions."""
        if not release:
            return self.since is None and self.below is None
        return (self.since is None or _filled(release) >= _filled(self.since)) and (
            self.below is None or _filled(release) < _filled(self.below)
        )


def known_bugs(
    library: str | None, release: Release, rule: str | None = None, *, kip848: bool = False
) -> tuple[KnownBug, ...]:
    """Return the faults of a version, all or only those that can cause one diagnosis.

    `library` as in client_settings.py or above, null: not known. `kip848`: whether the group uses the KIP-848 protocol.
    """
    return tuple(
        bug
        for bug in KNOWN_BUGS
        if bug.client == library
        and bug.affects(release)
        and (rule is None or rule in bug.effects)
        and (kip848 or not bug.kip848)
    )


def upgrade_advice(library: str | None, release: Release, rule: str, *, kip848: bool = False) -> Advice | None:
    """Return the upgrade that removes all faults that can cause a diagnosis; null if none is known."""
    fixed = [bug for bug in known_bugs(library, release, rule, kip848=kip848) if bug.fixed_in is not None]
    if library is None or not fixed:
        return None
    target = _first_without(library, release, rule, kip848=kip848)
    sources = dict.fromkeys(source for bug in fixed for source in bug.sources)
    return Advice(
        parameter="upgrade",
        current=f"{library} {'.'.join(map(str, release))}",
        proposed=f"{library} {_better(library, rule, target)}",
        formula=f"known faults of this version: {' '.join(bug.text for bug in fixed)} ({', '.join(sources)})",
    )


def _first_without(library: str, release: Release, rule: str, *, kip848: bool) -> str:
    """Return the version with the last fix; if it has another fault with the same effect, the version that fixes it."""
    fixes = [bug.fixed_in for bug in known_bugs(library, release, rule, kip848=kip848) if bug.fixed_in is not None]
    target = max(fixes, key=lambda version: _filled(parse_version(version)))
    reached = parse_version(target)
    again = any(bug.fixed_in is not None for bug in known_bugs(library, reached, rule, kip848=kip848))
    return _first_without(library, reached, rule, kip848=kip848) if again else target


def _better(library: str, rule: str, target: str) -> str:
    """Return the version to upgrade to, in words: the last fix, unless a later one is known to be better."""
    better = _BETTER.get((library, rule))
    newer = better is not None and _filled(parse_version(better["version"])) > _filled(parse_version(target))
    return better["text"] if better is not None and newer else f"{target} or later"


def _filled(release: Release) -> Release:
    return (*release, *(0,) * (_PARTS - len(release)))


def _bug(entry: Mapping[str, Any]) -> KnownBug:
    return KnownBug(
        client=entry["client"],
        since=parse_version(entry.get("from")) or None,
        below=parse_version(entry.get("below")) or None,
        effects=tuple(entry["effects"]),
        fixed_in=entry.get("fixed_in"),
        text=entry["text"],
        sources=tuple(entry["sources"]),
        variant=entry.get("variant"),
        kip848=entry.get("kip848", False),
    )


_DATA = read_table("known_bugs.toml")

#: The whole table, in the file's order.
KNOWN_BUGS: tuple[KnownBug, ...] = tuple(_bug(entry) for entry in _DATA["bugs"])
#: By client and diagnosis: a version that is better advice than the last fix, with its text.
_BETTER = {(entry["client"], entry["rule"]): entry for entry in _DATA["better"]}
