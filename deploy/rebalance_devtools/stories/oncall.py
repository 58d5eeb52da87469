"""The most common incidents on call, with clients and combinations that no other family has.

Families as in families.py, written on 2026-11-27, by an author who had read docs/diagnoses.md but no rule and no
verdict: all pods stopped before any is started (charts#2258 of sentry-kubernetes), connectors that are restarted
(clickhouse-kafka-connect#651) or get fewer tasks (kafka-connect-ui#71), shutdowns that take longer than they may
(micronaut-kafka#1278), processes that get no processor between two requests (cloud-run-faq#158), a host without a
route to the brokers (librdkafka#844), records that Kafka Streams works on for too long (hyades#529, quarkus#44561),
consumers that are switched off and on (kafka-konsumer#77, confluent-kafka-dotnet#374), a batch that is too long while
the coordinator is away (spring-kafka#1367), restarts of static members (quickwit#4823). A play in which the fault did
not occur ends with an error and is void.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    calm,
    disturb_for_a_while,
    hosts_of,
    join,
    killed_in_turn,
    leave_in_turn,
    open_group,
    open_static,
    stalling,
    stand_still,
    start_static,
    take_broker_away,
)
from rebalance_devtools.stories.applications import ask_connect, start_sink, streams_group
from rebalance_devtools.stories.forms import (
    NEW,
    ROUND_ROBIN,
    connect,
    draw_long,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    python,
)
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import KAFKA_PYTHON, ClientSpec, Parameters

_ALL = ("m1", "m2", "m3")
_FAILED = "has failed"
_LEFT = "has left group"
_LEFT_NEW = "left the consumer group"
_POLL_TIMEOUT = "consumer poll timeout has expired"
_UNSUBSCRIBED = "the consumer unsubscribed from all topics"
#: Long, because Connect answers late on a busy machine, and a repeated request is executed twice.
_ANSWER_SECONDS = 60.0
#: The default assignors of Kafka's own client, which applications rarely change.
_USUAL_ASSIGNORS = ",".join(
    f"org.apache.kafka.clients.consumer.{name}Assignor" for name in ("Range", "CooperativeSticky")
)


# --- Deploys ---


def kip848_recreate(play: Play) -> None:
    """All three members of the newer protocol are stopped in order, and only then those of the next version start."""
    open_group(play, *_ALL)
    leave_in_turn(play, *_ALL, settle_seconds=0)
    play.await_logged(_LEFT_NEW, times=len(_ALL), seconds=PATIENCE_SECONDS)
    play.await_seconds(12)
    join(play, *_ALL, patience_seconds=2 * PATIENCE_SECONDS)
    afterwards(play)


def java_killed_deploy(play: Play) -> None:
    """Both of Kafka's own clients are replaced in turn; each is killed, for it did not stop in the time that it had."""
    killed_in_turn(play, "m1", "m2", settle_seconds=6)


def java_static_deploy(play: Play) -> None:
    """Three static members of Kafka's own client are restarted in turn, in order, each back within its session."""
    open_static(play, *_ALL)
    for name in _ALL:
        before = assignments(play, name)
        play.leave(name)
        play.await_seconds(2)
        start_static(play, name)
        await_return(play, name, before)
        play.await_seconds(6)
    if play.count_logged(_FAILED):
        raise UserError("a session was too short")
    afterwards(play)


# --- Sink connectors ---


def sink_restarted(play: Play) -> None:
    """Somebody asks Connect to restart a sink connector and its two tasks; no worker comes or goes."""
    name, _ = _open_sink(play, tasks=2)
    before = play.count_logged(_stable_with(2))
    play.note("", "connector_restarted")
    ask_connect(play, f"/connectors/{name}/restart?includeTasks=true", method="POST", seconds=_ANSWER_SECONDS)
    play.await_logged(_LEFT, times=2, seconds=2 * PATIENCE_SECONDS)
    play.await_logged(_stable_with(2), times=before + 1, seconds=2 * PATIENCE_SECONDS)
    afterwards(play)


def sink_shrinks(play: Play) -> None:
    """A sink connector that had three tasks is left with one; each is a consumer of the connector's group."""
    name, config = _open_sink(play, tasks=3)
    before = play.count_logged(_stable_with(1))
    play.note("", "tasks_taken_away", tasks=1)
    wanted = {**config, "tasks.max": "1"}
    ask_connect(play, f"/connectors/{name}/config", wanted, method="PUT", seconds=_ANSWER_SECONDS)
    play.await_logged(_LEFT, times=2, seconds=2 * PATIENCE_SECONDS)
    # Waits for the broker's log, because Connect's REST interface may still list the removed tasks for a while.
    play.await_logged(_stable_with(1), times=before + 1, seconds=2 * PATIENCE_SECONDS)
    afterwards(play)


def _open_sink(play: Play, *, tasks: int) -> tuple[str, dict[str, str]]:
    """Start a worker with a sink connector, wait until its tasks are members, and return its name and config."""
    partitions, name = play.parameters["partitions"], f"sink-{play.seed}"
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    config = start_sink(play, name, tasks=tasks)
    play.await_logged(_stable_with(tasks), seconds=PATIENCE_SECONDS)
    calm(play)
    return name, config


