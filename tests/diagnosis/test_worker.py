"""The diagnosis worker: rows of its input topics in, rows to publish out, whatever the rows contain."""

from __future__ import annotations

import copy
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, member, rebalance, report, snapshot
from rebalance_contract import (
    AlertSilence,
    CommitActivity,
    CountActivity,
    DecodeTotals,
    DiagnosisStatus,
    Finding,
    GroupLag,
    OffsetActivity,
    Probe,
    ProbeActivity,
    SilenceKind,
    TopicCommits,
    TopicOffsets,
    decode,
    decode_status,
    encode,
)
from rebalance_contract.epochs import RowWriter, encode_writer
from rebalance_streaming.activity.clients import pack_reports
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis import worker as module
from rebalance_streaming.diagnosis.frames import Failed, InputRow, Start, Tick, receive, send
from rebalance_streaming.diagnosis.worker import DiagnosisWorker
from rebalance_streaming.engine.engine import DROPPED_REPORT, Engine
from rebalance_streaming.engine.rows import Output
from rebalance_streaming.errors import StreamError

CONFIG = StreamConfig(cluster=CLUSTER)
A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
_GIB = 1 << 30


class Published:
    """Keeps the published rows, like the publisher."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bytes | None] = {}

    def put(self, topic: str, key: str, value: bytes | None) -> None:
        """Keep a row."""
        self.rows[topic, key] = value

    def send(self) -> None:
        """Do nothing."""


class Worker:
    """A worker, its inputs, and the rows it published."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.published = Published()
        start = Start(CONFIG, DetectConfig(), 0, epoch=1)
        self._worker = DiagnosisWorker(start, self.published, self.said.append)
        self._offset = 0

    def take(
        self, topic: str, value: Any, at_ms: int = T0, *, key: bytes | None = b"g", epoch: int | None = None
    ) -> None:
        """Feed one row; a value that is not bytes is encoded."""
        text = value if value is None or isinstance(value, bytes) else encode(value)
        self._offset += 1
        writer = None if epoch is None else encode_writer(RowWriter(CLUSTER, "activity", epoch))
        self._worker.take((InputRow(topic, 0, self._offset, at_ms, key, text, writer),))

    @property
    def engine(self) -> Engine:
        """The engine of the worker."""
        return self._worker.engine

    def tick(self, now_ms: int, *, caught_up: bool = True) -> None:
        """Let the worker evaluate a moment."""
        self._worker.tick(Tick(now_ms, now_ms, caught_up))

    def rows(self, topic: str, kind: type[Any]) -> dict[str, Any]:
        """Return the rows of one of the topics by key."""
        name = CONFIG.topic_prefix + topic
        return {key: decode(value or b"", kind) for (of, key), value in self.published.rows.items() if of == name}

    def status(self) -> DiagnosisStatus:
        """Return the latest status of the diagnosis."""
        found = decode_status(self.published.rows[CONFIG.status_topic, f"{CLUSTER}/diagnosis"] or b"")
        assert isinstance(found, DiagnosisStatus)
        return found


def commits(at_ms: int, offset: int, group: str = GROUP) -> CommitActivity:
    """Return commits of a pane to partitions 0 and 1."""
    topic = TopicCommits([0, 1], [offset] * 2, [at_ms] * 2, [at_ms] * 2, [offset] * 2, [1, 1])
    return CommitActivity(CLUSTER, group, 7, offset, offset, 5_000, ((at_ms, 2),), {"orders": topic})


def offsets(at_ms: int, end: int, group: str = GROUP) -> OffsetActivity:
    """Return probed end offsets of the same partitions."""
    return OffsetActivity(CLUSTER, group, at_ms, ends={"orders": TopicOffsets([0, 1], [end, end])})


DEPLOY = AlertSilence(
    CLUSTER, "d", (GROUP,), T0, T0 + MINUTE, T0, "ci", "deploy 1.2", SilenceKind.DEPLOY, version="1.2"
)

