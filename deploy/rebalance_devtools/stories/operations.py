"""Incidents in operating clients and brokers: quotas, retention, broker restarts, and how programs react.

Families as in families.py, written on 2026-11-26 after reports of users: transactions that hang
(klag-exporter#104, KIP-664), handlers that never return (sarama#2219, sarama#2621), records that end one instance after
the other (KIP-671), consumers in serverless functions (kafkajs#634, kafkajs#1596), brokers rolled (kafka-python#1310,
sarama-cluster#212), groups that are full (KAFKA-7641), retention that is faster than a group
(confluent-kafka-dotnet#2009), seeks in callbacks (kafka-python#1191), state restored in callbacks (faust#31,
librdkafka#2079), the way back to the classic protocol (KAFKA-16554), scaling by lag (keda#776), sink connectors that
get tasks (KIP-415), quotas (KAFKA-9677). A play in which the fault did not occur ends with an error and is void.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Producer, TopicPartition

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    calm,
    deploy_in_turn,
    extra_seconds,
    freeze_broker,
    hosts_of,
    join,
    leave_in_turn,
    let_poison_kill,
    open_group,
    open_static,
    session_seconds,
    stalling,
    take_broker_away,
)
from rebalance_devtools.stories.applications import ask_connect, await_tasks, start_sink
from rebalance_devtools.stories.forms import (
    COOPERATIVE,
    NEW,
    ROUND_ROBIN,
    THREE_BROKERS,
    confluent,
    connect,
    draw_long,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    python,
    streams,
)
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.polyglot import foreign
from rebalance_devtools.stories.script import FRANZ_GO, JAVA, KAFKA_PYTHON, KAFKAJS, SARAMA, ClientSpec, Parameters
from rebalance_devtools.stories.stage import limit_consumers

_WATCHED_SECONDS = 100.0
#: Longer than the 30 s between a prober's requests for the start offsets of partitions.
_STARTS_ASKED_SECONDS = 40.0
#: Maximum time until a KIP-848 member is fenced; the session time-out of 45 s is the broker's.
_FENCED_SECONDS = 150.0
_FENCED = "fenced from the group because"
#: Session time-out of static members, so that they keep their partitions during a restart of their host.
_STATIC_SESSION_MS = 300_000
#: The quota of each of two clients is less than half of the bytes it would have to read.
_QUOTA_BYTES, _RECORD_BYTES, _RECORDS_PER_SECOND = 8_000, 2_000, 20
_GROUP_SIZE = 3


# --- Producers, quotas, retention ---


def hanging_transaction(play: Play) -> None:
    """A producer is gone in the middle of a transaction; its partition is read up to there, as it has to be."""
    open_group(play, "m1", "m2", "m3")
    settings = {"bootstrap.servers": play.stage.bootstrap, "log_level": 0, "transactional.id": play.group}
    producer = Producer({**settings, "transaction.timeout.ms": 900_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(play.topic, value=b"x", partition=0)
    producer.flush(30)
    play.note("", "transaction_left_open", partition=0)
    play.await_seconds(_WATCHED_SECONDS)


def throttled_by_quota(play: Play) -> None:
    """A quota lets the group's clients read less than is produced, from one moment on."""
    partitions, names = play.parameters["partitions"], ("m1", "m2")
    hosts = hosts_of(play, *names)
    play.create_topic(partitions)
    play.traffic(per_second=_RECORDS_PER_SECOND, partitions=partitions, value=b"x" * _RECORD_BYTES)
    for name in names:
        play.start(name, host=hosts[name])
    for name in names:
        play.await_event(name, "records")
    calm(play)
    limit_consumers(play.stage.bootstrap, [play.client_id(name) for name in names], _QUOTA_BYTES)
    play.note("", "quota", bytes_per_second=_QUOTA_BYTES)
    play.await_seconds(_WATCHED_SECONDS)


def retention_overtakes(play: Play) -> None:
    """A group is stopped; before it is back, retention deletes most of what it has not read."""
    partitions, names = play.parameters["partitions"], ("m1", "m2")
    open_group(play, *names)
    play.await_seconds(2 * play.parameters["commit_ms"] / 1000)
    leave_in_turn(play, *names, settle_seconds=1)
    play.fill(6_000, partitions=partitions)
    kept = [TopicPartition(play.topic, number, end - 50) for number, end in play.ends().items()]
    for future in play.admin.delete_records(kept).values():
        future.result(30)
    play.note("", "records_deleted")
    play.await_seconds(_STARTS_ASKED_SECONDS)
    join(play, *names)
    afterwards(play)


# --- What programs do ---


