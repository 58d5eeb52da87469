"""What most scenes do: open a group on a topic with traffic, let members come, and wait until nothing moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rebalance_deploy.embedded.kafka import EmbeddedKafka
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
        play.await_told(name, "records")
    calm(play)


def join(play: Play, *names: str, form: ClientSpec | None = None, patience_seconds: float = 60, **program: Any) -> None:
    """Start clients and wait until each was assigned something since."""
    before = {name: len(play.told(name, "assigned")) for name in names}
    for name in names:
        play.start(name, form, **program)
    for name in names:
        play.await_told(name, "assigned", times=before[name] + 1, seconds=patience_seconds)


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


def take_broker_away(play: Play, node: int, stop: Callable[[EmbeddedKafka, int], None], seconds: float) -> None:
    """Stop one of several brokers, as `stop` does, and start it again after so many seconds."""
    kafka = play.stage.kafka
    assert kafka is not None
    stop(kafka, node)
    play.tell("", "broker_stopped", node=node)
    play.await_seconds(seconds)
    kafka.start(node)
    play.tell("", "broker_started", node=node)
