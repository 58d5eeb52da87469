"""Which numbers are values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_streaming.wire.metrics.report import Point, Temporality
from rebalance_streaming.wire.metrics.values import (
    as_epoch_ms,
    as_float,
    as_int,
    as_number,
    as_text,
    guess_epoch_ms,
    make_point,
)

AGE = "coordinator_last_heartbeat_seconds_ago"
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


@pytest.mark.parametrize(
    "raw", [math.nan, math.inf, -math.inf, "NaN", "Infinity", "-Infinity", "+Inf", "-inf", None, 10**400, "1e999"]
)
def test_a_window_without_events_has_no_value(raw: object) -> None:
    """NaN, infinities and null mean no value, in any spelling; never 0."""
    assert make_point("coordinator_join_time_max", raw) == Point("coordinator_join_time_max", None)


@pytest.mark.parametrize("raw", [-1, -1.0, "-1", math.inf, "+Inf", 1_795_190_406, 1_795_190_406.5])
def test_an_age_of_what_never_happened_is_never(raw: object) -> None:
    """In Java it is -1, in kafka-python infinity, and for a client with a time of 0 an age since 1970."""
    assert make_point(AGE, raw) == Point(AGE, None, never=True)


@pytest.mark.parametrize("raw", [math.nan, "NaN", None, -math.inf])
def test_an_age_that_is_not_reported_is_not_never(raw: object) -> None:
    """Unknown and never are different: the latter is a sign of starvation."""
    assert make_point(AGE, raw) == Point(AGE, None, never=False)


@pytest.mark.parametrize(("metric", "raw"), [("fetch_rate", -1), ("replyq", 1_795_190_406), (AGE, 0), (AGE, 86_400.0)])
def test_only_ages_have_these_rules(metric: str, raw: float) -> None:
    """-1 and huge numbers are values elsewhere, and a real age is one."""
    assert make_point(metric, raw) == Point(metric, float(raw))


def test_an_average_of_nothing_stays_zero() -> None:
    """kafka-python reports 0.0 for a window without events: only the rate shows that, so it is left unchanged."""
    assert make_point("coordinator_join_time_avg", 0.0) == Point("coordinator_join_time_avg", 0.0)


@pytest.mark.parametrize("raw", [True, False, "", "abc", "1_0", "0x10", "\u0661", " 1", "1" * 65, [], {}, [1]])
def test_what_is_no_number_makes_no_point(raw: object) -> None:
    """Booleans, texts and structures are no values."""
    assert as_number(raw) is None
    assert make_point("fetch_rate", raw) is None


@pytest.mark.parametrize(
    ("raw", "number"), [(2, 2.0), (0.5, 0.5), ("2", 2.0), ("-0.25", -0.25), (".5", 0.5), ("1.", 1.0), ("3e-2", 0.03)]
)
def test_numbers_may_be_written_as_text(raw: object, number: float) -> None:
    """protobuf's JSON and Prometheus write numbers as strings."""
    assert as_number(raw) == number


def test_a_point_keeps_its_labels_and_what_the_format_says_of_it() -> None:
    """The format's temporality takes precedence over the name's."""
    assert make_point("a_total", 1, {"topic": "t"}) == Point("a_total", 1.0, {"topic": "t"}, Temporality.CUMULATIVE)
    assert make_point("a_total", 1, None, Temporality.DELTA) == Point("a_total", 1.0, {}, Temporality.DELTA)
    assert make_point("", 1) is None


@pytest.mark.parametrize(
    "raw",
    [1_795_190_406, 1_795_190_406.2, "1795190406", 1_795_190_406_000, 1_795_190_406 * 10**6, 1_795_190_406 * 10**9],
)
def test_the_unit_of_a_time_is_known_by_its_size(raw: object) -> None:
    """Seconds, ms, us and ns since 1970 differ by three digits each."""
    found = guess_epoch_ms(raw)
    assert found is not None
    assert found // 1_000 == 1_795_190_406


@pytest.mark.parametrize("raw", [0, -1, "0", "now", None, True, math.nan, math.inf, 2**63, 253_402_300_800_000, []])
def test_a_time_that_cannot_be_is_none(raw: object) -> None:
    """0 and times after the year 9999 are rejected, so that later code need not check them."""
    assert as_epoch_ms(raw) is None


@pytest.mark.generated
@given(ANYTHING)
def test_no_value_makes_a_reader_fail(raw: object) -> None:
    """For any value in the place of a number, text or time, the result is of that type or null, within its bounds."""
    number, text, moment = as_int(raw), as_text(raw), guess_epoch_ms(raw)
    assert number is None or -(2**63) <= number < 2**63
    assert text is None or text != ""
    assert moment is None or 0 < moment < 253_402_300_800_000
    assert as_float(raw) is None or math.isfinite(as_float(raw) or 0)
    point = make_point(AGE, raw)
    assert point is None or point.value is None or math.isfinite(point.value)
