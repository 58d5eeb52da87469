"""Any input of clients and writers ends in an outcome: a short form of `make fuzz`."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.reporting import IS_FULL, Figures
from fuzz import reports, rows
from fuzz.reports import check_decoding, check_judging

pytestmark = pytest.mark.generated

#: Seconds of processor time for each: those of `make fuzz`, and shorter ones in `make faults` and `make test`.
SECONDS = float(os.environ.get("FUZZ_MINUTES", "1" if IS_FULL else "0.05")) * 60

seeds = st.integers(0, 2**32).map(random.Random)


@given(seeds)
@settings(max_examples=300)
def test_any_value_is_decoded_or_refused(chance: random.Random) -> None:
    """Golden values of all formats, with changed bytes or meaning: no exception except the documented one."""
    check_decoding(chance)


@given(seeds)
@settings(max_examples=10)
def test_any_report_can_be_judged(chance: random.Random) -> None:
    """Well-formed reports with impossible numbers, before and after a member is lost: no rule fails."""
    check_judging(chance)


@pytest.mark.timeout(3_600)
@pytest.mark.faults(26, fast=1, full=1)
@pytest.mark.parametrize("what", [reports, rows])
def test_nonsense_escapes_nowhere(what: Any, figures: Figures) -> None:
    """Client metrics up to the exporter's view, and rows of the monitor's topics into exporter and engine."""
    tried, slowest, *_ = what.run(SECONDS, int(os.environ.get("FUZZ_SEED", "0")))
    assert tried > 0
    figures.note(f"{what.__name__}", tried, "tried")
    figures.note("slowest", 100 * slowest, "% of 50 ms per 100 kB")
    figures.note("processor time", SECONDS / 60, "min")
