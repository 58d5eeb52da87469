"""The prober against a real broker."""

from __future__ import annotations

import time
import urllib.request
import uuid
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from authorized import AUTHORIZED
from exporters.prober.probing import DEADLINE_SECONDS, GroupMember, first, make_config, probing
from making_topics import create_topic
from rebalance_contract import CommitActivity, GroupLag, GroupSnapshot, Member, Probe, TopicCommits, TopicLag, encode
from rebalance_deploy.embedded.kafka import SHORT_SESSION
from rebalance_devtools.stories.stage import find_coordinator
from waiting import wait_for

pytestmark = [
    pytest.mark.broker,
    # kafka-python leaves the socket of a refused connection to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collect_sockets"),
]


@pytest.fixture
def name() -> str:
    """A unique name of groups, topics and prefixes for one test."""
    return f"probe-{uuid.uuid4().hex[:8]}"


def read_topic_id(bootstrap: str, topic: str) -> str:
    """A topic's id in Kafka's format; the client uses another base64 alphabet."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic_id = admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id
    return str(topic_id).replace("+", "-").replace("/", "_")


def publish_group(bootstrap: str, prefix: str, group: str, topic: str, type_: str = "classic") -> None:
    """Publish, like the stream, that a group's member subscribes to a topic."""
    snapshot = GroupSnapshot(
        "test", group, type=type_, state="Stable", members=(Member("m", "c", "/h", topics=(topic,)),)
    )
    produce(bootstrap, prefix + "groups", encode(snapshot), key=f"test/{group}")


def publish_commit(bootstrap: str, prefix: str, group: str, topic: str) -> None:
    """Publish, like the stream, that a group committed to a topic."""
    now_ms = time.time_ns() // 1_000_000
    commits = {topic: TopicCommits([0], [1], [now_ms], [now_ms], [1], [1])}
    row = CommitActivity("test", group, 0, 1, 1, 5000, ((now_ms, 1),), commits)
    produce(bootstrap, prefix + "activity", encode(row), key=group)


def produce(bootstrap: str, topic: str, value: bytes, **where: Any) -> None:
    """Write one record."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value=value, **where)
    assert producer.flush(DEADLINE_SECONDS) == 0


def members_of(probe: Probe) -> dict[str, tuple[str, Any]]:
    """A probe's members: client id -> (member id, partitions)."""
    assert isinstance(probe.members, tuple)
    return {each.client_id: (each.member_id, each.partitions) for each in probe.members}


def test_a_running_rebalance_is_seen(broker, name):
    """A member that does not poll keeps a classic group in PreparingRebalance: it is listed with both members."""
    create_topic(broker.bootstrap, name, partitions=3)
    with ExitStack() as stack:
        probed = stack.enter_context(probing(make_config(broker.bootstrap, f"{name}.", full_list_seconds=600)))
        busy = stack.enter_context(GroupMember(broker.bootstrap, name, name, "busy"))
        wait_for(lambda: busy.partitions == [0, 1, 2], "the first assignment")
        busy.hold()
        begun = time.monotonic()
        joining = stack.enter_context(GroupMember(broker.bootstrap, name, name, "joining"))
        seen_at, seen = first(probed, name, "PreparingRebalance", members=2)
        assert seen_at - begun < 300, "long before all groups are listed again"
        assert (seen.type, seen.coordinator_id, seen.errors) == ("classic", 1, ())
        busy.release()
        wait_for(
            lambda: joining.partitions and busy.partitions and busy.partitions != [0, 1, 2], "the second assignment"
        )
        # The client knows its member id only after the join. The existing member still has its previous partitions.
        assert members_of(seen) == {
            "busy": (busy.member_id, {name: [0, 1, 2]}),
            "joining": (joining.member_id, None),
        }
        _, stable = first(probed, name, "Stable", members=2)
        assert members_of(stable) == {
            "busy": (busy.member_id, {name: busy.partitions}),
            "joining": (joining.member_id, {name: joining.partitions}),
        }
        assert (stable.protocol, stable.assignor) == ("range", "range")
        unstable = [probe for probe in probed.of(name) if probe.state == "PreparingRebalance"]
        # One at its beginning and at most one for every ten seconds of its duration.
        assert len(unstable) <= 2 + (time.monotonic() - begun) / 10


