"""Faults that no rule was written after, and healthy groups that look busy: what the judgement is measured on.

Each is a family of plays that differ by what is drawn: session time-outs of 6, 10 and 45 s, intervals of heartbeats and
commits between 1 and 10 s, sizes and traffic. All are shared: they play as groups of one broker, side by side. Which of
them the rules may be tuned to is declared in tests/accuracy/families.toml, not here.
"""

from __future__ import annotations

import json
import random
import signal
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import ResourceType

from rebalance_devtools.stories.acting import calm, join, open_group
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import (
    AIOKAFKA,
    CONFLUENT,
    CONNECT,
    JAVA,
    KAFKA_PYTHON,
    STREAMS,
    ClientSpec,
    Expected,
    Parameters,
)
from rebalance_devtools.stories.story import Story

Form = Callable[[Parameters], ClientSpec]

#: Until a rebalance is judged, and the verdict has had time to be late.
_AFTERWARDS_SECONDS = 32.0
#: What an eviction may take beyond the session, and a client to come back.
_PATIENCE_SECONDS = 60.0
_SESSIONS_MS = (6_000, 10_000, 45_000)
#: How long Connect waits for a worker that is gone.
_DELAY_SECONDS = 25
_COMMITS_MS = (1_000, 3_000, 10_000)


def draw_any(generator: random.Random) -> Parameters:
    """Draw sessions of every length."""
    return _draw(generator, _SESSIONS_MS)


def draw_quick(generator: random.Random) -> Parameters:
    """Draw a session of 6 or 10 s: for what takes several of them."""
    return _draw(generator, _SESSIONS_MS[:2])


