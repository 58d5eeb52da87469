"""Plays of Kafka's own applications: Streams with both protocols, Connect, and share groups.

Families as in families.py. Session time-outs configured in the broker (KIP-1071, KIP-932) are 45 s.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    calm,
    deploy_in_turn,
    extra_seconds,
    join,
    leave_in_turn,
    lose,
    open_group,
    session_seconds,
    stalling,
)
from rebalance_devtools.stories.forms import (
    CONNECT_DELAY_SECONDS,
    connect,
    draw_any,
    draw_quick,
    expecting,
    family,
    streams,
)
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import SHARE, STREAMS, ClientSpec, Parameters

#: Maximum time for an eviction with the broker's session time-out of 45 s.
_EXPIRY_SECONDS = 120.0
_EXPIRED = r"fenced from the group because the member session expired"
_ON_GROUPS = {"versions": ("4.3.1",)}
_STREAMS_GROUPS: Mapping[str, Any] = {"group_type": "streams", **_ON_GROUPS}
_SHARE_GROUPS: Mapping[str, Any] = {"group_type": "share", **_ON_GROUPS}
#: Streams' probing.rebalance.interval.ms; a minute is the minimum.
_PROBING_MS = 60_000


# --- Streams groups (KIP-1071) ---


def streams_group(parameters: Parameters) -> ClientSpec:
    """Return a form of Kafka Streams with its own protocol, in which the broker defines sessions and assigns tasks."""
    settings = {
        "group.protocol": "streams",
        "commit.interval.ms": parameters["commit_ms"],
        "auto.offset.reset": "earliest",
    }
    return ClientSpec(STREAMS, settings)


def streams_group_crash(play: Play) -> None:
    """One of three instances of a streams group is killed and stays away."""
    open_group(play, "s1", "s2", "s3")
    play.kill("s2")
    play.await_logged(_EXPIRED, seconds=_EXPIRY_SECONDS)
    afterwards(play)


def streams_group_pause(play: Play) -> None:
    """One of two processes of a streams group stands still for longer than its session, and goes on."""
    open_group(play, "s1", "s2")
    before = assignments(play, "s2")
    play.signal("s2", signal.SIGSTOP)
    play.await_logged(_EXPIRED, seconds=_EXPIRY_SECONDS)
    play.await_seconds(extra_seconds(play))
    play.signal("s2", signal.SIGCONT)
    await_return(play, "s2", before)
    afterwards(play)


def streams_group_scaling(play: Play) -> None:
    """A streams group of one instance gets a second and a third one."""
    open_group(play, "s1")
    join(play, "s2", patience_seconds=_EXPIRY_SECONDS)
    calm(play)
    join(play, "s3", patience_seconds=_EXPIRY_SECONDS)
    afterwards(play)


# --- Streams in the classic protocol ---


def streams_deploy(play: Play) -> None:
    """Two Kafka Streams instances are restarted in turn; Streams closes without leaving its group."""
    open_group(play, "s1", "s2")
    for name in ("s1", "s2"):
        play.leave(name)
        play.await_seconds(1.5)
        join(play, name, patience_seconds=session_seconds(play) + PATIENCE_SECONDS)
        calm(play)
    afterwards(play)


def streams_crash(play: Play) -> None:
    """One of two Kafka Streams instances is killed and stays away."""
    open_group(play, "s1", "s2")
    lose(play, "s2")
    afterwards(play)


def streams_slow_record(play: Play) -> None:
    """An instance of Kafka Streams works on one record for longer than it may stay away from poll."""
    stall_ms = play.parameters["max_poll_ms"] + 8_000 + play.parameters["extra_ms"]
    open_group(play, "s1")
    play.start("s2", stalling(play, "s2", stall_ms))
    play.await_event("s2", "records", seconds=PATIENCE_SECONDS)
    calm(play)
    generation, before = play.generation, assignments(play, "s2")
    play.stall("s2")
    await_loss(play, generation)
    await_return(play, "s2", before)
    afterwards(play)


def streams_probing(play: Play) -> None:
    """A second instance warms up the state of the first, which traffic never lets it catch up with."""
    open_group(play, "s1", stateful="true")
    # Enough traffic that the copies are behind at every probing rebalance.
    play.traffic(per_second=200, partitions=play.parameters["partitions"])
    join(play, "s2", patience_seconds=PATIENCE_SECONDS, stateful="true")
    generation = play.generation
    play.await_generation(generation + 2, 6 * _PROBING_MS / 1000)
    afterwards(play)


def _probing(parameters: Parameters) -> ClientSpec:
    form = streams(parameters)
    more = {"acceptable.recovery.lag": 0, "probing.rebalance.interval.ms": _PROBING_MS}
    return replace(form, settings={**form.settings, **more})


def _hasty(parameters: Parameters) -> ClientSpec:
    form = streams(parameters)
    return replace(form, settings={**form.settings, "max.poll.interval.ms": parameters["max_poll_ms"]})


# --- Connect ---


def ask_connect(play: Play, path: str, body: Any = None, *, method: str | None = None, seconds: float = 5.0) -> Any:
    """Return the answer of the first worker's REST interface, or None after `seconds` or for an empty answer."""
    address = f"http://127.0.0.1:{play.rest_port('w1')}{path}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
            return json.load(answer)
    except (OSError, ValueError):
        return None