SOUND = {
    "groups": [snapshot(T0, A, B)],
    "rebalances": [rebalance(T0 + SECOND, [A, B], [A])],
    "silences": [DEPLOY],
    "activity": [
        commits(T0, 5),
        offsets(T0, 9),
        ProbeActivity(Probe(probed_at_ms=T0, cluster=CLUSTER, group=GROUP, state="Stable", coordinator_id=1)),
        CountActivity(CLUSTER, CONFIG.source_topic, 7, 5, ((1, 4, "decoded", 6),)),
        pack_reports([report(T0, A, {"coordinator_heartbeat_rate": 0.3})], 5_000, CLUSTER)[0][1],
    ],
}


def test_lag_does_not_wait_for_the_rules(monkeypatch: pytest.MonkeyPatch):
    """It is published before groups are judged, which may take longer; it is not published twice."""
    worker, before = Worker(), []
    advance = worker.engine.advance

    def judge(now_ms: int, read_until_ms: int, most: int) -> list[Output]:
        found = advance(now_ms, read_until_ms, most)
        if most:
            before.append(worker.rows("lag", GroupLag))
            assert not [row for row in found if isinstance(row, GroupLag)]
        return found

    monkeypatch.setattr(worker.engine, "advance", judge)
    for row in SOUND["activity"]:
        worker.take("activity", row)
    worker.tick(T0 + SECOND)
    assert [row.total for lags in before for row in lags.values()] == [8]


def test_lag_is_published_of_what_was_committed_and_probed():
    """With the group's key, in the topic of lag; record counts are published in the status topic."""
    worker = Worker()
    for row in SOUND["activity"]:
        worker.take("activity", row)
    worker.tick(T0 + SECOND)
    lag = worker.rows("lag", GroupLag)[f"{CLUSTER}/{GROUP}"]
    assert (lag.total, lag.topics["orders"].lags, lag.windows["1m"].commits) == (8, [4, 4], 2)
    counted = decode(worker.published.rows[CONFIG.status_topic, f"{CLUSTER}/records/activity"] or b"", DecodeTotals)
    assert [each.count for each in counted.records] == [6]
    assert (worker.status().committing_groups, worker.status().groups_with_lag) == (1, 1)


@pytest.mark.parametrize(
    "far_ms", [int(time.time() * 1000) + 10 * 365 * 24 * 60 * MINUTE, 2**62 - 1], ids=["ten years on", "the largest"]
)
def test_a_row_from_the_future_is_taken_up_nowhere(far_ms: int):
    """Neither as end offsets, which true probes could not correct, nor as the time of the last probe."""
    worker = Worker()
    worker.take("activity", commits(T0, 5))
    worker.take("activity", offsets(far_ms, 5, "other"))
    probe = Probe(probed_at_ms=far_ms, cluster=CLUSTER, group="other", state="Stable", coordinator_id=1)
    worker.take("activity", ProbeActivity(probe))
    # The timestamp of its Kafka record does not make it plausible.
    worker.take("activity", offsets(far_ms, 5, "other"), far_ms)
    worker.take("activity", offsets(T0 + SECOND, 9))
    worker.tick(T0 + 10 * SECOND)
    assert worker.rows("lag", GroupLag)[f"{CLUSTER}/{GROUP}"].total == 8
    assert worker.status().probed_at_ms == T0 + SECOND
    assert sum(each.count for each in worker.status().quarantined) == 3


def test_rows_of_a_superseded_stream_are_none():
    """Its latest inputs may be outdated."""
    worker = Worker()
    worker.take("activity", offsets(T0, 9), epoch=2)
    worker.take("activity", commits(T0, 5), epoch=2)
    worker.take("activity", commits(T0 + SECOND, 1), T0 + SECOND, epoch=1)
    worker.tick(T0 + 2 * SECOND)
    assert [row.total for row in worker.rows("lag", GroupLag).values()] == [8]


def test_an_announced_deploy_is_published_as_the_cause():
    """The row of the silences topic becomes evidence of the finding; one of another cluster or kind does not."""
    for row, reported in (
        (DEPLOY, True),
        (replace(DEPLOY, cluster="x"), False),
        (replace(DEPLOY, kind="other"), False),
    ):
        worker = Worker()
        for topic in ("silences", "groups", "rebalances"):
            worker.take(topic, row if topic == "silences" else SOUND[topic][0])
        worker.tick(T0 + 50 * SECOND)
        found = worker.rows("findings", Finding).values()
        assert [each.rule for each in found if each.variant == "announced"] == ["rolling_deploy"] * reported
        assert not any(each.count for each in worker.status().quarantined)


