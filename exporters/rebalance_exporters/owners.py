"""Owners of groups: a file of patterns and teams, in which the first match wins.

Receives the file's path; returns a value that gives the team of any group. The file is TOML or YAML, by its suffix:

    [[owners]]                     owners:
    group = "payments-.*"            - group: payments-.*
    team = "payments"                  team: payments
    cluster = "prod"                   cluster: prod
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.settings_file import find_unknown_keys, read_settings_file

#: Maximum number of groups whose owner is cached, so that scrapes do not match patterns again.
_REMEMBERED = 100_000
_ENTRY = ("group", "team", "cluster")


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry. Both patterns are regular expressions for the whole name; by default `cluster` matches any."""

    group: re.Pattern[str]
    team: str
    cluster: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Owners:
    """The entries in the order of the file."""

    entries: tuple[Owner, ...] = ()
    _known: dict[tuple[str, str], str | None] = field(default_factory=dict, compare=False, repr=False)

    def team_of(self, cluster: str, group: str) -> str | None:
        """Return the team of the first entry that matches, or null if none does."""
        key = (cluster, group)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = next((each.team for each in self.entries if _matches(each, cluster, group)), None)
        return self._known[key]


def _matches(owner: Owner, cluster: str, group: str) -> bool:
    return owner.group.fullmatch(group) is not None and owner.cluster.fullmatch(cluster) is not None


def load_owners(file: str) -> Owners:
    """Read the file; an empty name means no owners. Raises ExporterError that lists all problems."""
    if not file:
        return Owners()
    document = read_settings_file(Path(file))
    problems = find_unknown_keys(document, ("owners",), "")
    entries = document.get("owners", [])
    if not isinstance(entries, list):
        raise ExporterError(f"{file}: owners must be a list of entries with group and team")
    owners = []
    for place, entry in enumerate(entries):
        found = _read_entry(entry, f"owners[{place}]")
        if isinstance(found, Owner):
            owners.append(found)
        else:
            problems += found
    if problems:
        raise ExporterError(f"{file}: {'; '.join(problems)}")
    return Owners(tuple(owners))


def _read_entry(entry: Any, where: str) -> Owner | list[str]:
    """Return an entry, or what is wrong with it."""
    if not isinstance(entry, dict):
        return [f"{where} must be a table with group and team"]
    problems = find_unknown_keys(entry, _ENTRY, f"{where}.")
    for name in ("group", "team"):
        if not isinstance(entry.get(name), str) or not entry[name]:
            problems.append(f"{where}.{name} is missing: it must be text")
    patterns = {}
    for name in ("group", "cluster"):
        try:
            patterns[name] = re.compile(str(entry.get(name, ".*")), re.DOTALL)
        except re.error as error:
            problems.append(f"{where}.{name} is no regular expression: {error}")
    return problems or Owner(patterns["group"], entry["team"], patterns["cluster"])