def start_connectors(play: Play, *, first: int = 0, count: int = 3) -> None:
    """Create connectors that read files in the first worker's cluster, and wait until their tasks run."""
    numbers = range(first, first + count)
    for number in numbers:
        source = play.directory / f"source-{number}.txt"
        source.write_text("a line\n")
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": play.topic,
        }
        wanted = {"name": f"source-{number}", "config": config}
        play.wait(partial(ask_connect, play, "/connectors", wanted), "Connect to take it", 120)
    for number in numbers:
        await_tasks(play, f"source-{number}")


def await_tasks(play: Play, connector: str, *, count: int = 1, state: str = "RUNNING") -> None:
    """Wait until a connector has `count` tasks, all of them in `state`."""

    def reached() -> bool:
        found = ask_connect(play, f"/connectors/{connector}/status")
        return bool(found) and [each["state"] for each in found["tasks"]] == [state] * count

    play.wait(reached, f"the tasks of {connector} to be {state}", 120)


def start_sink(play: Play, name: str, *, tasks: int = 1, **settings: str) -> dict[str, str]:
    """Start a worker with a sink connector, whose tasks are members of the play's group; return the connector's config.

    `settings` override the defaults; their keys have underscores for dots. The worker itself is in another group.
    """
    play.start("w1", group=f"{play.group}-workers")
    parameters = play.parameters
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": str(tasks),
        "file": str(play.directory / "sink.txt"),
        "topics": play.topic,
        "consumer.override.group.id": play.group,
        "consumer.override.session.timeout.ms": str(parameters["session_ms"]),
        "consumer.override.heartbeat.interval.ms": str(parameters["heartbeat_ms"]),
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    wanted = {"name": name, "config": config}
    play.wait(partial(ask_connect, play, "/connectors", wanted), "Connect to take the sink", 120)
    await_tasks(play, name, count=tasks)
    play.wait(lambda: play.generation > 0, "the sink to have partitions", 60)
    return config


def connect_worker_lost(play: Play) -> None:
    """One of two Connect workers is killed; its tasks wait for the delay before the other one gets them."""
    for name in ("w1", "w2"):
        play.start(name)
    start_connectors(play)
    calm(play)
    generation = play.generation
    lose(play, "w2")
    play.await_generation(generation + 1, CONNECT_DELAY_SECONDS + PATIENCE_SECONDS)
    afterwards(play)


def _open_workers(play: Play, *names: str) -> None:
    for name in names:
        play.start(name)
    start_connectors(play)
    calm(play)


def connect_deploy(play: Play) -> None:
    """Three Connect workers are replaced in turn, in order; each is back before its tasks would move."""
    _open_workers(play, "w1", "w2", "w3")
    for name in ("w1", "w2", "w3"):
        generation = play.generation
        play.leave(name)
        play.await_generation(generation)
        play.await_seconds(2)
        generation = play.generation
        play.start(name)
        play.await_generation(generation, PATIENCE_SECONDS + session_seconds(play))
        play.await_seconds(15)
    afterwards(play)


