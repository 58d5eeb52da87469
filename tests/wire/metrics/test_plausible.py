"""Impossible values are removed from reports and counted; everything else stays as reported."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from rebalance_contract import ClientConfig
from rebalance_streaming.wire.metrics.plausible import CLOCK_AHEAD_MS, LATE_MS, plausible
from rebalance_streaming.wire.metrics.report import Point, Report
from wire.metrics.payloads import OBSERVED_MS

SETTINGS = [each.name for each in fields(ClientConfig) if each.name != "group_protocol"]


def reported(emitted_ms: int = OBSERVED_MS, **changes: Any) -> Report:
    return Report("native", OBSERVED_MS, emitted_ms, client_id="b", **changes)


def test_an_ordinary_report_stays_the_same_object():
    """Nothing is copied if nothing is wrong."""
    report = reported(
        config=ClientConfig(session_timeout_ms=6_000, max_poll_interval_ms=2**31 - 1, group_protocol="classic"),
        points=(Point("a", 0.0), Point("b", 0.33), Point("c", None), Point("records_lag_max", 1e15)),
        process_start_ms=OBSERVED_MS - 86_400_000,
        last_poll_return_ms=OBSERVED_MS - 1,
        interval_ms=5_000,
        tick_late_ms=0,
        pid=1,
    )
    assert plausible(report) is report


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value", [0, -1, 2**62])
def test_settings_that_no_client_accepts_are_null(name: str, value: int):
    """Rules divide by them and compare with them."""
    found = plausible(reported(config=ClientConfig(**{name: value, "group_protocol": "classic"})))
    assert (found.config, found.implausible) == (ClientConfig(group_protocol="classic"), 1)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("coordinator_heartbeat_rate", -1.0),
        ("coordinator_heartbeat_rate", 1e300),
        ("time_between_poll_max", 1e15),
        ("coordinator_heartbeat_total", 2.0**63),
        ("anything", math.nan),
        ("anything", math.inf),
    ],
)
def test_values_that_cannot_be_are_none(metric: str, value: float):
    """The point stays: the client has the metric without a value."""
    found = plausible(reported(points=(Point(metric, value), Point("b", 1.0))))
    assert [each.value for each in found.points] == [None, 1.0]
    assert found.implausible == 1


def test_a_rate_that_is_next_to_nothing_is_nothing():
    """Quotients with a rate must stay finite."""
    found = plausible(reported(points=(Point("coordinator_heartbeat_rate", 5e-324),)))
    assert ([each.value for each in found.points], found.implausible) == ([0.0], 0)


@pytest.mark.parametrize("labels", [{"topic": "t" * 250}, {"topic": "t", "partition": "1" * 11}, {"node_id": "n" * 65}])
def test_points_of_what_cannot_be_are_left_out(labels: dict[str, str]):
    """Without its label a point would be that of the whole client."""
    found = plausible(reported(points=(Point("app_offset", 1.0, labels), Point("b", 1.0))))
    assert (found.points, found.implausible) == ((Point("b", 1.0),), 1)


@pytest.mark.parametrize(
    ("name", "longest"),
    [("group_id", 1_000), ("client_id", 1_000), ("member_id", 1_000), ("instance_id", 249), ("host", 255)],
)
def test_names_are_bounded(name: str, longest: int):
    """A name that is too long is dropped: a part of it would be another name."""

    def named(length: int) -> Report:
        reported: dict[str, Any] = {name: "x" * length}
        return plausible(Report("native", OBSERVED_MS, OBSERVED_MS, **reported))

    assert getattr(named(longest), name) == "x" * longest
    found = named(longest + 1)
    assert (getattr(found, name), found.implausible) == (None, 1)


def test_a_reason_is_cut():
    """People read it, and rules compare its beginning."""
    found = plausible(reported(reason="max.poll.interval" + "x" * 1_000))
    assert found.reason is not None
    assert (len(found.reason), found.implausible) == (512, 0)


@pytest.mark.parametrize("off_ms", [CLOCK_AHEAD_MS + 1, -LATE_MS - 1, 10**12])
def test_of_a_clock_that_is_far_off_only_ages_are_used(off_ms: int):
    """A time far in the future would hide all later reports; the age of the last poll is still right."""
    at_ms = OBSERVED_MS + off_ms
    found = plausible(reported(at_ms, last_poll_return_ms=at_ms - 7_000, process_start_ms=at_ms - 60_000))
    assert (found.emitted_ms, found.last_poll_return_ms) == (OBSERVED_MS, OBSERVED_MS - 7_000)
    assert found.process_start_ms is None
    assert found.implausible > 0


@pytest.mark.parametrize("off_ms", [CLOCK_AHEAD_MS, 0, -LATE_MS])
def test_a_clock_that_may_be_right_is_believed(off_ms: int):
    """Clocks differ, and a report may be delayed."""
    assert plausible(reported(OBSERVED_MS + off_ms)).emitted_ms == OBSERVED_MS + off_ms


def test_without_a_record_time_the_client_is_believed():
    """There is no other time to compare it with."""
    report = Report("native", 0, OBSERVED_MS, client_id="b")
    assert plausible(report) is report


@pytest.mark.parametrize(
    "changes",
    [
        {"interval_ms": 0},
        {"interval_ms": -5},
        {"tick_late_ms": -1},
        {"cpu_s": -0.5},
        {"pid": -1},
        {"voluntary_switches": -1},
        {"last_poll_return_ms": OBSERVED_MS + CLOCK_AHEAD_MS + 1},
        {"waiting_since_ms": 1},
        {"process_start_ms": OBSERVED_MS + 10**9},
    ],
)
def test_impossible_figures_are_null(changes: dict[str, Any]):
    """Each is null and counted."""
    found = plausible(reported(**changes))
    (name,) = changes
    assert (getattr(found, name), found.implausible) == (None, 1)
