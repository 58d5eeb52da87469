"""The definition of a story: its clients, in a sick and a cured form, and the expected finding of the monitor.

Only data and pure functions. Parameters are drawn from a seeded generator, so that a rule cannot be fitted to one
recording, and a failure can be reproduced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The drawn parameters of one play; units are in the names.
Parameters = Mapping[str, int]

#: One line of a client's event log: `t_ms`, `name`, `event` and the fields of the event.
Event = Mapping[str, Any]

JAVA = "java"
#: Kafka's own applications, whose settings are passed through.
STREAMS = "kafka-streams"
CONNECT = "kafka-connect"
#: A listener container of Spring, with the Java client that it is released with.
SPRING = "spring-kafka"
#: Kafka's own client for share groups.
SHARE = "java-share"
AIOKAFKA = "aiokafka-0.14.0"
#: Clients in other languages, see foreign.py.
FRANZ_GO = "franz-go"
SARAMA = "sarama"
KAFKAJS = "kafkajs"
#: The versions of kafka-python and confluent-kafka installed in this environment, not a pinned old client.
KAFKA_PYTHON = "kafka-python"
CONFLUENT = "confluent-kafka"


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client library and how it is used.

    `library` is `java` or `java-share` (the stage's own kafka-clients), `kafka-python` or `confluent-kafka` (this
    environment's), `kafka-streams` or `kafka-connect` (Kafka's own applications), `spring-kafka`, `franz-go`, `sarama`
    or `kafkajs` (pinned next to their programs), or the name of a pinned old client. `settings` are the library's own,
    for Go and Node.js under the names of their programs; `program` has the options of the client program.
    """

    library: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    program: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpectedAdvice:
    """A setting that must be advised, with a value between `low` and `high`; None means no bound."""

    parameter: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """Findings that the monitor must report for the sick form, and those that it must not.

    `diagnosis` and `secondary` are identifiers of the catalogue; both must be found. `also` are further causes in the
    same run, each of which must be found for its own rebalances. `accepted` are other names of the same fault and may
    replace `diagnosis` or accompany it; `beside` are also correct, but cannot replace it. `culprits` are names of
    clients of the play, whose member ids are in the run; if empty, any member may be named. `upgrade_of` is the library
    to upgrade, to at least `upgrade_to`.
    """

    diagnosis: str
    culprits: tuple[str, ...] = ()
    variant: str | None = None
    secondary: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    advice: tuple[ExpectedAdvice, ...] = ()
    upgrade_of: str | None = None
    upgrade_to: str | None = None
    forbidden_diagnoses: tuple[str, ...] = ()
    forbidden_advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """An incident, or another event of a group (then `cured` is None). `Story` adds the function that performs it.

    `enough` symptoms end the sick form (in a recording `enough_recorded`, if higher), `quiet_seconds` without a symptom
    end the cured one. `seconds` is the maximum duration of the sick form, without the start of the stage. `brokers`,
    `broker_config` and `zookeeper` are requirements of the stage; `moves_coordinator` chooses a group whose coordinator
    is not the controller. `group_type` is the monitor's type of the group, `versions` are the Kafka versions that the
    clients support, the default first. A `shared` story can run as one group of many on one broker, which has a network
    with faults; a `networked` story has its own broker with such a network.
    """

    id: str
    title: str
    what: str
    draw: Callable[[random.Random], Parameters]
    sick: Callable[[Parameters], ClientSpec]
    cured: Callable[[Parameters], ClientSpec] | None
    expect: Callable[[Parameters], Expected]
    count_symptoms: Callable[[Sequence[Event], Parameters], int]
    seconds: float
    enough: int = 1
    enough_recorded: int | None = None
    quiet_seconds: Callable[[Parameters], float] = lambda _: 30.0
    brokers: int = 1
    broker_config: Mapping[str, str] = field(default_factory=dict)
    moves_coordinator: bool = False
    group_type: str = "classic"
    zookeeper: bool = False
    versions: tuple[str, ...] = ("3.9.2", "4.3.1")
    slow: bool = False
    shared: bool = False
    networked: bool = False

    def cast(self, parameters: Parameters, *, cured: bool) -> ClientSpec:
        """Return the client of the sick or cured form. Raises ValueError if there is no cured form."""
        form = self.cured if cured else self.sick
        if form is None:
            raise ValueError(f"story {self.id} has no cured form")
        return form(parameters)


def returns_under_new_ids(events: Sequence[Event], _: Parameters | None = None) -> int:
    """Return how often a client process rejoined its group under another member id."""
    last: dict[str, str] = {}
    found = 0
    for event in events:
        member_id = event.get("member_id")
        if event["event"] != "assigned" or not member_id:
            continue
        found += last.get(event["process"], member_id) != member_id
        last[event["process"]] = member_id
    return found


def failed_commits(events: Sequence[Event], _: Parameters | None = None) -> int:
    """Return the number of commits that a coordinator rejected."""
    return sum(event["event"] == "commit_failed" for event in events)


def lost_partitions(events: Sequence[Event], _: Parameters | None = None) -> int:
    """Return how often a client was told that it had lost its partitions."""
    return sum(event["event"] == "lost" for event in events)


def processed_twice(events: Sequence[Event]) -> int:
    """Return the number of records that were delivered again, to any client."""
    seen: set[tuple[str, int, int]] = set()
    found = 0
    for event in events:
        for topic, partition, first, last in event.get("ranges", ()) if event["event"] == "records" else ():
            places = {(topic, partition, offset) for offset in range(first, last + 1)}
            found += len(places & seen)
            seen |= places
    return found
