"""Settings of the diagnosis: thresholds with the catalogue's defaults, overrides and silences per group."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

_MINUTE = 60_000
_HOUR = 60 * _MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Every number a rule compares with; the catalogue's defaults. Times in milliseconds.

    `scaled` multiplies those longer than a minute, so that short recordings and tests can be judged.
    """

    #: A join barrier this long has a reason of its own.
    barrier_ms: int = 10_000
    barrier_page_ms: int = _MINUTE
    #: Reasons recur within this, or the finding is resolved.
    resolve_after_ms: int = 10 * _MINUTE
    recurring_per_day: int = 3
    churn_share: float = 0.01
    deploy_window_ms: int = 30 * _MINUTE
    deploy_per_member_ms: int = 5 * _MINUTE
    stay_ms: int = 10 * _MINUTE
    crash_loop_cycles: int = 3
    crash_loop_window_ms: int = 10 * _MINUTE
    short_life_ms: int = 2 * _MINUTE
    short_lived_window_ms: int = _HOUR
    short_lived_arrivals: int = 6
    flapping_returns: int = 3
    flapping_window_ms: int = 15 * _MINUTE
    poison_departures: int = 3
    poison_window_ms: int = 30 * _MINUTE
    no_progress_generations: int = 3
    formation_window_ms: int = 2 * _MINUTE
    formation_generations: int = 4
    storm_rebalances: int = 5
    storm_window_ms: int = 10 * _MINUTE
    storm_share: float = 0.3
    leader_rejoins: int = 3
    leader_rejoin_window_ms: int = 10 * _MINUTE
    livelock_generations: int = 4
    livelock_spacing_ms: int = _MINUTE
    callback_ms: int = 5_000
    rebalance_timeout_ms: int = 900_000
    session_timeout_ms: int = 10_000
    eager_members: int = 5
    idle_ms: int = 30 * _MINUTE
    imbalance_ms: int = 10 * _MINUTE
    shared_ms: int = _HOUR
    autoscaler_turns: int = 3
    autoscaler_window_ms: int = _HOUR
    conflict_window_ms: int = 10 * _MINUTE
    static_restarts_per_week: int = 20
    sync_warn_ms: int = 5_000
    sync_ticket_ms: int = 30_000
    failover_window_ms: int = _MINUTE
    stuck_slack_ms: int = _MINUTE
    overload_response_ms: int = 1_000
    wide_groups: int = 3
    wide_window_ms: int = _MINUTE
    reconciliation_ms: int = 15_000
    assigning_ms: int = 15_000
    churn_epochs: int = 6
    churn_window_ms: int = 10 * _MINUTE
    stalled_ms: int = 5 * _MINUTE
    slow_ms: int = 15 * _MINUTE
    orphan_ms: int = _MINUTE
    metadata_ms: int = 5 * _MINUTE
    skew_factor: float = 3.0
    skew_share: float = 0.5
    jump_factor: float = 10.0
    empty_ms: int = 5 * _MINUTE
    duplicates_share: float = 0.001
    retention_ms: int = 7 * 24 * _HOUR
    zk_idle_ms: int = 12_000
    zk_orphan_ms: int = 30_000
    zk_flaps: int = 3
    zk_flap_window_ms: int = 10 * _MINUTE
    topic_changes_per_day: int = 3
    poll_risk_warn: float = 0.5
    poll_risk_ticket: float = 0.8
    #: Groups younger than this are not judged by conditions.
    young_ms: int = 2 * _MINUTE

    def scaled(self, factor: float) -> Thresholds:
        """Return the thresholds with every window and hold time longer than a minute multiplied."""
        changes = {
            each.name: max(1, round(value * factor))
            for each in fields(self)
            if each.name.endswith("_ms")
            and each.name not in _LIMITS_OF_SETTINGS
            and (value := getattr(self, each.name)) > _MINUTE
        }
        return replace(self, **changes)


@cache
def _scaled(thresholds: Thresholds, factor: float) -> Thresholds:
    """Scale thresholds once for all groups, which share the result."""
    return thresholds.scaled(factor)


