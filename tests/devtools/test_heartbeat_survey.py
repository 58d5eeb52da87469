"""The table of the survey of kafka-python's heartbeats."""

from __future__ import annotations

from rebalance_devtools.stories.heartbeat_survey import FORMS, VERSIONS, table


def test_a_row_has_the_longest_time_of_each_form_and_the_sum_of_failed_commits() -> None:
    """In the order of the forms."""
    found = {form: {"longest_s": number + 0.5, "failed_commits": number} for number, form in enumerate(FORMS)}
    assert table([("2.0.2", found)]).splitlines()[-1] == "| 2.0.2 | 0.50 s | 1.50 s | 2.50 s | 3.50 s | 6 |"


def test_all_versions_are_tried_once() -> None:
    """From 2.0.0, the first with the lock in question, to the last before 2.3."""
    assert len(VERSIONS) == len({*VERSIONS}) == 36
    assert (VERSIONS[0], VERSIONS[-1]) == ("2.0.0", "2.2.21")