def _draw(generator: random.Random, sessions_ms: tuple[int, ...]) -> Parameters:
    session_ms = generator.choice(sessions_ms)
    heartbeats_ms = (session_ms // 3, 3_000) if session_ms < _SESSIONS_MS[-1] else (3_000, 10_000)
    return {
        "session_ms": session_ms,
        "heartbeat_ms": min(generator.choice(heartbeats_ms), session_ms // 2),
        "commit_ms": generator.choice(_COMMITS_MS),
        # librdkafka refuses one that is shorter than the session.
        "max_poll_ms": max(session_ms, generator.randrange(11_000, 16_001, 1_000)),
        "partitions": generator.randint(4, 6),
        "records_per_second": generator.randint(6, 12),
        "calm_ms": generator.randrange(9_000, 13_001, 500),
        "extra_ms": generator.randrange(1_500, 7_001, 500),
    }


def confluent(**more: Any) -> Form:
    """Return a form of confluent-kafka; keys of `more` are its settings with underscores for dots, null for none."""

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
    """Return a form that leaves when it has not polled for as long as was drawn."""
    return confluent(max_poll_interval_ms=parameters["max_poll_ms"])(parameters)


def kip848(**more: Any) -> Form:
    """Return a form of confluent-kafka in the newer protocol, where the broker keeps sessions and heartbeats."""
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


#: What librdkafka, kafka-python, aiokafka and Java all know.
_ROUND_ROBIN = confluent(partition_assignment_strategy="roundrobin")


def mixed(play: Play, *, with_java: bool = True) -> dict[str, ClientSpec]:
    """Return clients of different libraries for one group, by name."""
    forms = {
        "rdk": _ROUND_ROBIN(play.parameters),
        "aio": python(AIOKAFKA)(play.parameters),
        "kp": python(KAFKA_PYTHON)(play.parameters),
    }
    return {**forms, "java": java(play.parameters)} if with_java else forms


def _session(play: Play) -> float:
    return play.parameters["session_ms"] / 1000


def _extra(play: Play) -> float:
    return play.parameters["extra_ms"] / 1000


def _await_loss(play: Play, generation: int) -> None:
    play.await_generation(generation, _session(play) + _PATIENCE_SECONDS)


def _await_return(play: Play, name: str, before: int) -> None:
    play.await_told(name, "assigned", times=before + 1, seconds=_session(play) + 2 * _PATIENCE_SECONDS)


def _assignments(play: Play, name: str) -> int:
    return len(play.told(name, "assigned"))


def _afterwards(play: Play) -> None:
    play.await_seconds(_AFTERWARDS_SECONDS)


def _host(play: Play, number: int) -> str:
    """Return a host of the play's own: permissions are taken from hosts, and other groups share the broker."""
    return f"127.0.{1 + play.seed % 200}.{number}"


def _hosts(play: Play, *names: str) -> dict[str, str]:
    return {name: _host(play, 10 + number) for number, name in enumerate(names)}


# --- Network ---


def _lose_and_return(play: Play, names: tuple[str, ...], fault: Fault, **how: float) -> None:
    """Disturb clients until the group went on without them, and a little longer; wait until they are back."""
    generation, before = play.generation, {name: _assignments(play, name) for name in names}
    for name in names:
        play.disturb(name, fault, **how)
    _await_loss(play, generation)
    play.await_seconds(_extra(play))
    for name in names:
        play.disturb(name, Fault.NONE)
    for name in names:
        _await_return(play, name, before[name])
    _afterwards(play)


def network_silent(play: Play) -> None:
    """Nothing of one client's host arrives for longer than its session; its connections survive that."""
    open_group(play, "m1", "m2", "m3", hosts=_hosts(play, "m1", "m2", "m3"))
    _lose_and_return(play, ("m2",), Fault.SILENT)


def network_cut(play: Play) -> None:
    """One client's connections end, and new ones are refused for longer than its session."""
    open_group(play, "m1", "m2", "m3", hosts=_hosts(play, "m1", "m2", "m3"))
    _lose_and_return(play, ("m2",), Fault.CUT)


def network_delay(play: Play) -> None:
    """Everything of one client is late by most of a session each way, until it was lost."""
    open_group(play, "m1", "m2", "m3", hosts=_hosts(play, "m1", "m2", "m3"))
    _lose_and_return(play, ("m2",), Fault.DELAY, delay_seconds=0.8 * _session(play))


def network_host(play: Play) -> None:
    """One host with two of four clients is cut off for longer than their session."""
    hosts = {name: _host(play, 10 if name in ("m1", "m2") else 20) for name in ("m1", "m2", "m3", "m4")}
    open_group(play, *hosts, hosts=hosts)
    _lose_and_return(play, ("m3", "m4"), Fault.SILENT)


def network_loss(play: Play) -> None:
    """A third of one client's segments is lost and sent again for a minute; everybody stays."""
    open_group(play, "m1", "m2", "m3", hosts=_hosts(play, "m1", "m2", "m3"))
    play.disturb("m2", Fault.LOSS, loss=0.3)
    play.await_seconds(60)
    play.disturb("m2", Fault.NONE)
    _afterwards(play)


# --- Processes ---


def cpu_throttling(play: Play) -> None:
    """One process gets no processor for longer than its session, three times, a few seconds between."""
    open_group(play, "m1", "m2", "m3")
    for _ in range(3):
        generation, before = play.generation, _assignments(play, "m2")
        play.signal("m2", signal.SIGSTOP)
        _await_loss(play, generation)
        play.await_seconds(_extra(play))
        play.signal("m2", signal.SIGCONT)
        _await_return(play, "m2", before)
        play.await_seconds(_extra(play) + 4)
    _afterwards(play)


def zombie(play: Play) -> None:
    """A process stands still with a backlog in its hands and goes on with it after others took over."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.fill(4_000, partitions=partitions)
    for name in ("m1", "m2"):
        play.start(name, work_ms=40)
    for name in ("m1", "m2"):
        play.await_told(name, "records")
    calm(play)
    generation, before = play.generation, _assignments(play, "m2")
    play.signal("m2", signal.SIGSTOP)
    _await_loss(play, generation)
    play.await_seconds(_extra(play))
    play.signal("m2", signal.SIGCONT)
    _await_return(play, "m2", before)
    _afterwards(play)


def full_disk_dies(play: Play) -> None:
    """A client dies as soon as its disk is full; whatever starts it again does so in vain, four times."""
    open_group(play, "m1", "m2")
    disk = str(play.directory / "m3.out")
    for _ in range(5):
        play.start("m3", output=disk, disk_bytes=2_500_000)
        play.expect_end("m3")
        play.await_end("m3", "to die", _session(play) + _PATIENCE_SECONDS)
        play.await_seconds(_extra(play))
    _afterwards(play)


def full_disk_waits(play: Play) -> None:
    """A client's disk is full: it tries again for ever, polls no more, and leaves by itself."""
    open_group(play, "m1", "m3")
    play.start("m2", output=str(play.directory / "m2.out"), disk_bytes=2_500_000, waits_for_room=True)
    play.await_told("m2", "disk_full", seconds=_PATIENCE_SECONDS)
    _await_loss(play, play.generation)
    _afterwards(play)


def crash_of_java(play: Play) -> None:
    """One of three Java clients is killed and stays away."""
    open_group(play, "m1", "m2", "m3")
    generation = play.generation
    play.kill("m2")
    _await_loss(play, generation)
    _afterwards(play)


def poison(play: Play) -> None:
    """One record kills whoever reads it, five times; each is started again after a few seconds."""
    names = ("m1", "m2", "m3")
    open_group(play, *names, dies_of="poison")
    for name in names:
        play.expect_end(name)
    play.write(b"poison", partition=0)
    deaths = 0
    while deaths < 5:
        dead = play.wait(
            lambda: [name for name in names if not play.is_running(name)],
            "the next one to die",
            2 * _session(play) + _PATIENCE_SECONDS,
        )
        deaths += len(dead)
        play.await_seconds(_extra(play))
        for name in dead:
            play.start(name, dies_of="poison")
            play.expect_end(name)
    _afterwards(play)


def overrun_for_long(play: Play) -> None:
    """One client overruns its poll limit again and again, the process the same all the time."""
    open_group(play, "m1")
    play.start(
        "m2", overrunning(play.parameters), stall_ms=play.parameters["max_poll_ms"] + play.parameters["extra_ms"]
    )
    play.await_told("m2", "records")
    calm(play)
    for _ in range(7):
        before = _assignments(play, "m2")
        play.signal("m2", signal.SIGUSR1)
        _await_return(play, "m2", before)
        play.await_seconds(4)
    _afterwards(play)


def event_loop_blocked(play: Play) -> None:
    """An aiokafka client beside librdkafka computes for longer than its session, three times."""
    stall_ms = play.parameters["session_ms"] + 2_000 + play.parameters["extra_ms"]
    open_group(play, "rdk1", "rdk2")
    join(play, "aio", form=python(AIOKAFKA)(play.parameters), stall_ms=stall_ms)
    calm(play)
    for _ in range(3):
        before = _assignments(play, "aio")
        play.signal("aio", signal.SIGUSR1)
        _await_return(play, "aio", before)
        calm(play)
    _afterwards(play)


# --- Static members ---


def _static(play: Play, name: str, *, host: str | None = None) -> None:
    form = ClientSpec(CONFLUENT, {**play.form.settings, "group.instance.id": f"worker-{name}"})
    play.start(name, form, host=host)


def _open_static(play: Play, *names: str) -> None:
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for name in names:
        _static(play, name)
    for name in names:
        play.await_told(name, "records")
    calm(play)


def static_supervised(play: Play) -> None:
    """A static member crashes three times and is back within its session each time."""
    _open_static(play, "m1", "m2", "m3")
    for _ in range(3):
        before = _assignments(play, "m2")
        play.kill("m2")
        play.await_seconds(1.5)
        _static(play, "m2")
        _await_return(play, "m2", before)
        calm(play)
    _afterwards(play)


def static_slow_supervisor(play: Play) -> None:
    """A static member crashes twice and is started again a few seconds after its session."""
    _open_static(play, "m1", "m2", "m3")
    for _ in range(2):
        generation, before = play.generation, _assignments(play, "m2")
        play.kill("m2")
        _await_loss(play, generation)
        play.await_seconds(_extra(play))
        _static(play, "m2")
        _await_return(play, "m2", before)
        calm(play)
    _afterwards(play)


def fenced_on_hosts(play: Play) -> None:
    """Two hosts run the same static member; each is started again when the other fenced it."""
    open_group(play, "m1", hosts={"m1": _host(play, 9)})
    shared = ClientSpec(CONFLUENT, {**play.form.settings, "group.instance.id": "worker-1"})
    hosts = {"host-a": _host(play, 11), "host-b": _host(play, 12)}
    names = tuple(hosts)
    play.start(names[0], shared, host=hosts[names[0]])
    play.await_told(names[0], "assigned")
    for number in range(5):
        fenced, newcomer = names[number % 2], names[(number + 1) % 2]
        play.expect_end(fenced)
        play.start(newcomer, shared, host=hosts[newcomer])
        play.await_end(fenced, "to be fenced")
        play.await_seconds(_extra(play) + 2)
    _afterwards(play)


# --- Callbacks ---


def slow_revocation(play: Play) -> None:
    """A member takes 14 to 20 s in the callback that gives partitions up, when another one joins."""
    open_group(play, "slow", revoke_ms=13_000 + play.parameters["extra_ms"])
    join(play, "m2", patience_seconds=_PATIENCE_SECONDS + _session(play))
    _afterwards(play)


def slow_revocation_of_java(play: Play) -> None:
    """A Java member takes 14 to 20 s in the callback that gives partitions up, when another one joins."""
    slow_revocation(play)


def slow_revocation_of_cooperative_java(play: Play) -> None:
    """A Java member takes 14 to 20 s to give up what a cooperative assignor wants of it for a newcomer."""
    slow_revocation(play)


def kip848_blocked(play: Play) -> None:
    """A KIP-848 member never returns from giving partitions up, until the broker fences it."""
    open_group(play, "slow", revoke_ms=600_000)
    play.start("waiting")
    play.await_told("waiting", "records", seconds=90)
    _afterwards(play)


def kip848_crash(play: Play) -> None:
    """One of two KIP-848 members is killed; the broker waits for its session of 45 s."""
    open_group(play, "m1", "m2")
    before = _assignments(play, "m1")
    play.kill("m2")
    play.await_told("m1", "assigned", times=before + 1, seconds=120)
    _afterwards(play)


# --- Offsets, topics, permissions ---


def _reset(play: Play, offset: int | None) -> None:
    """Set the group's position in all partitions, as kafka-consumer-groups.sh does; null: to their ends."""
    ends = play.ends()
    places = [TopicPartition(play.topic, number, end if offset is None else offset) for number, end in ends.items()]
    play.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(play.group, places)])[play.group].result(30)
    play.tell("", "offsets_set", offset=offset)


