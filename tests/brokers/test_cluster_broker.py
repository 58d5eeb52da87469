"""The launcher's checks of a real broker."""

import uuid

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorized import AUTHORIZED
from making_topics import create_topic
from rebalance_contract.topics import TOPICS
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError
from waiting import wait_for

pytestmark = pytest.mark.broker


def config_for(broker: EmbeddedKafka) -> StreamConfig:
    """Return settings with unique topics."""
    return StreamConfig(kafka={"bootstrap.servers": broker.bootstrap}, topic_prefix=f"t{uuid.uuid4().hex[:8]}.")


def create(config: StreamConfig, name: str, **settings: str) -> None:
    settings = {key.replace("_", "."): value for key, value in settings.items()}
    create_topic(config.kafka["bootstrap.servers"], name, **settings)


def test_what_a_start_creates_the_next_one_accepts(broker):
    """A second run has no warnings."""
    config, said = config_for(broker), []
    for _ in range(2):
        Cluster(config).ensure_topics(said.append)
    assert said == []
    assert {config.topic_prefix + each.name for each in TOPICS} <= AdminClient(
        dict(config.kafka)
    ).list_topics().topics.keys()


def test_topics_that_would_lose_rows_end_the_start(broker):
    """One sentence names them all, and no other topic is created."""
    config = config_for(broker)
    create(config, config.groups_topic, cleanup_policy="delete")
    create(config, config.probes_topic, cleanup_policy="compact", compression_type="uncompressed")
    with pytest.raises(StreamError) as caught:
        Cluster(config).ensure_topics()
    for name in (config.groups_topic, config.probes_topic):
        assert f"--entity-name {name} --add-config 'cleanup.policy=" in str(caught.value)
    assert config.status_topic not in AdminClient(dict(config.kafka)).list_topics().topics


def test_other_differences_are_warnings(broker):
    """A topic that is too small or never ages out is reported, and the start continues."""
    config, said = config_for(broker), []
    create(config, config.findings_topic, cleanup_policy="compact", max_message_bytes="20000")
    Cluster(config).ensure_topics(said.append)
    (sentence,) = said
    assert sentence.startswith(f"topic {config.findings_topic} has cleanup.policy=compact")
    assert "takes max.message.bytes=20000 only" in sentence


def test_a_missing_permission_is_reported(make_broker):
    """Without DESCRIBE_CONFIGS the start continues with a warning that names the grant."""
    broker = make_broker(**AUTHORIZED)
    config, said = config_for(broker), []
    Cluster(config).ensure_topics(said.append)
    admin = AdminClient(dict(config.kafka))
    denial = AclBinding(
        ResourceType.TOPIC,
        config.topic_prefix,
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        AclOperation.DESCRIBE_CONFIGS,
        AclPermissionType.DENY,
    )
    others = AclBinding(
        ResourceType.TOPIC,
        config.topic_prefix,
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([denial, others]).values():
        future.result(30)
    assert said == []

    def reported() -> list[str]:
        said.clear()
        Cluster(config).ensure_topics(said.append)
        return said

    # A broker enforces an ACL a moment after it has confirmed it.
    (sentence,) = wait_for(reported, "a warning")
    assert config.groups_topic in sentence
    assert f"--operation DescribeConfigs --topic {config.topic_prefix} --resource-pattern-type prefixed" in sentence
