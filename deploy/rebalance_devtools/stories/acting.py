"""What most scenes do: open a group on a topic with traffic, let members come, and wait until nothing moves."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import ClientSpec


def calm(play: Play) -> None:
    """Let the time pass that was drawn for it."""
    play.await_seconds(play.parameters["calm_ms"] / 1000)


def open_group(
    play: Play,
    *names: str,
    form: ClientSpec | None = None,
    forms: Mapping[str, ClientSpec] = MappingProxyType({}),
    hosts: Mapping[str, str] = MappingProxyType({}),
    replicas: int = 1,
    **program: Any,
) -> None:
    """Make the topic, let records come, and start clients until all of them own something and nothing moves.

    `forms` are clients of another form than the others, `hosts` those that go through the stage's network.
    """
    partitions = play.parameters["partitions"]
    play.create_topic(partitions, replicas=replicas)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for name in names:
        play.start(name, forms.get(name, form), host=hosts.get(name), **program)
    for name in names:
        play.await_event(name, "records")
    calm(play)


def join(play: Play, *names: str, form: ClientSpec | None = None, patience_seconds: float = 60, **program: Any) -> None:
    """Start clients and wait until each was assigned something since."""
    before = {name: len(play.events_of(name, "assigned")) for name in names}
    for name in names:
        play.start(name, form, **program)
    for name in names:
        play.await_event(name, "assigned", times=before[name] + 1, seconds=patience_seconds)


def replace_in_turn(play: Play, *names: str, settle_seconds: float, **joining: Any) -> None:
    """Let clients leave in order, one after the other, each started again 2 s later, as `join` takes it."""
    for name in names:
        play.leave(name)
        play.await_seconds(2)
        join(play, name, **joining)
        play.await_seconds(settle_seconds)


def leave_in_turn(play: Play, *names: str, settle_seconds: float) -> None:
    """Let clients leave in order, one after the other, for good."""
    for name in names:
        play.leave(name)
        play.await_seconds(settle_seconds)


def swing(play: Play, *, turns: int, plateau_seconds: float, settle_seconds: float) -> None:
    """Let two more members come and leave in order again, as an autoscaler does, and stay at each size for a while."""
    for turn in range(turns):
        names = (f"m{3 + 2 * turn}", f"m{4 + 2 * turn}")
        join(play, *names)
        play.await_seconds(plateau_seconds)
        leave_in_turn(play, *names, settle_seconds=settle_seconds)
        play.await_seconds(plateau_seconds)


def take_broker_away(play: Play, node: int, stop: Callable[[EmbeddedKafka, int], None], seconds: float) -> None:
    """Stop one of several brokers, as `stop` does, and start it again after so many seconds."""
    kafka = play.stage.kafka
    assert kafka is not None
    stop(kafka, node)
    play.note("", "broker_stopped", node=node)
    play.await_seconds(seconds)
    kafka.start(node)
    play.note("", "broker_started", node=node)


def freeze_broker(play: Play, seconds: float) -> None:
    """Let the process of the only broker stand still for so many seconds."""
    kafka = play.stage.kafka
    assert kafka is not None
    (pid,) = kafka.pids
    os.kill(pid, signal.SIGSTOP)
    play.note("", "broker_paused")
    try:
        play.await_seconds(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


#: Until a rebalance is judged, and the verdict has had time to be late.
_AFTERWARDS_SECONDS = 32.0

#: What an eviction may take beyond the session, and a client to come back.
PATIENCE_SECONDS = 60.0


def session_seconds(play: Play) -> float:
    """Return the session timeout that was drawn, in seconds."""
    return play.parameters["session_ms"] / 1000


def extra_seconds(play: Play) -> float:
    """Return the time that was drawn to be added, in seconds."""
    return play.parameters["extra_ms"] / 1000


def await_loss(play: Play, generation: int) -> None:
    """Wait until the group went on after a generation, however late its session lets it."""
    play.await_generation(generation, session_seconds(play) + PATIENCE_SECONDS)


def lose(play: Play, name: str) -> None:
    """Kill a client, and wait until its group went on without it."""
    generation = play.generation
    play.kill(name)
    await_loss(play, generation)


def stand_still(play: Play, *names: str) -> None:
    """Freeze clients until their group went on without them, and a little longer; wait until they are back."""
    _lose_for_a_while(
        play, names, lambda each: play.signal(each, signal.SIGSTOP), lambda each: play.signal(each, signal.SIGCONT)
    )


def disturb_for_a_while(play: Play, names: Sequence[str], fault: Fault, **how: float) -> None:
    """Disturb the network of clients until their group went on without them, and a little longer; await their return.

    `how` is what `Play.disturb` takes for the fault.
    """
    _lose_for_a_while(
        play, names, lambda each: play.disturb(each, fault, **how), lambda each: play.disturb(each, Fault.NONE)
    )


def _lose_for_a_while(
    play: Play, names: Sequence[str], begin: Callable[[str], object], end: Callable[[str], object]
) -> None:
    generation, before = play.generation, {name: assignments(play, name) for name in names}
    for name in names:
        begin(name)
    await_loss(play, generation)
    play.await_seconds(extra_seconds(play))
    for name in names:
        end(name)
    for name in names:
        await_return(play, name, before[name])


def await_return(play: Play, name: str, before: int) -> None:
    """Wait until a client was assigned something once more than `before`."""
    play.await_event(name, "assigned", times=before + 1, seconds=session_seconds(play) + 2 * PATIENCE_SECONDS)


def overrun(play: Play, *names: str) -> None:
    """Let clients that take signals work for their `stall_ms`, and wait until each was assigned something since."""
    before = {name: assignments(play, name) for name in names}
    for name in names:
        play.signal(name, signal.SIGUSR1)
    for name, count in before.items():
        await_return(play, name, count)


def let_poison_kill(play: Play, *names: str) -> None:
    """Let one record kill whoever reads it, five times in all; each is started again after the time that was drawn."""
    open_group(play, *names, dies_of="poison")
    for name in names:
        play.expect_end(name)
    play.write(b"poison", partition=0)
    seconds, died = 2 * session_seconds(play) + PATIENCE_SECONDS, 0
    while died < 5:
        dead = play.wait(lambda: [name for name in names if not play.is_running(name)], "the next one to die", seconds)
        died += len(dead)
        play.await_seconds(extra_seconds(play))
        for name in dead:
            play.start(name, dies_of="poison")
            play.expect_end(name)


def assignments(play: Play, name: str) -> int:
    """Return how often a client was assigned something."""
    return len(play.events_of(name, "assigned"))


def lose_for_good(play: Play) -> None:
    """Open a group of three clients of which one is then killed and stays away."""
    open_group(play, "m1", "m2", "m3")
    lose(play, "m2")
    afterwards(play)


def afterwards(play: Play) -> None:
    """Let the time pass in which what happened is judged."""
    play.await_seconds(_AFTERWARDS_SECONDS)


def deploy_in_turn(play: Play, *names: str, settle_seconds: float, **joining: Any) -> None:
    """Open a group whose members are then replaced one after the other, in order, as `replace_in_turn` does it."""
    open_group(play, *names)
    replace_in_turn(play, *names, settle_seconds=settle_seconds, **joining)
    afterwards(play)


def killed_in_turn(play: Play, *names: str, settle_seconds: float) -> None:
    """Open a group whose members are then killed in turn, each started again before its session is over."""
    open_group(play, *names)
    for number, name in enumerate(names, start=1):
        play.kill(name)
        play.await_seconds(2)
        join(play, name, patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_logged("has failed", times=number, seconds=session_seconds(play) + PATIENCE_SECONDS)
        play.await_seconds(settle_seconds)
    afterwards(play)


def host_of(play: Play, number: int) -> str:
    """Return a host of the play's own: permissions are taken from hosts, and other groups share the broker."""
    return f"127.0.{1 + play.seed % 200}.{number}"


