"""Plays of lasting faults of a group, a broker or an assignor: most are visible without a rebalance.

Families as in families.py. Those that need their own brokers are not shared.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from rebalance_deploy.embedded.kafka import EmbeddedKafka
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
    host_of,
    hosts_of,
    join,
    lose,
    open_group,
    open_static,
    session_seconds,
    stalling,
    stand_still,
    swing,
    take_broker_away,
)
from rebalance_devtools.stories.forms import (
    NEW,
    THREE_BROKERS,
    Form,
    confluent,
    draw_long,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    overrunning,
)
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import ClientSpec, Parameters

_WATCHED_SECONDS = 100.0
#: Longer than the time after which a rule considers the number of members a plateau.
_PLATEAU_SECONDS = 64.0


def _of_java(**more: Any) -> Form:
    """Return a form of Kafka's own client; `more` are its settings, with underscores for dots in their names."""
    return lambda parameters: java(parameters, **{name.replace("_", "."): value for name, value in more.items()})


def _hasty_java(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"max.poll.interval.ms": parameters["max_poll_ms"]})


def _with_assignor(name: str) -> Form:
    return _of_java(partition_assignment_strategy=f"StoryClient${name}")


# --- How a group forms and changes ---


def formation(play: Play) -> None:
    """Four members of a new group start at once."""
    open_group(play, "m1", "m2", "m3", "m4")
    afterwards(play)


def late_formation(play: Play) -> None:
    """Five members of a new group start 5 s apart; each is let in by a rebalance of its own."""
    names = ("m1", "m2", "m3", "m4", "m5")
    play.create_topic(play.parameters["partitions"])
    play.traffic(per_second=play.parameters["records_per_second"], partitions=play.parameters["partitions"])
    for name in names:
        join(play, name)
        play.await_seconds(5)
    # The state of a group is not judged in its first two minutes.
    play.await_seconds(_WATCHED_SECONDS)


def upgrade(play: Play) -> None:
    """Three members are replaced one after the other by such of the newer protocol."""
    deploy_in_turn(play, "m1", "m2", "m3", settle_seconds=8, form=kip848()(play.parameters))


def autoscaler_swings(play: Play) -> None:
    """From two members to four and back, twice, each size for a minute."""
    open_group(play, "m1", "m2")
    swing(play, turns=2, plateau_seconds=_PLATEAU_SECONDS, settle_seconds=0)
    afterwards(play)


def assignor_mixture(play: Play) -> None:
    """Newcomers that know a cooperative assignor only cannot join a group of another; they are started in vain."""
    open_group(play, "m1", "m2")
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    newcomer = java(play.parameters, **{"partition.assignment.strategy": assignor})
    for _ in range(4):
        play.start("m3", newcomer)
        play.expect_end("m3")
        play.await_end("m3", "to be turned away")
        play.await_seconds(extra_seconds(play))
    afterwards(play)


# --- Assignors and leaders ---


def slow_assignor(play: Play) -> None:
    """The leader's assignor takes 8 s; a third member joins."""
    open_group(play, "m1", "m2", assign_ms=8_000)
    join(play, "m3", assign_ms=8_000)
    afterwards(play)


def forgetful_assignor(play: Play) -> None:
    """An assignor of somebody's own leaves out the last partition."""
    open_group(play, "m1", "m2")
    play.await_seconds(_WATCHED_SECONDS)


def enforced_rebalances(play: Play) -> None:
    """An application asks for a rebalance every 9 s although nothing changed."""
    open_group(play, "m1", "m2", enforce_ms=9_000)
    play.await_seconds(80)
    afterwards(play)


# --- Settings ---


def excessive_interval(play: Play) -> None:
    """A healthy group may stay away from poll for an hour."""
    open_group(play, "m1", "m2")
    afterwards(play)


def rare_heartbeats(play: Play) -> None:
    """A healthy group sends two heartbeats in three sessions."""
    open_group(play, "m1", "m2")
    afterwards(play)


def risky_batches(play: Play) -> None:
    """A client works for 80 % of what it may stay away from poll, again and again."""
    open_group(play, "m1", "m2", stall_ms=int(0.8 * play.parameters["max_poll_ms"]))
    for _ in range(4):
        before = len(play.events_of("m2", "stalls"))
        play.signal("m2", signal.SIGUSR1)
        play.await_event("m2", "stalls", times=before + 1)
        play.await_seconds(play.parameters["max_poll_ms"] / 1000 + 4)
    afterwards(play)


def risky_batches_of_java(play: Play) -> None:
    """The same of Kafka's own client, which enforces its limit by a thread of its own and reports nothing."""
    open_group(play, "m1")
    stall_ms = int(0.8 * play.parameters["max_poll_ms"])
    play.start("m2", stalling(play, "m2", stall_ms))
    play.await_event("m2", "records")
    calm(play)
    for _ in range(4):
        before = len(play.events_of("m2", "stalls"))
        play.stall("m2")
        play.await_event("m2", "stalls", times=before + 1)
        play.await_seconds(play.parameters["max_poll_ms"] / 1000 + 4)
    afterwards(play)