def _stable_with(members: int) -> str:
    """Return a pattern for the line that brokers log when a rebalance completes with this many members."""
    return rf"Stabilized group .* with {members} members"


# --- Processes and hosts ---


def kafka_python_pause(play: Play) -> None:
    """A kafka-python process beside two of librdkafka gets no processor for longer than its session, and goes on."""
    open_group(play, "rdk1", "rdk2", "kp", forms={"kp": python(KAFKA_PYTHON)(play.parameters)})
    stand_still(play, "kp")
    afterwards(play)


def mixed_cut(play: Play) -> None:
    """The connections of a librdkafka client beside two of Kafka's own end for longer than its session."""
    names = ("java1", "java2", "rdk")
    open_group(play, *names, forms={"rdk": ROUND_ROBIN(play.parameters)}, hosts=hosts_of(play, *names))
    disturb_for_a_while(play, ("rdk",), Fault.CUT)
    afterwards(play)


# --- What applications do ---


def streams_group_slow_record(play: Play) -> None:
    """One of two instances of a streams group works on a record for longer than it may stay away from poll."""
    open_group(play, "s1", "s2", forms={"s2": stalling(play, "s2", play.parameters["max_poll_ms"] + 9_000)})
    before = assignments(play, "s2")
    play.stall("s2")
    play.await_event("s2", "stalls", seconds=PATIENCE_SECONDS)
    await_return(play, "s2", before)
    if play.count_logged("member session expired"):
        raise UserError("a session was over")
    afterwards(play)


def java_unsubscribes(play: Play) -> None:
    """An application takes one of three of Kafka's own clients out of the group by unsubscribing, and back later."""
    away = stalling(play, "m2", 14_000 + play.parameters["extra_ms"], stall_unsubscribes="true")
    open_group(play, *_ALL, forms={"m2": away})
    before = assignments(play, "m2")
    play.stall("m2")
    play.await_logged(_UNSUBSCRIBED, seconds=PATIENCE_SECONDS)
    await_return(play, "m2", before)
    afterwards(play)


def overrun_and_broker_restart(play: Play) -> None:
    """One of three of Kafka's own clients works for too long; the only broker is restarted in order meanwhile."""
    limit_ms = play.parameters["max_poll_ms"]
    open_group(play, *_ALL, forms={"m2": stalling(play, "m2", limit_ms + 20_000)})
    generation, before = play.generation, assignments(play, "m2")
    play.stall("m2")
    play.await_logged(_POLL_TIMEOUT, seconds=limit_ms / 1000 + PATIENCE_SECONDS)
    await_loss(play, generation)
    take_broker_away(play, 1, EmbeddedKafka.stop, 5)
    await_return(play, "m2", before)
    if play.count_logged(_FAILED):
        raise UserError("the broker was away for longer than a session")
    afterwards(play)


def _draw_killed(generator: random.Random) -> Parameters:
    """Draw a session time-out short enough to wait for two of them, and long enough for a JVM to start."""
    return {**draw_quick(generator), "session_ms": generator.choice((15_000, 18_000)), "heartbeat_ms": 3_000}


def _draw_patient(generator: random.Random) -> Parameters:
    """Draw a session time-out longer than a restart of the broker; the maximum poll interval is shorter."""
    return {**draw_quick(generator), "session_ms": 40_000, "heartbeat_ms": 3_000}


def _default_java(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"partition.assignment.strategy": _USUAL_ASSIGNORS})


def _hasty_java(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"max.poll.interval.ms": parameters["max_poll_ms"]})


def _hasty_streams_group(parameters: Parameters) -> ClientSpec:
    usual = streams_group(parameters)
    return replace(usual, settings={**usual.settings, "max.poll.interval.ms": parameters["max_poll_ms"]})


_quick = partial(family, draw=draw_quick)
_STREAMS_GROUPS: Mapping[str, Any] = {"group_type": "streams", "versions": ("4.3.1",)}

ONCALL = (
    family(kip848_recreate, expecting(""), form=kip848(), **NEW),
    family(
        java_killed_deploy,
        expecting("ungraceful_shutdown", "m1", "m2", beside=("rolling_deploy",)),
        form=_default_java,
        draw=_draw_killed,
    ),
    family(
        java_static_deploy,
        expecting("static_member_restart", *_ALL, accepted=("rolling_deploy",)),
        form=java,
        draw=draw_long,
    ),
    _quick(sink_restarted, expecting(""), form=connect),
    _quick(sink_shrinks, expecting("scale_in", beside=("rolling_deploy",)), form=connect),
    _quick(kafka_python_pause, expecting("process_pause", "kp"), form=ROUND_ROBIN),
    _quick(mixed_cut, expecting("network_partition", "rdk"), form=java),
    _quick(streams_group_slow_record, expecting("poll_overrun"), form=_hasty_streams_group, **_STREAMS_GROUPS),
    # Going by the records alone, a member leaves and another joins; the real cause is in the application.
    _quick(java_unsubscribes, expecting("subscription_change", "m2", beside=("scale_in", "scale_out")), form=java),
    family(
        overrun_and_broker_restart,
        expecting("poll_overrun", "m2", beside=("coordinator_failover",)),
        form=_hasty_java,
        draw=_draw_patient,
        shared=False,
    ),
)
