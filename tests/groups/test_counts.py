"""Totals of records by outcome."""

import random

from rebalance_streaming.groups.counts import CountTotals, SourceCounts, dump_totals, fold_counts, load_totals, publish
from rebalance_streaming.groups.events import RecordCount


def counts(partition: int, last_offset: int, count: int, outcome: str = "decoded") -> SourceCounts:
    return SourceCounts("membership", partition, last_offset, ((2, 3, outcome, count),))


def totals_of(totals: CountTotals) -> dict[str, int]:
    return {each.outcome: each.count for each in publish("c", totals).records}


def test_stretches_of_the_log_add_up():
    """Counts of different batches and partitions are summed per kind."""
    totals = fold_counts(CountTotals(), [counts(0, 9, 10), counts(1, 4, 5), counts(0, 12, 1, "corrupt")])
    assert totals_of(totals) == {"decoded": 15, "corrupt": 1}


def test_a_repeated_batch_counts_once():
    """A batch run again after a crash covers the same positions and changes nothing."""
    once = fold_counts(CountTotals(), [counts(0, 9, 10)])
    assert fold_counts(once, [counts(0, 9, 10)]) == once


def test_any_order_within_a_batch_gives_the_same_totals():
    """Rows of one key reach the fold in no particular order."""
    stretches = [counts(p, last, 1) for p in range(3) for last in range(5)]
    expected = totals_of(fold_counts(CountTotals(), stretches))
    random.shuffle(stretches)
    assert totals_of(fold_counts(CountTotals(), stretches)) == expected == {"decoded": 15}


def test_totals_survive_the_state_store():
    """What is stored between batches is what comes back."""
    totals = fold_counts(CountTotals(), [SourceCounts("commits", 3, 7, ((None, None, "corrupt", 2),))])
    assert load_totals(dump_totals(totals)) == totals
    assert publish("c", totals).records == (RecordCount("commits", None, None, "corrupt", 2),)
