from dataclasses import dataclass, field
from typing import Any

import pytest

from exporters.contract_rows import NOW_MS, diagnosis_row, group_row, make_view, query_row, stream_rows
from rebalance_contract.api import Readiness
from rebalance_exporters.state.health import LAG_UNKNOWN, NO_PROBES, Judge, ReadProgress, together
from rebalance_exporters.state.view import Row

LOADED = ReadProgress(loaded=True, read=9000, wanted=9000)
STALE_AFTER_SECONDS = 30


@dataclass(frozen=True)
class Case:
    story: str
    says: str
    rows: list[Row] = field(default_factory=stream_rows)
    progress: ReadProgress = LOADED
    share: float | None = None

    @property
    def ready(self) -> bool:
        return self.says == "ready"


def with_query(query: str = "membership", **changes: Any) -> list[Row]:
    """The status of a stream with one query in a special state."""
    return [*stream_rows(), query_row(query, **changes)]


def with_diagnosis(**changes: Any) -> list[Row]:
    """The status of a stream with the diagnosis in a special state."""
    return [*stream_rows(), diagnosis_row(**changes)]


CASES = [
    Case("all is well", "ready"),
    Case("news just fresh enough", "ready", with_query(updated_at_ms=NOW_MS - 30_000)),
    Case("the stream's clock is a little ahead", "ready", with_query(updated_at_ms=NOW_MS + 5_000)),
    Case("a slow trigger is waited for", "ready", with_query(trigger_ms=60_000, last_batch_at_ms=NOW_MS - 170_000)),
    Case("nothing asked yet", "asking Kafka", progress=ReadProgress()),
    Case(
        "nobody answers",
        "no Kafka broker answers at b:1",
        progress=ReadProgress(unreached="no Kafka broker answers at b:1\nnow"),
    ),
    Case(
        "topics missing",
        "waiting for topic rm.groups, rm.status",
        progress=ReadProgress(missing_topics=("rm.groups", "rm.status")),
    ),
    Case(
        "in the middle of the topics",
        "reading the monitor's topics: 3,120 of 9,000",
        progress=ReadProgress(read=3120, wanted=9000),
    ),
    Case(
        "brokers gone while reading",
        "reading the monitor's topics: 1 of 2 (Kafka says: 3/3 brokers are down)",
        progress=ReadProgress(read=1, wanted=2, kafka_error="3/3 brokers\nare down"),
    ),
    Case(
        "the reading thread died",
        "the reader stopped: KeyError: 'x'",
        progress=ReadProgress(loaded=True, failure="KeyError: 'x'"),
    ),
    Case("no stream ever", "no status from the stream yet: is `rebalance-monitor stream` running?", []),
    Case("groups, and no status", "no status from the stream yet", [group_row()]),
    Case("groups that somebody invented, of a cluster that is none", "ready", [*stream_rows(), group_row(cluster="x")]),
    Case("only one query reports", "no status yet from the activity of the stream", [query_row(), diagnosis_row()]),
    Case(
        "the queries report, the diagnosis does not",
        "no status yet from the diagnosis of the stream",
        [query_row(), query_row("activity")],
    ),
    Case(
        "both queries read",
        "reading the log: 63 % of 2,010,000 records (membership 71 %, activity 63 %) [cluster prod]",
        [
            query_row(caught_up=False, read_records=1_430_000, wanted_records=2_010_000),
            query_row("activity", caught_up=False, read_records=1_270_000, wanted_records=2_010_000),
            diagnosis_row(),
        ],
        share=1_270_000 / 2_010_000,
    ),
    Case(
        "one query is through",
        "reading the log: 99 % of 1,000 records (membership 100 %, activity 99 %)",
        with_query("activity", caught_up=False, read_records=999, wanted_records=1_000),
        share=0.999,
    ),
    Case(
        "a batch that reads the log up takes long",
        "reading the log: 0 % of 1,000 records (membership 100 %, activity 0 %); "
        "no batch of the activity query has ended for 75 s [cluster prod]",
        with_query(
            "activity", caught_up=False, wanted_records=1_000, updated_at_ms=NOW_MS, last_batch_at_ms=NOW_MS - 75_000
        ),
        share=0.0,
    ),
    Case(
        "how much there is is not known",
        "stream not caught up: 12,345 log positions behind",
        with_query(caught_up=False, source_lag_records=12_345),
    ),
    Case("not caught up, lag unknown", "stream not caught up [cluster prod]", with_query(caught_up=False)),
    Case(
        "the stream is down",
        "no status from the membership for 45 s: is `rebalance-monitor stream` running? [cluster prod]",
        with_query(updated_at_ms=NOW_MS - 45_000),
    ),
    Case(
        "a diagnosis of its own is down",
        "no status from the diagnosis for 45 s",
        with_diagnosis(updated_at_ms=NOW_MS - 45_000),
    ),
    Case(
        "a clock is an hour ahead",
        "clocks differ: that of the stream's activity is 3600 s ahead of the exporter's",
        with_query("activity", updated_at_ms=NOW_MS + 3_600_000),
    ),
    Case(
        "the process lives and the query hangs",
        "no batch for 45 s: the query activity reports but does not advance",
        with_query("activity", last_batch_at_ms=NOW_MS - 45_000),
    ),
    Case("a batch hangs", "the query membership makes no progress", with_query(is_stalled=True)),
    Case("a query fails", "the query activity does not run: boom", with_query("activity", error="boom")),
    Case(
        "the diagnosis has not taken up what was read",
        "the diagnosis is 57 s behind what was read of the log",
        with_diagnosis(read_until_ms=NOW_MS - 63_500),
    ),
    Case("the diagnosis is a little behind", "ready", with_diagnosis(read_until_ms=NOW_MS - 6_500)),
    Case(
        "the ends of some topics are not known yet",
        "lag is known of 4,000 of 5,000 groups: the prober has not reported all end offsets yet",
        with_diagnosis(committing_groups=5_000, groups_awaiting_ends=1_000),
        share=0.8,
    ),
    Case(
        "no prober yet",
        "waiting for a prober to report where partitions end",
        with_diagnosis(committing_groups=5, probed_at_ms=None),
    ),
    Case(
        "one of two clusters is behind",
        "stream not caught up [cluster test]",
        [*stream_rows(), *stream_rows(cluster="test", caught_up=False)],
    ),
]