def worker_deadlock(play: Play) -> None:
    """A handler of a Sarama client never returns from one record; its session goes on, and nobody joins or leaves."""
    open_group(play, "m1", "m2", stall_ms=3_600_000)
    play.signal("m2", signal.SIGUSR1)
    play.await_event("m2", "stalls")
    play.await_seconds(_WATCHED_SECONDS)


def streams_cascade(play: Play) -> None:
    """One record ends the instance of Kafka Streams that gets it, five times; each is started again."""
    let_poison_kill(play, "s1", "s2", "s3")
    afterwards(play)


def serverless_jobs(play: Play) -> None:
    """A function that is called every few seconds makes a KafkaJS consumer, reads, and disconnects it; no other is."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for number in range(8):
        name = f"call{number}"
        join(play, name)
        play.await_seconds(6)
        play.leave(name)
        play.await_seconds(extra_seconds(play))
    afterwards(play)


def replay_on_assignment(play: Play) -> None:
    """Three kafka-python clients seek to the beginning in their callback, as they must not; a fourth one comes."""
    names, partitions = ("m1", "m2", "m3"), play.parameters["partitions"]
    play.create_topic(partitions)
    play.fill(3_000, partitions=partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    program: dict[str, Any] = {"replays": True, "hold_ms": 8}
    play.start_all(names, "records", **program)
    play.await_seconds(20 + 2 * play.parameters["commit_ms"] / 1000)
    join(play, "m4", patience_seconds=PATIENCE_SECONDS, **program)
    afterwards(play)


def slow_takeover(play: Play) -> None:
    """A member restores its state for 15 s and more in the callback that takes partitions, while others come."""
    open_group(play, "slow", take_ms=14_000 + play.parameters["extra_ms"])
    before = assignments(play, "slow")
    play.start("m2")
    await_return(play, "slow", before)
    play.await_seconds(2)
    join(play, "m3", patience_seconds=PATIENCE_SECONDS + session_seconds(play))
    afterwards(play)


# --- Members that come and go ---


def recreate_deploy(play: Play) -> None:
    """All three instances are stopped in order, and only then those of the next version are started."""
    names = ("m1", "m2", "m3")
    open_group(play, *names)
    leave_in_turn(play, *names, settle_seconds=0)
    play.await_seconds(12)
    join(play, *names)
    afterwards(play)


def static_scale_in(play: Play) -> None:
    """Two of four static members are stopped in order and never started again."""
    open_static(play, "m1", "m2", "m3", "m4")
    leave_in_turn(play, "m4", "m3", settle_seconds=2)
    play.await_seconds(_WATCHED_SECONDS + 20)


def protocol_rolled_back(play: Play) -> None:
    """Three members of the newer protocol are replaced one after the other by such of the classic one."""
    deploy_in_turn(
        play,
        *("m1", "m2", "m3"),
        settle_seconds=8,
        form=java(play.parameters),
        patience_seconds=2 * PATIENCE_SECONDS,
    )


def overrun_while_scaling(play: Play) -> None:
    """A member works for longer than it may stay away from poll; an autoscaler answers the lag with two more."""
    open_group(play, "m1")
    join(play, "m2", form=stalling(play, "m2", play.parameters["max_poll_ms"] + 12_000))
    play.await_event("m2", "records")
    calm(play)
    before = assignments(play, "m2")
    play.stall("m2")
    play.await_event("m2", "stalls")
    play.await_seconds(5)
    join(play, "m3", "m4", patience_seconds=2 * PATIENCE_SECONDS)
    await_return(play, "m2", before)
    afterwards(play)


def sink_grows(play: Play) -> None:
    """A sink connector that had one task gets two more; each is a consumer of the connector's group."""
    partitions, name = play.parameters["partitions"], f"sink-{play.seed}"
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    config = start_sink(play, name)
    calm(play)
    generation = play.generation
    ask_connect(play, f"/connectors/{name}/config", {**config, "tasks.max": "3"}, method="PUT")
    play.note("", "tasks_added", tasks=3)
    play.await_generation(generation, 2 * PATIENCE_SECONDS)
    await_tasks(play, name, count=3)
    afterwards(play)


# --- Networks and brokers ---


