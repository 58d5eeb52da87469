"""Other events of groups, one scene each: benign ones, and faults with similar symptoms.

Most use confluent-kafka with short sessions and little traffic. A scene has no cured form; the expected finding is its
`expect`. Healthy scenes expect no finding at all: their diagnosis is empty.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_devtools.stories.acting import calm, join, leave_in_turn, open_group, replace_in_turn, take_broker_away
from rebalance_devtools.stories.forms import THREE_BROKERS
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import CONFLUENT, KAFKA_PYTHON, ClientSpec, Event, Expected, Parameters
from rebalance_devtools.stories.story import Story

_SESSION_MS = 6_000
_SETTLE_SECONDS = 6.0
#: Long enough for the session of a silent member to expire in all cases.
_EXPIRY_SECONDS = 40.0


def draw(generator: random.Random) -> Parameters:
    """Draw the poll interval, the size of the topic, the traffic and the calm time between actions."""
    return {
        "session_ms": _SESSION_MS,
        "max_poll_ms": generator.randrange(10_000, 14_001, 1_000),
        "partitions": generator.randint(4, 8),
        "records_per_second": generator.randint(10, 30),
        "calm_ms": generator.randrange(8_000, 12_001, 500),
    }


def _confluent(**more: Any) -> Callable[[Parameters], ClientSpec]:
    """Return a form of confluent-kafka; `more` are its settings with underscores for dots, None removes a default."""

    def form(parameters: Parameters) -> ClientSpec:
        settings = {
            "session.timeout.ms": parameters["session_ms"],
            "heartbeat.interval.ms": parameters["session_ms"] // 3,
            "auto.commit.interval.ms": 1_000,
            "partition.assignment.strategy": "range",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        return ClientSpec(CONFLUENT, {name: value for name, value in settings.items() if value is not None})

    return form


_KIP848 = _confluent(
    group_protocol="consumer",
    session_timeout_ms=None,
    heartbeat_interval_ms=None,
    partition_assignment_strategy=None,
)


def _kafka_python(_: Parameters) -> ClientSpec:
    return ClientSpec(KAFKA_PYTHON)


def _nothing(_: Sequence[Event], __: Parameters) -> int:
    return 0


def _scene(
    name: str,
    diagnosis: str,
    perform: Callable[[Play], None],
    *,
    culprits: tuple[str, ...] = (),
    form: Callable[[Parameters], ClientSpec] | None = None,
    **more: Any,
) -> Story:
    """Return a scene; the docstring of `perform` becomes its description."""
    return Story(
        id=name,
        title=name.replace("_", " "),
        what=(perform.__doc__ or "").removesuffix("."),
        draw=draw,
        sick=form or _confluent(),
        cured=None,
        expect=lambda _: Expected(diagnosis, culprits=culprits),
        perform=perform,
        count_symptoms=_nothing,
        seconds=180,
        **more,
    )


def member_crash(play: Play) -> None:
    """One of three is killed and stays away."""
    open_group(play, "m1", "m2", "m3")
    generation = play.generation
    play.kill("m2")
    play.await_generation(generation, _EXPIRY_SECONDS)
    calm(play)


def process_pause(play: Play) -> None:
    """A process with two consumers stands still for longer than the session, twice, and goes on."""
    open_group(play, "other")
    join(play, "paused", members=2)
    calm(play)
    for _ in range(2):
        generation = play.generation
        play.signal("paused", signal.SIGSTOP)
        play.await_generation(generation, _EXPIRY_SECONDS)
        play.await_seconds(1)
        generation = play.generation
        play.signal("paused", signal.SIGCONT)
        play.await_generation(generation, _EXPIRY_SECONDS)
        calm(play)


def rolling_deploy(play: Play) -> None:
    """Four instances are replaced one after the other, in order."""
    names = [f"m{number}" for number in range(1, 5)]
    open_group(play, *names)
    replace_in_turn(play, *names, settle_seconds=_SETTLE_SECONDS)
    calm(play)


def scale_out(play: Play) -> None:
    """From two members to four."""
    open_group(play, "m1", "m2")
    join(play, "m3", "m4")
    calm(play)


def scale_in(play: Play) -> None:
    """From four members to two."""
    open_group(play, "m1", "m2", "m3", "m4")
    leave_in_turn(play, "m3", "m4", settle_seconds=_SETTLE_SECONDS)
    calm(play)


def crash_loop(play: Play) -> None:
    """A member dies a few seconds after each start, and is started again after longer and longer pauses."""
    open_group(play, "m1", "m2")
    for pause_seconds in (2, 4, 8, 16):
        before = len(play.events_of("m3", "assigned"))
        play.start("m3", exit_after_ms=11_000)
        play.expect_end("m3")
        play.await_event("m3", "assigned", times=before + 1)
        play.await_end("m3", "to die")
        play.await_seconds(pause_seconds)
    calm(play)


def short_lived_consumers(play: Play) -> None:
    """A job opens a consumer, reads for a few seconds and closes it, again and again."""
    open_group(play, "m1", "m2")
    for number in range(7):
        job = f"job{number}"
        join(play, job)
        play.await_seconds(4)
        play.leave(job)
        play.await_seconds(3)
    calm(play)


def static_id_conflict(play: Play) -> None:
    """Two processes share an instance id; each is started again when the other fenced it."""
    open_group(play, "m1")
    shared = ClientSpec(CONFLUENT, {**play.form.settings, "group.instance.id": "worker-1"})
    names = ("host-a", "host-b")
    play.start(names[0], shared)
    play.await_event(names[0], "assigned")
    for number in range(5):
        fenced, newcomer = names[number % 2], names[(number + 1) % 2]
        play.expect_end(fenced)
        play.start(newcomer, shared)
        play.await_end(fenced, "to be fenced")
        play.await_seconds(4)
    calm(play)


def ungraceful_shutdown(play: Play) -> None:
    """Each of three instances is killed and started again at once: the newcomers wait for the ghosts' sessions."""
    names = ("m1", "m2", "m3")
    open_group(play, *names)
    for name in names:
        play.kill(name)
        join(play, name)
        calm(play)