def delete_if_empty(bootstrap: str, group: str) -> bool:
    """Delete a group; return false if a remaining member prevents it."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.delete_consumer_groups([group])[group].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NON_EMPTY_GROUP:
            raise
        return False
    return True


def test_a_group_that_ends_is_reported(broker, name):
    """After the deletion there is one probe with Kafka's own state for it, and no members."""
    create_topic(broker.bootstrap, name)
    config = make_config(broker.bootstrap, f"{name}.", full_list_seconds=0.5)
    with probing(config) as probed:
        with GroupMember(broker.bootstrap, name, name, "c"):
            first(probed, name, "Stable", members=1)
        wait_for(lambda: delete_if_empty(broker.bootstrap, name), "the group to be deleted")
        wait_for(lambda: probed.of(name)[-1].state == "Dead", lambda: probed.of(name))
        assert probed.of(name)[-1].members == ()


def test_newer_groups_have_state_type_and_topic_ids(broker, name):
    """The log has a KIP-848 group's members, so it is not described: they are absent; the topic's id has its name."""
    create_topic(broker.bootstrap, name)
    for topic in ("groups", "lag", "activity"):
        create_topic(broker.bootstrap, f"{name}.{topic}")
    publish_group(broker.bootstrap, f"{name}.", name, name, type_="consumer")
    config = make_config(broker.bootstrap, f"{name}.", full_list_seconds=1.0)
    settings = {"group.protocol": "consumer"}
    with probing(config) as probed, GroupMember(broker.bootstrap, name, name, "c", **settings):
        wait_for(lambda: any(p.state == "Stable" for p in probed.of(name)), lambda: probed.of(name))
        wait_for(lambda: any(p.topic_ids for p in probed.of(name)), lambda: probed.of(name))
        listed = [probe for probe in probed.of(name) if probe.state is not msgspec.UNSET]
        assert {(probe.type, probe.members, probe.coordinator_id) for probe in listed} == {
            ("consumer", msgspec.UNSET, 1)
        }
        (ids,) = {probe.topic_ids[name] for probe in probed.of(name) if probe.topic_ids}
    assert ids == read_topic_id(broker.bootstrap, name)


