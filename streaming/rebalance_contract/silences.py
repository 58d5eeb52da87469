"""Silences of alerts: groups that nobody is to be called for, from when until when, who wants that, and why.

A deploy that its pipeline announces is a silence of the kind `deploy`, which also explains the rebalances within it.
Nothing that is counted, timed or found depends on silences: they decide only who is told. (The silences of `impact` are
something else: partitions without commits.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnySilenceKind, SilenceKind

#: Ends a pattern that stands for all names that begin like it.
WILDCARD = "*"

#: Bounds of a silence: who makes one is told, and whoever reads one that is beyond them leaves it out.
MAX_PATTERNS, MAX_NAME, MAX_REASON, MAX_WHO = 50, 1_000, 500, 200
_MAX_KIND = 50
MAX_DURATION_MS = 31 * 86_400_000
#: How far ahead one may begin. Its row has to outlive it (`topics.SILENCES`).
MAX_AHEAD_MS = 31 * 86_400_000


@dataclass(frozen=True, slots=True)
class AlertSilence:
    """One silence. Null means that it was not ended early.

    `groups` are names of groups; one that ends with `*` stands for all names that begin like it, and `*` alone for
    everything about the cluster. It is in force from `starts_at_ms` up to `ends_at_ms`, and needs nobody to end it.
    `created_by` is the user who asked for it, as the exporter let them in, and `expired_by` who ended it early.
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
    schema_version: int = SCHEMA_VERSION

    def is_in_force(self, now_ms: int) -> bool:
        """Whether alerts are held back now."""
        return self.starts_at_ms <= now_ms < self.ends_at_ms

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        """Whether it was in force at any time between two moments, both included."""
        return self.starts_at_ms <= until_ms and from_ms < self.ends_at_ms


def silence_problems(silence: AlertSilence) -> Iterator[str]:
    """Yield what no silence may be, each as a sentence about it."""
    if not 1 <= len(silence.groups) <= MAX_PATTERNS:
        yield f"{len(silence.groups)} groups are named: it must be 1 to {MAX_PATTERNS}"
    for name in silence.groups:
        if not 1 <= len(name) <= MAX_NAME:
            yield f"the name of a group has {len(name)} characters: it must be 1 to {MAX_NAME}"
        elif WILDCARD in name[:-1]:
            yield f"{name[:80]!r} has a * that is not at its end: only names that begin alike can be silenced together"
    # One that was ended before it began lasts no time.
    if not 0 <= silence.ends_at_ms - silence.starts_at_ms <= MAX_DURATION_MS:
        yield f"it must end after it begins, and last {MAX_DURATION_MS // 86_400_000} days at most"
    if silence.starts_at_ms - silence.created_at_ms > MAX_AHEAD_MS:
        yield f"it must begin within {MAX_AHEAD_MS // 86_400_000} days"
    if not silence.reason.strip() or len(silence.reason) > MAX_REASON:
        yield f"a reason is needed, of {MAX_REASON} characters at most"
    if not silence.created_by or len(silence.created_by) > MAX_WHO:
        yield f"who it is of must be known, in {MAX_WHO} characters at most"
    if len(silence.kind) > _MAX_KIND:
        yield f"its kind has {len(silence.kind)} characters: the known ones are {', '.join(SilenceKind)}"
    if len(silence.expired_by or "") > MAX_WHO:
        yield f"who ended it must be told in {MAX_WHO} characters at most"