def poll_overrun(play: Play) -> None:
    """A member stands still for longer than its max.poll.interval, twice."""
    open_group(play, "m1")
    overrun = ClientSpec(CONFLUENT, {**play.form.settings, "max.poll.interval.ms": play.parameters["max_poll_ms"]})
    play.start("m2", overrun, stall_ms=play.parameters["max_poll_ms"] + 8_000)
    play.await_event("m2", "records")
    calm(play)
    for _ in range(2):
        before = len(play.events_of("m2", "assigned"))
        play.signal("m2", signal.SIGUSR1)
        play.await_event("m2", "assigned", times=before + 1, seconds=90)
        calm(play)


def coordinator_restart(play: Play) -> None:
    """The broker that coordinates the group is restarted in order; another one takes over meanwhile."""
    _fail_over(play, lambda kafka, node: kafka.stop(node))


def coordinator_crash(play: Play) -> None:
    """The broker that coordinates the group is killed and started again."""
    _fail_over(play, lambda kafka, node: kafka.kill(node))


def _fail_over(play: Play, stop: Callable[[EmbeddedKafka, int], None]) -> None:
    open_group(play, "m1", "m2", replicas=3)
    take_broker_away(play, play.coordinator(), stop, 20)
    calm(play)


def reconciliation_stuck(play: Play) -> None:
    """A KIP-848 member takes half a minute to give partitions up when another one joins."""
    open_group(play, "slow", revoke_ms=30_000)
    play.start("waiting")
    play.await_event("slow", "revoked", seconds=90)
    play.await_event("waiting", "records", seconds=60)
    calm(play)


def subscription_change(play: Play) -> None:
    """Both members subscribe to one more topic."""
    extra = f"{play.topic}-more"
    play.create_topic(2, name=extra)
    open_group(play, "m1", "m2", later_topics=[play.topic, extra])
    for name in ("m1", "m2"):
        generation = play.generation
        play.signal(name, signal.SIGUSR2)
        play.await_generation(generation)
        play.await_seconds(_SETTLE_SECONDS)
    calm(play)


