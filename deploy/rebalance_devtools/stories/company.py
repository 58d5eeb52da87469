"""Faults of other families with other clients or combinations, to verify that the rules generalise.

Families as in families.py, chosen on 2026-11-25 to replace those that rules may be tuned to since then.
"""

from __future__ import annotations

from functools import partial

from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    deploy_in_turn,
    extra_seconds,
    host_of,
    hosts_of,
    join,
    leave_in_turn,
    lose,
    open_group,
    overrun,
    stalling,
    stand_still,
)
from rebalance_devtools.stories.families import network_cut
from rebalance_devtools.stories.forms import (
    COOPERATIVE,
    NEW,
    ROUND_ROBIN,
    confluent,
    cooperative_java,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    python,
)
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.polyglot import foreign
from rebalance_devtools.stories.script import AIOKAFKA, FRANZ_GO, KAFKA_PYTHON, ClientSpec, Parameters


def _cooperative_overrunning(parameters: Parameters) -> ClientSpec:
    limit_ms = parameters["max_poll_ms"]
    return confluent(partition_assignment_strategy="cooperative-sticky", max_poll_interval_ms=limit_ms)(parameters)


def _overrunning_java(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"max.poll.interval.ms": parameters["max_poll_ms"]})


def host_crash(play: Play) -> None:
    """One host with two of four clients is lost for good."""
    hosts = {name: host_of(play, 20 if name in ("m3", "m4") else 10) for name in ("m1", "m2", "m3", "m4")}
    open_group(play, *hosts, hosts=hosts)
    generation = play.generation
    for name in ("m3", "m4"):
        play.kill(name)
    await_loss(play, generation)
    afterwards(play)


def cooperative_overrun(play: Play) -> None:
    """One client whose assignor moves partitions in two rounds works on a batch for longer than it may."""
    open_group(play, "m1", "m2", "m3", stall_ms=play.parameters["max_poll_ms"] + 9_000)
    overrun(play, "m2")
    afterwards(play)


def java_overrun(play: Play) -> None:
    """One of three of Kafka's own clients works on a batch for longer than it may."""
    open_group(play, "m1", "m3")
    play.start("m2", stalling(play, "m2", play.parameters["max_poll_ms"] + 9_000))
    play.await_event("m2", "records")
    before = assignments(play, "m2")
    play.stall("m2")
    play.await_event("m2", "stalls")
    await_return(play, "m2", before)
    afterwards(play)


def java_pause(play: Play) -> None:
    """One of Kafka's own clients, whose assignor moves partitions in two rounds, stands still beyond its session."""
    open_group(play, "m1", "m2", "m3")
    stand_still(play, "m2")
    afterwards(play)


def go_deploy(play: Play) -> None:
    """Three franz-go clients are replaced in turn, in order."""
    deploy_in_turn(play, "m1", "m2", "m3", settle_seconds=8, patience_seconds=PATIENCE_SECONDS)


def kip848_scale_in(play: Play) -> None:
    """Two of four members of the newer protocol leave, in order, for good."""
    open_group(play, "m1", "m2", "m3", "m4")
    leave_in_turn(play, "m3", "m4", settle_seconds=6)
    afterwards(play)


def aiokafka_crash(play: Play) -> None:
    """One aiokafka client beside two of librdkafka is killed and stays away."""
    _lose_one(play, "aio", "rdk1", "rdk2", form=python(AIOKAFKA)(play.parameters))


def go_killed_in_place(play: Play) -> None:
    """A franz-go client beside two others is killed and started again at once, while its old id is still a member."""
    open_group(play, "m1", "m2", "m3")
    play.kill("m2")
    play.await_seconds(1)
    join(play, "m2", patience_seconds=PATIENCE_SECONDS)
    afterwards(play)


def cut_during_scale_out(play: Play) -> None:
    """One client's connections end for longer than its session, and another client joins meanwhile."""
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    generation, before = play.generation, assignments(play, "m2")
    play.disturb("m2", Fault.CUT)
    join(play, "m4", patience_seconds=2 * PATIENCE_SECONDS)
    await_loss(play, generation)
    play.await_seconds(extra_seconds(play))
    play.disturb("m2", Fault.NONE)
    await_return(play, "m2", before)
    afterwards(play)


