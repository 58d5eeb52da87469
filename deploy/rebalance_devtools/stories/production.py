"""Incidents in production: platforms and deploys, programs that fail on a record, lost offsets.

Families as in families.py, written on 2026-11-26 after reports of users: firewalls that forget connections
(librdkafka#3109, librdkafka#2845), awaiting for too long (aiokafka#848), handlers that throw (kafkajs#1592,
nestjs-kafka#26), error handlers that retry forever (spring-kafka#1287, spring-kafka#316), sink tasks that failed
(kafka-connect-elasticsearch#108), names of pods as instance ids (posthog#65809, kestra#352), restarts that leave a
ghost each (ClickHouse#104305), groups deleted by a tool (confluent-kafka-dotnet#2202), the only broker restarted
(sarama#1407, confluent-kafka-python#173), old and new pods side by side (uptime-checker#58, helm-charts#162 of
DependencyTrack). A play in which the fault did not occur ends with an error and is void.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    calm,
    extra_seconds,
    hosts_of,
    join,
    leave_in_turn,
    open_group,
    overrun,
    session_seconds,
    stalling,
    static_form,
    take_broker_away,
)
from rebalance_devtools.stories.applications import await_tasks, start_sink
from rebalance_devtools.stories.forms import (
    NEW,
    ROUND_ROBIN,
    connect,
    draw_any,
    draw_long,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    kip848_java,
    python,
)
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.polyglot import foreign
from rebalance_devtools.stories.script import (
    AIOKAFKA,
    FRANZ_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    SARAMA,
    ClientSpec,
    Parameters,
)

_ALL = ("m1", "m2", "m3")
_WATCHED_SECONDS = 100.0
#: Maximum time until a KIP-848 member is fenced; the session time-out of 45 s is the broker's.
_FENCED_SECONDS = 150.0
_POISON = "poison"


# --- Deploys ---


def surge_deploy(play: Play) -> None:
    """Three franz-go pods are replaced in turn, each new one in the group before an old one leaves (maxSurge)."""
    old, new = ("api-x4kf", "api-p2vn", "api-z9tc"), ("api-q7mb", "api-w3rd", "api-k8hj")
    open_group(play, *old)
    for leaver, newcomer in zip(old, new, strict=True):
        join(play, newcomer, patience_seconds=PATIENCE_SECONDS)
        play.await_seconds(4)
        play.leave(leaver)
        play.await_seconds(8)
    afterwards(play)


def kip848_static_deploy(play: Play) -> None:
    """Three static members of the newer protocol are replaced in turn, each back within its session."""
    open_group(play, *_ALL, forms={name: static_form(play, f"worker-{name}") for name in _ALL})
    for name in _ALL:
        before = assignments(play, name)
        play.leave(name)
        play.await_seconds(2)
        play.start(name, static_form(play, f"worker-{name}"))
        await_return(play, name, before)
        play.await_seconds(6)
    afterwards(play)


def blue_green(play: Play) -> None:
    """Three aiokafka clients of the next version join, and only when all work those of the old one leave, in order."""
    blue = ("blue-1", "blue-2", "blue-3")
    open_group(play, *blue)
    join(play, "green-1", "green-2", "green-3", patience_seconds=PATIENCE_SECONDS)
    play.await_seconds(20)
    leave_in_turn(play, *blue, settle_seconds=1)
    play.await_seconds(10)
    afterwards(play)


def random_instance_ids(play: Play) -> None:
    """Three static members are replaced in turn by such of other instance ids; each old one stays for its session."""
    open_group(play, *_ALL, forms={name: static_form(play, f"{name}-7c9f") for name in _ALL})
    for number, name in enumerate(_ALL, start=1):
        before = assignments(play, name)
        play.leave(name)
        play.await_seconds(2)
        play.start(name, static_form(play, f"{name}-5d8b"))
        play.await_logged("has failed", times=number, seconds=session_seconds(play) + PATIENCE_SECONDS)
        await_return(play, name, before)
        play.await_seconds(4)
    afterwards(play)


# --- Programs and records ---


def kafkajs_poison(play: Play) -> None:
    """A handler throws at one record: KafkaJS tries again, gives up, leaves and begins anew; so does the next one."""
    open_group(play, *_ALL, fails_of=_POISON)
    play.write(_POISON.encode(), partition=0)

    def crashed() -> list[str]:
        return [name for name in _ALL for _ in play.events_of(name, "error")]

    play.wait(lambda: len(crashed()) >= 5, "five crashes")
    if len({*crashed()}) == 1:
        raise UserError("the record stayed with one client")
    afterwards(play)


def endless_retry(play: Play) -> None:
    """One of two of Kafka's own clients fails on a record and goes back to it every second, for ever."""
    open_group(play, "m1", "m2", fails_of=_POISON)
    (_, partition), *_ = play.events_of("m2", "assigned")[-1]["partitions"]
    play.write(_POISON.encode(), partition=partition)
    play.await_event("m2", "fails")
    play.await_seconds(_WATCHED_SECONDS)


