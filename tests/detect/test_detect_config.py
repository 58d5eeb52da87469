"""Settings of the diagnosis: scaling, overrides, silences, and validation."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from histories import HOUR, MINUTE, SECOND, T0
from rebalance_streaming.detect.config import THRESHOLD_NAMES, DetectConfig, FindingSilence, Override
from rebalance_streaming.detect.thresholds import Thresholds

#: Settings of groups that rules compare with; they are not windows.
LIMITS = {"rebalance_timeout_ms", "session_timeout_ms", "retention_ms"}


def test_defaults_are_usable_and_the_catalogues():
    """The defaults are valid, and are the numbers in the catalogue."""
    assert DetectConfig().validate() == []
    known = Thresholds()
    assert (known.barrier_ms, known.barrier_page_ms, known.stay_ms) == (10 * SECOND, MINUTE, 10 * MINUTE)
    assert (known.crash_loop_cycles, known.crash_loop_window_ms, known.short_life_ms) == (3, 10 * MINUTE, 2 * MINUTE)
    assert (known.storm_rebalances, known.storm_window_ms, known.storm_share) == (5, 10 * MINUTE, 0.3)
    assert (known.short_lived_arrivals, known.short_lived_window_ms) == (6, HOUR)
    assert (known.flapping_returns, known.flapping_window_ms) == (3, 15 * MINUTE)
    assert (known.poll_risk_warn, known.poll_risk_ticket) == (0.5, 0.8)
    assert (known.rebalance_timeout_ms, known.session_timeout_ms) == (900 * SECOND, 10 * SECOND)


@pytest.mark.parametrize("factor", [0.1, 0.5, 3.0])
def test_windows_longer_than_a_minute_are_scaled_and_nothing_else(factor: float):
    """Counts, shares, short times and limits of settings are kept: a short recording is judged by the same rules."""
    before, after = Thresholds(), Thresholds().scaled(factor)
    for each in fields(Thresholds):
        was, now = getattr(before, each.name), getattr(after, each.name)
        if each.name.endswith("_ms") and each.name not in LIMITS and was > MINUTE:
            assert now == round(was * factor), each.name
        else:
            assert now == was, each.name


@pytest.mark.parametrize("name", ["settle_ms", "probe_interval_ms"])
def test_negative_times_are_refused(name: str):
    """A rebalance is judged at or after its end, and probes are ordered in time."""
    assert DetectConfig(**{name: -1}).validate() == [f"detect.{name} must not be negative, got -1"]
    assert DetectConfig(**{name: 0}).validate() == []


def test_a_scale_never_makes_a_window_nothing():
    """Even the smallest scale leaves windows of positive length."""
    assert Thresholds().scaled(1e-9).storm_window_ms == 1


def test_overrides_hold_as_they_stand():
    """They are for groups whose whole name matches, are not scaled, and the last one applies."""
    config = DetectConfig(
        window_scale=0.5,
        overrides=(
            Override("batch-.*", {"barrier_ms": 60_000, "stay_ms": 7_000}),
            Override("batch-night", {"stay_ms": 9_000}),
        ),
    )
    night, day, other = (config.for_group(name) for name in ("batch-night", "batch-day", "my-batch-day"))
    assert (night.barrier_ms, night.stay_ms, night.storm_window_ms) == (60_000, 9_000, 5 * MINUTE)
    assert (day.barrier_ms, day.stay_ms) == (60_000, 7_000)
    assert (other.barrier_ms, other.stay_ms) == (10_000, 5 * MINUTE)


@pytest.mark.parametrize(
    ("group", "ignored"),
    [
        ("console-consumer-12345", True),
        ("spark-kafka-source-1f2e-0", True),
        ("spark-executor-spark-kafka-source-1", True),
        ("my-console-consumer-1", False),
        ("payments", False),
        ("", False),
    ],
)
def test_groups_of_people_and_tools_are_ignored(group: str, ignored: bool):
    """By their whole names, and only by default."""
    assert DetectConfig().ignores(group) == ignored
    assert not DetectConfig(ignore=()).ignores(group)


@pytest.mark.parametrize(
    ("silence", "silenced"),
    [
        (FindingSilence(), True),
        (FindingSilence(group="pay.*"), True),
        (FindingSilence(group="pay"), False),
        (FindingSilence(rule="poll_.*"), True),
        (FindingSilence(rule="member_crash"), False),
        (FindingSilence(group="payments", rule="poll_overrun", until_ms=T0 + 1), True),
        (FindingSilence(until_ms=T0), False),
    ],
    ids=["all", "group", "part of a name", "rule", "another rule", "still", "over"],
)
def test_a_silence_is_for_whole_names_and_until_its_end(silence: FindingSilence, silenced: bool):
    """Group and rule must both match; the end is exclusive."""
    assert DetectConfig(silences=(silence,)).silenced("payments", "poll_overrun", T0) == silenced
    assert not DetectConfig().silenced("payments", "poll_overrun", T0)


def test_all_problems_are_reported_at_once():
    """One sentence for each invalid setting, with its name."""
    config = DetectConfig(
        window_scale=0,
        ignore=("(",),
        overrides=(Override("[", {"barrier": 1, "stay_ms": 2, "nonsense": 3}),),
        silences=(FindingSilence(group="*", rule="+"),),
    )
    problems = config.validate()
    assert len(problems) == 7
    assert "detect.window_scale must be above 0, got 0" in problems
    assert [re.search(r"'(.+?)' is not a regular expression", each) is not None for each in problems].count(True) == 4
    assert "detect.overrides for '[': unknown threshold 'barrier'; did you mean 'barrier_ms'?" in problems
    assert "detect.overrides for '[': unknown threshold 'nonsense'; docs/diagnoses.md lists all" in problems


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            DetectConfig(silences=(FindingSilence(rule="pol_overrun"),)),
            "detect.silences: no diagnosis is named 'pol_overrun'; did you mean 'poll_overrun'?",
        ),
        (
            DetectConfig(thresholds=Thresholds(stalled_ms=-5)),
            "detect.thresholds.stalled_ms must not be negative, got -5",
        ),
        (
            DetectConfig(overrides=(Override("g", {"stalled_ms": -1}),)),
            "detect.overrides for 'g': stalled_ms must not be negative, got -1",
        ),
    ],
)
def test_what_would_silence_or_fire_always_is_refused(config: DetectConfig, said: str):
    """A misspelt rule would silence nothing, and a negative threshold would always be exceeded."""
    assert config.validate() == [said]


@pytest.mark.parametrize(
    "name", ["formation_generations", "short_lived_arrivals", "storm_rebalances", "storm_window_ms", "zk_flaps"]
)
def test_thresholds_with_which_rules_raise_are_refused(name: str):
    """With 0, a rule would describe the first of no events, or divide by nothing; other thresholds may be 0."""
    zero = DetectConfig(thresholds=Thresholds(**{name: 0}), overrides=(Override("g", {name: 0, "churn_share": 0}),))
    assert zero.validate() == [
        f"detect.overrides for 'g': {name} must be above 0, got 0",
        f"detect.thresholds.{name} must be above 0, got 0",
    ]
    assert DetectConfig(overrides=(Override("g", {name: 1}),)).validate() == []


def test_a_pattern_of_rules_may_match_several():
    """A pattern must match at least one diagnosis."""
    assert DetectConfig(silences=(FindingSilence(rule="poll_.*"), FindingSilence(rule=".*"))).validate() == []


def test_a_scale_that_is_no_number_is_refused():
    """NaN is not above 0."""
    assert len(DetectConfig(window_scale=float("nan")).validate()) == 1


def test_names_of_thresholds_are_those_of_the_fields():
    """The names that an override may use."""
    assert {each.name for each in fields(Thresholds)} == THRESHOLD_NAMES