def _stop_and_reset(play: Play, offset: int | None, *, waiting: int) -> None:
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.fill(6_000, partitions=partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for name in ("m1", "m2"):
        play.start(name)
    for name in ("m1", "m2"):
        play.await_told(name, "records")
    play.await_seconds(10 + 2 * play.parameters["commit_ms"] / 1000)
    for name in ("m1", "m2"):
        play.leave(name)
    play.await_seconds(5)
    play.fill(waiting, partitions=partitions)
    _reset(play, offset)
    play.await_seconds(5)
    join(play, "m1", "m2")
    _afterwards(play)


def offset_reset_back(play: Play) -> None:
    """The group is stopped, set back to the beginning by a tool, and started again."""
    _stop_and_reset(play, 0, waiting=0)


def offset_reset_ahead(play: Play) -> None:
    """The group is stopped, set to the end by a tool while thousands of records wait, and started again."""
    _stop_and_reset(play, None, waiting=6_000)


def topic_deleted(play: Play) -> None:
    """One of two topics that the group reads is deleted."""
    extra = f"{play.topic}-more"
    play.create_topic(3, name=extra)
    open_group(play, "m1", "m2", topics=[play.topic, extra])
    generation = play.generation
    play.delete_topic(extra)
    play.await_generation(generation, _PATIENCE_SECONDS)
    _afterwards(play)


def growth_after_formation(play: Play) -> None:
    """The topic gets more partitions a few seconds after the group formed."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    for name in ("m1", "m2"):
        play.start(name)
    for name in ("m1", "m2"):
        play.await_told(name, "assigned")
    play.await_seconds(_extra(play))
    generation = play.generation
    play.grow_topic(partitions + 4)
    play.await_generation(generation)
    _afterwards(play)


def _open_on_hosts(play: Play) -> str:
    """Open a group of three and return the host of m2."""
    hosts = _hosts(play, "m1", "m2", "m3")
    limits = {"max.poll.interval.ms": play.parameters["max_poll_ms"]}
    open_group(play, "m1", "m2", "m3", form=ClientSpec(CONFLUENT, {**play.form.settings, **limits}), hosts=hosts)
    return hosts["m2"]


def authorisation_lost_group(play: Play) -> None:
    """One host loses the permission to read the group while its client is a member."""
    host, generation = _open_on_hosts(play), play.generation
    play.deny(ResourceType.GROUP, play.group, host)
    _await_loss(play, generation)
    _afterwards(play)


def authorisation_lost_topic(play: Play) -> None:
    """One host loses the permission to read the topic; its client stays a member and gets nothing."""
    host = _open_on_hosts(play)
    play.deny(ResourceType.TOPIC, play.topic, host)
    play.await_seconds(100)


# --- Mixed faults ---


def deploy_while_slow(play: Play) -> None:
    """Three instances are replaced in turn while a fourth one is busy with batches of 15 s and more."""
    names = ("m1", "m2", "m3")
    stall_ms = 14_000 + play.parameters["extra_ms"]
    open_group(play, *names, "slow", stall_ms=stall_ms)
    for name in names:
        before = len(play.told("slow", "stalls"))
        play.signal("slow", signal.SIGUSR1)
        play.await_told("slow", "stalls", times=before + 1)
        play.leave(name)
        join(play, name, patience_seconds=_PATIENCE_SECONDS + _session(play))
        calm(play)
    _afterwards(play)


def two_culprits(play: Play) -> None:
    """One client is killed, and half a minute later another one overruns its poll limit."""
    form = overrunning(play.parameters)
    stall_ms = play.parameters["max_poll_ms"] + 6_000
    open_group(play, "m1", "m2", "m3", form=form, stall_ms=stall_ms)
    generation = play.generation
    play.kill("m1")
    _await_loss(play, generation)
    play.await_seconds(30)
    before = _assignments(play, "m2")
    play.signal("m2", signal.SIGUSR1)
    _await_return(play, "m2", before)
    _afterwards(play)


# --- Kafka's own applications ---


def streams_deploy(play: Play) -> None:
    """Two Kafka Streams instances are restarted in turn; Streams closes without leaving its group."""
    open_group(play, "s1", "s2")
    for name in ("s1", "s2"):
        play.leave(name)
        play.await_seconds(1.5)
        join(play, name, patience_seconds=_session(play) + _PATIENCE_SECONDS)
        calm(play)
    _afterwards(play)


def streams_crash(play: Play) -> None:
    """One of two Kafka Streams instances is killed and stays away."""
    open_group(play, "s1", "s2")
    generation = play.generation
    play.kill("s2")
    _await_loss(play, generation)
    _afterwards(play)


def _ask_connect(play: Play, path: str, body: Any = None) -> Any:
    """Ask the first worker's REST interface; null while it does not answer."""
    address = f"http://127.0.0.1:{play.rest_port('w1')}{path}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return json.load(answer)
    except (OSError, ValueError):
        return None


def connect_worker_lost(play: Play) -> None:
    """One of two Connect workers is killed; its tasks wait for the delay before the other one gets them."""
    for name in ("w1", "w2"):
        play.start(name)
    for number in range(3):
        source = play.directory / f"source-{number}.txt"
        source.write_text("a line\n")
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": play.topic,
        }
        wanted = {"name": f"source-{number}", "config": config}
        play.wait(partial(_ask_connect, play, "/connectors", wanted), "Connect to take it", 120)

    def running() -> bool:
        found = [_ask_connect(play, f"/connectors/source-{number}/status") for number in range(3)]
        return all(each and each["tasks"] and each["tasks"][0]["state"] == "RUNNING" for each in found)

    play.wait(running, "all tasks to run", 120)
    calm(play)
    generation = play.generation
    play.kill("w2")
    _await_loss(play, generation)
    play.await_generation(generation + 1, _DELAY_SECONDS + _PATIENCE_SECONDS)
    _afterwards(play)