def judge(rows: list[Row], progress: ReadProgress = LOADED, now_ms: int = NOW_MS) -> Readiness:
    """The verdict at the first request."""
    return Judge(STALE_AFTER_SECONDS).judge(make_view(*rows).fleet(), progress, now_ms)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story)
def test_readiness_says_what_is_awaited(case: Case) -> None:
    """Ready only with all topics read and a caught-up, live stream; otherwise one line says what is missing."""
    verdict = judge(case.rows, case.progress)
    assert verdict.ready == case.ready, verdict.text
    assert verdict.text.startswith(case.says)
    assert "\n" not in verdict.text
    if case.share is not None:
        assert verdict.share == pytest.approx(case.share)


def test_readiness_flips_with_the_clock() -> None:
    """A silent stream becomes stale with time, and ready again with its next status."""
    view, judging = make_view(*stream_rows()), Judge(STALE_AFTER_SECONDS)
    assert judging.judge(view.fleet(), LOADED, NOW_MS).ready
    assert not judging.judge(view.fleet(), LOADED, NOW_MS + 60_000).ready
    well = {"updated_at_ms": NOW_MS + 59_000, "last_batch_at_ms": NOW_MS + 59_000}
    view.apply([query_row(**well), query_row("activity", **well), diagnosis_row(updated_at_ms=NOW_MS + 59_000)])
    assert judging.judge(view.fleet(), LOADED, NOW_MS + 60_000).ready


