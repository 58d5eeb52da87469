"""Settings of the diagnosis: thresholds with the catalogue's defaults, overrides and silences per group."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from rebalance_contract.settings import setting
from rebalance_streaming.detect.catalogue import DIAGNOSES
from rebalance_streaming.detect.thresholds import Thresholds


@cache
def _scaled(thresholds: Thresholds, factor: float) -> Thresholds:
    """Return scaled thresholds, computed once and shared by all groups."""
    return thresholds.scaled(factor)


#: Names of the thresholds that an override may set.
THRESHOLD_NAMES = frozenset(each.name for each in fields(Thresholds))
#: Thresholds that must not be 0: their rules would describe what did not happen, or divide by them.
_ABOVE_ZERO = frozenset(
    {"formation_generations", "short_lived_arrivals", "storm_rebalances", "storm_window_ms", "zk_flaps"}
)


@dataclass(frozen=True, slots=True)
class Override:
    """Other thresholds for groups whose whole name matches a regular expression."""

    group: str
    thresholds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FindingSilence:
    """Suppresses notifications for findings of matching groups and rules, until `until_ms` (epoch ms; null: always)."""

    group: str = ".*"
    rule: str = ".*"
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectConfig:
    """Settings of the diagnosis."""

    window_scale: float = setting(1.0, "Factor for every window and hold time longer than a minute.")
    probe_interval_ms: int = setting(
        5_000,
        "Interval between probes that the rules assume. Set it if you change `probe.period_seconds` or "
        "`probe.offsets_seconds`; it does not change the prober.",
    )
    settle_ms: int = setting(
        20_000,
        "Delay between the end of a rebalance and its diagnosis, in which late generations, commits and probes arrive.",
    )
    ignore: tuple[str, ...] = setting(
        ("console-consumer-.*", "spark-kafka-source-.*", "spark-executor-.*"),
        "Regular expressions for groups that are never diagnosed.",
    )
    overrides: tuple[Override, ...] = setting(
        (), "Thresholds for some groups: tables of `group` (a regular expression) and `thresholds`."
    )
    silences: tuple[FindingSilence, ...] = setting(
        (),
        "Findings without notifications: tables of `group` and `rule` (regular expressions), optionally `until_ms`.",
    )
    thresholds: Thresholds = field(default_factory=Thresholds)

    def for_group(self, group: str) -> Thresholds:
        """Return the thresholds of one group: the scaled settings, with the unscaled overrides applied."""
        found = _scaled(self.thresholds, self.window_scale)
        for override in self.overrides:
            if re.fullmatch(override.group, group):
                found = replace(found, **dict[str, Any](override.thresholds))
        return found

    def ignores(self, group: str) -> bool:
        """Whether a group is never judged."""
        return any(re.fullmatch(pattern, group) for pattern in self.ignore)

    def silenced(self, group: str, rule: str, now_ms: int) -> bool:
        """Whether notifications for a finding are suppressed now."""
        return any(
            re.fullmatch(each.group, group)
            and re.fullmatch(each.rule, rule)
            and (each.until_ms is None or now_ms < each.until_ms)
            for each in self.silences
        )

    def validate(self) -> list[str]:
        """Return every problem of these settings as a sentence; empty if they are usable."""
        problems = []
        if not self.window_scale > 0:
            problems.append(f"detect.window_scale must be above 0, got {self.window_scale}")
        problems += _too_low({"settle_ms": self.settle_ms, "probe_interval_ms": self.probe_interval_ms}, "detect.")
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
            problems += _too_low(override.thresholds, f"detect.overrides for {override.group!r}: ")
        defaults = {name: getattr(self.thresholds, name) for name in THRESHOLD_NAMES}
        return [*problems, *_too_low(defaults, "detect.thresholds."), *self._silent_problems()]

    def _silent_problems(self) -> list[str]:
        return [
            f"detect.silences: no diagnosis is named {each.rule!r}{_hint(each.rule, DIAGNOSES)}"
            for each in self.silences
            if not _matches_any(each.rule, DIAGNOSES)
        ]


def _too_low(thresholds: Mapping[str, float], prefix: str) -> list[str]:
    problems = []
    for name, value in sorted(thresholds.items()):
        if name in _ABOVE_ZERO and not value > 0:
            problems.append(f"{prefix}{name} must be above 0, got {value}")
        elif not value >= 0:
            problems.append(f"{prefix}{name} must not be negative, got {value}")
    return problems


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    try:
        return any(re.fullmatch(pattern, name) for name in names)
    except re.error:  # reported separately
        return True


def _hint(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "; docs/diagnoses.md lists all"
