"""Reproductions of reported faults: a suspended host, a downstream that hangs, spot instances.

Families as in families.py, written on 2026-11-26 after threads such as confluent-kafka-go#605 and librdkafka#3589 (a
change of assignors), librdkafka#3008 (a pattern and topics that appear), kafka-python#837 and ruby-kafka#186 (a session
that the broker does not permit), librdkafka#4457 (restarts of containers). A play in which the fault did not occur ends
with an error and is void.
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
    hosts_of,
    join,
    open_group,
    open_static,
    overrun,
    replace_in_turn,
    session_seconds,
    stand_still,
    start_static,
    swing,
)
from rebalance_devtools.stories.forms import (
    NEW,
    ROUND_ROBIN,
    WATCHFUL,
    confluent,
    draw_long,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    overrunning,
    python,
)
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import KAFKA_PYTHON, ClientSpec, Parameters

_RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
_STICKY = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
#: Maximum time until a KIP-848 member is fenced; the session time-out of 45 s is the broker's.
_FENCED_SECONDS = 150.0
#: Below the minimum of the stage's brokers, which is Kafka's default.
_REFUSED_SESSION_MS = 3_000
_RECORD_MS = 60


# --- Processes and hosts ---


def growing_pauses(play: Play) -> None:
    """One process stands still for longer and longer, as one whose heap fills: the third time beyond its session."""
    open_group(play, "m1", "m2", "m3")
    for part in (0.15, 0.35):
        play.signal("m2", signal.SIGSTOP)
        play.await_seconds(part * session_seconds(play))
        play.signal("m2", signal.SIGCONT)
        play.await_seconds(6)
    stand_still(play, "m2")
    afterwards(play)


def suspended_host(play: Play) -> None:
    """A host with two of four clients is suspended for longer than their session and goes on."""
    hosts = {name: host_of(play, 20 if name in ("m3", "m4") else 10) for name in ("m1", "m2", "m3", "m4")}
    open_group(play, *hosts, hosts=hosts)
    stand_still(play, "m3", "m4")
    afterwards(play)


def out_of_memory(play: Play) -> None:
    """One of three of Kafka's own clients is killed four times, soon after each start; its supervisor is quick."""
    open_group(play, "m1", "m2", "m3")
    for _ in range(4):
        play.kill("m2")
        play.await_seconds(1.5)
        join(play, "m2", patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_seconds(6 + extra_seconds(play))
    afterwards(play)


def spot_reclaim(play: Play) -> None:
    """Two of four clients lose their machines, half a minute apart; others come at once in their place."""
    open_group(play, "m1", "m2", "m3", "m4")
    for lost, successor in (("m3", "m5"), ("m4", "m6")):
        play.kill(lost)
        play.await_seconds(1)
        join(play, successor, patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_seconds(25)
    afterwards(play)


def kip848_pause(play: Play) -> None:
    """One of three members of the newer protocol stands still until the broker fenced it, and a little longer."""
    open_group(play, "m1", "m2", "m3")
    before = assignments(play, "m2")
    play.signal("m2", signal.SIGSTOP)
    play.await_logged("fenced from the group because", seconds=_FENCED_SECONDS)
    play.await_seconds(extra_seconds(play))
    play.signal("m2", signal.SIGCONT)
    await_return(play, "m2", before)
    afterwards(play)


# --- Poll limits ---


def kip848_overrun(play: Play) -> None:
    """One of three members of the newer protocol works on a batch for longer than it may, and leaves by itself."""
    open_group(play, "m1", "m2", "m3", stall_ms=play.parameters["max_poll_ms"] + 9_000)
    overrun(play, "m2")
    afterwards(play)


def downstream_hangs(play: Play) -> None:
    """What all three clients write to hangs for longer than each may stay away from poll; then all go on."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, stall_ms=play.parameters["max_poll_ms"] + 9_000)
    overrun(play, *names)
    afterwards(play)


def raised_batches(play: Play) -> None:
    """Three of Kafka's own clients with a backlog are replaced by such as take ten times as much in one poll."""
    names, limit_ms = ("m1", "m2", "m3"), play.parameters["max_poll_ms"]
    old = java(play.parameters, **{"max.poll.interval.ms": limit_ms, "max.poll.records": 50})
    new = replace(old, settings={**old.settings, "max.poll.records": 2 * limit_ms // _RECORD_MS})
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.fill(20_000, partitions=partitions)
    for name in names:
        play.start(name, old, record_ms=_RECORD_MS)
    for name in names:
        play.await_event(name, "records")
    calm(play)
    replace_in_turn(
        play, *names, settle_seconds=6, form=new, record_ms=_RECORD_MS, patience_seconds=3 * PATIENCE_SECONDS
    )
    play.wait(
        lambda: all(play.events_of(name, "lost") for name in names), "each to be away from poll for too long", 240
    )
    afterwards(play)


def slow_record_of_kafka_python(play: Play) -> None:
    """A kafka-python client beside two of librdkafka works on one record for longer than it may stay away from poll."""
    limit_ms = play.parameters["max_poll_ms"]
    usual = python(KAFKA_PYTHON)(play.parameters)
    program = {"hold_ms": limit_ms + 9_000, "hold_marked": True}
    slow = ClientSpec(usual.library, {**usual.settings, "max_poll_interval_ms": limit_ms}, program)
    open_group(play, "rdk1", "rdk2", "kp", forms={"kp": slow})
    before = assignments(play, "kp")
    (_, partition), *_ = play.events_of("kp", "assigned")[-1]["partitions"]
    play.write(b"hold", partition=partition)
    await_return(play, "kp", before)
    afterwards(play)


# --- Members that come and go ---


def static_deploy(play: Play) -> None:
    """Three static members are replaced in turn, each back long before its session is over: nothing rebalances."""
    open_static(play, "m1", "m2", "m3")
    for name in ("m1", "m2", "m3"):
        before = assignments(play, name)
        play.leave(name)
        play.await_seconds(2)
        start_static(play, name)
        await_return(play, name, before)
        play.await_seconds(6)
    afterwards(play)


def hasty_autoscaler(play: Play) -> None:
    """From two members to four and back, three times, each size for some twenty seconds."""
    open_group(play, "m1", "m2")
    swing(play, turns=3, plateau_seconds=20, settle_seconds=1)
    afterwards(play)


def assignor_change(play: Play) -> None:
    """Three of Kafka's own clients are replaced in turn by such that know a cooperative assignor as well."""
    open_group(play, "m1", "m2", "m3")
    both = java(play.parameters, **{"partition.assignment.strategy": f"{_STICKY},{_RANGE}"})
    replace_in_turn(play, "m1", "m2", "m3", settle_seconds=8, form=both, patience_seconds=PATIENCE_SECONDS)
    afterwards(play)


def session_refused(play: Play) -> None:
    """A newcomer asks for a session that is shorter than the brokers permit, and goes on asking."""
    open_group(play, "m1", "m2")
    times = {"session_timeout_ms": _REFUSED_SESSION_MS, "heartbeat_interval_ms": _REFUSED_SESSION_MS // 3}
    play.start("m3", confluent(**times)(play.parameters))
    play.await_seconds(60)
    if play.events_of("m3", "assigned"):
        raise UserError("m3 was let in")
    afterwards(play)


# --- Topics and network ---


def topics_appear(play: Play) -> None:
    """Two members subscribe to a pattern; two topics that match it appear, 20 s apart."""
    open_group(play, "m1", "m2", topics=[f"^{play.topic}.*"])
    for letter in ("a", "b"):
        generation = play.generation
        play.create_topic(3, name=f"{play.topic}-{letter}")
        play.note("", "topic_created", topic=f"{play.topic}-{letter}")
        play.await_generation(generation, PATIENCE_SECONDS)
        play.await_seconds(20)
    afterwards(play)


def nat_resets(play: Play) -> None:
    """All connections of the group end every 15 s and can be recreated after a second; nobody is lost."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, hosts=hosts_of(play, *names))
    generation = play.generation
    for _ in range(5):
        for fault in (Fault.CUT, Fault.NONE):
            for name in names:
                play.disturb(name, fault)
            play.await_seconds(1 if fault == Fault.CUT else 14)
    afterwards(play)
    if play.generation != generation:
        raise UserError("the group did rebalance")


def _overrunning_kip848(parameters: Parameters) -> ClientSpec:
    return kip848(max_poll_interval_ms=parameters["max_poll_ms"])(parameters)


def _ranged_java(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"partition.assignment.strategy": _RANGE})


_quick = partial(family, draw=draw_quick)
_ALL = ("m1", "m2", "m3")

REPORTED = (
    _quick(growing_pauses, expecting("process_pause", "m2")),
    _quick(suspended_host, expecting("process_pause", "m3", "m4")),
    _quick(out_of_memory, expecting("crash_loop", "m2", beside=("member_crash", "ungraceful_shutdown")), form=java),
    _quick(
        spot_reclaim, expecting("member_crash", "m3", "m4", accepted=("ungraceful_shutdown",), beside=("scale_out",))
    ),
    family(kip848_pause, expecting("process_pause", "m2"), form=kip848(), **NEW),
    family(kip848_overrun, expecting("poll_overrun", "m2"), form=_overrunning_kip848, draw=draw_long, **NEW),
    _quick(downstream_hangs, expecting("poll_overrun", *_ALL), form=overrunning),
    _quick(
        raised_batches,
        expecting(
            "poll_overrun",
            *_ALL,
            accepted=("no_progress_loop", "stalled_member_join_barrier"),
            beside=("rolling_deploy",),
        ),
        form=java,
    ),
    _quick(slow_record_of_kafka_python, expecting("poll_overrun", "kp"), form=ROUND_ROBIN),
    family(static_deploy, expecting("static_member_restart", *_ALL, accepted=("rolling_deploy",)), draw=draw_long),
    family(hasty_autoscaler, expecting("autoscaler_flapping", beside=("scale_in", "scale_out"))),
    family(assignor_change, expecting("rolling_deploy"), form=_ranged_java),
    _quick(session_refused, expecting("join_rejected")),
    family(topics_appear, expecting("topic_metadata_change", accepted=("subscription_change",)), form=WATCHFUL),
    family(nat_resets, expecting(""), draw=draw_long),
)
