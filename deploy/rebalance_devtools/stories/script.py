"""What a story says: who plays, in its sick and in its cured form, and what the monitor ought to say of it.

Pure data and functions of it. Parameters are drawn from a seeded generator, so that a rule cannot learn one
recording by heart, and a failure can be played again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: What was drawn for one performance; units in the names.
Parameters = Mapping[str, int]

#: One line of a client's event log: `t_ms`, `name`, `event` and what belongs to the event.
Event = Mapping[str, Any]

JAVA = "java"
#: Kafka's own applications, whose settings are passed through.
STREAMS = "kafka-streams"
CONNECT = "kafka-connect"
#: Kafka's own client of share groups.
SHARE = "java-share"
AIOKAFKA = "aiokafka-0.14.0"
#: Clients of other languages, see foreign.py.
FRANZ_GO = "franz-go"
SARAMA = "sarama"
KAFKAJS = "kafkajs"
#: The kafka-python and the confluent-kafka this environment has, rather than a pinned old client.
KAFKA_PYTHON = "kafka-python"
CONFLUENT = "confluent-kafka"


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client library and how it is used.

    `library` is `java` or `java-share` (the stage's own kafka-clients), `kafka-python` or `confluent-kafka` (this
    environment's), `kafka-streams` or `kafka-connect` (Kafka's own applications), `franz-go`, `sarama` or `kafkajs`
    (pinned beside their programs), or the name of a pinned old client. `settings` are the library's own, those of Go
    and Node.js as their programs name them; `program` is what the client program does.
    """

    library: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    program: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpectedAdvice:
    """A setting that must be advised, inside a tolerance; without bounds any value will do."""

    parameter: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What the monitor must say of the sick form, and what it must not.

    `diagnosis` and `secondary` are identifiers of the catalogue; both must be said. `also` are further causes of the
    same run, each of which must be said of its own rebalances. `accepted` name the same fault and may stand in the
    place of `diagnosis` or beside it; `beside` are true too, but do not do in its place. `culprits` are names of
    clients of the play, whose member ids the run has; none means that any member may be named. `upgrade_of` is the
    library that is to be upgraded, to at least `upgrade_to`.
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
    """One incident, or another thing that happens to groups; then `cured` is null. `Story` adds how it is performed.

    `enough` symptoms end the sick form (for a recording `enough_recorded`, if that is more), `quiet_seconds` without
    any the cured one. `seconds` is how long the sick form takes at most, the stage's start aside. `brokers`,
    `broker_config` and `zookeeper` are what the stage needs; `moves_coordinator` keeps the group off the controller.
    `group_type` is the monitor's word for the kind of group that plays, `versions` are the brokers the clients work
    with, the usual one first. Where `shared`, it can be played beside others as one group of many on one broker, which
    has a network whose faults the story may choose; where `networked`, the broker that it has for itself has one too.
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
        """Return the client of the form that is played. Raises ValueError where there is no cured form."""
        form = self.cured if cured else self.sick
        if form is None:
            raise ValueError(f"story {self.id} has no cured form")
        return form(parameters)


def returns_under_new_ids(events: Sequence[Event], _: Parameters | None = None) -> int:
    """Count how often a client that was in its group came back to it as another member, its process unchanged."""
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
    """Count the commits that a coordinator refused."""
    return sum(event["event"] == "commit_failed" for event in events)


def processed_twice(events: Sequence[Event]) -> int:
    """Count the records that were handed out more than once, to whomever."""
    seen: set[tuple[str, int, int]] = set()
    found = 0
    for event in events:
        for topic, partition, first, last in event.get("ranges", ()) if event["event"] == "records" else ():
            places = {(topic, partition, offset) for offset in range(first, last + 1)}
            found += len(places & seen)
            seen |= places
    return found
