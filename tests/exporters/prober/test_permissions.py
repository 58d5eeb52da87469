"""The documented permissions are sufficient, and those that matter are needed."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import time
import urllib.request
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from authorized import AUTHORIZED
from exporters.prober.probing import Probed, make_config, probing
from exporters.prober.test_probe_broker import create_topic, produce, publish_commit
from rebalance_contract import QUERIES, topics
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.kafka.consumer import Source, TopicReader
from rebalance_exporters.state.view import TOPICS, View
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from waiting import wait_for

pytestmark = pytest.mark.broker

DOCUMENT = Path(__file__).parents[3] / "docs" / "permissions.md"
PREFIX = "rebalance-monitor."
KINDS = {"--topic": ResourceType.TOPIC, "--group": ResourceType.GROUP}


def read_commands(process: str) -> list[list[str]]:
    """The kafka-acls commands of one process's section."""
    (section,) = [part for part in DOCUMENT.read_text().split("\n## ") if part.startswith(f"{process}\n")]
    return [shlex.split(line) for line in section.splitlines() if line.startswith("kafka-acls")]


def read_bindings(command: list[str], principal: str = "User:ANONYMOUS") -> list[AclBinding]:
    """The ACLs of a command, for the tests' only principal unless stated otherwise."""
    flags = list(itertools.pairwise(command))
    ((kind, name),) = [(KINDS[flag], value) for flag, value in flags if flag in KINDS]
    prefixed = ("--resource-pattern-type", "prefixed") in flags
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    operations = [read_operation(value) for flag, value in flags if flag == "--operation"]
    return [make_binding(kind, name, pattern, operation, principal=principal) for operation in operations]


def read_operation(name: str) -> AclOperation:
    """The operation for its name in kafka-acls, for example DescribeConfigs."""
    return AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()]


def make_binding(
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType,
    operation: AclOperation,
    *,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    principal: str = "User:ANONYMOUS",
) -> AclBinding:
    """One operation, allowed to the tests' only principal unless stated otherwise."""
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


def create_bindings(bootstrap: str, *bindings: AclBinding) -> None:
    """Create ACLs and wait until the broker has confirmed them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls(list(bindings)).values():
        future.result()


def grant_only(bootstrap: str, process: str) -> None:
    """Grant the documented permissions; a resource with any grant denies everything else.

    The cluster itself allows only what the broker and the test need.
    """
    cluster = functools.partial(make_binding, ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
    own = [
        cluster(AclOperation.CLUSTER_ACTION),
        cluster(AclOperation.ALTER),
        # Alter on a resource implies Describe, and Describe on the cluster shows every group.
        cluster(AclOperation.DESCRIBE, permission=AclPermissionType.DENY),
    ]
    # Another principal's, so that topics and groups without a grant are denied as well.
    others = [
        make_binding(kind, "*", ResourcePatternType.LITERAL, AclOperation.READ, principal="User:nobody")
        for kind in KINDS.values()
    ]
    granted = [binding for command in read_commands(process) for binding in read_bindings(command)]
    create_bindings(bootstrap, *granted, *others, *own)
    # A broker enforces ACLs a moment after it has confirmed them.
    wait_for(lambda: is_in_force(bootstrap), "the permissions to be in force")


def is_in_force(bootstrap: str) -> bool:
    """Whether creating a forbidden topic is denied, which takes effect together with the grants."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("of-nobody", num_partitions=1, replication_factor=1)
    try:
        admin.create_topics([topic], validate_only=True)[topic.topic].result()
    except KafkaException as error:
        return error.args[0].code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    return False


def grant_reading(bootstrap: str, topic: str) -> None:
    """Grant the additional permissions of a topic's reader."""
    create_bindings(bootstrap, make_binding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, AclOperation.READ))


def read_metric(probed: Probed, name: str) -> float:
    """One of the prober's own metrics without labels, as served."""
    (line,) = [line for line in probed.said if "serving on" in line]
    with urllib.request.urlopen(line.partition("serving on ")[2]) as response:
        samples = dict(each.rsplit(" ", 1) for each in response.read().decode().splitlines() if each[0] != "#")
    return float(samples[f"kafka_rebalance_monitor_probe_{name}"])


