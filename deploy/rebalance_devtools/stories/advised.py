"""Pairs of plays for the advice: the same faults at the same times, without and with the advised value.

The times of the faults are fixed and do not depend on the group, so that both forms have the same faults; only the
number of rebalances differs. The plays share one broker, except those that need a broker with another setting.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rebalance_devtools.stories.acting import calm, join, open_group
from rebalance_devtools.stories.forms import confluent, java, overrunning, python
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import KAFKA_PYTHON, ClientSpec, Expected, Parameters
from rebalance_devtools.stories.story import Story

#: The values of the cured forms.
SESSION_MS, POLL_INTERVAL_MS, INITIAL_DELAY_MS = 30_000, 60_000, 10_000

#: Long enough for a group to be stable again, and for the next heartbeats.
_PAUSE_SECONDS = 14.0
_RESTART_SECONDS = 2.0
#: Faults that last too long for the advised values.
_LONG_PAUSE_SECONDS, _LONG_STALL_MS, _LONG_RESTART_SECONDS = 42.0, 75_000, 24.0


def draw(generator: random.Random) -> Parameters:
    """Draw sessions of 6 to 10 s, poll limits of 11 to 14 s, and faults that last a few seconds longer."""
    session_ms = generator.choice((6_000, 8_000, 10_000))
    return {
        "session_ms": session_ms,
        "heartbeat_ms": session_ms // 3,
        "commit_ms": 1_000,
        "max_poll_ms": generator.randrange(11_000, 14_001, 1_000),
        "partitions": generator.randint(4, 8),
        "records_per_second": generator.randint(8, 16),
        "calm_ms": generator.randrange(8_000, 10_001, 500),
        "extra_ms": generator.randrange(3_000, 6_001, 500),
        "times": generator.randint(3, 4),
    }


def _longer_session(parameters: Parameters) -> ClientSpec:
    return confluent(session_timeout_ms=SESSION_MS)(parameters)


def _longer_java_session(parameters: Parameters) -> ClientSpec:
    return java(parameters, **{"session.timeout.ms": SESSION_MS})


def _longer_python_session(parameters: Parameters) -> ClientSpec:
    return python(KAFKA_PYTHON)({**parameters, "session_ms": SESSION_MS})


def _longer_poll_interval(parameters: Parameters) -> ClientSpec:
    return confluent(max_poll_interval_ms=POLL_INTERVAL_MS)(parameters)


def _named(play: Play, name: str) -> ClientSpec:
    """Return the client of the form; in the cured form it is a static member."""
    names = {"group.instance.id": f"worker-{name}"} if play.cured else {}
    return ClientSpec(play.form.library, {**play.form.settings, **names}, play.form.program)


def advised_session(play: Play) -> None:
    """A process stands still for a few seconds longer than its session, several times."""
    parameters = play.parameters
    open_group(play, "m1", "m2", "m3")
    for _ in range(parameters["times"]):
        play.signal("m2", signal.SIGSTOP)
        play.await_seconds((parameters["session_ms"] + parameters["extra_ms"]) / 1000)
        play.signal("m2", signal.SIGCONT)
        play.await_seconds(_PAUSE_SECONDS)


def advised_poll_interval(play: Play) -> None:
    """A client does not poll for a few seconds longer than it may, several times."""
    parameters = play.parameters
    stall_ms = parameters["max_poll_ms"] + parameters["extra_ms"]
    open_group(play, "m1", "m2", stall_ms=stall_ms)
    for _ in range(parameters["times"]):
        play.signal("m2", signal.SIGUSR1)
        play.await_seconds(stall_ms / 1000 + _PAUSE_SECONDS)


def advised_session_partly(play: Play) -> None:
    """A process stands still a little longer than its session, and twice for so long that no session covers it."""
    parameters = play.parameters
    open_group(play, "m1", "m2", "m3")
    short_seconds = (parameters["session_ms"] + parameters["extra_ms"]) / 1000
    for seconds in (short_seconds, _LONG_PAUSE_SECONDS, short_seconds, _LONG_PAUSE_SECONDS, short_seconds):
        play.signal("m2", signal.SIGSTOP)
        play.await_seconds(seconds)
        play.signal("m2", signal.SIGCONT)
        play.await_seconds(_PAUSE_SECONDS)


def advised_poll_interval_partly(play: Play) -> None:
    """One client does not poll for a few seconds longer than it may, three times, another for much longer, once."""
    parameters = play.parameters
    stall_ms = parameters["max_poll_ms"] + parameters["extra_ms"]
    open_group(play, "m1")
    join(play, "m2", stall_ms=stall_ms)
    join(play, "m3", stall_ms=_LONG_STALL_MS)
    calm(play)
    for _ in range(3):
        play.signal("m2", signal.SIGUSR1)
        play.await_seconds(stall_ms / 1000 + _PAUSE_SECONDS)
    play.signal("m3", signal.SIGUSR1)
    play.await_seconds(_LONG_STALL_MS / 1000 + _PAUSE_SECONDS)


def advised_names(play: Play) -> None:
    """Clients are killed one after the other and started again two seconds later."""
    _restart(play, play.kill)


def advised_names_deploy(play: Play) -> None:
    """Clients are closed one after the other, each started again two seconds later."""
    _restart(play, play.leave)


def advised_names_partly(play: Play) -> None:
    """Clients are closed one after the other and started again two seconds later, the last one long after."""
    _restart(play, play.leave, last_seconds=_LONG_RESTART_SECONDS)


def _restart(play: Play, end: Callable[[str], None], *, last_seconds: float = _RESTART_SECONDS) -> None:
    names = ("m1", "m2", "m3")
    open_group(play, *names, forms={name: _named(play, name) for name in names})
    for name in names:
        end(name)
        play.await_seconds(last_seconds if name == names[-1] else _RESTART_SECONDS)
        play.start(name, _named(play, name))
        play.await_seconds(2 * _PAUSE_SECONDS)


def advised_initial_delay(play: Play) -> None:
    """Four clients of a new group are started six seconds apart."""
    parameters = play.parameters
    play.create_topic(parameters["partitions"])
    play.traffic(per_second=parameters["records_per_second"], partitions=parameters["partitions"])
    for name in ("m1", "m2", "m3", "m4"):
        play.start(name)
        play.await_seconds(6)
    play.await_seconds(2 * _PAUSE_SECONDS)


def _pair(perform: Callable[[Play], None], cured: Callable[[Parameters], ClientSpec], **more: Any) -> Story:
    """Return the story of a function; its name and its docstring become the story's id and description."""
    name = f"{perform.__name__}{more.pop('suffix', '')}"
    return Story(
        id=name,
        title=name.replace("_", " "),
        what=(perform.__doc__ or "").removesuffix("."),
        draw=draw,
        perform=perform,
        # In the cured form (static members) a closed client does not send LeaveGroup, so its session expires.
        expect=lambda _: Expected("", culprits=("m1", "m2", "m3")),
        count_symptoms=lambda *_: 0,
        seconds=240,
        **{"sick": confluent(), "cured": cured, "shared": True, **more},
    )


_FORMATION = _pair(advised_initial_delay, confluent(), shared=False)

PAIRS = (
    _pair(advised_session, _longer_session),
    _pair(advised_poll_interval, _longer_poll_interval, sick=overrunning),
    _pair(advised_session_partly, _longer_session),
    _pair(advised_poll_interval_partly, _longer_poll_interval, sick=overrunning),
    _pair(advised_names, confluent()),
    _pair(advised_names_partly, confluent()),
    _pair(advised_names_deploy, confluent()),
    # The same with other clients, which notice a rebalance later.
    _pair(advised_session, _longer_java_session, sick=java, suffix="_java"),
    _pair(advised_names_deploy, java, sick=java, suffix="_java"),
    _pair(advised_names_deploy, _longer_java_session, sick=java, suffix="_java_session"),
    _pair(advised_session, _longer_python_session, sick=python(KAFKA_PYTHON), suffix="_python"),
    _FORMATION,
    # The delay is a broker setting: this form runs on a broker with the advised value.
    replace(
        _FORMATION,
        id="advised_initial_delay_set",
        broker_config={"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS)},
    ),
)
