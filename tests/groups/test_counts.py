"""Totals of records by outcome."""

import random

from rebalance_contract import CountActivity, RecordCount, ReportCount
from rebalance_streaming.groups.counts import (
    CountTotals,
    dump_totals,
    fold_counts,
    load_totals,
    publish_records,
    publish_reports,
    restore,
)

LOG = "__consumer_offsets"


def counts(partition: int, last_offset: int, count: int, outcome: str = "decoded", era: int = 0) -> CountActivity:
    return CountActivity("c", LOG, partition, last_offset, ((2, 3, outcome, count),), era)


def totals_of(totals: CountTotals) -> dict[str, int]:
    return {each.outcome: each.count for each in publish_records("c", "membership", totals, LOG).records}


def test_stretches_of_the_log_add_up():
    """Counts of different batches and partitions are summed per kind."""
    totals = fold_counts(CountTotals(), [counts(0, 9, 10), counts(1, 4, 5), counts(0, 12, 1, "corrupt")])
    assert totals_of(totals) == {"decoded": 15, "corrupt": 1}


def test_a_repeated_batch_counts_once():
    """A batch that is repeated after a crash covers the same positions and changes nothing."""
    once = fold_counts(CountTotals(), [counts(0, 9, 10)])
    assert fold_counts(once, [counts(0, 9, 10)]) == once


def test_any_order_within_a_batch_gives_the_same_totals():
    """Rows of one key arrive in no particular order."""
    stretches = [counts(p, last, 1) for p in range(3) for last in range(5)]
    expected = totals_of(fold_counts(CountTotals(), stretches))
    for seed in range(20):
        random.Random(seed).shuffle(stretches)
        assert totals_of(fold_counts(CountTotals(), stretches)) == expected == {"decoded": 15}


def test_totals_survive_the_state_store():
    """Stored state is restored unchanged."""
    totals = fold_counts(CountTotals(), [CountActivity("c", LOG, 3, 7, ((None, None, "corrupt", 2),))])
    assert load_totals(dump_totals(totals)) == totals
    published = publish_records("c", "activity", totals, LOG)
    assert published.records == (RecordCount("activity", None, None, "corrupt", 2),)
    assert published.positions == {f"{LOG}/3": (0, 7)}


def test_a_later_era_counts_at_lower_positions():
    """The watched topic was recreated: its offsets begin at 0 again, and totals continue."""
    totals = fold_counts(CountTotals(), [counts(0, 900, 10), counts(0, 3, 4, era=1), counts(0, 901, 7)])
    assert totals_of(totals) == {"decoded": 21}
    again = fold_counts(totals, [counts(0, 950, 5)])
    assert again == totals


def test_what_was_published_is_taken_up_again():
    """Both rows together are the totals: a stretch counted before a restart is not counted again."""
    reports = CountActivity("c", "client-metrics", 0, 20, ((None, None, "decoded", 3),))
    totals = fold_counts(CountTotals(), [counts(0, 9, 10), reports])
    records, reported = publish_records("c", "activity", totals, LOG), publish_reports("c", totals, LOG)
    assert reported.reports == (ReportCount("client-metrics", "decoded", 3),)
    again = restore(records, reported, LOG)
    assert fold_counts(again, [counts(0, 9, 10), reports]) == again
    assert totals_of(again) == {"decoded": 10}