def test_the_prober_can_do_with_what_is_documented(make_broker):
    """It creates its topic, describes a group, queries offsets, publishes, and logs no complaints."""
    broker = make_broker(**AUTHORIZED)
    for topic in ("t", *(f"{PREFIX}{name}" for name in ("groups", "lag", "activity"))):
        create_topic(broker.bootstrap, topic)
    publish_commit(broker.bootstrap, PREFIX, "g", "t")
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:

        def commit() -> bool:
            try:
                done = admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(0, "", None)})
            except KafkaError:  # there is no coordinator until the first request for one
                return False
            return set(done.values()) == {NoError}

        wait_for(commit, "a commit")
    grant_only(broker.bootstrap, "probe")
    config = make_config(broker.bootstrap, PREFIX, offsets_seconds=0.5, period_seconds=0.5, full_list_seconds=0.5)
    with probing(config) as probed:
        # The group and its offsets, both before more is granted, which the reader below needs.
        wait_for(lambda: read_metric(probed, "published_total") >= 2, lambda: probed.said)
        grant_reading(broker.bootstrap, config.probes_topic)
        wait_for(lambda: any(p.end_offsets == {"t": {"0": 0}} for p in probed.of("g")), lambda: probed.of("g"))
        wait_for(lambda: any(p.members == () for p in probed.of("g")), lambda: probed.of("g"))
        assert [line for line in probed.said if "serving on" not in line] == []


def test_the_exporter_can_do_with_what_is_documented(make_broker):
    """It reads all topics to their end and its client reports no error."""
    broker = make_broker(**AUTHORIZED)
    for topic in TOPICS:
        create_topic(broker.bootstrap, PREFIX + topic)
    produce(broker.bootstrap, f"{PREFIX}groups", b"}", key="test/g")
    grant_only(broker.bootstrap, "export")
    config = ExportConfig(kafka={"bootstrap.servers": broker.bootstrap}, topic_prefix=PREFIX)
    reader = TopicReader(
        Source(config.kafka, config.topic_prefix),
        View(group_expiry_seconds=1, keep_rebalances=0),
        lambda: time.time_ns() // 1_000_000,
    )
    reader.start()
    try:
        wait_for(lambda: reader.progress.loaded, lambda: reader.progress)
        assert reader.progress.read == 1
        assert reader.progress.kafka_errors == 0
    finally:
        reader.stop()


def test_the_stream_can_start_with_what_is_documented(make_broker):
    """It reads the log, creates its topics and checks their settings without complaints; the check is optional."""
    broker, said = make_broker(**AUTHORIZED), []
    cluster = Cluster(StreamConfig(kafka={"bootstrap.servers": broker.bootstrap}, topic_prefix=PREFIX))
    # Creates the offsets topic, which exists in any cluster with groups.
    cluster.ensure_source()
    grant_only(broker.bootstrap, "stream")
    cluster.check_readable(cluster.log_ends(cluster.source_topic))
    for _ in range(2):
        cluster.ensure_topics(said.append)
    assert said == []
    revoke_settings(broker.bootstrap)

    def reported() -> list[str]:
        said.clear()
        cluster.ensure_topics(said.append)
        return said

    # A broker enforces an ACL a moment after it has confirmed it.
    (sentence,) = wait_for(reported, "a warning")
    assert "cannot be checked" in sentence


def revoke_settings(bootstrap: str) -> None:
    """Revoke the permission to read the settings of the monitor's topics."""
    resource, everybody = (ResourceType.TOPIC, PREFIX, ResourcePatternType.PREFIXED), ("User:ANONYMOUS", "*")
    wanted = AclBindingFilter(*resource, *everybody, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (taken,) = admin.delete_acls([wanted]).values()
    assert len(taken.result()) == 1


@pytest.mark.parametrize(
    ("process", "parties"), [("stream", QUERIES), ("probe", ("prober",)), ("export", ("exporter",))]
)
def test_what_is_documented_follows_the_table_of_topics(process, parties):
    """Each process may read and write the topics of the table; the prober, granted topic by topic, no others."""
    granted = [binding for command in read_commands(process) for binding in read_bindings(command)]
    reads = {each.name for each in topics.TOPICS if set(parties) & set(each.readers)}
    writes = {each.name for each in topics.TOPICS if set(parties) & set(each.writers)}
    may_read, may_write = covered(granted, AclOperation.READ), covered(granted, AclOperation.WRITE)
    assert reads <= may_read
    assert writes <= may_write
    assert process != "probe" or (reads, writes) == (may_read, may_write)
    assert process != "export" or writes == may_write


def covered(bindings: list[AclBinding], operation: AclOperation) -> set[str]:
    """The short names of the monitor's topics for which ACLs allow an operation."""
    named = {each.full_name(PREFIX): each.name for each in topics.TOPICS}
    return {
        name
        for full_name, name in named.items()
        for binding in bindings
        if (binding.restype, binding.operation) == (ResourceType.TOPIC, operation)
        if full_name == binding.name
        or (binding.resource_pattern_type == ResourcePatternType.PREFIXED and full_name.startswith(binding.name))
    }


def test_the_exporter_reads_what_the_table_says():
    """The eight topics that list it as a reader, and no others."""
    assert set(TOPICS) == {each.name for each in topics.TOPICS if "exporter" in each.readers}
    assert len(TOPICS) == 8


def test_every_process_has_its_commands():
    """Each section has grants, and only of a kind that a test can parse."""
    for process in ("stream", "probe", "export"):
        assert [binding for command in read_commands(process) for binding in read_bindings(command)]
