from dataclasses import dataclass, field

import pytest

from exporters.contract_rows import NOW_MS, group_row, make_view, query_row
from rebalance_exporters.health import ReadProgress, judge_readiness
from rebalance_exporters.view import Row

LOADED = ReadProgress(loaded=True, read=9000, wanted=9000)
STALE_AFTER_SECONDS = 30


@dataclass(frozen=True)
class Case:
    story: str
    says: str
    rows: list[Row] = field(default_factory=lambda: [query_row()])
    progress: ReadProgress = LOADED

    @property
    def ready(self) -> bool:
        return self.says == "ready"


CASES = [
    Case("all is well", "ready"),
    Case("the commits query may lag", "ready", [query_row(), query_row("commits", caught_up=False)]),
    Case("news just fresh enough", "ready", [query_row(updated_at_ms=NOW_MS - 30_000)]),
    Case("the stream's clock is ahead", "ready", [query_row(updated_at_ms=NOW_MS + 5_000)]),
    Case("a slow trigger is waited for", "ready", [query_row(trigger_ms=60_000, last_batch_at_ms=NOW_MS - 170_000)]),
    Case("nothing asked yet", "asking Kafka", progress=ReadProgress()),
    Case(
        "topics missing",
        "waiting for topic rm.groups, rm.status",
        progress=ReadProgress(missing_topics=("rm.groups", "rm.status")),
    ),
    Case(
        "in the middle of the picture",
        "reading the picture: 3,120 of 9,000",
        progress=ReadProgress(read=3120, wanted=9000),
    ),
    Case(
        "brokers gone while reading",
        "reading the picture: 1 of 2 (Kafka says: 3/3 brokers are down)",
        progress=ReadProgress(read=1, wanted=2, kafka_error="3/3 brokers\nare down"),
    ),
    Case(
        "the reading thread died",
        "the reader stopped: KeyError: 'x'",
        progress=ReadProgress(loaded=True, failure="KeyError: 'x'"),
    ),
    Case("no stream ever", "no word from the stream yet: is `rebalance-monitor stream` running?", []),
    Case("groups of a cluster without status", "no word yet from the stream of cluster prod", [group_row()]),
    Case("only the commits query reports", "no word yet from the stream of cluster prod", [query_row("commits")]),
    Case(
        "not caught up",
        "stream not caught up: 12,345 log positions behind",
        [query_row(caught_up=False, source_lag_records=12_345)],
    ),
    Case("not caught up, lag unknown", "stream not caught up [cluster prod]", [query_row(caught_up=False)]),
    Case(
        "the stream is down",
        "no batch for 45 s: is `rebalance-monitor stream` running? [cluster prod]",
        [query_row(updated_at_ms=NOW_MS - 45_000)],
    ),
    Case(
        "the process lives and the query hangs",
        "no batch for 45 s: the stream reports but does not advance",
        [query_row(last_batch_at_ms=NOW_MS - 45_000)],
    ),
    Case(
        "one of two clusters is behind",
        "stream not caught up [cluster test]",
        [query_row(), query_row(cluster="test", caught_up=False)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_readiness_says_what_is_awaited(case: Case) -> None:
    """Ready only with a loaded picture and a stream that is caught up and alive; else one line says what is missing."""
    verdict = judge_readiness(make_view(*case.rows).picture(), case.progress, NOW_MS, STALE_AFTER_SECONDS)
    assert verdict.ready == case.ready, verdict.text
    assert verdict.text.startswith(case.says)
    assert "\n" not in verdict.text


def test_readiness_flips_with_the_clock() -> None:
    """Time alone makes a silent stream stale, and the next sign of life makes it ready again."""
    view = make_view(query_row())

    def ready(now_ms: int) -> bool:
        return judge_readiness(view.picture(), LOADED, now_ms, STALE_AFTER_SECONDS).ready

    assert ready(NOW_MS)
    assert not ready(NOW_MS + 60_000)
    view.apply([query_row(updated_at_ms=NOW_MS + 59_000, last_batch_at_ms=NOW_MS + 59_000)])
    assert ready(NOW_MS + 60_000)