def test_a_clock_that_is_behind_is_distinguished_from_a_stream_that_is_down() -> None:
    """A process that keeps reporting is alive, whatever its clock; the first look cannot show that."""
    behind_ms, judging, view = 3_600_000, Judge(STALE_AFTER_SECONDS), make_view()
    texts = []
    for passed_ms in (0, 5_000, 60_000):
        reported_ms = NOW_MS + min(passed_ms, 5_000)
        view.apply([query_row(query, updated_at_ms=reported_ms) for query in ("membership", "activity")])
        view.apply([diagnosis_row(updated_at_ms=reported_ms)])
        texts.append(judging.judge(view.fleet(), LOADED, NOW_MS + behind_ms + passed_ms).text)
    assert [text.partition(" the ")[0] for text in texts] == [
        "no status from",
        "clocks differ: that of",
        "no status from",
    ]
    assert "membership is 3600 s behind the exporter's" in texts[1]


def test_a_prober_whose_clock_is_behind_is_distinguished_from_one_that_is_down() -> None:
    """Its probes keep arriving, but with old times."""
    view, judging, texts = make_view(*stream_rows()), Judge(STALE_AFTER_SECONDS), []
    view.apply([query_row(query, caught_up=True) for query in ("membership", "activity")])
    for probed_ms in (NOW_MS - 3_600_000, NOW_MS - 3_599_000, NOW_MS - 3_599_000):
        view.apply([diagnosis_row(committing_groups=1, probed_at_ms=probed_ms)])
        texts.append(judging.judge(view.fleet(), LOADED, NOW_MS + 1_000).text)
    assert texts[0].startswith("waiting for a prober")
    assert texts[1] == texts[2]
    assert texts[1].startswith("clocks differ: that of the prober is 3600 s behind the exporter's: set both by NTP")


def test_without_a_prober_it_is_ready_after_a_while_and_says_so() -> None:
    """A prober is optional: the exporter waits for one for 30 s after everything else is ready."""
    view, judging = make_view(*with_diagnosis(committing_groups=5, probed_at_ms=None)), Judge(60)
    found = [judging.judge(view.fleet(), LOADED, NOW_MS + ms) for ms in (0, 29_999, 30_000)]
    assert [verdict.ready for verdict in found] == [False, False, True]
    assert found[-1].text == LAG_UNKNOWN
    view.apply([diagnosis_row(committing_groups=0, probed_at_ms=None)])
    assert judging.judge(view.fleet(), LOADED, NOW_MS + 30_000).text == "ready", "nobody commits: no lag is missing"


def test_where_nobody_commits_no_prober_is_awaited() -> None:
    """No lag is missing, so it is ready at once, and stays so when groups appear."""
    view, judging = make_view(*with_diagnosis(groups=2, committing_groups=0, probed_at_ms=None)), Judge(60)
    assert judging.judge(view.fleet(), LOADED, NOW_MS).text == "ready"
    view.apply([diagnosis_row(committing_groups=1, groups_awaiting_ends=1, probed_at_ms=None)])
    newcomers = judging.judge(view.fleet(), LOADED, NOW_MS + 1_000)
    assert (newcomers.ready, newcomers.text) == (True, LAG_UNKNOWN)


def from_probes(**changes: Any) -> list[Row]:
    """The status of a stream that does not read the log, with the diagnosis in a special state."""
    queries = [query_row(query, counted_from="probes") for query in ("membership", "activity")]
    return [*stream_rows(), *queries, diagnosis_row(**changes)]


def test_where_the_log_is_not_read_it_is_ready_while_probes_come() -> None:
    """A group may be probed only every two minutes; after that its state is unknown."""
    assert judge(from_probes(groups=1, committing_groups=0, probed_at_ms=NOW_MS - 59_000)).ready
    late = judge(from_probes(groups=1, committing_groups=0, probed_at_ms=NOW_MS - 121_000))
    assert not late.ready
    assert late.text.startswith("no probe for 121 s, and the log is not read")