# --- Healthy groups ---


def mixed_clients(play: Play) -> None:
    """Four clients of different libraries work, one of them leaves and comes back."""
    forms = mixed(play)
    open_group(play, *forms, forms=forms)
    play.await_seconds(30)
    play.leave("aio")
    play.await_seconds(12)
    join(play, "aio", form=forms["aio"])
    _afterwards(play)


def mixed_clients_crash(play: Play) -> None:
    """Of three clients of different libraries the one of aiokafka is killed and stays away."""
    forms = mixed(play, with_java=False)
    open_group(play, *forms, forms=forms)
    generation = play.generation
    play.kill("aio")
    _await_loss(play, generation)
    _afterwards(play)


def deploy_cooperative(play: Play) -> None:
    """Four instances with a cooperative assignor are replaced one after the other, in order."""
    names = tuple(f"m{number}" for number in range(1, 5))
    open_group(play, *names)
    for name in names:
        play.leave(name)
        play.await_seconds(2)
        join(play, name)
        play.await_seconds(8)
    _afterwards(play)


def autoscaling(play: Play) -> None:
    """From two members to four and back, in order, as an autoscaler does once."""
    open_group(play, "m1", "m2")
    join(play, "m3", "m4")
    play.await_seconds(25)
    for name in ("m3", "m4"):
        play.leave(name)
        play.await_seconds(3)
    _afterwards(play)


