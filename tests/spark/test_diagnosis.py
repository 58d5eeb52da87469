"""The diagnosis query's inside: rows of the monitor's topics in, findings, timing and totals out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from detect.histories import CLUSTER, GROUP, MINUTE, SECOND, T0, Event, commits, member, picture, probe
from detect.turnover import joined, lost, pulse
from rebalance_streaming.config import MetricTopic, StreamConfig
from rebalance_streaming.detect.config import DetectConfig, Quiet
from rebalance_streaming.groups import notices
from rebalance_streaming.groups.events import (
    CommitSummary,
    Finding,
    GroupSnapshot,
    GroupTiming,
    Member,
    Probe,
    Rebalance,
    ReportCount,
    ReportTotals,
    decode,
    encode,
)
from rebalance_streaming.spark.diagnosis import Diagnosis, Output

A, B = member("a-1", [0, 1]), member("b-1", [2, 3], rebalance_timeout_ms=30_000)
OTHER = MetricTopic("metrics-of-others", "native", {"group_id": GROUP})
#: Stories are of long ago, and everything since is to be judged.
CONFIG = StreamConfig(cluster=CLUSTER, diagnosis_lookback_minutes=60.0 * 24 * 365 * 100, metric_topics=(OTHER,))
#: As the query's source delivers them.
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp_ms", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def row(topic: str, key: str | None, value: bytes | None, at_ms: int, headers: Any = None) -> dict[str, Any]:
    return {
        "topic": topic,
        "key": None if key is None else key.encode(),
        "value": value,
        "timestamp_ms": at_ms,
        "headers": headers,
    }


def row_of(event: Event) -> dict[str, Any]:
    """Make the row that the other queries, or the prober, would have written, when they would have."""
    if isinstance(event, GroupSnapshot):
        return row(CONFIG.groups_topic, f"{event.cluster}/{event.group}", encode(event), event.updated_at_ms or T0)
    if isinstance(event, Rebalance):
        key = f"{event.cluster}/{event.group}/{event.rebalance_id}"
        return row(CONFIG.rebalances_topic, key, encode(event), event.completed_at_ms or event.started_before_ms)
    if isinstance(event, CommitSummary):
        return row(CONFIG.commits_topic, event.group, encode(event), event.pane_start_ms + event.pane_ms)
    assert isinstance(event, Probe)
    return row(CONFIG.probes_topic, event.group, encode(event), event.probed_at_ms)


def report_row(
    at_ms: int, who: Member = A, *, topic: str = CONFIG.metrics_topic, headers: Any = None, **client: Any
) -> dict[str, Any]:
    """Make a native report of a member's client, whose last poll was two seconds ago."""
    document = {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": at_ms,
        "client": {"client_id": who.client_id, **client},
        "metrics": {"consumer-metrics": {"last-poll-seconds-ago": 2.0}},
    }
    return row(topic, None, json.dumps(document).encode(), at_ms, headers)


@dataclass(frozen=True)
class Batch:
    """A micro-batch as far as the diagnosis uses one."""

    rows: tuple[dict[str, Any], ...]

    def coalesce(self, _count: int) -> Batch:
        return self

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows), SCHEMA)


class Story:
    """A diagnosis that is fed, and what it published."""

    def __init__(self, config: StreamConfig = CONFIG, detect: DetectConfig | None = None) -> None:
        self.config = config
        self.outputs: list[Output] = []
        self.diagnosis = Diagnosis(config, detect or DetectConfig(), self.outputs.append)

    def take(self, *rows: dict[str, Any]) -> Story:
        self.diagnosis.take_batch(Batch(rows), 0)  # type: ignore[arg-type]
        return self

    def tell(self, *events: Event) -> Story:
        return self.take(*map(row_of, events))

    def tick(self, now_ms: int, *, caught_up: bool = True) -> Story:
        self.diagnosis.tick(now_ms, caught_up=caught_up)
        return self

    def published(self, topic: str) -> list[tuple[str | None, bytes]]:
        """Return what was published to a topic since the last time, and forget it."""
        found = [(key, value) for name, key, value in self.outputs if name == topic and value is not None]
        self.outputs[:] = [each for each in self.outputs if each[0] != topic]
        return found

    def findings(self) -> dict[str, Finding]:
        """Return the latest version of every finding published since the last time, by rule."""
        told = [decode(value, Finding) for _, value in self.published(self.config.findings_topic)]
        return {each.rule: each for each in told}

    def totals(self) -> ReportTotals:
        """Return the one count of reports that was published since the last time."""
        ((key, value),) = self.published(self.config.status_topic)
        assert key == f"{CLUSTER}/client_metrics"
        return decode(value, ReportTotals)


