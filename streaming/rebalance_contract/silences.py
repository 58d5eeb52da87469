"""Silences of alerts: groups that nobody is to be called for, from when until when, who wants that, and why.

A deploy that its pipeline announces is a row of the kind `deploy`: to the diagnosis it is evidence of why members came
and went within it, and whatever else is found of the group is reported unchanged. Of the other kinds nothing depends
that is counted, timed or found: they decide only who is notified. (The silences of `impact` are something else:
partitions without commits.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnySilenceKind, SilenceKind

#: Ends a pattern that stands for all names that begin like it.
WILDCARD = "*"

#: Bounds of a silence: whoever makes one beyond them gets an error, and whoever reads one leaves it out.
MAX_PATTERNS, MAX_NAME, MAX_REASON, MAX_WHO, MAX_VERSION = 50, 1_000, 500, 200, 100
#: Of all names together: far less than so many of the longest have, which nobody needs.
MAX_NAMES = 16_384
_MAX_KIND = 50
MAX_DURATION_MS = 31 * 86_400_000
#: A deploy that is still not over is none that explains anything.
MAX_DEPLOY_MS = 86_400_000
#: How far ahead one may begin. Its row has to outlive it (`topics.SILENCES`).
MAX_AHEAD_MS = 31 * 86_400_000


@dataclass(frozen=True, slots=True)
class AlertSilence:
    """One silence, or announced deploy.

    `groups` are names of groups; one that ends with `*` stands for all names that begin like it, and `*` alone for
    everything about the cluster. It is in force from `starts_at_ms` up to `ends_at_ms`, and needs nobody to end it.
    `created_by` is the user who asked for it, as the exporter let them in; `on_behalf_of` is whom that user named, null
    for themselves; `expired_by` is who ended it early, null if nobody did. `version` is what is deployed, null where
    that is not reported, and of other kinds.
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
        """Whether nobody is to be called while it is in force, of whatever kind a newer exporter may make it.

        A deploy holds nothing back: the diagnosis says which rebalances it explains.
        """
        return self.kind != SilenceKind.DEPLOY

    def is_in_force(self, now_ms: int) -> bool:
        """Whether alerts are held back now."""
        return self.starts_at_ms <= now_ms < self.ends_at_ms

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        """Whether it was in force at any time between two moments, both included."""
        return self.starts_at_ms <= until_ms and from_ms < self.ends_at_ms

    def is_about(self, group: str) -> bool:
        """Whether one of its names stands for a group of its cluster."""
        return any(
            group.startswith(name.removesuffix(WILDCARD)) if name.endswith(WILDCARD) else group == name
            for name in self.groups
        )


@dataclass(frozen=True, slots=True)
class SilenceIndex:
    """Silences by the groups that they are about: looking up takes as many steps as a name has characters at most."""

    _exact: Mapping[tuple[str, str], tuple[AlertSilence, ...]] = field(default_factory=dict)
    _beginning: Mapping[tuple[str, str], tuple[AlertSilence, ...]] = field(default_factory=dict)
    _lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, silences: Iterable[AlertSilence]) -> SilenceIndex:
        """Put silences in order."""
        exact: dict[tuple[str, str], tuple[AlertSilence, ...]] = {}
        beginning: dict[tuple[str, str], tuple[AlertSilence, ...]] = {}
        for each in silences:
            for pattern in dict.fromkeys(each.groups):
                table = beginning if pattern.endswith(WILDCARD) else exact
                key = each.cluster, pattern.removesuffix(WILDCARD)
                table[key] = (*table.get(key, ()), each)
        return cls(exact, beginning, tuple(sorted({len(name) for _, name in beginning})))

    def covering(self, cluster: str, group: str) -> tuple[AlertSilence, ...]:
        """Return the silences of a group, each once, those that begin first before others."""
        found = {each.silence_id: each for each in self._exact.get((cluster, group), ())}
        for length in self._lengths:
            if length > len(group):
                break
            found |= {each.silence_id: each for each in self._beginning.get((cluster, group[:length]), ())}
        return tuple(sorted(found.values(), key=lambda each: (each.starts_at_ms, each.silence_id)))


def silence_problems(silence: AlertSilence) -> Iterator[str]:
    """Yield what no silence may be, each as a sentence about it."""
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
    # One that was ended before it began lasts no time.
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
