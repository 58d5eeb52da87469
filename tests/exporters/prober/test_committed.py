"""Queries of committed offsets at the coordinator, for readers that did not see the commits."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError, GroupAuthorizationFailedError, NotCoordinatorError
from kafka.protocol.metadata import FindCoordinatorRequest

from coordinators import commit_offsets
from exporters.prober.probing import make_config, probing
from exporters.prober.test_probe_broker import name, publish_group  # noqa: F401
from making_topics import create_topic
from rebalance_contract import GroupSnapshot, Probe, encode
from rebalance_exporters.prober.committed import AGAIN_SECONDS, PATIENCE_SECONDS, CommittedAsker, CommittedRound
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_exporters.prober.watch_committed import CommittedWatch
from waiting import wait_for


class _Brokers:
    """Two brokers, each coordinating half of the groups, that record requests; `newest` is their supported version."""

    def __init__(self, newest: int, errors: dict[str, int] | None = None) -> None:
        self.newest, self.errors = newest, errors or {}
        self.asked: list[str] = []

    def version_of(self, _request: type) -> int:
        return self.newest

    def ask(self, requests):
        return {broker: [self._answer(broker, each) for each in several] for broker, several in requests.items()}

    def _answer(self, broker, request):
        if isinstance(request, FindCoordinatorRequest):
            if self.newest < 4:
                return SimpleNamespace(error_code=0, node_id=_coordinator(request.key))
            rows = [
                SimpleNamespace(key=key, error_code=0, node_id=_coordinator(key)) for key in request.coordinator_keys
            ]
            return SimpleNamespace(coordinators=rows)
        if self.newest < 8:
            return self._offsets(broker, request.group_id)
        return SimpleNamespace(groups=[self._offsets(broker, each.group_id) for each in request.groups])

    def _offsets(self, broker, group):
        assert broker == _coordinator(group), "asked the wrong coordinator"
        self.asked.append(group)
        partitions = [
            SimpleNamespace(partition_index=0, committed_offset=7, error_code=0),
            SimpleNamespace(partition_index=1, committed_offset=-1, error_code=0),
        ]
        topics = [SimpleNamespace(name="orders", partitions=partitions)]
        code = self.errors.get(group, 0)
        return SimpleNamespace(group_id=group, error_code=code, topics=[] if code else topics)


def _coordinator(group: str) -> int:
    return int(group[1:]) % 2


def make(brokers: Any) -> CommittedAsker:
    """Return a querier of these brokers."""
    return CommittedAsker(brokers)


@pytest.mark.parametrize("newest", [8, 3], ids=["many groups in a request", "one group in a request"])
def test_every_group_has_its_turn_and_none_too_often(newest: int):
    """A few each round, the longest due first; again after ten minutes; a forgotten one starts over."""
    brokers = _Brokers(newest)
    asker = make(brokers)
    names = [f"g{number:03d}" for number in range(300)]
    assert asker.ask(names, 0.0).offsets == {}
    assert asker.ask(names, PATIENCE_SECONDS - 1).offsets == {}
    first = asker.ask(names, PATIENCE_SECONDS)
    assert len(brokers.asked) == 200
    assert first.offsets[names[0]] == {"orders": {"0": 7}}
    asker.ask(names, PATIENCE_SECONDS + 5)
    assert sorted(brokers.asked) == names
    again = PATIENCE_SECONDS + AGAIN_SECONDS
    asker.ask(names, again - 1)
    assert len(brokers.asked) == 300
    asker.ask(names, again)
    assert len(brokers.asked) == 500
    asker.ask([], again + 1)
    asker.ask(names[:1], again + 2)
    assert len(brokers.asked) == 500
    asker.ask(names[:1], again + 2 + PATIENCE_SECONDS)
    assert brokers.asked[-1] == "g000"


def test_a_group_whose_coordinator_is_moving_is_asked_again_soon_and_a_forbidden_one_later():
    """The first will be answered in a moment; the second one's answer will be the same, and is reported once."""
    brokers = _Brokers(8, {"g1": NotCoordinatorError.errno, "g2": GroupAuthorizationFailedError.errno})
    asker = make(brokers)
    asker.ask(["g0", "g1", "g2"], -PATIENCE_SECONDS)
    first = asker.ask(["g0", "g1", "g2"], 0.0)
    assert list(first.offsets) == ["g0"]
    assert "NotCoordinator" in first.errors[1] or "NotCoordinator" in first.errors[0]
    assert any("kafka-acls" in each for each in first.errors)
    brokers.errors.clear()
    assert list(asker.ask(["g0", "g1", "g2"], 5.0).offsets) == ["g1"]