def scale_in_rare_commits(play: Play) -> None:
    """Two of four members leave in order, between commits that are farther apart than a session."""
    open_group(play, "m1", "m2", "m3", "m4")
    for name in ("m3", "m4"):
        play.leave(name)
        play.await_seconds(9)
    _afterwards(play)


def _streams(parameters: Parameters) -> ClientSpec:
    settings = {
        "session.timeout.ms": parameters["session_ms"],
        "heartbeat.interval.ms": parameters["heartbeat_ms"],
        "commit.interval.ms": parameters["commit_ms"],
        "auto.offset.reset": "earliest",
    }
    return ClientSpec(STREAMS, settings)


def cooperative_java(parameters: Parameters) -> ClientSpec:
    """Return a form of Kafka's own client whose assignor moves partitions in two rounds."""
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    return java(parameters, **{"partition.assignment.strategy": assignor})


def _connect(parameters: Parameters) -> ClientSpec:
    settings = {
        "session.timeout.ms": parameters["session_ms"],
        "heartbeat.interval.ms": parameters["heartbeat_ms"],
        "scheduled.rebalance.max.delay.ms": _DELAY_SECONDS * 1000,
    }
    return ClientSpec(CONNECT, settings)


_COOPERATIVE = confluent(partition_assignment_strategy="cooperative-sticky")
_WATCHFUL = confluent(topic_metadata_refresh_interval_ms=3_000)
_RARE_COMMITS = confluent(auto_commit_interval_ms=10_000, session_timeout_ms=6_000, heartbeat_interval_ms=2_000)
_NEW: Mapping[str, Any] = {"group_type": "consumer", "versions": ("4.3.1",)}


