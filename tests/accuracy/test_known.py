"""Each diagnosis is known from a recording of a real client, or says that it is not."""

from __future__ import annotations

from accuracy.freshness import README, REPORT
from accuracy.report import experimental, with_counts
from rebalance_streaming.detect.catalogue import EXPERIMENTAL


def test_every_diagnosis_is_known_from_a_real_client_or_experimental() -> None:
    """One that no recording brings out has the mark, and loses it with the first recording that does."""
    assert experimental(REPORT.read_text()) == EXPERIMENTAL


def test_readme_counts_what_is_known_and_what_is_experimental_apart() -> None:
    """Nobody is promised a diagnosis that was never made of a real client; `make accuracy` writes the numbers."""
    assert with_counts(README.read_text(), REPORT.read_text()) == README.read_text()
    assert f"{len(EXPERIMENTAL)} experimental" in README.read_text()
