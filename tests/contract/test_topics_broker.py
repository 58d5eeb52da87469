"""A real broker keeps the topics as the table specifies, and rejects messages that decompress to too much."""

import uuid
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from making_topics import create_topic
from rebalance_contract import topics
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from waiting import wait_for

pytestmark = pytest.mark.broker

BOMB_BYTES = 16 << 20


def create(broker: EmbeddedKafka, settings: dict[str, str]) -> str:
    """Create a topic of one partition and return its name, once the broker lists it."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    create_topic(broker.bootstrap, name, **settings)
    return name


def end_of(broker: EmbeddedKafka, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    place = TopicPartition(topic, 0)
    return admin.list_offsets({place: OffsetSpec.latest()})[place].result(300).offset


def send(broker: EmbeddedKafka, topic: str, values: list[bytes], **settings) -> list[KafkaError | None]:
    """Write values in one batch and return the result of each."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 200, **settings})
    for value in values:
        # A compacted topic rejects records without a key.
        producer.produce(topic, key=b"k", value=value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(300) == 0
    return outcomes


def bomb(broker: EmbeddedKafka, topic: str, codec: str) -> KafkaError | None:
    """Write 16 MiB of zeros, where 1 MiB is allowed, as one compressed message."""
    limits = {"message.max.bytes": 2 * BOMB_BYTES}
    return send(broker, topic, [bytes(BOMB_BYTES)], **{"compression.type": codec, **limits})[0]


@pytest.mark.parametrize("topic", [each for each in topics.TOPICS if each.foreign], ids=lambda each: each.name)
def test_what_unpacks_to_too_much_is_refused(any_broker, topic: topics.Topic):
    """With any compression, 16 MiB of zeros never reach a reader; ordinary compressed batches do."""
    name = create(any_broker, dict(topic.settings))
    for codec in ("zstd", "gzip", "lz4"):
        assert bomb(any_broker, name, codec) == KafkaError.MSG_SIZE_TOO_LARGE, codec
    assert end_of(any_broker, name) == 0
    assert send(any_broker, name, [bytes(100_000)] * 40, **{"compression.type": "zstd"}) == [None] * 40


def test_other_settings_are_no_protection(broker):
    """With neither the default nor another codec does the broker measure the uncompressed size."""
    for settings in ({}, {"compression.type": "gzip"}):
        assert bomb(broker, create(broker, settings), "zstd") is None


def test_a_broker_takes_the_settings_of_every_topic(broker):
    """A created topic has the settings in the table."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topic in topics.TOPICS:
        resource = ConfigResource(ResourceType.TOPIC, create(broker, dict(topic.settings)))
        found = wait_for(lambda: described(admin, resource), f"the settings of {topic.name}", 60)  # noqa: B023
        assert {name: found[name].value for name in topic.settings} == dict(topic.settings)


def described(admin: AdminClient, resource: ConfigResource) -> dict[str, Any] | None:
    """Return a topic's settings, or null while the queried broker does not know the topic yet."""
    try:
        found: dict[str, Any] = admin.describe_configs([resource])[resource].result(30)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
    return found
