"""The exporter's reader without a broker: the metadata of each row beside its content."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Message

from exporters.contract_rows import NOW_MS, group_row
from following.test_follower import ScriptedClient
from rebalance_exporters.kafka import consumer
from rebalance_exporters.kafka.consumer import Source, TopicReader
from rebalance_exporters.state.view import GROUPS, Row, View
from rebalance_kafka import follower
from rebalance_kafka.reachability import NoAnswerError
from waiting import wait_for


class RecordedView(View):
    """A view that keeps the applied rows."""

    def __init__(self) -> None:
        super().__init__(group_expiry_seconds=3600, keep_rebalances=0)
        self.given: list[Row] = []

    def apply(self, rows: Iterable[Row]) -> None:
        """Keep the rows in addition to applying them."""
        noted = list(rows)
        self.given += noted
        super().apply(noted)


class LateBrokers:
    """Brokers that fail to answer a few times, and then answer."""

    failures: tuple[str, ...] = ()

    def __init__(self, *_: object) -> None: ...

    def ask_until_answered(self, _: threading.Event, on_failure: Callable[[NoAnswerError], None]) -> str:
        for text in self.failures:
            on_failure(NoAnswerError(text))
        return "id"


def test_what_is_said_while_no_broker_answers_is_taken_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The errors of the earlier client are handled by the one that reads later; the log has each reason once."""
    client, heard = ScriptedClient({}), list[float]()
    monkeypatch.setattr(client, "poll", heard.append)
    monkeypatch.setattr(follower, "Consumer", client)
    monkeypatch.setattr(consumer, "Reachability", LateBrokers)
    monkeypatch.setattr(LateBrokers, "failures", ("refused", "refused", "timed out"))
    reader = TopicReader(Source({"bootstrap.servers": "unused:9092"}, "m."), RecordedView(), lambda: NOW_MS)
    reader.start()
    try:
        wait_for(lambda: reader.progress.missing_topics, lambda: reader.progress)
    finally:
        reader.stop()
    assert len(heard) >= 3
    assert [record.message for record in caplog.records] == ["refused", "timed out"]
    assert reader.progress.unreached is None
    assert reader.refusal is None


def test_rows_say_whether_they_were_there_when_the_reading_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their offset, whatever their timestamps; and all have the time since which the topics are read."""
    row = group_row()
    assert row.key is not None
    assert row.value is not None
    records = [Message(f"m.{GROUPS}", 0, offset, key=row.key, value=row.value) for offset in range(4)]
    # Its partitions end at offset 2.
    client = ScriptedClient({f"m.{GROUPS}": [0]}, [[], records[:1], records[1:3], records[3:]])
    monkeypatch.setattr(follower, "Consumer", client)
    monkeypatch.setattr(consumer, "Reachability", LateBrokers)
    times = iter(range(NOW_MS, NOW_MS + 1_000_000))
    view = RecordedView()
    reader = TopicReader(Source({"bootstrap.servers": "unused:9092"}, "m."), view, lambda: next(times))
    reader.start()
    try:
        wait_for(lambda: len(view.given) == len(records), lambda: f"all records, beyond {view.given}")
    finally:
        reader.stop()
    assert [each.was_there for each in view.given] == [True, True, False, False]
    (since_ms,) = {each.read_since_ms for each in view.given}
    assert since_ms is not None
    assert NOW_MS < since_ms <= NOW_MS + 3, "the first records, not the start, when brokers may have been away"