def zone_cut(play: Play) -> None:
    """All three members are on hosts of one zone, which is cut off until the broker has fenced the last of them."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, hosts=hosts_of(play, *names))
    before = {name: assignments(play, name) for name in names}
    for name in names:
        play.disturb(name, Fault.CUT)
    play.await_logged(_FENCED, times=len(names), seconds=_FENCED_SECONDS)
    play.await_seconds(extra_seconds(play))
    for name in names:
        play.disturb(name, Fault.NONE)
    for name, count in before.items():
        await_return(play, name, count)
    afterwards(play)


def group_full(play: Play) -> None:
    """A group has as many members as the broker permits; two more ask to be let in, all the time."""
    names = [f"m{number}" for number in range(1, _GROUP_SIZE + 1)]
    open_group(play, *names)
    for name in ("m4", "m5"):
        play.start(name)
    play.await_seconds(70)
    if play.events_of("m4", "assigned") or play.events_of("m5", "assigned"):
        raise UserError("the group was not full")
    afterwards(play)


def broker_frozen(play: Play) -> None:
    """The broker's machine stands still for longer than the members' session, as while it is moved to another host."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, hosts=hosts_of(play, *names))
    freeze_broker(play, session_seconds(play) + 6 + extra_seconds(play))
    play.await_seconds(20)
    afterwards(play)


def brokers_rolled(play: Play) -> None:
    """Two of three brokers, one of them the group's coordinator, are restarted in order, one after the other."""
    forms = {"java": java(play.parameters)}
    open_group(play, "kp1", "kp2", *forms, forms=forms, replicas=3)
    # Broker 1 must keep running, because it is the controller.
    for node in (2, 3):
        take_broker_away(play, node, EmbeddedKafka.stop, 12)
        play.await_seconds(15)
    afterwards(play)


def broker_and_client_lost(play: Play) -> None:
    """A machine is lost that carried the group's coordinator and one of its members; neither comes back."""
    open_group(play, "m1", "m2", "m3", replicas=3)
    generation, kafka, node = play.generation, play.stage.kafka, play.coordinator()
    assert kafka is not None
    play.kill("m2")
    kafka.kill(node)
    play.note("", "broker_stopped", node=node)
    await_loss(play, generation)
    afterwards(play)


def _kip848_java(parameters: Parameters) -> ClientSpec:
    settings = {
        "group.protocol": "consumer",
        "auto.commit.interval.ms": parameters["commit_ms"],
        "max.poll.interval.ms": parameters["max_poll_ms"],
    }
    return ClientSpec(JAVA, settings)


_quick = partial(family, draw=draw_quick)
_FULL: Mapping[str, Any] = {"broker_config": {"group.max.size": str(_GROUP_SIZE)}, "shared": False}

OPERATIONS = (
    _quick(hanging_transaction, expecting("")),
    # The bytes that a quota allows go to the first partition of a fetch: others may not advance at all.
    family(throttled_by_quota, expecting("slow_consumer_group", accepted=("stalled_consumer",)), draw=draw_long),
    _quick(retention_overtakes, expecting("offset_skip", beside=("rolling_deploy",))),
    _quick(worker_deadlock, expecting("stalled_consumer", "m2"), form=foreign(SARAMA, balancer="roundrobin")),
    _quick(streams_cascade, expecting("poison_record"), form=streams),
    _quick(serverless_jobs, expecting("short_lived_consumers"), form=foreign(KAFKAJS)),
    _quick(replay_on_assignment, expecting("offset_rewind", beside=("scale_out",)), form=python(KAFKA_PYTHON)),
    _quick(
        slow_takeover,
        expecting("slow_rebalance_callback", "slow", accepted=("stalled_member_join_barrier",), beside=("scale_out",)),
    ),
    family(recreate_deploy, expecting(""), form=foreign(FRANZ_GO, balancer="roundrobin")),
    family(
        static_scale_in,
        expecting("static_member_ghost", "m3", "m4", beside=("scale_in",)),
        form=confluent(session_timeout_ms=_STATIC_SESSION_MS),
    ),
    family(
        protocol_rolled_back,
        expecting("protocol_migration", beside=("rolling_deploy",)),
        form=_kip848_java,
        draw=draw_long,
        **NEW,
    ),
    family(
        overrun_while_scaling,
        expecting("poll_overrun", "m2", beside=("scale_out",)),
        form=_kip848_java,
        draw=draw_quick,
        **NEW,
    ),
    _quick(sink_grows, expecting("scale_out", beside=("rolling_deploy",)), form=connect),
    family(zone_cut, expecting("network_partition", "m1", "m2", "m3"), form=kip848(), **NEW),
    _quick(group_full, expecting("join_rejected"), **_FULL),
    _quick(
        broker_frozen,
        expecting("coordinator_overload", accepted=("cluster_wide_disturbance",)),
        form=COOPERATIVE,
        shared=False,
        networked=True,
    ),
    family(
        brokers_rolled, expecting("coordinator_failover"), form=python(KAFKA_PYTHON), draw=draw_long, **THREE_BROKERS
    ),
    family(
        broker_and_client_lost,
        expecting("member_crash", "m2", also=("coordinator_failover",)),
        form=ROUND_ROBIN,
        draw=draw_long,
        **THREE_BROKERS,
    ),
)