def _lose_one(play: Play, lost: str, *others: str, form: ClientSpec | None = None) -> None:
    """Kill one client of a group and do not restart it; `form` is its form, None if it is that of the others."""
    open_group(play, *others, lost, forms={} if form is None else {lost: form})
    lose(play, lost)
    afterwards(play)


def cooperative_crash(play: Play) -> None:
    """One of three clients whose assignor moves partitions in two rounds is killed and stays away."""
    _lose_one(play, "m2", "m1", "m3")


def kafka_python_crash(play: Play) -> None:
    """One kafka-python client beside two of librdkafka is killed and stays away."""
    _lose_one(play, "kp", "rdk1", "rdk2", form=python(KAFKA_PYTHON)(play.parameters))


def java_killed_in_place(play: Play) -> None:
    """One of three of Kafka's own clients is killed and started again at once."""
    go_killed_in_place(play)


def java_scale_in(play: Play) -> None:
    """Two of four of Kafka's own clients leave, in order, for good."""
    kip848_scale_in(play)


def java_cut(play: Play) -> None:
    """The connections of one of Kafka's own clients end for longer than its session."""
    network_cut(play)


def mixed_pause(play: Play) -> None:
    """Kafka's own client beside one of librdkafka and one of aiokafka stands still for longer than its session."""
    forms = {"java": java(play.parameters), "aio": python(AIOKAFKA)(play.parameters)}
    open_group(play, "rdk", *forms, forms=forms)
    stand_still(play, "java")
    afterwards(play)


def kip848_deploy(play: Play) -> None:
    """Three members of the newer protocol are replaced in turn, in order."""
    deploy_in_turn(play, "m1", "m2", "m3", settle_seconds=8, patience_seconds=PATIENCE_SECONDS)


def aiokafka_deploy(play: Play) -> None:
    """Three aiokafka clients are replaced in turn, in order."""
    deploy_in_turn(play, "m1", "m2", "m3", settle_seconds=8, patience_seconds=PATIENCE_SECONDS)


_quick = partial(family, draw=draw_quick)

COMPANY = (
    _quick(host_crash, expecting("member_crash", "m3", "m4")),
    _quick(cooperative_overrun, expecting("poll_overrun", "m2"), form=_cooperative_overrunning),
    _quick(java_overrun, expecting("poll_overrun", "m2"), form=_overrunning_java),
    _quick(java_pause, expecting("process_pause", "m2"), form=cooperative_java),
    family(go_deploy, expecting("rolling_deploy"), form=foreign(FRANZ_GO, balancer="roundrobin")),
    family(kip848_scale_in, expecting("scale_in", "m3", "m4"), form=kip848(), **NEW),
    _quick(aiokafka_crash, expecting("member_crash", "aio"), form=ROUND_ROBIN),
    _quick(go_killed_in_place, expecting("ungraceful_shutdown", "m2"), form=foreign(FRANZ_GO, balancer="roundrobin")),
    _quick(cut_during_scale_out, expecting("network_partition", "m2", beside=("scale_out",)), form=COOPERATIVE),
    _quick(cooperative_crash, expecting("member_crash", "m2"), form=COOPERATIVE),
    _quick(kafka_python_crash, expecting("member_crash", "kp"), form=ROUND_ROBIN),
    _quick(java_killed_in_place, expecting("ungraceful_shutdown", "m2"), form=java),
    family(java_scale_in, expecting("scale_in", "m3", "m4"), form=java),
    _quick(java_cut, expecting("network_partition", "m2"), form=java),
    _quick(mixed_pause, expecting("process_pause", "java"), form=ROUND_ROBIN),
    family(kip848_deploy, expecting("rolling_deploy"), form=kip848(), **NEW),
    family(aiokafka_deploy, expecting("rolling_deploy"), form=python(AIOKAFKA)),
)