def overrun(group: str = GROUP) -> list[Any]:
    """Let `b` stop polling for its 30 s and leave."""
    events: list[Any] = [picture(T0, A, B), *pulse(T0, T0 + MINUTE, [0, 1, 2, 3])]
    events += [*pulse(T0 + MINUTE, T0 + 100 * SECOND, [0, 1]), lost(T0 + 90 * SECOND, B, [A, B])]
    return [replace(each, group=group) for each in events]


def test_rows_become_findings():
    """Of all four topics in one batch, in any order: judged by their own times, published under its key."""
    later = probe(T0 + 2 * MINUTE, "Stable")
    rows = [row_of(each) for each in (*overrun(), later)]
    story = Story().take(*reversed(rows)).tick(T0 + 3 * MINUTE)
    ((key, value),) = story.published(CONFIG.findings_topic)
    found = decode(value, Finding)
    assert key == f"{CLUSTER}/{GROUP}/poll_overrun/b@/host-b"
    assert (found.rule, found.state, found.primary) == ("poll_overrun", "firing", True)
    assert [each.client_id for each in found.subject.members] == ["b"]
    assert found.rebalance_ids == (f"r{T0 + 90 * SECOND}",)
    assert found.detected_at_ms == T0 + 2 * MINUTE


def test_time_stands_still_while_the_log_is_not_read(monkeypatch: pytest.MonkeyPatch):
    """What a stream that is behind has not read may have happened: nothing that lasts too long is told of it."""
    monkeypatch.setattr("rebalance_streaming.spark.diagnosis.time.time", lambda: T0 / 1000)
    story = Story().tell(*overrun())
    story.diagnosis.tick(T0 + 10 * MINUTE, caught_up=True, read_until_ms=T0 + MINUTE)
    assert story.findings() == {}
    story.diagnosis.tick(T0 + 11 * MINUTE, caught_up=True, read_until_ms=T0 + 3 * MINUTE)
    assert {rule: each.state for rule, each in story.findings().items()} == {"poll_overrun": "firing"}


def test_nothing_is_told_before_the_log_is_read_up():
    """What was found meanwhile is published once it is, and only its last version."""
    story = Story().tell(*overrun()).tick(T0 + 3 * MINUTE, caught_up=False)
    assert story.outputs == []
    story.tick(T0 + 20 * MINUTE, caught_up=False)
    assert story.outputs == []
    assert {rule: each.state for rule, each in story.tick(T0 + 20 * MINUTE).findings().items()} == {
        "poll_overrun": "resolved"
    }


def test_what_does_not_change_is_told_once():
    """Ticks come every second; a finding comes when it is new, and again when it is over."""
    story = Story().tell(*overrun()).tick(T0 + 3 * MINUTE)
    assert story.findings().keys() == {"poll_overrun"}
    for after in range(1, 60):
        story.tick(T0 + 3 * MINUTE + after * SECOND)
    assert story.findings() == {}
    over = story.tick(T0 + 12 * MINUTE).findings()["poll_overrun"]
    assert (over.state, over.resolved_at_ms) == ("resolved", T0 + 93 * SECOND + 10 * MINUTE)


def test_the_settings_of_the_diagnosis_hold():
    """A silenced finding is information."""
    silenced = DetectConfig(silences=(Quiet(rule="poll_.*"),))
    story = Story(detect=silenced).tell(*overrun()).tick(T0 + 3 * MINUTE)
    assert story.findings()["poll_overrun"].severity == "info"


