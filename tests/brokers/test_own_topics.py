"""Published rows are read completely, or a start fails with one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from rebalance_contract import decode, decode_status
from rebalance_kafka.follower import Record, UnreadError
from rebalance_streaming.brokers import own_topics
from rebalance_streaming.brokers.ownership import read_statuses
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.diagnosis.restoring import read_restored
from rebalance_streaming.errors import BrokersUnreachableError, StreamError

CONFIG = StreamConfig(kafka={"bootstrap.servers": "unused:9092"})
FAILURES = [UnreadError("t-1 could not be read to the end"), KafkaException(KafkaError(KafkaError._TRANSPORT))]


@pytest.fixture(params=FAILURES, ids=["no end", "no broker"])
def failing(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics from which one record is read, and then no more."""

    def read(*_: object, name: str) -> Iterator[Record]:
        yield Record("t", 0, 0, 1, b"k", b"{}", ((name, None),))
        raise request.param

    monkeypatch.setattr(own_topics, "read_to_end", read)


@pytest.mark.usefixtures("failing")
def test_a_part_of_the_rows_is_no_answer():
    """Neither of the latest rows, nor of all: missing ones would count as nothing."""
    with pytest.raises(StreamError, match="start it again"):
        own_topics.read_latest_rows(CONFIG, ["t"], name="x")
    rows = own_topics.read_rows(CONFIG, ["t"], name="x")
    assert next(rows).offset == 0
    with pytest.raises(StreamError, match=r"^t(-1 could not be read| cannot be read)"):
        next(rows)


def test_only_brokers_that_are_away_are_waited_for(monkeypatch: pytest.MonkeyPatch):
    """A missing permission does not appear by itself."""
    for code, kind in (
        (KafkaError._TRANSPORT, BrokersUnreachableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, StreamError),
    ):

        def fail(*_: object, code: int = code, **__: object) -> Iterator[Record]:
            raise KafkaException(KafkaError(code))

        monkeypatch.setattr(own_topics, "read_to_end", fail)
        with pytest.raises(StreamError) as error:
            own_topics.read_latest_rows(CONFIG, ["t"], name="x")
        assert type(error.value) is kind


@pytest.mark.usefixtures("failing")
def test_a_start_fails_without_what_was_published():
    """Eras, epochs and totals are restored from all published rows."""
    with pytest.raises(StreamError):
        read_statuses(CONFIG, pytest.fail)
    with pytest.raises(StreamError):
        list(read_restored(CONFIG, pytest.fail))


def test_unreadable_rows_are_left_out_and_counted_in_one_warning():
    """What they counted is missing, which whoever starts the stream learns."""
    said: list[str] = []
    values = [b"1", b"{", b"2", b"["]
    rows = own_topics.decode_rows("t", values, lambda value: decode(value, int), said.append)
    assert list(rows) == [1, 2]
    (warning,) = said
    assert warning.startswith("t: 2 published rows cannot be read and are left out, with the totals in them; the first")
    said.clear()
    newer = b'{"kind":"of-tomorrow"}'
    assert list(own_topics.decode_rows("t", [newer], decode_status, said.append)) == []
    assert list(own_topics.decode_rows("t", [b"1"], lambda value: decode(value, int), said.append)) == [1]
    assert said == []