def test_nothing_is_published_before_the_log_is_read_up():
    """A partly read log would look like a cluster at rest."""
    worker = Worker()
    worker.take("groups", SOUND["groups"][0])
    worker.tick(T0 + MINUTE, caught_up=False)
    assert worker.published.rows == {}
    worker.tick(T0 + MINUTE)
    assert worker.published.rows


def test_rebalances_become_findings_and_impact():
    """From groups, rebalances and commits, judged by their own times."""
    worker = Worker()
    worker.take("groups", snapshot(T0, A, B))
    for second in range(0, 60, 5):
        worker.take("activity", commits(T0 + second * SECOND, second + 1), T0 + second * SECOND)
    worker.take("rebalances", rebalance(T0 + MINUTE, [A, B], [A]), T0 + MINUTE)
    worker.take("activity", commits(T0 + 80 * SECOND, 100), T0 + 80 * SECOND)
    worker.tick(T0 + 3 * MINUTE)
    impacts = worker.rows("impact", dict)
    costs = [row for row in impacts.values() if "rebalance_id" in row]
    assert [(row["rebalance_id"], len(row["silences"])) for row in costs] == [(f"r{T0 + MINUTE}", 2)]
    assert costs[0]["lost_partition_ms"] == 2 * 20 * SECOND
    assert set(impacts) == {f"{CLUSTER}/{GROUP}", f"{CLUSTER}/{GROUP}/{costs[0]['rebalance_id']}"}
    assert {key.split("/")[1] for key in worker.rows("findings", Finding)} == {GROUP}


def test_another_clusters_rows_are_none_of_ours():
    """Clusters may share a topic prefix: rows of others are neither shown nor counted."""
    worker = Worker()
    for topic, rows in SOUND.items():
        for row in rows:
            text = encode(row).replace(f'"cluster":"{CLUSTER}"'.encode(), b'"cluster":"another"')
            worker.take(topic, text)
    worker.tick(T0 + 3 * MINUTE)
    assert worker.rows("lag", GroupLag) == {}
    assert worker.rows("findings", Finding) == {}
    assert worker.status().probed_at_ms is None
    counted = decode(worker.published.rows[CONFIG.status_topic, f"{CLUSTER}/records/activity"] or b"", DecodeTotals)
    assert counted.records == ()


def test_a_groups_tombstone_forgets_it():
    """Only of this cluster."""
    worker = Worker()
    worker.take("activity", commits(T0, 5))
    worker.tick(T0 + SECOND)
    worker.take("groups", None, key=f"another/{GROUP}".encode())
    worker.tick(T0 + 2 * SECOND)
    assert worker.status().committing_groups == 1
    worker.take("groups", None, key=f"{CLUSTER}/{GROUP}".encode())
    worker.tick(T0 + 4 * SECOND)
    assert worker.status().committing_groups == 0


def test_a_row_of_an_earlier_run_that_fails_is_set_aside():
    """No row in the monitor's own topics prevents a start."""
    worker = Worker()
    no_topics: Any = None
    worker.engine.restore(GroupLag(CLUSTER, GROUP, T0, topics=no_topics))
    worker.take("activity", commits(T0, 5))
    worker.tick(T0 + SECOND)
    assert sum(each.count for each in worker.status().quarantined) == 1
    assert len(worker.said) == 1
    assert worker.rows("lag", GroupLag)[f"{CLUSTER}/{GROUP}"].commits == 2


def test_with_a_part_of_the_past_it_does_not_start(monkeypatch: pytest.MonkeyPatch):
    """Otherwise it would replace larger totals by smaller ones: it reports the reason and exits."""

    def read(*_: object) -> Iterator[GroupLag]:
        yield GroupLag(CLUSTER, GROUP, T0, topics={})
        raise StreamError("impact-0 could not be read to the end")

    monkeypatch.setattr(module, "read_restored", read)
    monkeypatch.setattr(module, "Publisher", lambda *_: Published())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, Start(CONFIG, DetectConfig(), 0, epoch=1))
        module.run(theirs)
        assert receive(ours) == Failed("impact-0 could not be read to the end")


