"""Typical incidents, and harmless changes that must not alert: releases, nodes, autoscalers, backlogs, copied settings.

Families as in families.py, written later still on 2026-11-26, by an author who had read docs/diagnoses.md but no
rule: scaling to zero and back (keda#2033, keda#1404), nodes that are drained (karpenter-provider-aws#633), more
partitions in the newer protocol (KIP-848), a release that panics after each start (numaflow#3355, paasta#4328),
partitions that are never resumed (confluent-kafka-go#193, franz-go#507), a JVM that is paused for a heap dump
(KIP-848), static pods whose restart takes longer than their session (hono#2871, littlehorse#861), handlers slower than
a session (kafkajs#624, kafkajs#1277), all pods gone at once (k8s-spot-rescheduler), large batches after a backlog
(kq#15, kafka-python#1401), a group id copied to another application (spring-kafka#3784, poseidon_cluster#3), records
replayed after a bug (kafkajs#1049). A play in which the fault did not occur ends with an error and is void.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from functools import partial

from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_return,
    calm,
    extra_seconds,
    host_of,
    join,
    leave_in_turn,
    open_group,
    open_static,
    overrun,
    session_seconds,
    start_static,
    stop_and_reset,
)
from rebalance_devtools.stories.forms import (
    NEW,
    draw_long,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    kip848_java,
    python,
)
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.polyglot import foreign
from rebalance_devtools.stories.reported import kip848_pause
from rebalance_devtools.stories.script import AIOKAFKA, FRANZ_GO, KAFKA_PYTHON, KAFKAJS, SARAMA, ClientSpec, Parameters

_ALL = ("m1", "m2", "m3")
_WATCHED_SECONDS = 100.0
_FAILED = "has failed"
_LEFT = "has left group"
#: Work per record: a usual batch takes almost no time, the 500 records that kafka-python returns at most take 22 s.
_RECORD_MS = 45


# --- Changes that do no harm ---


def scaled_to_zero(play: Play) -> None:
    """An autoscaler takes both Sarama clients away when nothing arrives, and starts them when records come again."""
    names, partitions = ("m1", "m2"), play.parameters["partitions"]
    play.create_topic(partitions)
    traffic = play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    play.start_all(names, "records")
    calm(play)
    traffic.stop()
    play.await_seconds(15)
    leave_in_turn(play, *names, settle_seconds=1)
    play.await_seconds(35)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    play.await_seconds(5)
    join(play, *names)
    afterwards(play)


def node_drained(play: Play) -> None:
    """A node is drained: two of four pods leave in order, and come up on another node under other names."""
    hosts = {name: host_of(play, 20 if name in ("m3", "m4") else 10) for name in (*_ALL, "m4")}
    open_group(play, *hosts, hosts=hosts)
    leave_in_turn(play, "m3", "m4", settle_seconds=0)
    play.await_seconds(6)
    join(play, "m5", "m6", host=host_of(play, 30), patience_seconds=PATIENCE_SECONDS)
    play.await_seconds(10)
    afterwards(play)


def kip848_growth(play: Play) -> None:
    """The topic of a group of the newer protocol gets four more partitions, which the broker deals out."""
    added = play.parameters["partitions"]
    open_group(play, *_ALL)
    play.grow_topic(added + 4)
    play.wait(lambda: _owns(play, added), "somebody to get a new partition", PATIENCE_SECONDS)
    afterwards(play)


def _owns(play: Play, partition: int) -> bool:
    """Return whether a partition was ever assigned to a client."""
    given = [event["partitions"] for event in play.events if event["event"] == "assigned"]
    return any(each[1] == partition for partitions in given for each in partitions)


# --- Releases and platforms ---


def bad_release(play: Play) -> None:
    """A release replaces one of three franz-go clients; the new one dies soon after each of four starts."""
    open_group(play, *_ALL)
    play.leave("m3")
    # Kubernetes' back-off, shortened; after the last pause the previous version is started.
    for pause_seconds in (2, 4, 8, 2):
        join(play, "m3", patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_seconds(4 + extra_seconds(play))
        play.kill("m3")
        play.await_seconds(pause_seconds)
    join(play, "m3", patience_seconds=PATIENCE_SECONDS + session_seconds(play))
    afterwards(play)


def static_slow_start(play: Play) -> None:
    """Three static members are replaced in turn, each back some seconds after its session: images are pulled."""
    open_static(play, *_ALL)
    for number, name in enumerate(_ALL, start=1):
        before = assignments(play, name)
        play.leave(name)
        play.await_logged(_FAILED, times=number, seconds=session_seconds(play) + PATIENCE_SECONDS)
        play.await_seconds(extra_seconds(play))
        start_static(play, name)
        await_return(play, name, before)
        play.await_seconds(6)
    afterwards(play)


def heap_dump(play: Play) -> None:
    """A heap dump stops the JVM of one of three members of the newer protocol for longer than its session."""
    kip848_pause(play)


def all_preempted(play: Play) -> None:
    """All three kafka-python clients lose their machines in the same moment; nobody comes back, records arrive."""
    open_group(play, *_ALL)
    for name in _ALL:
        play.kill(name)
    play.await_logged(_FAILED, times=len(_ALL), seconds=session_seconds(play) + PATIENCE_SECONDS)
    play.await_seconds(_WATCHED_SECONDS)


# --- What applications do ---


def kip848_left_paused(play: Play) -> None:
    """One of two members of the newer protocol pauses its partitions and never resumes them; it polls all the time."""
    open_group(play, "m1", "m2")
    play.signal("m2", signal.SIGUSR2)
    play.await_event("m2", "changes")
    play.await_seconds(10)
    before = len(play.events_of("m2", "records"))
    play.await_seconds(_WATCHED_SECONDS)
    if len(play.events_of("m2", "records")) > before:
        raise UserError("m2 was not paused")


def kafkajs_downstream_slow(play: Play) -> None:
    """What two of three KafkaJS clients write to answers later than their session allows, twice."""
    stall_ms = play.parameters["session_ms"] + 4_000 + play.parameters["extra_ms"]
    open_group(play, *_ALL, stall_ms=stall_ms)
    for _ in range(2):
        overrun(play, "m2", "m3")
        calm(play)
    if play.count_logged(_FAILED) < 4:
        raise UserError("a session was long enough")
    afterwards(play)


def burst_of_records(play: Play) -> None:
    """After a burst two kafka-python clients are handed so many records in one poll that they poll again too late."""
    open_group(play, "m1", "m2")
    play.fill(4_000, partitions=play.parameters["partitions"])
    play.note("", "burst", records=4_000)
    play.await_logged(_LEFT, times=4, seconds=3 * PATIENCE_SECONDS)
    afterwards(play)


def copied_group_id(play: Play) -> None:
    """Two Go clients of another application, with a topic of their own, come with the group id of two Java clients."""
    other, partitions = f"{play.topic}-billing", 3
    play.create_topic(partitions, name=other)
    play.traffic(per_second=5, partitions=partitions, name=other)
    open_group(play, "orders-1", "orders-2")
    billing = partial(join, play, form=foreign(FRANZ_GO, balancer="roundrobin")(play.parameters), topic=other)
    billing("billing-1", "billing-2")
    play.await_seconds(30)
    play.leave("billing-1")
    play.await_seconds(2)
    billing("billing-1")
    afterwards(play)


def replay_after_bug(play: Play) -> None:
    """A group of aiokafka clients is stopped, set back by a tool to where a bug began, and started again."""
    stop_and_reset(play, 200, waiting=0)


def _polling(parameters: Parameters) -> ClientSpec:
    """Return a form of kafka-python that processes all records of a poll before it polls again."""
    usual = python(KAFKA_PYTHON)(parameters)
    settings = {**usual.settings, "max_poll_interval_ms": parameters["max_poll_ms"]}
    return replace(usual, settings=settings, program={"loop": "poll", "hold_ms": _RECORD_MS})


_quick = partial(family, draw=draw_quick)

INCIDENTS = (
    family(scaled_to_zero, expecting(""), form=foreign(SARAMA, balancer="roundrobin")),
    family(node_drained, expecting(""), form=java),
    family(kip848_growth, expecting("topic_metadata_change"), form=kip848(), **NEW),
    _quick(
        bad_release,
        expecting("crash_loop", "m3", beside=("member_crash", "ungraceful_shutdown")),
        form=foreign(FRANZ_GO),
    ),
    _quick(
        static_slow_start,
        expecting("static_session_too_short", *_ALL, beside=("rolling_deploy",)),
        form=java,
    ),
    family(heap_dump, expecting("process_pause", "m2"), form=kip848_java(), **NEW),
    _quick(all_preempted, expecting("empty_group_with_lag", beside=("member_crash",)), form=python(KAFKA_PYTHON)),
    family(
        kip848_left_paused,
        expecting("stalled_consumer", "m2"),
        form=kip848(max_poll_interval_ms=45_000),
        draw=draw_long,
        **NEW,
    ),
    _quick(
        kafkajs_downstream_slow,
        expecting("processing_blocks_heartbeat", "m2", "m3"),
        form=foreign(KAFKAJS),
    ),
    _quick(
        burst_of_records,
        expecting(
            "poll_overrun",
            "m1",
            "m2",
            accepted=("no_progress_loop",),
            beside=("stalled_member_join_barrier",),
        ),
        form=_polling,
    ),
    family(copied_group_id, expecting("shared_group_id", beside=("scale_out",)), form=java),
    family(replay_after_bug, expecting("offset_rewind", beside=("scale_in",)), form=python(AIOKAFKA)),
)