class _Asker:
    """Answers for one group with given offsets."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, int | None]] = {}

    def ask(self, groups: Iterable[str], _now: float) -> CommittedRound:
        return CommittedRound(dict.fromkeys(groups, self.held))


def test_that_a_coordinator_holds_nothing_is_reported_once_and_when_it_changes():
    """Otherwise expired offsets would be lag forever."""
    asker, reported, interests = _Asker(), list[Probe](), Interests("c")
    interests.apply_group(b"c/g0", encode(GroupSnapshot("c", "g0", "classic", "Empty")))
    watch = CommittedWatch(
        ProbeConfig(cluster="c", reads_log=False),
        asker=asker,
        interests=interests,
        publish=reported.append,
        error_log=ErrorLog(ProbeMetrics(), lambda _: None),
    )
    for held in ({}, {}, {"orders": {"0": 7}}, {"orders": {"0": 7}}, {}):
        asker.held = held
        watch.cycle()
    assert [each.committed_offsets for each in reported] == [{}, {"orders": {"0": 7}}, {}]


@pytest.mark.parametrize("reads_log", [True, False], ids=["with the log", "without"])
def test_groups_of_an_unreachable_coordinator_hold_up_no_others(reads_log: bool):
    """A thousand come first by name and fail each time: the two thousand others are all queried meanwhile."""
    failing, healthy = [f"g0{n:04d}" for n in range(1_000)], [f"g1{n:04d}" for n in range(2_000)]
    brokers = _Brokers(8, dict.fromkeys(failing, CoordinatorNotAvailableError.errno))
    asker, answered = CommittedAsker(brokers, reads_log=reads_log), set[str]()
    asker.ask(failing + healthy, -PATIENCE_SECONDS)
    for number in range(20):
        answered |= asker.ask(failing + healthy, number * 5.0).offsets.keys()
    assert answered == set(healthy)


def test_the_pauses_of_a_group_without_an_answer_grow():
    """Up to two minutes; after an answer they are reset."""
    brokers = _Brokers(8, {"g1": CoordinatorNotAvailableError.errno})
    asker, asked = CommittedAsker(brokers, reads_log=False), list[int]()
    for second in range(500):
        brokers.asked.clear()
        asker.ask(["g1"], float(second))
        asked += [second] * len(brokers.asked)
    assert asked == [0, 5, 15, 35, 75, 155, 275, 395]
    brokers.errors.clear()
    assert asker.ask(["g1"], 600.0).offsets
    brokers.errors["g1"] = CoordinatorNotAvailableError.errno
    assert [len(asker.ask(["g1"], at).errors) for at in (601.0, 605.0, 606.0)] == [1, 0, 1]


@pytest.mark.broker
def test_groups_without_a_commit_in_the_stream_are_published(broker, name, monkeypatch):  # noqa: F811
    """A group without a commit or a lag row: its offsets come from the coordinator, with end offsets."""
    monkeypatch.setattr("rebalance_exporters.prober.committed.PATIENCE_SECONDS", 0.1)
    create_topic(broker.bootstrap, name, partitions=2)
    prefix = f"{name}."
    for topic in ("groups", "lag", "activity"):
        create_topic(broker.bootstrap, prefix + topic)
    commit_offsets(broker.bootstrap, name, {(name, 1): 42})
    publish_group(broker.bootstrap, prefix, name, "another-topic")
    with probing(make_config(broker.bootstrap, prefix, offsets_seconds=0.3)) as probed:
        wait_for(lambda: {name: {"1": 42}} in [p.committed_offsets for p in probed.of(name)], lambda: probed.of(name))
        # Its other topic, which does not exist, may be reported in the same probe.
        reported = {"0": 0, "1": 0}
        wait_for(
            lambda: reported in [(p.end_offsets or {}).get(name) for p in probed.of(name)], lambda: probed.of(name)
        )