def sink_task_failed(play: Play) -> None:
    """The only task of a sink connector fails on a record that is no JSON; its worker goes on, and records arrive."""
    partitions, name = play.parameters["partitions"], f"sink-{play.seed}"
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions, value=b"1")
    start_sink(
        play,
        name,
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter_schemas_enable="false",
    )
    calm(play)
    play.write(b"no JSON", partition=0)
    await_tasks(play, name, state="FAILED")
    play.note("", "task_failed")
    play.await_seconds(_WATCHED_SECONDS)


def aiokafka_overrun(play: Play) -> None:
    """An aiokafka client beside two of librdkafka awaits an answer for longer than it may stay away from poll."""
    limit_ms, usual = play.parameters["max_poll_ms"], python(AIOKAFKA)(play.parameters)
    program = {"stall_ms": limit_ms + 9_000, "stall_awaits": True}
    slow = ClientSpec(usual.library, {**usual.settings, "max_poll_interval_ms": limit_ms}, program)
    open_group(play, "rdk1", "rdk2", "aio", forms={"aio": slow})
    overrun(play, "aio")
    afterwards(play)


def kip848_long_record(play: Play) -> None:
    """One of Kafka's own clients works on a record for long; a newcomer waits for what it is to give up meanwhile."""
    stall_ms = 26_000 + play.parameters["extra_ms"]
    open_group(play, "busy", form=stalling(play, "busy", stall_ms))
    play.stall("busy")
    play.await_event("busy", "stalls")
    play.start("new")
    play.await_event("new", "records", seconds=PATIENCE_SECONDS + stall_ms / 1000)
    waited_ms = play.events_of("new", "records")[0]["t_ms"] - play.events_of("busy", "stalls")[0]["t_ms"]
    if waited_ms < stall_ms:
        raise UserError("the newcomer did not wait")
    afterwards(play)


def kip848_crash_loop(play: Play) -> None:
    """A member of the newer protocol dies soon after each of four starts; each death leaves a ghost for a session."""
    open_group(play, "m1", "m2")
    for pause_seconds in (2, 4, 8, 0):
        before = assignments(play, "m3")
        play.start("m3", exit_after_ms=16_000)
        play.expect_end("m3")
        play.await_event("m3", "assigned", times=before + 1, seconds=PATIENCE_SECONDS)
        play.await_end("m3", "to die")
        play.await_seconds(pause_seconds)
    play.await_logged("fenced from the group because", times=4, seconds=_FENCED_SECONDS)
    afterwards(play)


# --- Networks, brokers, offsets ---


def firewall_forgets(play: Play) -> None:
    """A firewall loses its state: one client's connections carry nothing more and do not end; new ones would work."""
    open_group(play, *_ALL, hosts=hosts_of(play, *_ALL))
    generation, before = play.generation, assignments(play, "m2")
    play.disturb("m2", Fault.FORGOTTEN)
    await_loss(play, generation)
    await_return(play, "m2", before)
    afterwards(play)


def cluster_restarted(play: Play) -> None:
    """The only broker is restarted in order, as for an upgrade; clients of three libraries wait for it."""
    forms = {"java": java(play.parameters), "sarama": foreign(SARAMA, balancer="roundrobin")(play.parameters)}
    open_group(play, "rdk", *forms, forms=forms)
    take_broker_away(play, 1, EmbeddedKafka.stop, 10)
    play.await_seconds(30)
    afterwards(play)


