"""The most common incidents on call, with clients, protocols and combinations that no other family has.

Families as in families.py, written later on 2026-11-26, by an author who had read docs/diagnoses.md but no rule:
a newcomer waits for one that works on a record (kafka-python#1942, kafka-python#816), pods are killed when they are to
stop (backbeat#2819), handlers are too slow and the lag grows (snuba#5796), a batch takes too long with a cooperative
assignor (KAFKA-15818 describes the limit), an ordinary deploy and an ordinary crash. A play in which the fault did not
occur ends with an error and is void.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_return,
    deploy_in_turn,
    extra_seconds,
    join,
    killed_in_turn,
    open_group,
    stalling,
)
from rebalance_devtools.stories.forms import (
    NEW,
    cooperative_java,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    kip848_java,
    python,
)
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import AIOKAFKA, JAVA, ClientSpec, Parameters

_ALL = ("m1", "m2", "m3")
#: Maximum time until a KIP-848 member is fenced; the session time-out of 45 s is the broker's.
_FENCED_SECONDS = 150.0
_FAILED = "has failed"
_WATCHED_SECONDS = 100.0
#: Version 2 is still in use.
_KAFKA_PYTHON_2 = "kafka-python-2.2.15"
#: A group that waits this long is waiting for a member, see docs/diagnoses.md.
_WAIT_MS = 11_000
#: Ratio of the work that arrives to the work that two handlers can do in the same time.
_LOAD = 1.6


# --- Deploys ---


def cooperative_java_deploy(play: Play) -> None:
    """Four of Kafka's own clients, whose assignor moves partitions in two rounds, are replaced in turn, in order."""
    deploy_in_turn(play, *_ALL, "m4", settle_seconds=8, patience_seconds=PATIENCE_SECONDS)


def killed_deploy(play: Play) -> None:
    """Three aiokafka clients are replaced in turn; each is killed, as by a shell that keeps the signal from it."""
    killed_in_turn(play, *_ALL, settle_seconds=8)


# --- Work that takes long ---


def cooperative_java_overrun(play: Play) -> None:
    """One of three of Kafka's own clients, with an assignor of two rounds, works on a batch for longer than it may."""
    open_group(play, "m1", "m3")
    join(play, "m2", form=stalling(play, "m2", play.parameters["max_poll_ms"] + 9_000))
    play.await_event("m2", "records")
    play.await_seconds(8)
    before = assignments(play, "m2")
    play.stall("m2")
    play.await_event("m2", "lost")
    await_return(play, "m2", before)
    afterwards(play)


def held_up_by_kafka_python(play: Play) -> None:
    """A kafka-python 2 client beside two of Kafka's own works on a record for long; a newcomer waits for it."""
    hold_ms = 22_000 + play.parameters["extra_ms"]
    usual = python(_KAFKA_PYTHON_2)(play.parameters)
    slow = ClientSpec(usual.library, usual.settings, {"hold_ms": hold_ms, "hold_marked": True})
    open_group(play, "java1", "java2", "kp", forms={"kp": slow})
    (_, partition), *_ = play.events_of("kp", "assigned")[-1]["partitions"]
    play.write(b"hold", partition=partition)
    play.await_seconds(3)
    join(play, "java3", patience_seconds=PATIENCE_SECONDS + hold_ms / 1000)
    play.await_event("kp", "processed")
    waited_ms = play.events_of("kp", "processed")[0]["t_ms"] - play.events_of("java3", "started")[0]["t_ms"]
    if waited_ms < _WAIT_MS or play.count_logged(_FAILED):
        raise UserError(f"the newcomer waited for {waited_ms} ms, or kp was removed")
    afterwards(play)


def slow_handlers(play: Play) -> None:
    """What two of Kafka's own clients write to becomes slow: from then on more is produced than they can work on."""
    record_ms = int(_LOAD * 2_000 / play.parameters["records_per_second"])
    open_group(play, "m1", "m2", record_ms=record_ms, quick_batches=40, quick_record_ms=5)
    play.await_seconds(_WATCHED_SECONDS / 2)
    half = _lag(play)
    play.await_seconds(_WATCHED_SECONDS / 2)
    # About a third of the records produced meanwhile should stay unread; less than half of that is an error.
    if _lag(play) - half < _WATCHED_SECONDS / 2 * play.parameters["records_per_second"] / 6:
        raise UserError("the lag did not grow")


def _lag(play: Play) -> int:
    """Return the number of records of the play's topic that no client has read yet."""
    read: dict[int, int] = {}
    for event in play.events:
        for _, partition, _, last in event["ranges"] if event["event"] == "records" else ():
            read[partition] = max(read.get(partition, 0), last + 1)
    return sum(end - read.get(partition, 0) for partition, end in play.ends().items())


# --- Members that die ---


def kip848_java_crash(play: Play) -> None:
    """One of Kafka's own clients beside two of librdkafka, all of the newer protocol, is killed and stays away."""
    open_group(play, "rdk1", "rdk2", "java", forms={"java": kip848_java()(play.parameters)})
    before = assignments(play, "rdk1"), assignments(play, "rdk2")
    play.kill("java")
    play.await_logged("fenced from the group because", seconds=_FENCED_SECONDS)
    play.wait(lambda: (assignments(play, "rdk1"), assignments(play, "rdk2")) > before, "the others to take over")
    play.await_seconds(extra_seconds(play))
    afterwards(play)


def _hasty_cooperative_java(parameters: Parameters) -> ClientSpec:
    usual = cooperative_java(parameters)
    return ClientSpec(JAVA, {**usual.settings, "max.poll.interval.ms": parameters["max_poll_ms"]})


def _slow_java(parameters: Parameters) -> ClientSpec:
    """Return a form that gets few records per poll, as with large records, so that partitions take turns."""
    few: dict[str, Any] = {"max.poll.records": 10, "max.partition.fetch.bytes": 1_000}
    return java(parameters, **few)


_quick = partial(family, draw=draw_quick)

EVERYDAY = (
    family(cooperative_java_deploy, expecting("rolling_deploy"), form=cooperative_java),
    _quick(killed_deploy, expecting("ungraceful_shutdown", *_ALL, beside=("rolling_deploy",)), form=python(AIOKAFKA)),
    _quick(cooperative_java_overrun, expecting("poll_overrun", "m2"), form=_hasty_cooperative_java),
    _quick(
        held_up_by_kafka_python,
        expecting("stalled_member_join_barrier", "kp", beside=("scale_out",)),
        form=java,
    ),
    _quick(slow_handlers, expecting("slow_consumer_group"), form=_slow_java),
    family(kip848_java_crash, expecting("member_crash", "java"), form=kip848(), **NEW),
)
