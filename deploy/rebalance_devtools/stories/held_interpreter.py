"""Story D: work in a C call that holds the interpreter lock stops the heartbeat thread of kafka-python 2.2.

After a period of easy messages, sparse ones arrive that each process works on for longer than the session time-out, the
first time it gets them. The poll interval is never exceeded, but the error that the application gets blames it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import ClientSpec, Expected, Parameters, failed_commits
from rebalance_devtools.stories.story import Story

_LIBRARY = "kafka-python-2.2.15"


def draw(generator: random.Random) -> Parameters:
    """Draw a session of 6 to 7 s, work that takes 2.5 to 4 s longer, and messages that are even farther apart."""
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
    """Return the form whose work holds the interpreter lock."""
    return _holding(parameters, "gil")


def with_longer_polls(parameters: Parameters) -> ClientSpec:
    """Return the form with the settings that the error suggests, without effect: a longer interval, single records."""
    spec = sick(parameters)
    return replace(spec, settings={**spec.settings, "max_poll_interval_ms": 1_800_000, "max_poll_records": 1})


def cured(parameters: Parameters) -> ClientSpec:
    """Return the form that does the same work in a separate process."""
    return _holding(parameters, "process")


def expect(_: Parameters) -> Expected:
    """Return the expected finding: heartbeats starve although the poll interval is far from exceeded."""
    return Expected(
        "heartbeat_starvation",
        variant="native_code",
        secondary=("duplicate_processing",),
        forbidden_diagnoses=("poll_overrun", "member_crash"),
        forbidden_advice=("max_poll_interval_ms", "max_poll_records"),
    )


def perform(play: Play) -> None:
    """Write easy messages for a while, then hard ones at long intervals."""
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
