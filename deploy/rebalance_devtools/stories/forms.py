"""Forms of clients for families of plays, their drawn parameters, and the declaration of a family."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import (
    CONFLUENT,
    CONNECT,
    JAVA,
    STREAMS,
    ClientSpec,
    Expected,
    Parameters,
)
from rebalance_devtools.stories.story import Story

Form = Callable[[Parameters], ClientSpec]

_SESSIONS_MS = (6_000, 10_000, 45_000)

_COMMITS_MS = (1_000, 3_000, 10_000)

#: How long Connect waits for a lost worker before it moves the tasks.
CONNECT_DELAY_SECONDS = 25


def draw_any(generator: random.Random) -> Parameters:
    """Draw a session time-out of 6, 10 or 45 s."""
    return _draw(generator, _SESSIONS_MS)


def draw_quick(generator: random.Random) -> Parameters:
    """Draw a session time-out of 6 or 10 s, for plays that wait for several sessions."""
    return _draw(generator, _SESSIONS_MS[:2])


def draw_long(generator: random.Random) -> Parameters:
    """Draw a session time-out of 45 s, for plays in which members must not be removed early."""
    return _draw(generator, _SESSIONS_MS[2:])


def _draw(generator: random.Random, sessions_ms: tuple[int, ...]) -> Parameters:
    session_ms = generator.choice(sessions_ms)
    heartbeats_ms = (session_ms // 3, 3_000) if session_ms < _SESSIONS_MS[-1] else (3_000, 10_000)
    return {
        "session_ms": session_ms,
        "heartbeat_ms": min(generator.choice(heartbeats_ms), session_ms // 2),
        "commit_ms": generator.choice(_COMMITS_MS),
        # librdkafka rejects a value shorter than the session time-out.
        "max_poll_ms": max(session_ms, generator.randrange(11_000, 16_001, 1_000)),
        "partitions": generator.randint(4, 6),
        "records_per_second": generator.randint(6, 12),
        "calm_ms": generator.randrange(9_000, 13_001, 500),
        "extra_ms": generator.randrange(1_500, 7_001, 500),
    }


def confluent(**more: Any) -> Form:
    """Return a form of confluent-kafka; `more` are its settings with underscores for dots, None removes a default."""

    def form(parameters: Parameters) -> ClientSpec:
        settings = {
            "session.timeout.ms": parameters["session_ms"],
            "heartbeat.interval.ms": parameters["heartbeat_ms"],
            "auto.commit.interval.ms": parameters["commit_ms"],
            "partition.assignment.strategy": "range",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        return ClientSpec(CONFLUENT, {name: value for name, value in settings.items() if value is not None})

    return form


def overrunning(parameters: Parameters) -> ClientSpec:
    """Return a form that leaves the group when it has not polled for the drawn time."""
    return confluent(max_poll_interval_ms=parameters["max_poll_ms"])(parameters)


def kip848(**more: Any) -> Form:
    """Return a form of confluent-kafka with KIP-848, in which the broker defines sessions and heartbeats."""
    without = {"session_timeout_ms": None, "heartbeat_interval_ms": None, "partition_assignment_strategy": None}
    return confluent(group_protocol="consumer", **without, **more)


def java(parameters: Parameters, **more: Any) -> ClientSpec:
    """Return a form of Kafka's own client."""
    settings = {
        "session.timeout.ms": parameters["session_ms"],
        "heartbeat.interval.ms": parameters["heartbeat_ms"],
        "auto.commit.interval.ms": parameters["commit_ms"],
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    }
    return ClientSpec(JAVA, {**settings, **more})


def cooperative_java(parameters: Parameters) -> ClientSpec:
    """Return a form of Kafka's own client whose assignor moves partitions in two rounds."""
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    return java(parameters, **{"partition.assignment.strategy": assignor})


def kip848_java(**more: Any) -> Form:
    """Return a form of Kafka's own client with KIP-848; `more` are settings with underscores for dots."""

    def form(parameters: Parameters) -> ClientSpec:
        settings = {name.replace("_", "."): value for name, value in more.items()}
        return ClientSpec(
            JAVA,
            {"group.protocol": "consumer", "auto.commit.interval.ms": parameters["commit_ms"], **settings},
        )

    return form


def python(library: str) -> Form:
    """Return a form of kafka-python or aiokafka, whose settings have the same names."""

    def form(parameters: Parameters) -> ClientSpec:
        settings = {
            "session_timeout_ms": parameters["session_ms"],
            "heartbeat_interval_ms": parameters["heartbeat_ms"],
            "auto_commit_interval_ms": parameters["commit_ms"],
        }
        return ClientSpec(library, settings)

    return form


def streams(parameters: Parameters) -> ClientSpec:
    """Return a form of Kafka Streams with the classic protocol."""
    settings = {
        "session.timeout.ms": parameters["session_ms"],
        "heartbeat.interval.ms": parameters["heartbeat_ms"],
        "commit.interval.ms": parameters["commit_ms"],
        "auto.offset.reset": "earliest",
    }
    return ClientSpec(STREAMS, settings)


def connect(parameters: Parameters) -> ClientSpec:
    """Return a form of a distributed Connect worker."""
    settings = {
        "session.timeout.ms": parameters["session_ms"],
        "heartbeat.interval.ms": parameters["heartbeat_ms"],
        "scheduled.rebalance.max.delay.ms": CONNECT_DELAY_SECONDS * 1000,
    }
    return ClientSpec(CONNECT, settings)


#: The assignor that librdkafka, kafka-python, aiokafka and Java all support.
ROUND_ROBIN = confluent(partition_assignment_strategy="roundrobin")

COOPERATIVE = confluent(partition_assignment_strategy="cooperative-sticky")

WATCHFUL = confluent(topic_metadata_refresh_interval_ms=3_000)

NEW: Mapping[str, Any] = {"group_type": "consumer", "versions": ("4.3.1",)}

#: Three brokers for one play; any of them except the first, the controller, may be stopped.
THREE_BROKERS: Mapping[str, Any] = {
    "brokers": 3,
    "broker_config": {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "12"},
    "moves_coordinator": True,
    "shared": False,
}


def family(
    perform: Callable[[Play], None],
    expected: Expected,
    *,
    form: Form | None = None,
    draw: Callable[[random.Random], Parameters] = draw_any,
    shared: bool = True,
    **more: Any,
) -> Story:
    """Return the family of a function; its name and its docstring become the story's id and description."""
    name = perform.__name__
    return Story(
        id=name,
        title=name.replace("_", " "),
        what=(perform.__doc__ or "").removesuffix("."),
        draw=draw,
        sick=form or confluent(),
        cured=None,
        expect=lambda _: expected,
        perform=perform,
        count_symptoms=lambda *_: 0,
        seconds=400,
        shared=shared,
        **{"versions": ("4.3.1", "3.9.2"), **more},
    )


def expecting(diagnosis: str, *culprits: str, **more: Any) -> Expected:
    """Return the expected finding: a diagnosis (empty for none) and the clients it must name."""
    return Expected(diagnosis, culprits=culprits, **more)