def shared_group_id(play: Play) -> None:
    """Two applications with topics of their own use one group id; one of them is deployed twice."""
    other = f"{play.topic}-other"
    play.create_topic(3, name=other)
    play.traffic(per_second=5, partitions=3, name=other)
    open_group(play, "orders-1", "orders-2")
    join(play, "billing-1", "billing-2", topics=[other])
    for name in ("billing-1", "billing-2"):
        play.leave(name)
        join(play, name, topics=[other])
        play.await_seconds(_SETTLE_SECONDS)
    calm(play)


def topic_metadata_change(play: Play) -> None:
    """The topic gets more partitions."""
    open_group(play, "m1", "m2")
    generation = play.generation
    play.grow_topic(play.parameters["partitions"] + 4)
    play.await_generation(generation)
    calm(play)


def stalled_consumer(play: Play) -> None:
    """A member goes on polling and heartbeating but gets nothing more: its partitions are paused for ever."""
    interval = {"max.poll.interval.ms": play.parameters["max_poll_ms"]}
    # Longer than this interval, because a shorter standstill might be a long batch.
    open_group(play, "m1", "m2", form=ClientSpec(CONFLUENT, {**play.form.settings, **interval}))
    play.signal("m2", signal.SIGUSR2)
    play.await_seconds(120)


def healthy(play: Play) -> None:
    """Two members work on a little traffic, then nothing comes for a while; nothing is wrong."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    traffic = play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    play.start_all(("m1", "m2"), "records")
    calm(play)
    traffic.stop()
    play.await_seconds(60)


_COOPERATIVE = _confluent(partition_assignment_strategy="cooperative-sticky")
_PATIENT = _confluent(session_timeout_ms=30_000)
_WATCHFUL = _confluent(topic_metadata_refresh_interval_ms=3_000)
_KIP848_STAGE: Mapping[str, Any] = {"group_type": "consumer", "versions": ("4.3.1",)}

SCENES = (
    _scene("member_crash", "member_crash", member_crash, culprits=("m2",)),
    _scene("process_pause", "process_pause", process_pause, culprits=("paused",)),
    _scene("rolling_deploy", "rolling_deploy", rolling_deploy),
    _scene("scale_out", "scale_out", scale_out, culprits=("m3", "m4")),
    _scene("scale_out_cooperative", "scale_out", scale_out, culprits=("m3", "m4"), form=_COOPERATIVE),
    _scene("scale_in", "scale_in", scale_in, culprits=("m3", "m4")),
    _scene("crash_loop", "crash_loop", crash_loop, culprits=("m3",)),
    _scene("short_lived_consumers", "short_lived_consumers", short_lived_consumers),
    _scene("static_id_conflict", "static_id_conflict", static_id_conflict, culprits=("host-a", "host-b")),
    _scene("ungraceful_shutdown", "ungraceful_shutdown", ungraceful_shutdown, culprits=("m1", "m2", "m3")),
    _scene("poll_overrun", "poll_overrun", poll_overrun, culprits=("m2",)),
    _scene("coordinator_restart", "coordinator_failover", coordinator_restart, form=_PATIENT, **THREE_BROKERS),
    _scene("coordinator_crash", "coordinator_failover", coordinator_crash, **THREE_BROKERS),
    _scene(
        "reconciliation_stuck",
        "reconciliation_stuck",
        reconciliation_stuck,
        culprits=("slow",),
        form=_KIP848,
        **_KIP848_STAGE,
    ),
    _scene("subscription_change", "subscription_change", subscription_change),
    _scene("shared_group_id", "shared_group_id", shared_group_id),
    _scene("topic_metadata_change", "topic_metadata_change", topic_metadata_change, form=_WATCHFUL),
    _scene("stalled_consumer", "stalled_consumer", stalled_consumer, culprits=("m2",)),
    _scene("healthy_confluent", "", healthy),
    _scene("healthy_kafka_python", "", healthy, form=_kafka_python),
)
