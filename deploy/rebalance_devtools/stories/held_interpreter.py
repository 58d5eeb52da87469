"""Story D: work in a C call that keeps the interpreter lock stops the heartbeat thread of kafka-python 2.2.

After a while of easy messages they are sparse, and each is worked on longer than the session lasts, the first time
that a process has it. The poll interval is never exceeded, yet the
error that the application sees speaks of it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import ClientSpec, Expected, Parameters, failed_commits
from rebalance_devtools.stories.story import Story

_LIBRARY = "kafka-python-2.2.15"


def draw(generator: random.Random) -> Parameters:
    """Draw a session of 6 to 7 s, work that takes 2.5 to 4 s more, and messages that come more rarely still."""
    session_ms = generator.randrange(6_000, 7_001, 500)
    hold_ms = session_ms + generator.randrange(2_500, 4_001, 500)
    return {
        "session_ms": session_ms,
        "heartbeat_ms": session_ms // 3,
        "hold_ms": hold_ms,
        "message_every_ms": hold_ms + generator.randrange(4_000, 8_001, 500),
        "easy_ms": generator.randrange(6_000, 12_001, 1_000),
        "members": generator.randint(1, 2),
        "partitions": generator.randint(2, 4),
    }


def _holding(parameters: Parameters, hold: str) -> ClientSpec:
    settings = {
        "session_timeout_ms": parameters["session_ms"],
        "heartbeat_interval_ms": parameters["heartbeat_ms"],
        "enable_auto_commit": False,
    }
    program = {"hold": hold, "hold_ms": parameters["hold_ms"], "hold_marked": True, "commit": True}
    return ClientSpec(_LIBRARY, settings, program)


def sick(parameters: Parameters) -> ClientSpec:
    """The work keeps the interpreter."""
    return _holding(parameters, "gil")


def with_longer_polls(parameters: Parameters) -> ClientSpec:
    """What the error text asks for, and what does nothing: a longer poll interval, and single records."""
    spec = sick(parameters)
    return replace(spec, settings={**spec.settings, "max_poll_interval_ms": 1_800_000, "max_poll_records": 1})


def cured(parameters: Parameters) -> ClientSpec:
    """The same work, in a process of its own."""
    return _holding(parameters, "process")


def expect(_: Parameters) -> Expected:
    """Heartbeats starve while the poll interval is far from over."""
    return Expected(
        "heartbeat_starvation",
        variant="native_code",
        secondary=("duplicate_processing",),
        forbidden_diagnoses=("poll_overrun", "member_crash"),
        forbidden_advice=("max_poll_interval_ms", "max_poll_records"),
    )


def perform(play: Play) -> None:
    """Let easy messages come for a while, then hard ones now and then."""
    parameters = play.parameters
    partitions = parameters["partitions"]
    play.create_topic(partitions)
    names = [f"c{number}" for number in range(1, parameters["members"] + 1)]
    play.start_all(names, "assigned")
    easy = play.traffic(per_second=2, partitions=partitions)
    for name in names:
        play.await_event(name, "committed")
    play.await_seconds(parameters["easy_ms"] / 1000)
    easy.stop()
    play.traffic(per_second=1_000 / parameters["message_every_ms"], partitions=partitions, value=b"hold")
    play.await_outcome()


STORY = Story(
    id="held_interpreter",
    title="D: evicted by its own work",
    what="kafka-python 2.2.15 with sparse messages, each worked on in C without giving the interpreter lock back",
    draw=draw,
    sick=sick,
    cured=cured,
    expect=expect,
    perform=perform,
    count_symptoms=failed_commits,
    seconds=150,
    enough=2,
    enough_recorded=4,
    quiet_seconds=lambda parameters: 4 * parameters["message_every_ms"] / 1000,
)

WRONG_CURE = replace(
    STORY,
    id="held_interpreter_wrong_cure",
    title="D: the same, after what the error text asks for",
    what="as held_interpreter, with max_poll_interval_ms of half an hour and max_poll_records=1, which change nothing",
    sick=with_longer_polls,
)
