"""Common steps of scenes: open a group on a topic with traffic, let members join, wait until the group is stable."""

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
    """Wait for the drawn `calm_ms`."""
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
    """Create the topic, start traffic and clients, and wait until every client got records and the group is calm.

    `forms` are the forms of clients that differ from the others, `hosts` the hosts of clients that connect through the
    stage's network.
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
    """Start clients and wait until each has got an assignment."""
    before = {name: len(play.events_of(name, "assigned")) for name in names}
    for name in names:
        play.start(name, form, **program)
    for name in names:
        play.await_event(name, "assigned", times=before[name] + 1, seconds=patience_seconds)


def replace_in_turn(play: Play, *names: str, settle_seconds: float, **joining: Any) -> None:
    """Stop clients one after the other in an orderly way and start each again after 2 s; `joining` is for `join`."""
    for name in names:
        play.leave(name)
        play.await_seconds(2)
        join(play, name, **joining)
        play.await_seconds(settle_seconds)


def leave_in_turn(play: Play, *names: str, settle_seconds: float) -> None:
    """Stop clients one after the other in an orderly way; they are not started again."""
    for name in names:
        play.leave(name)
        play.await_seconds(settle_seconds)


def swing(play: Play, *, turns: int, plateau_seconds: float, settle_seconds: float) -> None:
    """Scale the group up by two members and down again, `turns` times, with a plateau at each size."""
    for turn in range(turns):
        names = (f"m{3 + 2 * turn}", f"m{4 + 2 * turn}")
        join(play, *names)
        play.await_seconds(plateau_seconds)
        leave_in_turn(play, *names, settle_seconds=settle_seconds)
        play.await_seconds(plateau_seconds)


def take_broker_away(play: Play, node: int, stop: Callable[[EmbeddedKafka, int], None], seconds: float) -> None:
    """Stop one of several brokers with `stop`, and start it again after `seconds`."""
    kafka = play.stage.kafka
    assert kafka is not None
    stop(kafka, node)
    play.note("", "broker_stopped", node=node)
    play.await_seconds(seconds)
    kafka.start(node)
    play.note("", "broker_started", node=node)


def freeze_broker(play: Play, seconds: float) -> None:
    """Pause the process of the only broker for `seconds`."""
    kafka = play.stage.kafka
    assert kafka is not None
    (pid,) = kafka.pids
    os.kill(pid, signal.SIGSTOP)
    play.note("", "broker_paused")
    try:
        play.await_seconds(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


#: Time until a rebalance is judged, with a margin for a late finding.
_AFTERWARDS_SECONDS = 32.0

#: Maximum time for an eviction after the session time-out, and for a client to return.
PATIENCE_SECONDS = 60.0


def session_seconds(play: Play) -> float:
    """Return the drawn session time-out in seconds."""
    return play.parameters["session_ms"] / 1000


def extra_seconds(play: Play) -> float:
    """Return the drawn additional time in seconds."""
    return play.parameters["extra_ms"] / 1000


def await_loss(play: Play, generation: int) -> None:
    """Wait until the group has a generation after this one; the deadline includes the session time-out."""
    play.await_generation(generation, session_seconds(play) + PATIENCE_SECONDS)


def lose(play: Play, name: str) -> None:
    """Kill a client, and wait until its group has a generation without it."""
    generation = play.generation
    play.kill(name)
    await_loss(play, generation)


def stand_still(play: Play, *names: str) -> None:
    """Pause clients until their group has removed them, and a little longer; wait until they are back."""
    _lose_for_a_while(
        play, names, lambda each: play.signal(each, signal.SIGSTOP), lambda each: play.signal(each, signal.SIGCONT)
    )


def disturb_for_a_while(play: Play, names: Sequence[str], fault: Fault, **how: float) -> None:
    """Disturb the network of clients until their group has removed them, and a little longer; wait for their return.

    `how` is passed to `Play.disturb`.
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
    """Wait until a client has got more than `before` assignments."""
    play.await_event(name, "assigned", times=before + 1, seconds=session_seconds(play) + 2 * PATIENCE_SECONDS)


def overrun(play: Play, *names: str) -> None:
    """Make clients work for their `stall_ms` with SIGUSR1, and wait until each has got a new assignment."""
    before = {name: assignments(play, name) for name in names}
    for name in names:
        play.signal(name, signal.SIGUSR1)
    for name, count in before.items():
        await_return(play, name, count)


def let_poison_kill(play: Play, *names: str) -> None:
    """Write a record that kills each client that reads it, five in total; each is restarted after the drawn time."""
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
    """Return the number of assignments that a client has got."""
    return len(play.events_of(name, "assigned"))


def lose_for_good(play: Play) -> None:
    """Open a group of three clients and kill one of them; it is not started again."""
    open_group(play, "m1", "m2", "m3")
    lose(play, "m2")
    afterwards(play)


def afterwards(play: Play) -> None:
    """Wait until the last rebalance has been judged."""
    play.await_seconds(_AFTERWARDS_SECONDS)


def deploy_in_turn(play: Play, *names: str, settle_seconds: float, **joining: Any) -> None:
    """Open a group and replace its members one after the other with `replace_in_turn`."""
    open_group(play, *names)
    replace_in_turn(play, *names, settle_seconds=settle_seconds, **joining)
    afterwards(play)


def killed_in_turn(play: Play, *names: str, settle_seconds: float) -> None:
    """Open a group and kill its members in turn; each is started again before its session expires."""
    open_group(play, *names)
    for number, name in enumerate(names, start=1):
        play.kill(name)
        play.await_seconds(2)
        join(play, name, patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        play.await_logged("has failed", times=number, seconds=session_seconds(play) + PATIENCE_SECONDS)
        play.await_seconds(settle_seconds)
    afterwards(play)


def host_of(play: Play, number: int) -> str:
    """Return a host unique to this play: ACLs are per host, and other groups share the broker."""
    return f"127.0.{1 + play.seed % 200}.{number}"


def hosts_of(play: Play, *names: str) -> dict[str, str]:
    """Return hosts unique to this play, by client name."""
    return {name: host_of(play, 10 + number) for number, name in enumerate(names)}


def stalling(play: Play, name: str, stall_ms: int, **program: Any) -> ClientSpec:
    """Return the play's form as a client that works for `stall_ms` when `Play.stall` is called."""
    stalls = {"stall_ms": stall_ms, "stall_file": str(play.stall_file(name))}
    return replace(play.form, program={**play.form.program, **stalls, **program})


def static_form(play: Play, instance: str) -> ClientSpec:
    """Return the play's form as a static member."""
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
    """Set the group's offset in all partitions, as kafka-consumer-groups.sh does; None means their ends."""
    ends = play.ends()
    places = [TopicPartition(play.topic, number, end if offset is None else offset) for number, end in ends.items()]
    play.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(play.group, places)])[play.group].result(30)
    play.note("", "offsets_set", offset=offset)


def stop_and_reset(play: Play, offset: int | None, *, waiting: int) -> None:
    """Stop a group, write `waiting` records, set its offset (None: to the ends) and start it again."""
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