def connect_worker_paused(play: Play) -> None:
    """A Connect worker stands still for longer than its session, and goes on."""
    _open_workers(play, "w1", "w2")
    generation = play.generation
    play.signal("w2", signal.SIGSTOP)
    await_loss(play, generation)
    play.await_seconds(extra_seconds(play))
    generation = play.generation
    play.signal("w2", signal.SIGCONT)
    play.await_generation(generation, PATIENCE_SECONDS)
    afterwards(play)


def connect_at_work(play: Play) -> None:
    """Connectors are made, changed and taken away; no worker comes or goes."""
    _open_workers(play, "w1", "w2")
    for number in range(3, 6):
        start_connectors(play, first=number, count=1)
        play.await_seconds(12)
    ask_connect(play, "/connectors/source-3", method="DELETE")
    play.note("", "connector_deleted", number=3)
    afterwards(play)


def connect_two_clusters(play: Play) -> None:
    """Two Connect clusters with config topics of their own use one group id."""
    other = f"{play.topic}-other"
    mine = {f"{what}.storage.topic": f"{other}-{what}" for what in ("config", "offset", "status")}
    play.start("w1")
    start_connectors(play, count=1)
    calm(play)
    play.start("w2", ClientSpec(play.form.library, {**play.form.settings, **mine}))
    play.await_generation(play.generation, PATIENCE_SECONDS)
    # The leader of the second cluster has its own config as soon as it has a connector.
    play.await_seconds(75)
    afterwards(play)


# --- Share groups (KIP-932) ---


def share(_: Parameters) -> ClientSpec:
    """Return a form of Kafka's own consumer of share groups."""
    return ClientSpec(SHARE)


def share_crash(play: Play) -> None:
    """One of three consumers of a share group is killed and stays away."""
    open_group(play, "c1", "c2", "c3")
    play.kill("c2")
    play.await_logged(_EXPIRED, seconds=_EXPIRY_SECONDS)
    afterwards(play)


def share_deploy(play: Play) -> None:
    """Three consumers of a share group are replaced in turn, in order."""
    deploy_in_turn(play, "c1", "c2", "c3", settle_seconds=6, patience_seconds=_EXPIRY_SECONDS)


def share_autoscaling(play: Play) -> None:
    """A share group grows from two consumers to four and shrinks back, in order."""
    open_group(play, "c1", "c2")
    join(play, "c3", "c4", patience_seconds=_EXPIRY_SECONDS)
    play.await_seconds(25)
    leave_in_turn(play, "c3", "c4", settle_seconds=4)
    afterwards(play)


_quick = partial(family, draw=draw_quick)

APPLICATIONS = (
    _quick(streams_deploy, expecting("ungraceful_shutdown", beside=("rolling_deploy",)), form=streams),
    _quick(streams_crash, expecting("member_crash"), form=streams),
    _quick(connect_worker_lost, expecting("connect_scheduled_rebalance", beside=("member_crash",)), form=connect),
    family(streams_group_crash, expecting("member_crash"), form=streams_group, draw=draw_any, **_STREAMS_GROUPS),
    family(streams_group_pause, expecting("process_pause"), form=streams_group, **_STREAMS_GROUPS),
    family(streams_group_scaling, expecting("scale_out"), form=streams_group, **_STREAMS_GROUPS),
    _quick(streams_slow_record, expecting("poll_overrun"), form=_hasty),
    _quick(streams_probing, expecting("streams_probing_rebalance"), form=_probing),
    _quick(connect_deploy, expecting("rolling_deploy", accepted=("connect_scheduled_rebalance",)), form=connect),
    _quick(connect_worker_paused, expecting("process_pause"), form=connect),
    _quick(connect_at_work, expecting(""), form=connect),
    _quick(connect_two_clusters, expecting("shared_group_id", accepted=("leader_rejoin_loop",)), form=connect),
    family(share_crash, expecting("member_crash"), form=share, **_SHARE_GROUPS),
    family(share_deploy, expecting("rolling_deploy"), form=share, **_SHARE_GROUPS),
    family(share_autoscaling, expecting(""), form=share, **_SHARE_GROUPS),
)
