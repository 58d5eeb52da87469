"""The watcher reports incidents to each query once, whatever the brokers do meanwhile."""

import threading
import uuid
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from rebalance_contract import LogTotals, encode
from rebalance_streaming.brokers import input_watcher
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.brokers.input_watcher import InputWatcher
from rebalance_streaming.brokers.log_watch import Ends, TopicState, Unread
from rebalance_streaming.brokers.ownership import read_statuses
from rebalance_streaming.config import StreamConfig
from waiting import wait_for

INPUTS = {"membership": ("log", "probes"), "activity": ("log",)}


class Brokers:
    """The state of topics on brokers, to be changed by the test."""

    def __init__(self) -> None:
        self.topics = {"log": TopicState(1, {0: Ends(0, 100)}), "probes": TopicState(1, {0: Ends(0, 10)})}

    def look(self, topics):
        return {name: self.topics[name] for name in topics if name in self.topics}


def test_each_query_is_compared_with_its_own_position():
    """Retention overtook one of two readers of a log."""
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, INPUTS)
    watcher.note("membership", {"log": {0: 100}})
    watcher.note("activity", {"log": {0: 40}})
    watcher.check_once()
    assert watcher.take() == []
    brokers.topics["log"] = TopicState(1, {0: Ends(50, 100)})
    watcher.check_once()
    (reported,) = watcher.take()
    assert (reported.query, reported.kind, reported.count) == ("activity", "skipped", 10)
    assert watcher.take() == []


def test_a_query_that_was_started_without_a_partition_is_reported_once_per_start(monkeypatch):
    """It was restarted for a partition that the broker it asked did not know yet; then it is started with all."""
    monkeypatch.setattr(input_watcher, "_UNREAD_AGAIN_SECONDS", 0.0)
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, {"membership": ("log",)})
    watcher.note_start("membership", {"log": 1})
    watcher.check_once()
    brokers.topics["log"] = TopicState(2, {0: Ends(0, 100), 1: Ends(0, 5)})
    kinds = []
    for partition_count in (1, 1, 2):
        watcher.check_once()
        watcher.check_once()
        kinds.append([each.kind for each in watcher.take()])
        watcher.forget("membership")
        watcher.check_once()
        watcher.note_stopped("membership", {})
        watcher.note_start("membership", {"log": partition_count})
    watcher.check_once()
    assert kinds == [["partitions_added"], ["partitions_unread"], ["partitions_unread"]]
    assert watcher.take() == []


