"""Each diagnosis was observed in a recording of a real client, or is marked as experimental."""

from __future__ import annotations

from accuracy.freshness import README, REPORT
from accuracy.report import experimental, with_counts
from rebalance_streaming.detect.catalogue import EXPERIMENTAL


def test_every_diagnosis_is_known_from_a_real_client_or_experimental() -> None:
    """A diagnosis without a recording has the mark, and loses it with the first recording that shows it."""
    assert experimental(REPORT.read_text()) == EXPERIMENTAL


def test_readme_counts_what_is_known_and_what_is_experimental_apart() -> None:
    """README counts diagnoses seen on real clients separately from the others; `make accuracy` writes the numbers."""
    assert with_counts(README.read_text(), REPORT.read_text()) == README.read_text()
    assert f"{len(EXPERIMENTAL)} experimental" in README.read_text()
