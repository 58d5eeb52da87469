"""A process owns its queries until a higher epoch is published for one of them."""

import threading
import time
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from rebalance_contract import LogTotals, QueryStatus, encode
from rebalance_kafka.follower import Record
from rebalance_streaming.brokers import ownership as module
from rebalance_streaming.brokers.ownership import QueryOwnership
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError, SupersededError

NOW = 1_795_586_097_000
CONFIG = StreamConfig(kafka={"bootstrap.servers": "unused:9092"}, cluster="prod", queries=("membership", "diagnosis"))
THEIRS = QueryStatus("prod", "membership", False, NOW, NOW, 500, epoch=NOW + 1, host="other", pid=7)


def record(status: QueryStatus) -> Record:
    key = f"{status.cluster}/query/{status.query}".encode()
    return Record("rebalance-monitor.status", 0, 1, NOW, key, encode(status), ())


def own_status(ownership: QueryOwnership) -> QueryStatus:
    return replace(THEIRS, epoch=ownership.epoch, host=ownership.host, pid=ownership.pid)


def test_a_newcomer_takes_a_higher_epoch_than_all_before():
    """Even if the clock of the previous one was ahead; queries that run elsewhere do not matter."""
    assert QueryOwnership(CONFIG, [], NOW).epoch == NOW
    before = [
        replace(THEIRS, epoch=NOW + 99),
        replace(THEIRS, query="activity", epoch=NOW + 500),
        LogTotals("prod", "x", 0),
    ]
    assert QueryOwnership(CONFIG, before, NOW).epoch == NOW + 100


def test_a_higher_epoch_of_one_of_its_queries_ends_it():
    """The message names the other process and what to do."""
    ownership = QueryOwnership(CONFIG, [], NOW)
    ownership.take([record(own_status(ownership)), record(replace(THEIRS, query="activity"))], is_new=True)
    ownership.check()
    ownership.take([record(THEIRS)], is_new=False)
    assert ownership.is_lost()
    with pytest.raises(
        SupersededError, match=r"host other, process 7\) took over the membership query of cluster prod"
    ):
        ownership.check()


def test_of_two_that_start_in_one_moment_exactly_one_goes_on():
    """Both compare in the same way."""
    one, other = QueryOwnership(CONFIG, [], NOW), QueryOwnership(CONFIG, [], NOW)
    other.host = one.host + "-2"
    one.take([record(own_status(other))], is_new=True)
    other.take([record(own_status(one))], is_new=True)
    assert [one.is_lost(), other.is_lost()] == [True, False]


def test_what_is_odd_or_of_others_takes_nothing_over():
    """Any producer may write rows."""
    ownership = QueryOwnership(CONFIG, [], NOW)
    odd = record(THEIRS)._replace(value=b"{")
    ownership.take(
        [odd, odd._replace(value=None), odd._replace(key=None), record(replace(THEIRS, cluster="test"))], is_new=True
    )
    assert not ownership.is_lost()


def test_a_handover_is_waited_for_only_where_somebody_still_writes():
    """Rows written before this process began to follow prove no running process."""
    stop = threading.Event()
    stop.set()
    ownership = QueryOwnership(CONFIG, [], NOW + 9)
    ownership.take([record(THEIRS)], is_new=False)
    assert not ownership.await_handover(stop)
    assert ownership.other() is None
    ownership.take([record(THEIRS)], is_new=True)
    assert ownership.await_handover(stop)
    assert ownership.other() == THEIRS


class Following:
    """A status topic whose end is reached at the third poll; then the remaining rows, one a poll."""

    def __init__(self, *to_come: Record, ends: bool = True) -> None:
        self.error: KafkaError | None = None
        self.at_end, self._polls, self._ends, self._to_come = False, 0, ends, list(to_come)

    def __call__(self, *_: object, **__: object) -> "Following":
        return self

    def poll(self, _: float) -> list[Record]:
        time.sleep(0.001)
        self._polls += 1
        self.at_end = self._ends and self._polls >= 3
        return [self._to_come.pop(0)] if self._to_come and self._polls > 9 else []

    def close(self) -> None: ...


class Failing(Following):
    """Brokers that go down once the end was reached."""

    def poll(self, seconds: float) -> list[Record]:
        records = super().poll(seconds)
        self.error = KafkaError(KafkaError._TRANSPORT) if self.at_end else None
        return records


def ask_for_certain(
    monkeypatch: pytest.MonkeyPatch,
    following: Following,
    *,
    silent: float = 5.0,
    known: float = 30.0,
    stop: threading.Event | None = None,
) -> QueryStatus | None:
    """Return the answer of a process that has just begun to follow; `silent`, `known`: its limits in seconds."""
    for name, seconds in (("_SILENT_SECONDS", silent), ("_KNOWN_SECONDS", known), ("_LOOK_SECONDS", 0.001)):
        monkeypatch.setattr(module, name, seconds)
    monkeypatch.setattr(module, "Follower", following)
    ownership = QueryOwnership(CONFIG, [], NOW + 9)
    ownership.start(pytest.fail)
    try:
        return ownership.other_for_certain(stop or threading.Event())
    finally:
        ownership.stop()


def test_another_stream_is_waited_for_until_it_must_have_written(monkeypatch: pytest.MonkeyPatch):
    """Right after the start nothing is known about it; its earlier rows prove nothing."""
    assert ask_for_certain(monkeypatch, Following(record(THEIRS))) == THEIRS
    assert ask_for_certain(monkeypatch, Following(), silent=0.1) is None


def test_what_cannot_be_known_is_no_absence(monkeypatch: pytest.MonkeyPatch):
    """A checkpoint is not moved away because brokers are slow."""
    with pytest.raises(StreamError, match=r"another stream still writes is not known.*rebalance-monitor\.status"):
        ask_for_certain(monkeypatch, Following(ends=False), known=0.1)
    with pytest.raises(StreamError, match="is not known"):
        ask_for_certain(monkeypatch, Failing(), silent=0.1, known=0.5)


def test_a_stop_ends_the_waiting(monkeypatch: pytest.MonkeyPatch):
    """It must not take the minute in which brokers may still answer, and it does not mean permission to continue."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(StreamError, match="is not known"):
        ask_for_certain(monkeypatch, Following(ends=False), stop=stop)