#: What settings of groups are compared with: no window, so never scaled.
_LIMITS_OF_SETTINGS = frozenset({"rebalance_timeout_ms", "session_timeout_ms", "retention_ms"})

#: Names of settings that an override may have.
THRESHOLD_NAMES = frozenset(each.name for each in fields(Thresholds))


@dataclass(frozen=True, slots=True)
class Override:
    """Other thresholds for groups whose whole name matches a regular expression."""

    group: str
    thresholds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Findings that are not to notify anybody: of matching groups, of matching rules, up to a time if one is given."""

    group: str = ".*"
    rule: str = ".*"
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectConfig:
    """How the diagnosis judges."""

    #: Multiplies every window and hold time longer than a minute.
    window_scale: float = 1.0
    #: How often the prober looks, which bounds what probes can tell.
    probe_interval_ms: int = 5_000
    #: How long after its end a rebalance is judged: late generations, commits and probes have arrived by then.
    settle_ms: int = 20_000
    #: Regular expressions of groups never judged.
    ignore: tuple[str, ...] = ("console-consumer-.*", "spark-kafka-source-.*", "spark-executor-.*")
    #: Other thresholds for some groups: tables of `group` (a regular expression) and `thresholds`.
    overrides: tuple[Override, ...] = ()
    #: Findings that notify nobody: tables of `group` and `rule` (regular expressions), and `until_ms` if they end.
    silences: tuple[Quiet, ...] = ()
    #: See below.
    thresholds: Thresholds = field(default_factory=Thresholds)

    def for_group(self, group: str) -> Thresholds:
        """Return the thresholds of one group: defaults, scaled, then overridden as they stand."""
        found = _scaled(self.thresholds, self.window_scale)
        for override in self.overrides:
            if re.fullmatch(override.group, group):
                found = replace(found, **dict[str, Any](override.thresholds))
        return found

    def ignores(self, group: str) -> bool:
        """Whether a group is never judged."""
        return any(re.fullmatch(pattern, group) for pattern in self.ignore)

    def silenced(self, group: str, rule: str, now_ms: int) -> bool:
        """Whether a finding is not to notify anybody now."""
        return any(
            re.fullmatch(each.group, group)
            and re.fullmatch(each.rule, rule)
            and (each.until_ms is None or now_ms < each.until_ms)
            for each in self.silences
        )

    def validate(self) -> list[str]:
        """Return every problem of these settings as a sentence; none means usable."""
        problems = []
        if not self.window_scale > 0:
            problems.append(f"detect.window_scale must be above 0, got {self.window_scale}")
        for pattern in (
            *self.ignore,
            *(each.group for each in self.overrides),
            *(part for each in self.silences for part in (each.group, each.rule)),
        ):
            try:
                re.compile(pattern)
            except re.error as error:
                problems.append(f"detect: {pattern!r} is not a regular expression: {error}")
        for override in self.overrides:
            problems += [
                f"detect.overrides for {override.group!r}: unknown threshold {name!r}{_hint(name, THRESHOLD_NAMES)}"
                for name in sorted(override.thresholds.keys() - THRESHOLD_NAMES)
            ]
            problems += _negative(override.thresholds, f"detect.overrides for {override.group!r}: ")
        defaults = {name: getattr(self.thresholds, name) for name in THRESHOLD_NAMES}
        return [*problems, *_negative(defaults, "detect.thresholds."), *self._silent_problems()]

    def _silent_problems(self) -> list[str]:
        # The catalogue's texts hold the thresholds' defaults, so it comes after them.
        from rebalance_streaming.detect.catalogue import DIAGNOSES  # noqa: PLC0415

        return [
            f"detect.silences: no diagnosis is named {each.rule!r}{_hint(each.rule, DIAGNOSES)}"
            for each in self.silences
            if not _matches_any(each.rule, DIAGNOSES)
        ]


def _negative(thresholds: Mapping[str, float], prefix: str) -> list[str]:
    return [
        f"{prefix}{name} must not be negative, got {value}"
        for name, value in sorted(thresholds.items())
        if not value >= 0
    ]


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    try:
        return any(re.fullmatch(pattern, name) for name in names)
    except re.error:  # told elsewhere
        return True


def _hint(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "; docs/diagnoses.md lists all"