def test_ends_and_stable_offsets_with_an_open_transaction(broker, name):
    """The end is after all records, the stable offset before the open transaction; both move when it commits.

    Afterwards only the changed partition is reported.
    """
    create_topic(broker.bootstrap, name, partitions=2)
    prefix = f"{name}."
    for topic in ("groups", "lag", "activity"):
        create_topic(broker.bootstrap, prefix + topic)
    publish_commit(broker.bootstrap, prefix, name, name)
    for _ in range(10):
        produce(broker.bootstrap, name, b"x", partition=0)
    names = {"bootstrap.servers": broker.bootstrap, "transactional.id": name}
    # The broker must not abort it before this machine commits it.
    producer = Producer({**names, "transaction.timeout.ms": 600_000})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(name, value=b"x", partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    with probing(make_config(broker.bootstrap, prefix, offsets_seconds=0.3)) as probed:
        probe = wait_for(lambda: probed.of(name), "the first offsets")[0]
        assert probe.end_offsets == {name: {"0": 13, "1": 0}}
        assert probe.stable_offsets == {name: {"0": 10, "1": 0}}
        assert (probe.state, probe.topic_ids, probe.errors) == (msgspec.UNSET, msgspec.UNSET, ())
        producer.commit_transaction()
        wait_for(lambda: len(probed.of(name)) > 1, "the offsets after the commit")
        # The marker may be written, and visible, before the stable offset moves.
        wait_for(lambda: {name: {"0": 14}} in [p.stable_offsets for p in probed.of(name)], lambda: probed.of(name))
        later = probed.of(name)[1:]
        assert {name: {"0": 14}} in [p.end_offsets for p in later]
        assert all(p.end_offsets in (msgspec.UNSET, {name: {"0": 14}}) for p in later)
        assert all(p.errors is msgspec.UNSET for p in later)


def test_new_partitions_and_unknown_topics(broker, name, monkeypatch):
    """Partitions added later are found; a missing topic is an error in the probe, not of the prober."""
    monkeypatch.setattr("rebalance_exporters.prober.topics.ASK_AGAIN_SECONDS", 0.3)
    create_topic(broker.bootstrap, name)
    prefix = f"{name}."
    for topic in ("groups", "lag", "activity"):
        create_topic(broker.bootstrap, prefix + topic)
    publish_commit(broker.bootstrap, prefix, name, name)
    publish_group(broker.bootstrap, prefix, name, f"{name}-missing")
    with probing(make_config(broker.bootstrap, prefix, offsets_seconds=0.2)) as probed:
        wait_for(
            lambda: any(p.end_offsets and p.end_offsets.get(name) == {"0": 0} for p in probed.of(name)),
            lambda: probed.of(name),
        )
        wait_for(lambda: any(p.errors for p in probed.of(name)), lambda: probed.of(name))
        (errors,) = {p.errors for p in probed.of(name) if p.errors}
        assert errors == (f"topic {name}-missing cannot be described (UnknownTopicOrPartitionError)",)
        assert any(p.end_offsets and p.end_offsets.get(f"{name}-missing") == {} for p in probed.of(name))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_partitions([NewPartitions(name, 2)])[name].result()
        # The leader may be found later than the partition, and all may be due again.
        wait_for(
            lambda: any(p.end_offsets and p.end_offsets.get(name, {}).get("1") == 0 for p in probed.of(name)),
            lambda: probed.of(name),
        )
        assert not [line for line in probed.said if "missing" in line]


def test_foreign_rows_stop_nothing(broker, name):
    """Rows without a key, of unknown form, in no valid encoding: rejected and counted, the rows after them are read."""
    prefix = f"{name}."
    for topic in (name, *(prefix + each for each in ("groups", "lag", "activity"))):
        create_topic(broker.bootstrap, topic)
    odd = (b"", b"\xff\xfe", b"null", b"7", b"[" * 100_000, b'{"kind":7}', b'{"kind":"commits","cluster":"test"}')

    def produce_odd(topic: str) -> None:
        for value in odd:
            produce(broker.bootstrap, prefix + topic, value)
            produce(broker.bootstrap, prefix + topic, value, key=b"\xff")

    produce_odd("groups")
    produce_odd("lag")
    publish_group(broker.bootstrap, prefix, f"{name}-2", name)
    with probing(make_config(broker.bootstrap, prefix)) as probed:
        wait_for(lambda: any(p.end_offsets for p in probed.of(f"{name}-2")), lambda: probed.said)
        produce_odd("activity")
        publish_commit(broker.bootstrap, prefix, name, name)
        wait_for(lambda: any(p.end_offsets for p in probed.of(name)), lambda: probed.said)
        said = [line for line in probed.said if "is not understood" in line]
        assert len(said) == len({line.split(" is not ")[0] for line in said}) == 3


def test_what_is_new_does_not_wait_for_its_turn(broker, name):
    """Long before the next round the ends of a new group's topic are reported, and of an old group's new topic."""
    prefix = f"{name}."
    for topic in (name, f"{name}-2", *(prefix + each for each in ("groups", "lag", "activity"))):
        create_topic(broker.bootstrap, topic)
    publish_commit(broker.bootstrap, prefix, name, name)
    with probing(make_config(broker.bootstrap, prefix, offsets_seconds=3_600.0)) as probed:
        wait_for(lambda: {name: {"0": 0}} in [p.end_offsets for p in probed.of(name)], lambda: probed.of(name))
        publish_commit(broker.bootstrap, prefix, name, f"{name}-2")
        publish_commit(broker.bootstrap, prefix, f"{name}-new", name)
        wait_for(lambda: {f"{name}-2": {"0": 0}} in [p.end_offsets for p in probed.of(name)], lambda: probed.of(name))
        wait_for(lambda: probed.of(f"{name}-new"), "the new group's ends")
        assert probed.of(f"{name}-new")[0].end_offsets == {name: {"0": 0}}


def test_topics_come_from_lag_where_their_commits_are_no_news(broker, name):
    """The activity topic is read from the prober's start on, the lag topic from its beginning."""
    prefix = f"{name}."
    for topic in (name, *(prefix + each for each in ("groups", "lag", "activity"))):
        create_topic(broker.bootstrap, topic)
    publish_commit(broker.bootstrap, prefix, f"{name}-old", name)
    row = GroupLag("test", name, 1, topics={name: TopicLag([0], [0], [None], None)})
    produce(broker.bootstrap, prefix + "lag", encode(row), key=f"test/{name}")
    with probing(make_config(broker.bootstrap, prefix)) as probed:
        wait_for(lambda: {name: {"0": 0}} in [p.end_offsets for p in probed.of(name)], lambda: probed.of(name))
        publish_commit(broker.bootstrap, prefix, f"{name}-new", name)
        wait_for(lambda: probed.of(f"{name}-new"), "the new group's ends")
        assert probed.of(f"{name}-old") == []


def test_a_topic_known_by_id_only_is_named(broker, name):
    """If the stream has only a topic's id, offsets are reported under its name, together with the id."""
    create_topic(broker.bootstrap, name)
    prefix = f"{name}."
    for topic in ("groups", "lag", "activity"):
        create_topic(broker.bootstrap, prefix + topic)
    topic_id = read_topic_id(broker.bootstrap, name)
    snapshot = GroupSnapshot(
        "test", name, type="share", state="Stable", members=(Member("m", "c", "/h", partitions={topic_id: [0]}),)
    )
    produce(broker.bootstrap, prefix + "groups", encode(snapshot), key=f"test/{name}")
    with probing(make_config(broker.bootstrap, prefix)) as probed:
        probe = wait_for(lambda: probed.of(name), "the first offsets")[0]
        assert (probe.end_offsets, probe.topic_ids) == ({name: {"0": 0}}, {name: topic_id})


def test_it_leaves_no_group_and_serves_its_metrics(broker, name):
    """Brokers have no group of the prober, nor a record of one in the offsets topic; cycles are counted."""
    # Without an offsets topic, a request for a coordinator is an error.
    find_coordinator(broker.bootstrap, "anybody")
    prefix = f"{name}."
    for topic in ("groups", "lag", "activity"):
        create_topic(broker.bootstrap, prefix + topic)
    create_topic(broker.bootstrap, name)
    publish_commit(broker.bootstrap, prefix, name, name)
    config = make_config(broker.bootstrap, prefix, kafka={"bootstrap.servers": broker.bootstrap, "group.id": name})
    with probing(config) as probed:
        wait_for(lambda: probed.of(name), "the first probe")
        (line,) = [line for line in probed.said if "serving on" in line]

        def served() -> str:
            with urllib.request.urlopen(line.partition("serving on ")[2]) as response:
                return response.read().decode()

        tasks = ("groups", "offsets", "interests")
        times = [f'kafka_rebalance_monitor_probe_last_success_timestamp_seconds{{what="{what}"}}' for what in tasks]
        wait_for(lambda: all(time in served() for time in times), served)
        text = served()
        for what in tasks:
            assert f'kafka_rebalance_monitor_probe_errors_total{{what="{what}"}} 0.0' in text
        assert "kafka_rebalance_monitor_probe_partitions 1.0" in text
        assert probed.said == [line]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    assert not groups & {name, "rebalance-monitor-probe"}
    assert not any(name.encode() in key or b"rebalance-monitor-probe" in key for key in log_keys(broker.bootstrap))


def log_keys(bootstrap: str) -> list[bytes]:
    """The keys of all records in `__consumer_offsets`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        log = consumer.list_topics(timeout=DEADLINE_SECONDS).topics["__consumer_offsets"]
        partitions = [TopicPartition("__consumer_offsets", number, 0) for number in log.partitions]
        ends = {p.partition: consumer.get_watermark_offsets(p, timeout=DEADLINE_SECONDS)[1] for p in partitions}
        consumer.assign(partitions)
        keys: list[bytes] = []

        def is_read() -> bool:
            keys.extend(message.key() or b"" for message in consumer.consume(1000, 0.2) if message.error() is None)
            at = {p.partition: p.offset for p in consumer.position(partitions)}
            return all(at[number] >= end or end == 0 for number, end in ends.items())

        wait_for(is_read, "the end of the log")
        return keys
    finally:
        consumer.close()


def test_a_broker_that_goes_and_comes_back(make_broker, name, monkeypatch):
    """It survives an outage, counts it, and probes again once the broker is back."""
    # It reports the outage after its usual time-out without an answer.
    monkeypatch.undo()
    broker = make_broker(**SHORT_SESSION)
    prefix = f"{name}."
    for topic in (name, prefix + "groups", prefix + "lag", prefix + "activity"):
        create_topic(broker.bootstrap, topic)
    publish_commit(broker.bootstrap, prefix, name, name)
    times = {"period_seconds": 0.5, "offsets_seconds": 0.5, "full_list_seconds": 1.0}
    with probing(make_config(broker.bootstrap, prefix, **times)) as probed:
        # Its leave may be lost in the outage; then its session must expire soon.
        with GroupMember(broker.bootstrap, name, name, "c", **{"session.timeout.ms": "3000"}):
            first(probed, name, "Stable", members=1)
            wait_for(lambda: any(p.end_offsets for p in probed.of(name)), lambda: probed.of(name))
            broker.kill()
            wait_for(lambda: [line for line in probed.said if "did not list its groups" in line], lambda: probed.said)
            wait_for(lambda: [line for line in probed.said if "no leader reported" in line], lambda: probed.said)
            broker.start()
        count = len(probed.of(name))
        with GroupMember(broker.bootstrap, name, name, "back"):
            wait_for(
                lambda: any(p.members and "back" in members_of(p) for p in probed.of(name)[count:]),
                lambda: (probed.said, probed.of(name)),
                seconds=240,
            )
        produce(broker.bootstrap, name, b"x")
        wait_for(lambda: {name: {"0": 1}} in [p.end_offsets for p in probed.of(name)], lambda: probed.of(name))


def deny(bootstrap: str, *bindings: tuple[ResourceType, str, AclOperation]) -> None:
    """Deny everybody an operation on resources."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    acls = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY)
        for kind, name, operation in bindings
    ]
    for future in admin.create_acls(acls).values():
        future.result()