# --- Partitions and progress ---


def idle_standby(play: Play) -> None:
    """There are two more members than partitions, all the time."""
    open_group(play, "m1")
    join(play, *(f"m{number}" for number in range(2, play.parameters["partitions"] + 3)))
    play.await_seconds(_WATCHED_SECONDS)


def skewed_topic(play: Play) -> None:
    """One partition gets far more records than its owner can work on; the others are quiet."""
    open_group(play, "m1", "m2", work_ms=40)
    play.traffic(per_second=60, partitions=1)
    play.await_seconds(_WATCHED_SECONDS)


def abandoned(play: Play) -> None:
    """All members leave in order and nobody comes back; records go on arriving."""
    open_group(play, "m1", "m2")
    for name in ("m1", "m2"):
        play.leave(name)
    play.await_seconds(_WATCHED_SECONDS)


def committer(play: Play) -> None:
    """A client reads partitions that it chose itself and commits every 4 s, as a member of nothing."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    settings = {"bootstrap.servers": play.stage.bootstrap, "group.id": play.group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "log_level": 0})
    with closing(consumer):
        consumer.assign([TopicPartition(play.topic, number, 0) for number in range(partitions)])
        for _ in range(20):
            consumer.consume(1_000, 4.0)
            consumer.commit(asynchronous=False)
            play.hear()
    afterwards(play)


# --- Static members ---


def static_gone(play: Play) -> None:
    """One of three static members dies and is never started again."""
    open_static(play, "m1", "m2", "m3")
    lose(play, "m2")
    play.await_seconds(2 * PATIENCE_SECONDS)


def static_hang(play: Play) -> None:
    """One of three static members stops polling for far longer than it may."""
    limit_ms, usual = play.parameters["max_poll_ms"], play.form
    forms = {
        name: ClientSpec(
            usual.library,
            {**usual.settings, "group.instance.id": f"worker-{name}", "max.poll.interval.ms": limit_ms},
        )
        for name in ("m1", "m2", "m3")
    }
    open_group(play, *forms, forms=forms, stall_ms=4 * limit_ms)
    play.signal("m2", signal.SIGUSR1)
    play.await_event("m2", "stalls")
    play.await_seconds(4 * limit_ms / 1000)
    afterwards(play)


# --- Network and mixed faults ---


def address_change(play: Play) -> None:
    """One client's address changes twice: its connections end, and the next ones come from elsewhere."""
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    for number in (40, 41):
        play.move("m2", host_of(play, number))
        play.await_seconds(25)
    afterwards(play)


def paused_and_slow(play: Play) -> None:
    """In the same moment one client's process stands still and another one begins to overrun its poll limit."""
    stall_ms = play.parameters["max_poll_ms"] + 12_000
    open_group(play, "m1", "m2", "m3", "m4", stall_ms=stall_ms)
    generation = play.generation
    before = {name: assignments(play, name) for name in ("m2", "m3")}
    play.signal("m3", signal.SIGSTOP)
    play.signal("m2", signal.SIGUSR1)
    await_loss(play, generation)
    play.await_seconds(extra_seconds(play))
    play.signal("m3", signal.SIGCONT)
    for name, count in before.items():
        await_return(play, name, count)
    afterwards(play)


