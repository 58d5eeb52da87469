"""Committed offsets asked of the coordinator, for readers that did not see the commits."""

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from exporters.prober.probing import make_config, probing
from exporters.prober.test_probe_broker import create_topic, name, publish_group  # noqa: F401
from rebalance_exporters.prober.committed import AGAIN_SECONDS, CommittedAsker
from waiting import wait_for


class _Answered:
    """An admin client of a cluster without offsets, that notes who was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def list_consumer_group_offsets(self, asked, request_timeout):
        self.asked.append(asked[0].group_id)
        return {self.asked[-1]: self}

    def result(self):
        return self

    topic_partitions = ()


def test_every_group_has_its_turn_and_none_too_often():
    """A few each round, the longest unasked first; again after ten minutes; a forgotten one starts over."""
    admin = _Answered()
    asker = CommittedAsker(admin)  # type: ignore[arg-type]
    names = [f"g{number:03d}" for number in range(300)]
    asker.ask(names, 0.0)
    assert len(admin.asked) == 200
    asker.ask(names, 5.0)
    assert sorted(admin.asked) == names
    asker.ask(names, AGAIN_SECONDS - 1)
    assert len(admin.asked) == 300
    asker.ask(names, AGAIN_SECONDS)
    assert len(admin.asked) == 500
    asker.ask([], AGAIN_SECONDS + 1)
    asker.ask(names[:1], AGAIN_SECONDS + 2)
    assert admin.asked[-1] == "g000"


@pytest.mark.broker
def test_what_was_committed_long_ago_is_told(broker, name):  # noqa: F811
    """A group without commits in the commits topic: its offsets come from the coordinator, and so do its ends."""
    create_topic(broker.bootstrap, name, partitions=2)
    prefix = f"{name}."
    for topic in ("groups", "commits"):
        create_topic(broker.bootstrap, prefix + topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "log_level": 0})

    def commit() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(name, 1, 42)], asynchronous=False)
        except KafkaException:  # a broker's first group makes the topic of offsets, and has to wait for it
            return False
        return True

    wait_for(commit, "a commit")
    consumer.close()
    publish_group(broker.bootstrap, prefix, name, "another-topic")
    with probing(make_config(broker.bootstrap, prefix, offsets_seconds=0.3)) as probed:
        wait_for(lambda: {name: {"1": 42}} in [p.committed_offsets for p in probed.of(name)], lambda: probed.of(name))
        wait_for(lambda: {name: {"0": 0, "1": 0}} in [p.end_offsets for p in probed.of(name)], lambda: probed.of(name))