def is_secret(bootstrap: str, group: str) -> bool:
    """Whether the broker refuses to describe a group."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.describe_consumer_groups([group])[group].result()
    except KafkaException as error:
        return error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    return False


def test_a_missing_permission_is_named_and_the_rest_works(make_broker, name):
    """Describing one group and one topic is denied: the ACL to grant is named, other groups and topics continue."""
    broker = make_broker(**AUTHORIZED)
    prefix = f"{name}."
    secret, public = f"{name}-secret", f"{name}-public"
    for topic in (secret, public, prefix + "groups", prefix + "lag", prefix + "activity"):
        create_topic(broker.bootstrap, topic)
    with ExitStack() as stack:
        members = [stack.enter_context(GroupMember(broker.bootstrap, each, public, "c")) for each in (secret, public)]
        wait_for(lambda: all(each.partitions for each in members), "both groups")
        for group in (secret, public):
            for topic in (secret, public):
                publish_commit(broker.bootstrap, prefix, group, topic)
        deny(
            broker.bootstrap,
            (ResourceType.GROUP, secret, AclOperation.DESCRIBE),
            (ResourceType.TOPIC, secret, AclOperation.DESCRIBE),
        )
        # A broker enforces an ACL a moment after it has confirmed it.
        wait_for(lambda: is_secret(broker.bootstrap, secret), "the group to be hidden")
        probed = stack.enter_context(probing(make_config(broker.bootstrap, prefix, offsets_seconds=0.5)))
        _, seen = first(probed, public, "Stable", members=1)
        assert members_of(seen)["c"][1] == {public: [0]}
        # Queried in vain differs from not queried.
        for reported in ((public, {"0": 0}), (secret, {})):
            wait_for(
                lambda reported=reported: any(
                    reported in p.end_offsets.items() for p in probed.of(public) if p.end_offsets
                ),
                lambda: (probed.said, probed.of(public)),
            )
        said = wait_for(
            lambda: [line for line in probed.said if "kafka-acls" in line and "--topic" in line], lambda: probed.said
        )
        assert f"--operation Describe --topic {secret}" in said[0]
        sentence = f"group {secret} may not be described"
        wait_for(lambda: [line for line in probed.said if sentence in line], lambda: probed.said)
        denied = wait_for(lambda: [p for p in probed.of(secret) if p.members is not msgspec.UNSET], "the secret group")
        assert {(p.state, p.members) for p in denied} == {("Stable", None)}


def test_groups_that_are_hidden_are_missed(make_broker, name):
    """Brokers silently omit groups that a client may not see: reported when the log has groups and no list does."""
    broker = make_broker(**AUTHORIZED)
    prefix = f"{name}."
    for topic in (name, prefix + "groups", prefix + "lag", prefix + "activity"):
        create_topic(broker.bootstrap, topic)
    publish_group(broker.bootstrap, prefix, name, name)
    with GroupMember(broker.bootstrap, name, name, "c") as member:
        wait_for(lambda: member.partitions, "the group")
        deny(
            broker.bootstrap,
            (ResourceType.GROUP, name, AclOperation.DESCRIBE),
            (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        )
        config = make_config(broker.bootstrap, prefix, period_seconds=0.2, full_list_seconds=0.2)
        with probing(config) as probed:
            wait_for(
                lambda: [line for line in probed.said if "none of the 1 groups that the log knows" in line],
                lambda: probed.said,
            )
    # It may not end cleanly either.
    broker.kill()