def test_a_cluster_without_groups_has_no_probes_and_is_ready() -> None:
    """The reason says that there are none, because it is unknown whether there is a prober."""
    view, judging = make_view(*from_probes(groups=0, committing_groups=0, probed_at_ms=None)), Judge(60)
    found = [judging.judge(view.fleet(), LOADED, NOW_MS + ms) for ms in (0, 30_000)]
    assert [verdict.ready for verdict in found] == [False, True]
    assert found[-1].text == NO_PROBES


def test_lag_of_newcomers_takes_no_readiness_back() -> None:
    """Once lag was complete, later groups do not matter; after a start of the stream they do."""
    view, judging = make_view(*stream_rows()), Judge(STALE_AFTER_SECONDS)

    def ready(**changes: int) -> bool:
        view.apply([diagnosis_row(**changes)])
        return judging.judge(view.fleet(), LOADED, NOW_MS).ready

    assert not ready(groups_awaiting_ends=3)
    assert ready()
    assert ready(groups_awaiting_ends=3)
    assert ready(probed_at_ms=NOW_MS - 600_000), "the prober went away"
    view.apply([query_row(started_at_ms=NOW_MS - 9_000)])
    assert not ready(groups_awaiting_ends=3)


def test_a_diagnosis_that_is_late_under_load_stays_ready() -> None:
    """It must have the inputs that the queries had when they caught up; its delay afterwards is a metric."""
    view, judging = make_view(*stream_rows()), Judge(STALE_AFTER_SECONDS)
    busy = {"read_until_ms": NOW_MS + 20_000, "updated_at_ms": NOW_MS + 20_000, "last_batch_at_ms": NOW_MS + 20_000}
    view.apply([query_row(**busy), query_row("activity", **busy)])
    view.apply([diagnosis_row(read_until_ms=NOW_MS, updated_at_ms=NOW_MS + 20_000)])
    assert judging.judge(view.fleet(), LOADED, NOW_MS + 20_000).ready


AWAY = ReadProgress(kafka_error="brokers are down", kafka_errors=2)


@pytest.mark.parametrize(
    ("rows", "parts", "verdict"),
    [
        ([*stream_rows(), *stream_rows(cluster="west")], {"": LOADED, "west": LOADED}, (True, False, "ready")),
        (
            stream_rows(),
            {"": LOADED, "west": AWAY},
            (False, True, "asking Kafka for the stream's topics [cluster west]"),
        ),
        (stream_rows(), {"": LOADED, "west": LOADED}, (False, True, "no status from the stream yet")),
        (stream_rows(cluster="west"), {"": AWAY, "west": LOADED}, (False, True, "asking Kafka")),
        (stream_rows(cluster="west"), {"": LOADED, "west": AWAY}, (False, False, "no status from the stream yet")),
        ([], {"": AWAY, "west": AWAY}, (False, False, "asking Kafka")),
    ],
    ids=["both", "one is away", "one has no stream", "the first is away", "what was read is old", "both are away"],
)
def test_of_several_clusters_each_is_judged_by_itself(
    rows: list[Row], parts: dict[str, ReadProgress], verdict: tuple[bool, bool, str]
) -> None:
    """The reason names the one that is not ready; while any is ready, requests are answered correctly for it."""
    reported = Judge(STALE_AFTER_SECONDS).judge(make_view(*rows).fleet(), together(parts), NOW_MS)
    assert (reported.ready, reported.partly) == verdict[:2]
    assert verdict[2] in reported.text
    for cluster, ready in reported.clusters.items():
        assert reported.of(cluster).ready == ready
        assert (reported.of(cluster).text == "ready") == ready
    assert reported.of(None) is reported.of("unknown") is reported


def test_the_progress_of_several_readers_is_their_sum() -> None:
    """Of a single reader it is its own."""
    assert together({"": AWAY}) is AWAY
    both = together({"": LOADED, "west": AWAY})
    assert (both.read, both.wanted, both.loaded, both.kafka_errors) == (9000, 9000, False, 2)
    assert both.kafka_error == "brokers are down"
