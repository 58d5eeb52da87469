"""Whatever clients say, nothing but an outcome comes of it: a short form of `python -m fuzz.reports`."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.reports import check_decoding, check_judging

seeds = st.integers(0, 2**32).map(random.Random)


@given(seeds)
@settings(max_examples=300, derandomize=True)
def test_any_value_is_decoded_or_refused(chance: random.Random) -> None:
    """Golden values of all formats, changed in bytes or meaning: no exception but the one."""
    check_decoding(chance)


@given(seeds)
@settings(max_examples=10, derandomize=True)
def test_any_report_can_be_judged(chance: random.Random) -> None:
    """Well-formed reports with numbers that nothing can have, before and after a member is lost: no rule fails."""
    check_judging(chance)
