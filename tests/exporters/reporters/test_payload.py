"""The native format: strict JSON, and data about the process."""

from __future__ import annotations

import math
import os
import time

import pytest

from rebalance_exporters.reporters.payload import as_json_number, compose_native, encode, encode_key
from rebalance_exporters.reporters.process import read_process
from rebalance_exporters.reporters.reporter import DueReport

TICK = DueReport(seq=81, emitted_ms=1_795_190_405_120, interval_ms=5000, late_ms=2, dropped=0, closing=False)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.33333333333, 0.333333),
        (4, 4),
        (math.nan, None),
        (-math.inf, None),
        (math.inf, "Infinity"),
        (True, None),
        ("4", None),
        (None, None),
    ],
)
def test_numbers_that_json_lacks_keep_their_meaning(value, wanted):
    """A missing value is null; the age of an event that never happened is not."""
    assert as_json_number(value) == wanted


def test_a_report_has_the_fields_of_the_contract():
    """In the format documented in docs/client-metrics.md."""
    report = compose_native(TICK, {"client_id": "c"}, {"records_done": None}, {"g": {"n": 1.0}})
    process = report.pop("process")
    assert process.keys() == {"start_ms", "pid", "host", "cpu_s", "voluntary_switches"}
    assert report == {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": 1_795_190_405_120,
        "seq": 81,
        "interval_ms": 5000,
        "tick_late_ms": 2,
        "dropped": 0,
        "client": {"client_id": "c"},
        "app": {"records_done": None},
        "metrics": {"g": {"n": 1.0}},
    }


def test_the_last_report_says_so():
    """Only the last one has the mark."""
    assert compose_native(TICK._replace(closing=True), {}, {}, {})["closing"] is True


def test_nothing_but_strict_json_leaves():
    """Most readers would reject a bare NaN."""
    assert encode({"a": [1, None, "é"]}) == b'{"a":[1,null,"\\u00e9"]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"a": math.nan})


def test_the_key_is_the_group_or_else_the_client():
    """So that a group's reports are in one partition."""
    assert [encode_key("g", "c"), encode_key(None, "c"), encode_key(None, None)] == [b"g", b"c", None]


def test_the_process_is_reported_as_the_system_knows_it():
    """Its start time is the same in all reports."""
    first, second = read_process(), read_process()
    assert first["pid"] == os.getpid()
    assert first["start_ms"] == second["start_ms"] < time.time() * 1000
    assert 0 < first["cpu_s"] <= second["cpu_s"]
    assert 0 < first["voluntary_switches"] <= second["voluntary_switches"]
