"""Silences of alerts: groups without notifications for a period, with the author and the reason.

A deploy announced by its pipeline is a row of the kind `deploy`: the diagnosis takes it as evidence of why members
joined and left during it, and reports all other findings of the group unchanged. The other kinds affect notifications
only, and no counts, times or findings. (The silences of `impact` are something else: partitions without commits.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnySilenceKind, SilenceKind

#: At the end of a pattern: matches all names with the prefix before it.
WILDCARD = "*"

#: Bounds of a silence: creating one beyond them fails, and readers ignore it. Numbers of patterns, then of characters.
MAX_PATTERNS, MAX_NAME, MAX_REASON, MAX_WHO, MAX_VERSION = 50, 1_000, 500, 200, 100
#: Maximum number of characters of all names together, lower than `MAX_PATTERNS` names of `MAX_NAME` characters have.
MAX_NAMES = 16_384
_MAX_KIND = 50
MAX_DURATION_MS = 31 * 86_400_000
#: Maximum length of a deploy; a longer one would explain nothing.
MAX_DEPLOY_MS = 86_400_000
#: Maximum time from creation to start. The row has to be retained until the end (`topics.SILENCES`).
MAX_AHEAD_MS = 31 * 86_400_000


@dataclass(frozen=True, slots=True)
class AlertSilence:
    """One silence, or announced deploy.

    `groups` are names of groups; a name that ends with `*` matches all names with that prefix, and `*` alone everything
    about the cluster. It is in force from `starts_at_ms` up to `ends_at_ms` and ends by itself. `created_by` is the
    user who created it, as authenticated by the exporter; `on_behalf_of` is the person whom that user named, null for
    themselves; `expired_by` is who ended it early, null if nobody did. `version` is the deployed version, null if it is
    not reported, and for other kinds.
    """

    cluster: str
    silence_id: str
    groups: tuple[str, ...]
    starts_at_ms: int
    ends_at_ms: int
    created_at_ms: int
    created_by: str
    reason: str
    kind: AnySilenceKind = SilenceKind.SILENCE
    expired_by: str | None = None
    version: str | None = None
    on_behalf_of: str | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def holds_alerts(self) -> bool:
        """Whether alerts are silenced while it is in force; true for kinds that this version does not know.

        A deploy silences no alerts: it only explains rebalances in the diagnosis.
        """
        return self.kind != SilenceKind.DEPLOY

    def is_in_force(self, now_ms: int) -> bool:
        """Whether it is in force at a time."""
        return self.starts_at_ms <= now_ms < self.ends_at_ms

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        """Whether it was in force at any time between two times, both included."""
        return self.starts_at_ms <= until_ms and from_ms < self.ends_at_ms

    def is_about(self, group: str) -> bool:
        """Whether one of its names matches a group of its cluster."""
        return any(
            group.startswith(name.removesuffix(WILDCARD)) if name.endswith(WILDCARD) else group == name
            for name in self.groups
        )


@dataclass(frozen=True, slots=True)
class SilenceIndex:
    """Silences indexed by group name; a look-up takes at most as many steps as the name has characters."""

    _exact: Mapping[tuple[str, str], tuple[AlertSilence, ...]] = field(default_factory=dict)
    _beginning: Mapping[tuple[str, str], tuple[AlertSilence, ...]] = field(default_factory=dict)
    _lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, silences: Iterable[AlertSilence]) -> SilenceIndex:
        """Return an index of silences."""
        exact: dict[tuple[str, str], tuple[AlertSilence, ...]] = {}
        beginning: dict[tuple[str, str], tuple[AlertSilence, ...]] = {}
        for each in silences:
            for pattern in dict.fromkeys(each.groups):
                table = beginning if pattern.endswith(WILDCARD) else exact
                key = each.cluster, pattern.removesuffix(WILDCARD)
                table[key] = (*table.get(key, ()), each)
        return cls(exact, beginning, tuple(sorted({len(name) for _, name in beginning})))

    def covering(self, cluster: str, group: str) -> tuple[AlertSilence, ...]:
        """Return the silences of a group without duplicates, sorted by start."""
        found = {each.silence_id: each for each in self._exact.get((cluster, group), ())}
        for length in self._lengths:
            if length > len(group):
                break
            found |= {each.silence_id: each for each in self._beginning.get((cluster, group[:length]), ())}
        return tuple(sorted(found.values(), key=lambda each: (each.starts_at_ms, each.silence_id)))


def silence_problems(silence: AlertSilence) -> Iterator[str]:
    """Yield the problems of a silence, each as a sentence."""
    yield from _problems_of_names(silence)
    yield from _problems_of_times(silence)
    yield from _problems_of_texts(silence)


def _problems_of_names(silence: AlertSilence) -> Iterator[str]:
    if not 1 <= len(silence.groups) <= MAX_PATTERNS:
        yield f"{len(silence.groups)} groups are named: it must be 1 to {MAX_PATTERNS}"
    together = sum(map(len, silence.groups))
    if together > MAX_NAMES:
        yield f"the names of its groups have {together} characters together: it must be {MAX_NAMES} at most"
    for name in silence.groups:
        if not 1 <= len(name) <= MAX_NAME:
            yield f"the name of a group has {len(name)} characters: it must be 1 to {MAX_NAME}"
        elif WILDCARD in name[:-1]:
            yield f"{name[:80]!r} has a * that is not at its end: only names that begin alike can be silenced together"


def _problems_of_times(silence: AlertSilence) -> Iterator[str]:
    # The length is 0 if it was ended before it began.
    lasts_ms = silence.ends_at_ms - silence.starts_at_ms
    if not 0 <= lasts_ms <= MAX_DURATION_MS:
        yield f"it must end after it begins, and last {MAX_DURATION_MS // 86_400_000} days at most"
    elif silence.kind == SilenceKind.DEPLOY and lasts_ms > MAX_DEPLOY_MS:
        yield f"a deploy must be over within {MAX_DEPLOY_MS // 3_600_000} hours"
    if silence.starts_at_ms - silence.created_at_ms > MAX_AHEAD_MS:
        yield f"it must begin within {MAX_AHEAD_MS // 86_400_000} days"


def _problems_of_texts(silence: AlertSilence) -> Iterator[str]:
    if not silence.reason.strip() or len(silence.reason) > MAX_REASON:
        yield f"a reason is needed, of {MAX_REASON} characters at most"
    if not silence.created_by or len(silence.created_by) > MAX_WHO:
        yield f"who it is of must be known, in {MAX_WHO} characters at most"
    if silence.on_behalf_of is not None and not 1 <= len(silence.on_behalf_of.strip()) <= MAX_WHO:
        yield f"for whom it is must have 1 to {MAX_WHO} characters, or be left out"
    if len(silence.expired_by or "") > MAX_WHO:
        yield f"who ended it must have {MAX_WHO} characters at most"
    if len(silence.kind) > _MAX_KIND:
        yield f"its kind has {len(silence.kind)} characters: the known ones are {', '.join(SilenceKind)}"
    if silence.version is not None and not 1 <= len(silence.version.strip()) <= MAX_VERSION:
        yield f"a version must have 1 to {MAX_VERSION} characters, or be left out"
    if silence.version is not None and silence.kind == SilenceKind.SILENCE:
        yield "a silence has no version: only a deploy has"