def _family(
    perform: Callable[[Play], None],
    expected: Expected,
    *,
    form: Form | None = None,
    draw: Callable[[random.Random], Parameters] = draw_any,
    **more: Any,
) -> Story:
    """Return the family of a performance: its name, and what happens in it, are those of the function."""
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
        shared=True,
        **{"versions": ("4.3.1", "3.9.2"), **more},
    )


def _of(diagnosis: str, *culprits: str, **more: Any) -> Expected:
    return Expected(diagnosis, culprits=culprits, **more)


_BARRIER = ("stalled_member_join_barrier",)

FAMILIES = (
    _family(network_silent, _of("network_partition", "m2")),
    _family(network_cut, _of("network_partition", "m2")),
    _family(network_delay, _of("network_partition", "m2"), draw=draw_quick),
    _family(network_host, _of("network_partition", "m3", "m4")),
    _family(network_loss, _of(""), draw=draw_quick),
    _family(cpu_throttling, _of("process_pause", "m2"), draw=draw_quick),
    _family(zombie, _of("process_pause", "m2", accepted=("zombie_member",))),
    _family(full_disk_dies, _of("crash_loop", "m3"), draw=draw_quick),
    _family(full_disk_waits, _of("poll_overrun", "m2"), form=overrunning, draw=draw_quick),
    _family(crash_of_java, _of("member_crash", "m2"), form=java),
    _family(poison, _of("poison_record"), draw=draw_quick),
    _family(overrun_for_long, _of("poll_overrun", "m2", accepted=("no_progress_loop",)), draw=draw_quick),
    _family(
        event_loop_blocked,
        _of("heartbeat_starvation", "aio", accepted=("processing_blocks_heartbeat",)),
        form=_ROUND_ROBIN,
        draw=draw_quick,
    ),
    _family(static_supervised, _of("static_member_restart", "m2", accepted=("crash_loop",))),
    _family(static_slow_supervisor, _of("static_session_too_short", "m2"), draw=draw_quick),
    _family(fenced_on_hosts, _of("static_id_conflict", "host-a", "host-b")),
    _family(slow_revocation, _of("slow_rebalance_callback", "slow", accepted=_BARRIER), form=_COOPERATIVE),
    _family(
        slow_revocation_of_java,
        _of("slow_rebalance_callback", "slow", accepted=_BARRIER),
        form=java,
    ),
    _family(
        slow_revocation_of_cooperative_java,
        _of("slow_rebalance_callback", "slow", accepted=_BARRIER),
        form=cooperative_java,
    ),
    _family(kip848_blocked, _of("reconciliation_stuck", "slow"), form=kip848(max_poll_interval_ms=45_000), **_NEW),
    _family(kip848_crash, _of("member_crash", "m2"), form=kip848(), **_NEW),
    _family(offset_reset_back, _of("offset_rewind"), draw=draw_quick),
    _family(offset_reset_ahead, _of("offset_skip"), draw=draw_quick),
    _family(topic_deleted, _of("topic_metadata_change"), form=_WATCHFUL),
    _family(growth_after_formation, _of("topic_metadata_change"), form=_WATCHFUL),
    _family(authorisation_lost_group, _of("join_rejected", "m2")),
    _family(authorisation_lost_topic, _of("stalled_consumer", "m2"), draw=draw_quick),
    _family(deploy_while_slow, _of("stalled_member_join_barrier", "slow", accepted=("rolling_deploy",))),
    _family(two_culprits, _of("member_crash", "m1", "m2", also=("poll_overrun",)), draw=draw_quick),
    _family(streams_deploy, _of("ungraceful_shutdown", beside=("rolling_deploy",)), form=_streams, draw=draw_quick),
    _family(streams_crash, _of("member_crash"), form=_streams, draw=draw_quick),
    _family(
        connect_worker_lost,
        _of("connect_scheduled_rebalance", beside=("member_crash",)),
        form=_connect,
        draw=draw_quick,
    ),
    _family(mixed_clients, _of(""), form=_ROUND_ROBIN),
    _family(mixed_clients_crash, _of("member_crash", "aio"), form=_ROUND_ROBIN, draw=draw_quick),
    _family(deploy_cooperative, _of("rolling_deploy"), form=_COOPERATIVE),
    _family(autoscaling, _of("")),
    _family(scale_in_rare_commits, _of("scale_in", "m3", "m4"), form=_RARE_COMMITS),
)