# --- Arbitrary content of topics ---

STRANGERS = [
    b"",
    b"\xff",
    b"null",
    b"[]",
    b"{}",
    b'{"kind":"commits"}',
    b'{"kind":"odd"}',
    b"[" * 100_000,
    b'{"a":' * 9_999,
]
INTEGERS = (2**70, -(2**70), 2**63, 2**63 - 1, -(2**63), 2**31 - 1, -1, 10**15)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every number, text and list inside a value."""
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        yield path
        for number in range(min(len(value), 2)):
            yield from places(value[number], (*path, number))
    elif isinstance(value, int | float | str) and not isinstance(value, bool) and path[-1:] != ("kind",):
        yield path


def mutations(row: Any) -> Iterator[bytes]:
    """Yield a row with one value changed to something that the monitor never writes."""
    plain = msgspec.to_builtins(row)
    for path in places(plain):
        changed = copy.deepcopy(plain)
        parent = changed
        for part in path[:-1]:
            parent = parent[part]
        old = parent[path[-1]]
        if isinstance(old, list):
            new: tuple[Any, ...] = ([], [*old, *old[-1:]], old[:1])
        elif isinstance(old, str):
            new = ("", "x" * 100_000, "\x00", "a/b")
        else:
            new = INTEGERS
        for each in new:
            parent[path[-1]] = each
            try:
                yield msgspec.json.encode(changed)
            except OverflowError:
                yield msgspec.json.encode(_marked(changed, path)).replace(b'"HERE"', str(each).encode())


def _marked(value: Any, path: tuple[Any, ...]) -> Any:
    marked = copy.deepcopy(value)
    parent = marked
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = "HERE"
    return marked


CASES = [(topic, number) for topic, rows in SOUND.items() for number in range(len(rows))]


@pytest.mark.generated
@pytest.mark.parametrize(("topic", "number"), CASES, ids=[f"{t}-{type(SOUND[t][n]).__name__}" for t, n in CASES])
def test_no_row_ends_the_worker_or_harms_other_groups(topic: str, number: int):
    """Each number, text and list of each row is made absurd in turn: a healthy group stays right and published."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in mutations(SOUND[topic][number]):
        worker = Worker()
        for name, rows in SOUND.items():
            for row in rows:
                worker.take(name, row)
        worker.take(topic, text, T0 + 2 * SECOND)
        worker.take("activity", commits(T0 + 3 * SECOND, 7, "healthy"))
        worker.take("activity", replace(offsets(T0 + 3 * SECOND, 17, "healthy"), probed_at_ms=T0 + 3 * SECOND))
        for second in (4, 10, 100, 1_000):
            worker.tick(T0 + second * SECOND)
            assert worker.status().updated_at_ms == T0 + second * SECOND, text[:3_000]
        healthy = worker.rows("lag", GroupLag).get(f"{CLUSTER}/healthy")
        assert healthy is not None, text[:3_000]
        assert healthy.topics["orders"].lags == [10, 10], text[:3_000]
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < _GIB // 4


@pytest.mark.parametrize("topic", list(SOUND))
@pytest.mark.parametrize("text", STRANGERS, ids=lambda text: repr(text[:30]))
def test_a_row_that_is_none_is_counted(topic: str, text: bytes):
    """The first few are also reported."""
    worker = Worker()
    worker.take(topic, text, key=b"\xff")
    worker.tick(T0 + SECOND)
    assert sum(each.count for each in worker.status().quarantined) == 1
    assert len(worker.said) == 1


def test_a_report_that_belongs_to_nobody_is_counted():
    """A report without group, client and member is dropped at once; this is not reported as an error."""
    worker = Worker()
    ((_, row),) = pack_reports([replace(report(T0, A), group_id=None, client_id=None, member_id=None)], 5_000, CLUSTER)
    worker.take("activity", row)
    worker.tick(T0 + SECOND)
    counted = {(each.stage, each.reason): each.count for each in worker.status().quarantined if each.count}
    assert counted == {DROPPED_REPORT: 1}
    assert not worker.said