def deploy_and_crash(play: Play) -> None:
    """While three of four instances are replaced in order, the fourth one dies and stays away."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, "m4")
    for name in names:
        if name == "m2":
            play.kill("m4")
        play.leave(name)
        play.await_seconds(2)
        join(play, name, patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_seconds(10)
    afterwards(play)


def crash_during_scale_out(play: Play) -> None:
    """While two newcomers join, one of the three that were there dies and stays away."""
    open_group(play, "m1", "m2", "m3")
    generation = play.generation
    play.kill("m2")
    join(play, "m4", "m5", patience_seconds=PATIENCE_SECONDS + session_seconds(play))
    await_loss(play, generation)
    afterwards(play)


def deploy_and_pause(play: Play) -> None:
    """While three of four instances are replaced in order, the fourth one stands still for longer than its session."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, "m4")
    for name in names:
        play.leave(name)
        play.await_seconds(2)
        join(play, name, patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_seconds(4)
        if name == "m1":
            stand_still(play, "m4")
        play.await_seconds(4)
    afterwards(play)


# --- Brokers ---


def coordinator_pulses(play: Play) -> None:
    """The coordinator's process gets no processor for 2.5 s out of every 6, for a minute and a half.

    One host alone could not distinguish it from its own network: the clients are on three.
    """
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    for _ in range(15):
        freeze_broker(play, 2.5)
        play.await_seconds(3.5)
    afterwards(play)


def offsets_without_replicas(play: Play) -> None:
    """The group's part of the offsets topic has fewer replicas in sync than it needs, for 40 s."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions, replicas=3)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    play.start_all(("m1", "m2"), "records")
    entry = ConfigEntry("min.insync.replicas", "3", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=[entry])
    for future in play.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    calm(play)
    # Broker 1 must keep running, because it is the controller.
    (follower,) = {2, 3} - {play.coordinator()}
    take_broker_away(play, follower, EmbeddedKafka.kill, 40)
    afterwards(play)


def zookeeper_flaps(play: Play) -> None:
    """A consumer that lives in ZooKeeper stands still for longer than its session there, four times."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for name in ("c1", "c2"):
        play.start(name)
        play.await_event(name, "in", seconds=PATIENCE_SECONDS)
    calm(play)
    for _ in range(4):
        play.signal("c2", signal.SIGSTOP)
        play.await_seconds(14)
        play.signal("c2", signal.SIGCONT)
        play.await_seconds(20)
    afterwards(play)


def offsets_gone(play: Play) -> None:
    """A group is stopped for longer than its offsets are kept."""
    open_group(play, "m1", "m2")
    for name in ("m1", "m2"):
        play.leave(name)
    play.await_seconds(60 + _WATCHED_SECONDS)


_ZOOKEEPER: Mapping[str, Any] = {
    "zookeeper": True,
    "group_type": "zookeeper",
    "versions": ("3.9.2",),
    "shared": False,
}
_FORGETTING: Mapping[str, Any] = {
    "broker_config": {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "5000"},
    "shared": False,
}


def _in_zookeeper(_: Parameters) -> ClientSpec:
    settings = {
        "consumer_timeout_ms": 2_000,
        "zookeeper_connection_timeout_ms": 6_000,
        "rebalance_max_retries": 20,
        "rebalance_backoff_ms": 2_000,
        "auto_commit_enable": True,
        "auto_commit_interval_ms": 5_000,
    }
    return ClientSpec("pykafka-2.8.0", settings)


def _rare(parameters: Parameters) -> ClientSpec:
    settings = {"session_timeout_ms": 9_000, "heartbeat_interval_ms": 6_000}
    return confluent(**settings)(parameters)


_quick = partial(family, draw=draw_quick)

CONDITIONS = (
    family(formation, expecting("initial_group_formation")),
    family(late_formation, expecting("initial_delay_too_short")),
    family(upgrade, expecting("protocol_migration", beside=("rolling_deploy",)), **NEW),
    family(autoscaler_swings, expecting("autoscaler_flapping")),
    _quick(assignor_mixture, expecting("assignor_migration_error", accepted=("join_rejected",)), form=java),
    _quick(
        slow_assignor, expecting("assignor_slow_or_failing", beside=("scale_out",)), form=_with_assignor("SlowAssignor")
    ),
    _quick(forgetful_assignor, expecting("orphan_partition"), form=_with_assignor("ForgetfulAssignor")),
    _quick(enforced_rebalances, expecting("leader_rejoin_loop"), form=java),
    family(
        excessive_interval,
        expecting("rebalance_timeout_excessive"),
        form=confluent(max_poll_interval_ms=3_600_000),
    ),
    family(rare_heartbeats, expecting("session_heartbeat_ratio"), form=_rare),
    _quick(risky_batches, expecting("poll_overrun_risk", "m2"), form=overrunning),
    _quick(risky_batches_of_java, expecting("poll_overrun_risk", "m2"), form=_hasty_java),
    family(idle_standby, expecting("idle_members")),
    family(skewed_topic, expecting("partition_skew", beside=("slow_consumer_group",))),
    family(abandoned, expecting("empty_group_with_lag", beside=("scale_in",))),
    family(committer, expecting("commit_only_group")),
    family(static_gone, expecting("static_member_ghost", "m2", beside=("member_crash",)), draw=draw_long),
    _quick(static_hang, expecting("static_stalled_member", "m2", accepted=("poll_overrun",))),
    family(address_change, expecting("")),
    _quick(paused_and_slow, expecting("process_pause", "m2", "m3", also=("poll_overrun",)), form=overrunning),
    _quick(deploy_and_crash, expecting("member_crash", "m4", beside=("rolling_deploy",))),
    _quick(crash_during_scale_out, expecting("member_crash", "m2", beside=("scale_out",)), form=java),
    _quick(deploy_and_pause, expecting("process_pause", "m4", beside=("rolling_deploy",))),
    family(coordinator_pulses, expecting("coordinator_overload"), draw=draw_long, shared=False, networked=True),
    family(offsets_without_replicas, expecting("offsets_topic_unhealthy"), draw=draw_long, **THREE_BROKERS),
    family(zookeeper_flaps, expecting("zk_session_flap"), form=_in_zookeeper, **_ZOOKEEPER),
    family(offsets_gone, expecting("offsets_expired", beside=("scale_in",)), **_FORGETTING),
)
