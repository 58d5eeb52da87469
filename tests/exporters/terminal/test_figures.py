"""Numbers and times as users read and type them."""

from datetime import timedelta, timezone

import pytest

from exporters.terminal.clusters import NOW_MS
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.text.figures import amount, plural, span

HOUR_MS = 3_600_000
INDIA = timezone(timedelta(hours=5, minutes=30), "IST")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (17_940, "17.9 s"),
        (90_000, "1.5 min"),
        (2 * HOUR_MS, "2 h"),
        (47 * HOUR_MS, "47 h"),
        (240 * HOUR_MS, "10 d"),
        (2_400 * HOUR_MS, "100 d"),
    ],
)
def test_a_duration_has_one_unit(milliseconds, text):
    """The largest one in which the value is at least one."""
    assert span(milliseconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (9_999, "9999"), (10_000, "10k"), (412_345, "412k"), (1_900_000, "1.9M"), (7e9, "7G")],
)
def test_an_amount_is_exact_while_it_is_short(number, text):
    """Above that three digits are sufficient."""
    assert amount(number) == text


def test_one_of_a_thing_is_no_plural():
    """Nor is zero."""
    assert [plural(number, "group") for number in (0, 1, 2)] == ["0 groups", "1 group", "2 groups"]


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("90m", 90 * 60_000),
        ("24h", 24 * HOUR_MS),
        ("1.5h", 90 * 60_000),
        ("7d", 168 * HOUR_MS),
        ("14:03:20", 10 * 60_000),
        ("14:03", 10 * 60_000 + 20_000),
        ("23:13:20", 15 * HOUR_MS),
        ("2026-09-21T14:03:20", 10 * 60_000),
        ("2026-09-21 14:03:20Z", 10 * 60_000),
        ("2026-09-21T14:03:20+02:00", 2 * HOUR_MS + 10 * 60_000),
        ("2026-09-21", 14 * HOUR_MS + 13 * 60_000 + 20_000),
        (str(NOW_MS - 5), 5),
    ],
)
def test_times_are_read_as_people_type_them(text, ago_ms):
    """How long ago, a time of the last 24 hours, a date, a date and time, epoch milliseconds."""
    assert NOW_MS - Clock().read(text, NOW_MS) == ago_ms


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "5", "-3h", "2026-13-01", "\x1b[2J"])
def test_anything_else_is_refused_with_an_example(text):
    """One sentence that shows valid input."""
    with pytest.raises(ValueError, match=r"use a duration \(90m, 24h, 7d\) or a time \(2026-03-01T14:05, 14:05\)"):
        Clock().read(text, NOW_MS)


def test_a_zone_is_used_both_ways():
    """Printed times can be typed back."""
    clock = Clock(INDIA)
    assert clock.moment(NOW_MS) == "2026-09-21 19:43:20 IST"
    assert clock.read("19:43:20", NOW_MS) == NOW_MS
    assert clock.read("2026-09-21T19:43:20", NOW_MS) == NOW_MS