def test_a_withdrawn_finding_is_told_as_over():
    """It left, and so the group shrank; it came back, and so it was restarted: readers hear of both."""
    beats = pulse(T0, T0 + MINUTE, [0, 1, 2, 3])
    story = Story().tell(picture(T0, A, B), *beats, lost(T0 + MINUTE, B, [A, B])).tick(T0 + 100 * SECOND)
    assert story.findings()["scale_in"].state == "firing"
    story.tell(joined(T0 + 2 * MINUTE, member("b-2", [2, 3]), [A])).tick(T0 + 3 * MINUTE)
    found = story.findings()
    assert (found["scale_in"].state, found["rolling_deploy"].state) == ("resolved", "firing")


def test_an_earlier_runs_finding_goes_on():
    """It is found again while the recent past is read, and keeps its id; another cluster's is none of ours."""
    (value,) = (value for _, value in Story().tell(*overrun()).tick(T0 + 3 * MINUTE).published(CONFIG.findings_topic))
    before = replace(decode(value, Finding), finding_id="0123456789abcdef")
    again = Story()
    again.diagnosis.restore(iter([before, replace(before, cluster="dev", finding_id="f" * 16)]))
    again.tell(*overrun()).tick(T0 + 12 * MINUTE)
    assert [each.finding_id for each in again.findings().values()] == ["0123456789abcdef"]


@pytest.mark.parametrize("cluster", [CLUSTER, "another"])
def test_a_groups_tombstone_ends_its_findings(cluster: str):
    """Of this cluster only: prefixes may be shared."""
    story = Story().tell(*overrun()).tick(T0 + 3 * MINUTE)
    assert story.findings()["poll_overrun"].state == "firing"
    story.take(row(CONFIG.groups_topic, f"{cluster}/{GROUP}", None, T0 + 4 * MINUTE)).tick(T0 + 5 * MINUTE)
    ended = story.findings()
    assert {rule: each.state for rule, each in ended.items()} == (
        {"poll_overrun": "resolved"} if cluster == CLUSTER else {}
    )


@pytest.mark.parametrize(
    "stranger",
    [
        row(CONFIG.groups_topic, f"{CLUSTER}/x", b"not json", T0),
        row(CONFIG.groups_topic, None, b"\xff", T0),
        row(CONFIG.rebalances_topic, f"{CLUSTER}/x/1", b"{}", T0),
        row(CONFIG.rebalances_topic, None, b"{}", T0),
        row(CONFIG.rebalances_topic, f"{CLUSTER}/x/1", None, T0),
        row(CONFIG.commits_topic, "x", b"[]", T0),
        row(CONFIG.commits_topic, None, notices.dump(notices.Lagging(())), T0),
        row(CONFIG.probes_topic, "x", b"{}", T0),
        row("a-topic-of-somebody-else", "x", b"{}", T0),
    ],
)
def test_a_strangers_message_harms_nobody(stranger: dict[str, Any]):
    """Whatever stands in one of the topics: the rows around it are taken up."""
    story = Story().take(stranger, *(row_of(each) for each in overrun()), stranger).tick(T0 + 3 * MINUTE)
    assert story.findings().keys() == {"poll_overrun"}


# --- Client metrics ---

REPORTS = [(CONFIG.metrics_topic, {"member_id": "a-1"}), (OTHER.name, {})]


@pytest.mark.parametrize(("topic", "client"), REPORTS, ids=["our own topic", "another, with defaults"])
def test_reports_become_timing(topic: str, client: dict[str, Any]):
    """Ages and headroom per group, under the group's key, every ten seconds."""
    story = Story().tell(picture(T0, A, B)).take(report_row(T0 + SECOND, topic=topic, **client)).tick(T0 + 10 * SECOND)
    ((key, value),) = story.published(CONFIG.heartbeats_topic)
    timing = decode(value, GroupTiming)
    assert key == f"{CLUSTER}/{GROUP}"
    assert [(each.client_id, each.poll_age_ms) for each in timing.members] == [("a", 2_000)]
    for after, told in ((15, 0), (19, 0), (20, 1), (25, 0)):
        assert len(story.tick(T0 + after * SECOND).published(CONFIG.heartbeats_topic)) == told


