"""What cannot be true is refused before anything is taken up of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from histories import CLUSTER, T0, commits, picture, probe
from rebalance_contract import CountActivity, ProbeActivity
from rebalance_streaming.observed.plausible import ImplausibleError, check

COUNTED = CountActivity(CLUSTER, "__consumer_offsets", 7, 5, ((1, 4, "decoded", 6),))


def test_what_a_task_counted_can_be_true():
    """Of a partition of which nothing was read it tells no position."""
    check(COUNTED, T0)
    check(replace(COUNTED, last_offset=-1, counts=()), T0)


@pytest.mark.parametrize(
    "row",
    [
        replace(COUNTED, counts=((1, 4, "decoded", 2**62),)),
        replace(COUNTED, counts=((1, 4, "decoded", -1),)),
        replace(COUNTED, counts=((1, 2**64, "decoded", 6),)),
        replace(COUNTED, counts=((2**64, None, "decoded", 6),)),
        replace(COUNTED, log_era=2**64),
        replace(COUNTED, partition=-1),
        replace(COUNTED, partition=2**31),
        replace(COUNTED, last_offset=2**63 - 1),
    ],
)
def test_numbers_that_no_task_can_have_counted_are_refused(row: CountActivity):
    """Else totals need more than 64 bits, and no exporter reads them any more."""
    with pytest.raises(ImplausibleError):
        check(row, T0)


@pytest.mark.parametrize("column", ["committed_at_ms", "first_at_ms"])
def test_commits_of_a_time_that_cannot_be_are_refused(column: str):
    """No exporter takes the lag of a group that began to commit in the year 1."""
    row = commits(T0, {0: 1, 1: 2})
    check(row, T0)
    for times in ([T0, -62_135_596_800_001], [T0, 2**52], [T0]):
        odd = replace(row, topics={"orders": replace(row.topics["orders"], **{column: times})})
        with pytest.raises(ImplausibleError):
            check(odd, T0)


@pytest.mark.parametrize("group", ["g" * 32_767, "\u00e9" * 16_383])
def test_a_group_id_is_no_longer_than_kafka_can_write_it(group: str):
    """A longer one would be the key of a row that no exporter takes."""

    def named(group_id: str) -> list[object]:
        asked = replace(probe(T0, "Stable", []), group=group_id)
        return [
            replace(commits(T0, {0: 1}), group=group_id),
            replace(picture(T0), group=group_id),
            ProbeActivity(asked),
        ]

    for row in named(group):
        check(row, T0)
    for row in named(group + "gg"):
        with pytest.raises(ImplausibleError):
            check(row, T0)
