"""The content of a recording, read from a real broker."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from rebalance_deploy.topics import create_topics
from rebalance_kafka.follower import Record
from rebalance_kafka.positions import Bounds, Positions
from rebalance_streaming.errors import StreamError
from rebalance_streaming.recordings.record import RecordProgress, _refuse_lasting, record
from waiting import wait_for

COMMIT, GROUP = b"\0\1commit", b"\0\2group"


@pytest.fixture
def topic() -> str:
    """A topic that stands for the offsets topic."""
    return f"log-{uuid.uuid4().hex[:8]}"


def produce(bootstrap: str, *records: tuple[str, bytes, bytes | None]) -> None:
    """Write (topic, key, value), in this order."""
    producer, refused = Producer({"bootstrap.servers": bootstrap}), []
    for name, key, value in records:
        producer.produce(
            name, value, key, 0, timestamp=7, headers={"h": b"1"}, on_delivery=lambda error, _: refused.append(error)
        )
    assert producer.flush(60) == 0
    assert not any(refused), refused


def records(bootstrap: str, topic: str, *others: str, **options: Any) -> list[dict[str, Any]]:
    """Return the lines of a recording up to the current end."""
    options = {"from_beginning": True, "to_end": True, "stop": threading.Event(), **options}
    return [json.loads(line) for line in record({"bootstrap.servers": bootstrap}, topic, others, **options)]


@pytest.mark.broker
def test_a_line_holds_the_whole_record(broker, topic):
    """Each record gives one line, including tombstones, of the log and other topics; a missing topic is no error."""
    create_topics(broker.bootstrap, {topic: 1, f"{topic}-probes": 1})
    produce(broker.bootstrap, (topic, GROUP, b"a"), (topic, COMMIT, None), (f"{topic}-probes", COMMIT, b"p"))
    lines = records(broker.bootstrap, topic, f"{topic}-probes", f"{topic}-missing")
    assert all(line.pop("received_at_ms") > 0 for line in lines)
    rest = {"partition": 0, "timestamp_ms": 7, "headers": [["h", b"1".hex()]]}
    assert sorted(lines, key=lambda line: (line["topic"], line["offset"])) == [
        {"topic": topic, "offset": 0, "key_hex": GROUP.hex(), "value_hex": b"a".hex(), **rest},
        {"topic": topic, "offset": 1, "key_hex": COMMIT.hex(), "value_hex": None, **rest},
        {"topic": f"{topic}-probes", "offset": 0, "key_hex": COMMIT.hex(), "value_hex": b"p".hex(), **rest},
    ]


@pytest.mark.broker
def test_commits_are_recorded_once_they_are_committed(broker, topic):
    """As the stream reads: group records at once, offset commits once they are committed, aborted ones not at all."""
    create_topics(broker.bootstrap, {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for end, value in ((producer.commit_transaction, b"1"), (producer.abort_transaction, b"2"), (None, b"3")):
        producer.begin_transaction()
        producer.produce(topic, value, COMMIT)
        producer.produce(topic, value, GROUP)
        assert producer.flush(60) == 0
        if end is not None:
            end()
    found = {
        (bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"])) for line in records(broker.bootstrap, topic)
    }
    assert found == {(COMMIT, b"1"), (GROUP, b"1"), (GROUP, b"2"), (GROUP, b"3")}
    producer.abort_transaction()


@pytest.fixture
def recording(broker: Any, topic: str) -> Iterator[list[dict[str, Any]]]:
    """The lines of a recording from now on of the log and a topic `…-late`, while it runs in a thread."""
    stop, lines = threading.Event(), []
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker.bootstrap, (topic, GROUP, b"old"), (topic, COMMIT, b"old"))
    kafka = {"bootstrap.servers": broker.bootstrap}

    def run() -> None:
        try:
            for line in record(kafka, topic, [f"{topic}-late"], from_beginning=False, to_end=False, stop=stop):
                lines.append(json.loads(line))
        except StreamError as error:
            # A test that waits for a line sees it.
            lines.append({"topic": f"ended: {error}", "key_hex": "", "value_hex": ""})

    thread = threading.Thread(target=run)
    thread.start()
    yield lines
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.broker
def test_a_recording_from_now_on_leaves_out_what_was(broker, topic, recording):
    """Only new records of the log are recorded; a topic that is created meanwhile is recorded from its beginning."""

    def is_recording() -> bool:
        # The recording begins at an unknown moment; records written before are old.
        produce(broker.bootstrap, (topic, GROUP, b"new"), (topic, COMMIT, b"new"))
        return {each["key_hex"] for each in recording} == {GROUP.hex(), COMMIT.hex()}

    wait_for(is_recording, lambda: recording)
    create_topics(broker.bootstrap, {f"{topic}-late": 1})
    produce(broker.bootstrap, (f"{topic}-late", COMMIT, b"late"))
    wait_for(lambda: any(each["topic"] == f"{topic}-late" for each in recording), lambda: recording)
    assert b"old".hex() not in {each["value_hex"] for each in recording}


@pytest.mark.broker
def test_a_log_that_is_missing_is_reported(broker, topic):
    """The error says that no group ever committed."""
    with pytest.raises(StreamError, match=f"no topic {topic}"):
        records(broker.bootstrap, topic)


@pytest.mark.waits
def test_brokers_that_do_not_answer_are_reported(monkeypatch):
    """The error names the servers."""
    monkeypatch.setattr("rebalance_kafka.follower._REQUEST_SECONDS", 0.1)
    with pytest.raises(StreamError, match=r"cannot read from 127\.0\.0\.1:1: "):
        records("127.0.0.1:1", "log")


def test_a_leader_that_is_elected_ends_no_recording():
    """For example of a topic that was just created; permanent errors end it."""
    _refuse_lasting(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "log")
    _refuse_lasting(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION), "log")
    _refuse_lasting(KafkaError(KafkaError._ALL_BROKERS_DOWN), None)
    with pytest.raises(StreamError, match="cannot read log: "):
        _refuse_lasting(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "log")


class _Scripted:
    """A follower of one partition with four offsets; each poll returns one."""

    missing = ()

    def __init__(self, key: bytes) -> None:
        self.positions, self._key, self._next = Positions(), key, 0
        self.positions.update([("log", 0)], {("log", 0): Bounds(0, 4)})

    @property
    def at_end(self) -> bool:
        return self.positions.at_end

    def poll(self) -> list[Record]:
        found = Record("log", 0, self._next, 7, self._key, b"", ())
        self._next += 1
        self.positions.pass_record(("log", 0), found.offset)
        return [found]

    def close(self) -> None:
        pass


def test_the_share_is_that_of_both_readings(monkeypatch):
    """Records that are read twice, for groups and for commits, count twice; records count once they are lines."""
    followers = iter([_Scripted(GROUP), _Scripted(COMMIT)])
    monkeypatch.setattr("rebalance_streaming.recordings.record._follow", lambda *_: next(followers))
    progress, seen = RecordProgress(), []
    recording = record({}, "log", (), from_beginning=True, to_end=True, stop=threading.Event(), progress=progress)
    for _ in recording:
        seen.append((progress.records, progress.share))
    assert seen == [(0, None), (0, None), (2, 0.25), (2, 0.25), (4, 0.5), (4, 0.5), (6, 0.75), (6, 0.75)]
    assert (progress.records, progress.share) == (8, 1.0)