def hosts_of(play: Play, *names: str) -> dict[str, str]:
    """Return hosts of the play's own for clients, by their names."""
    return {name: host_of(play, 10 + number) for number, name in enumerate(names)}


def stalling(play: Play, name: str, stall_ms: int, **program: Any) -> ClientSpec:
    """Return the form that is played as a client that `Play.stall` lets work for so long."""
    stalls = {"stall_ms": stall_ms, "stall_file": str(play.stall_file(name))}
    return replace(play.form, program={**play.form.program, **stalls, **program})


def static_form(play: Play, instance: str) -> ClientSpec:
    """Return the form that is played as a static member."""
    return ClientSpec(play.form.library, {**play.form.settings, "group.instance.id": instance})


def start_static(play: Play, name: str) -> None:
    """Start a static member."""
    play.start(name, static_form(play, f"worker-{name}"))


def open_static(play: Play, *names: str) -> None:
    """Open a group of static members."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for name in names:
        start_static(play, name)
    for name in names:
        play.await_event(name, "records")
    calm(play)


def _reset(play: Play, offset: int | None) -> None:
    """Set the group's position in all partitions, as kafka-consumer-groups.sh does; null: to their ends."""
    ends = play.ends()
    places = [TopicPartition(play.topic, number, end if offset is None else offset) for number, end in ends.items()]
    play.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(play.group, places)])[play.group].result(30)
    play.note("", "offsets_set", offset=offset)


def stop_and_reset(play: Play, offset: int | None, *, waiting: int) -> None:
    """Stop a group in order, set its position (null: to the ends, beyond so many records) and start it again."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.fill(6_000, partitions=partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    play.start_all(("m1", "m2"), "records")
    play.await_seconds(10 + 2 * play.parameters["commit_ms"] / 1000)
    for name in ("m1", "m2"):
        play.leave(name)
    play.await_seconds(5)
    play.fill(waiting, partitions=partitions)
    _reset(play, offset)
    play.await_seconds(5)
    join(play, "m1", "m2")
    afterwards(play)