def test_headers_say_whose_report_it_is():
    """A producer that cannot change its payload names the group in the record's headers."""
    told = report_row(T0 + SECOND, headers=[{"key": "group-id", "value": GROUP.encode()}, {"key": "x", "value": None}])
    story = Story().tell(replace(picture(T0, A), group="other"), picture(T0, A)).take(told).tick(T0 + 10 * SECOND)
    ((key, _),) = story.published(CONFIG.heartbeats_topic)
    assert key == f"{CLUSTER}/{GROUP}"


def test_messages_of_clients_are_counted_by_outcome():
    """Exactly, by topic, and told when the counts have changed, at most every five seconds."""
    story = Story().take(
        report_row(T0),
        report_row(T0 + 1, B),
        row(CONFIG.metrics_topic, None, None, T0),
        row(CONFIG.metrics_topic, None, b"{", T0),
        report_row(T0, topic=OTHER.name),
    )
    counts = story.tick(T0 + 5 * SECOND).totals().reports
    assert {(each.topic, each.outcome): each.count for each in counts} == {
        (CONFIG.metrics_topic, "decoded"): 2,
        (CONFIG.metrics_topic, "empty"): 1,
        (CONFIG.metrics_topic, "malformed"): 1,
        (OTHER.name, "decoded"): 1,
    }
    assert story.tick(T0 + 10 * SECOND).published(CONFIG.status_topic) == []
    story.take(report_row(T0 + 2)).tick(T0 + 11 * SECOND)
    assert story.published(CONFIG.status_topic) == []
    assert ReportCount(CONFIG.metrics_topic, "decoded", 3) in story.tick(T0 + 15 * SECOND).totals().reports


# --- Lag ---


def test_lag_around_a_rebalance_goes_back_to_its_group():
    """As a notice without a key, once per change, for the query that holds the group's state."""
    told: list[Event] = [picture(T0, A), commits(T0, {0: 100}), probe(T0 + 15 * SECOND, ends={0: 110})]
    story = Story().tell(*told, joined(T0 + MINUTE, B, [A]), probe(T0 + 70 * SECOND, ends={0: 150}))
    ((key, value),) = story.tick(T0 + 80 * SECOND).published(CONFIG.commits_topic)
    notice = notices.load(value)
    assert key is None
    assert isinstance(notice, notices.Lagging)
    assert [(each.group, each.before, each.peak) for each in notice.lags] == [(GROUP, 10, 50)]
    assert story.tick(T0 + 90 * SECOND).published(CONFIG.commits_topic) == []


def test_what_many_groups_lose_at_once_fits_into_messages():
    """Members that timed out go back to their groups as well; a broker takes no message of more than a megabyte."""
    groups = {f"g{n:04}" for n in range(450)}
    events = [replace(each, group=group) for group in groups for each in overrun()]  # type: ignore[type-var]
    told = Story().tell(*events).tick(T0 + 3 * MINUTE).published(CONFIG.commits_topic)
    news = [notice for _, value in told if isinstance(notice := notices.load(value), notices.Left)]
    assert {each.group for notice in news for each in notice.left} == groups
    assert {key for key, _ in told} == {None}
    assert max(len(value) for _, value in told) < 100_000
    assert len(news) > 1


# --- From Spark ---


@pytest.mark.spark
def test_a_batch_comes_from_spark(spark: SparkSession):
    """The frame that the source delivers, over several partitions, gives the same as the rows themselves."""
    rows = [*(row_of(each) for each in overrun()), report_row(T0 + SECOND, headers=[{"key": "x", "value": None}])]
    schema = (
        "topic string, key binary, value binary, timestamp_ms long, headers array<struct<key: string, value: binary>>"
    )
    frame = spark.createDataFrame([tuple(each.values()) for each in _plain(rows)], schema).repartition(3)
    story, direct = Story(), Story().take(*rows).tick(T0 + 3 * MINUTE)
    story.diagnosis.take_batch(frame, 0)
    story.tick(T0 + 3 * MINUTE)
    assert story.findings().keys() == {"poll_overrun"}
    assert story.totals() == direct.totals()


def _plain(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as Spark takes them: structs are tuples."""
    return [
        {**each, "headers": [(h["key"], h["value"]) for h in each["headers"]] if each["headers"] else None}
        for each in rows
    ]
