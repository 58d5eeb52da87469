"""Topics are created although brokers are registered a moment later."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from rebalance_deploy import topics


class Controller:
    """Refuses the topics of the first requests, each with an error code; afterwards it creates and lists them."""

    def __init__(self, refusals: list[dict[str, int]]) -> None:
        self.refusals, self.asked, self.created = refusals, [], {}

    def create_topics(self, wanted):
        self.asked.append([each.topic for each in wanted])
        refused = self.refusals.pop(0) if self.refusals else {}
        answers = {each.topic: Future() for each in wanted}
        for each in wanted:
            if each.topic in refused:
                answers[each.topic].set_exception(KafkaException(KafkaError(refused[each.topic])))
            else:
                self.created[each.topic] = each.num_partitions
                answers[each.topic].set_result(None)
        return answers

    def list_topics(self, timeout: float):
        partitions = {
            name: dict.fromkeys(range(count), SimpleNamespace(leader=1)) for name, count in self.created.items()
        }
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=each) for name, each in partitions.items()})


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    made = Controller([])
    monkeypatch.setattr(topics, "AdminClient", lambda _: made)
    return made


def test_only_topics_without_enough_brokers_are_created_again(controller):
    """The others exist, so that the broker would refuse them."""
    controller.refusals += [{"b": KafkaError.INVALID_REPLICATION_FACTOR}] * 2
    topics.create_topics("broker", {"a": 1, "b": 2})
    assert controller.asked == [["a", "b"], ["b"], ["b"]]
    assert controller.created == {"a": 1, "b": 2}


def test_what_time_does_not_change_is_raised(controller):
    """At once."""
    controller.refusals.append({"a": KafkaError.TOPIC_ALREADY_EXISTS})
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        topics.create_topics("broker", {"a": 1})
    assert controller.asked == [["a"]]


def test_too_few_brokers_are_an_error_in_the_end(controller, monkeypatch):
    """With the broker's reason."""
    monkeypatch.setattr(topics, "_REGISTERED_SECONDS", -1)
    controller.refusals.append({"a": KafkaError.INVALID_REPLICATION_FACTOR})
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        topics.create_topics("broker", {"a": 1})