def test_a_query_is_not_started_again_at_every_look_at_old_metadata(monkeypatch):
    """While the broker that it asks does not know a partition, it is reported once a minute."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(input_watcher, "time", SimpleNamespace(monotonic=lambda: clock.now))
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, {"membership": ("log",)})
    brokers.topics["log"] = TopicState(2, {0: Ends(0, 100), 1: Ends(0, 5)})
    watcher.check_once()
    reported = []
    for clock.now in range(100, 230, 5):
        watcher.note_start("membership", {"log": 1})
        watcher.check_once()
        reported += [clock.now for each in watcher.take() if each.kind == "partitions_unread"]
    assert reported == [100, 160, 220]


def test_where_inputs_ended_is_known_of_the_last_look_with_an_answer():
    """Each topic separately: one that is temporarily unavailable is not empty."""
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, INPUTS)
    assert watcher.ends() == {}
    watcher.check_once()
    brokers.topics = {"log": TopicState(1, {0: Ends(0, 130)})}
    watcher.check_once()
    assert watcher.ends() == {"log": {0: 130}, "probes": {0: 10}}


def test_totals_and_eras_go_on_after_a_restart():
    """Published rows are restored, for each query its own."""
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, INPUTS)
    watcher.note("membership", {"log": {0: 120}})
    watcher.check_once()
    rows = watcher.totals("c", 7)
    again = InputWatcher(brokers.look, INPUTS, rows)
    assert (again.eras("membership", "log"), again.eras("activity", "log")) == ({0: 1}, {})
    assert again.totals("c", 7) == rows


def test_a_position_noted_during_a_look_is_for_the_next():
    """A fast query must not appear to have read records that are gone."""
    brokers = Brokers()
    watcher = InputWatcher(
        lambda topics: (watcher.note("activity", {"log": {0: 130}}), brokers.look(topics))[1], INPUTS
    )
    watcher.check_once()
    assert watcher.take() == []


def test_a_query_that_came_down_before_anybody_looked_was_cut_off():
    """Its leader dies between looks, and it continues from the new leader's end: reported once, as one truncation.

    Records that it then read as if from the old log, up to its restart, count as skipped.
    """
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, INPUTS)
    watcher.check_once()
    log = brokers.topics.pop("log")
    watcher.note("membership", {"log": {0: 110}})
    watcher.check_once()
    watcher.note("membership", {"log": {0: 95}})
    brokers.topics["log"] = TopicState(log.partition_count, {0: Ends(0, 102)})
    watcher.check_once()
    (reported,) = watcher.take()
    assert (reported.query, reported.kind, reported.count) == ("membership", "rewound", 15)
    watcher.forget("membership")
    watcher.check_once()
    assert watcher.take() == [], "until it was started again nobody knows where it goes on"
    watcher.note("membership", {"log": {0: 99}})
    watcher.check_once()
    (reported,) = watcher.take()
    assert (reported.query, reported.kind, reported.count) == ("membership", "skipped", 4)
    watcher.note("membership", {"log": {0: 102}})
    watcher.check_once()
    assert watcher.take() == []


def test_of_two_looks_at_once_the_older_is_void():
    """A slow broker answers a look with an earlier end, after a later one was compared: nothing was truncated."""
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, {"membership": ("log",)})
    former = InputWatcher.check_once

    def look(topics):
        # While this one waits for its response another one begins and ends, with newer data.
        if not looks:
            looks.append(brokers.look(topics))
            brokers.topics["log"] = TopicState(1, {0: Ends(0, 110)})
            former(watcher)
            return looks[0]
        return brokers.look(topics)

    looks: list[object] = []
    watcher._fetch = look  # the watcher is made before the look that uses it
    watcher.check_once()
    assert watcher.take() == []
    watcher.note("membership", {"log": {0: 110}})
    watcher.check_once()
    assert watcher.take() == []


def test_a_look_from_before_a_query_was_stopped_says_nothing_of_where_it_is():
    """Otherwise the query would seem to have gone back, and its next records would count as skipped."""
    brokers, stopping = Brokers(), list[str]()
    watcher = InputWatcher(
        lambda topics: ([watcher.forget(each) for each in stopping], brokers.look(topics))[1], INPUTS
    )
    watcher.note("membership", {"log": {0: 100}})
    watcher.check_once()
    brokers.topics["log"] = TopicState(1, {0: Ends(0, 80)})
    watcher.check_once()
    assert watcher.unread("membership") == {"log": {0: Unread(begin=80, stood_at=100)}}
    stopping.append("membership")
    brokers.topics["log"] = TopicState(1, {0: Ends(0, 105)})
    watcher.check_once()
    assert [each.kind for each in watcher.take() if each.query == "membership"] == ["rewound"]
    assert watcher.unread("membership") == {"log": {0: Unread(begin=80, stood_at=100)}}


def test_a_look_from_while_a_query_was_stopped_says_nothing_of_where_it_is():
    """It began without the query's position and is answered when that is known again, as with brokers that are away."""
    brokers, during = Brokers(), list[str]()

    def look(topics):
        for each in during:
            watcher.note_stopped(each, {"log": {0: 100}})
        return brokers.look(topics)

    watcher = InputWatcher(look, {"membership": ("log",)})
    watcher.note("membership", {"log": {0: 100}})
    watcher.check_once()
    brokers.topics["log"] = TopicState(1, {0: Ends(0, 30)})
    watcher.forget("membership")
    during.append("membership")
    watcher.check_once()
    assert watcher.take() == []
    during.clear()
    watcher.check_once()
    assert [each.kind for each in watcher.take()] == ["rewound"]
    assert watcher.unread("membership") == {"log": {0: Unread(begin=30, stood_at=100)}}


def test_a_position_that_falls_is_looked_into_at_once():
    """Records that a query reads between a truncation and its restart are taken for repetitions: there must be few."""
    brokers, asked = Brokers(), threading.Semaphore(0)

    def look(topics):
        asked.release()
        return brokers.look(topics)

    watcher = InputWatcher(look, {"membership": ("log",)}, period_seconds=3_600)
    watcher.start(pytest.fail)
    assert asked.acquire(timeout=120)
    watcher.note("membership", {"log": {0: 100}})
    brokers.topics["log"] = TopicState(1, {0: Ends(0, 97)})
    watcher.note("membership", {"log": {0: 95}})
    (reported,) = wait_for(watcher.take, "an incident")
    watcher.stop()
    assert (reported.kind, reported.count) == ("rewound", 5)