def scale_in_and_pause(play: Play) -> None:
    """While one of four Sarama clients leaves in order, another one stands still for longer than its session."""
    open_group(play, *_ALL, "m4")
    generation, before = play.generation, assignments(play, "m2")
    play.signal("m2", signal.SIGSTOP)
    play.leave("m4")
    await_loss(play, generation)
    play.await_seconds(extra_seconds(play))
    play.signal("m2", signal.SIGCONT)
    await_return(play, "m2", before)
    afterwards(play)


def group_deleted(play: Play) -> None:
    """A tool deletes a group that is stopped; it starts at the end again, and what arrived meanwhile is never read."""
    names, partitions = ("m1", "m2"), play.parameters["partitions"]
    open_group(play, *names)
    play.await_seconds(2 * play.parameters["commit_ms"] / 1000)
    leave_in_turn(play, *names, settle_seconds=1)
    play.fill(6_000, partitions=partitions)
    ends, heard = play.ends(), len(play.events)
    play.admin.delete_consumer_groups([play.group])[play.group].result(30)
    play.note("", "group_deleted")
    play.await_seconds(5)
    join(play, *names)
    afterwards(play)
    read = [each for event in play.events[heard:] if event["event"] == "records" for each in event["ranges"]]
    if not read or any(first < ends[partition] for _, partition, first, _ in read):
        raise UserError("what had arrived was read")


_quick = partial(family, draw=draw_quick)


def _wide(draw: Callable[[random.Random], Parameters]) -> Callable[[random.Random], Parameters]:
    """Return a function that draws as `draw`, but with 6 more partitions, so that they outnumber the members."""

    def drawn(generator: random.Random) -> Parameters:
        parameters = draw(generator)
        return {**parameters, "partitions": parameters["partitions"] + 6}

    return drawn


def _draw_static(generator: random.Random) -> Parameters:
    """Draw a session time-out short enough to wait for three of them."""
    return {**draw_quick(generator), "session_ms": generator.choice((15_000, 20_000)), "heartbeat_ms": 3_000}


def _hasty_java(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"max.poll.interval.ms": parameters["max_poll_ms"]})


def _from_the_end(parameters: Parameters) -> ClientSpec:
    usual = python(KAFKA_PYTHON)(parameters)
    return replace(usual, settings={**usual.settings, "auto_offset_reset": "latest"})


PRODUCTION = (
    family(surge_deploy, expecting("rolling_deploy"), form=foreign(FRANZ_GO)),
    family(
        kip848_static_deploy,
        expecting("static_member_restart", *_ALL, accepted=("rolling_deploy",)),
        form=kip848_java(),
        **NEW,
    ),
    family(blue_green, expecting(""), form=python(AIOKAFKA), draw=_wide(draw_any)),
    family(
        random_instance_ids,
        expecting("static_member_ghost", *_ALL, accepted=("ungraceful_shutdown",), beside=("rolling_deploy",)),
        form=java,
        draw=_draw_static,
    ),
    family(
        kafkajs_poison,
        expecting("poison_record", accepted=("no_progress_loop",)),
        form=foreign(KAFKAJS),
        draw=draw_long,
    ),
    _quick(endless_retry, expecting("stalled_consumer", "m2"), form=_hasty_java),
    _quick(sink_task_failed, expecting("empty_group_with_lag", beside=("scale_in",)), form=connect),
    _quick(aiokafka_overrun, expecting("poll_overrun", "aio"), form=ROUND_ROBIN),
    family(
        kip848_long_record,
        expecting("reconciliation_stuck", "busy", beside=("scale_out",)),
        form=kip848_java(max_poll_interval_ms=90_000),
        **NEW,
    ),
    family(
        kip848_crash_loop,
        expecting("crash_loop", "m3", beside=("member_crash", "ungraceful_shutdown", "epoch_churn")),
        form=kip848(),
        draw=_wide(draw_any),
        **NEW,
    ),
    _quick(firewall_forgets, expecting("network_partition", "m2")),
    family(cluster_restarted, expecting("coordinator_failover"), form=ROUND_ROBIN, shared=False),
    _quick(
        scale_in_and_pause,
        expecting("process_pause", "m2", beside=("scale_in",)),
        form=foreign(SARAMA, balancer="roundrobin"),
    ),
    _quick(
        group_deleted, expecting("offset_skip", accepted=("offsets_expired",), beside=("scale_in",)), form=_from_the_end
    ),
)