def test_a_look_that_fails_forgets_nothing():
    """The query's position from before it went back is compared at the next look."""
    brokers, failing = Brokers(), threading.Event()

    def look(topics):
        if failing.is_set():
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return brokers.look(topics)

    watcher = InputWatcher(look, INPUTS)
    watcher.check_once()
    watcher.note("membership", {"log": {0: 110}})
    failing.set()
    with pytest.raises(KafkaException):
        watcher.check_once()
    failing.clear()
    watcher.note("membership", {"log": {0: 100}})
    watcher.check_once()
    assert [(each.query, each.kind, each.count) for each in watcher.take()] == [("membership", "rewound", 10)]


def test_a_query_that_came_down_during_a_look_without_a_leader_was_cut_off():
    """While the look waits for the dead leader's response a new one is elected, with an end that was seen before."""
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, INPUTS)
    watcher.check_once()
    watcher.note("membership", {"log": {0: 110}})
    whole = brokers.topics["log"]

    def look(topics):
        watcher.note("membership", {"log": {0: 100}})
        return brokers.look(topics)

    watcher._fetch = look
    brokers.topics["log"] = TopicState(1, {})
    watcher.check_once()
    watcher._fetch = brokers.look
    brokers.topics["log"] = whole
    watcher.check_once()
    assert [(each.query, each.kind, each.count) for each in watcher.take()] == [("membership", "rewound", 10)]


def test_a_query_that_stays_where_it_was_is_cut_off_once():
    """Until it goes back its position is in the old log, which the first look has reported."""
    brokers = Brokers()
    watcher = InputWatcher(brokers.look, INPUTS)
    watcher.note("membership", {"log": {0: 100}})
    watcher.check_once()
    brokers.topics["log"] = TopicState(1, {0: Ends(0, 90)})
    watcher.check_once()
    watcher.note("membership", {"log": {0: 100}})
    watcher.check_once()
    watcher.note("membership", {"log": {0: 100}})
    watcher.note("membership", {"log": {0: 90}})
    watcher.check_once()
    watcher.check_once()
    assert [(each.query, each.kind) for each in watcher.take()] == [("membership", "rewound"), ("activity", "rewound")]


@pytest.mark.waits
def test_who_waits_for_brokers_holds_up_nobody():
    """Positions are recorded and stops are obeyed while a look has no response."""
    asked, answer = threading.Event(), threading.Event()

    def look(topics):
        asked.set()
        answer.wait(60)
        return {}

    watcher = InputWatcher(look, INPUTS)
    watcher.start(pytest.fail)
    assert asked.wait(120)
    watcher.note("activity", {"log": {0: 1}})
    assert watcher.take() == []
    watcher.stop()
    answer.set()


@pytest.mark.broker
def test_rows_come_back_from_the_status_topic(broker):
    """Rows published by one process are restored by the next; rows of other clusters and kinds are skipped."""
    config = StreamConfig(kafka={"bootstrap.servers": broker.bootstrap}, topic_prefix=f"t{uuid.uuid4().hex[:8]}.")
    cluster = Cluster(config)
    cluster.ensure_topics()
    watcher = InputWatcher(cluster.fetch_topic_states, {"membership": (config.probes_topic,)}, period_seconds=0.1)
    watcher.note("membership", {config.probes_topic: {0: 5}})
    watcher.start(pytest.fail)
    (reported,) = wait_for(watcher.take, "an incident")
    watcher.stop()
    assert reported.kind == "rewound"
    producer = Producer(dict(config.kafka))
    for name in (config.cluster, "another"):
        for row in watcher.totals(name, 7):
            producer.produce(config.status_topic, key=f"{name}/log/{row.query}", value=encode(row))
    producer.produce(config.status_topic, key="odd", value=b"{")
    assert producer.flush(120) == 0
    found = read_statuses(config, pytest.fail)
    assert [each for each in found if isinstance(each, LogTotals)] == watcher.totals(config.cluster, 7)
