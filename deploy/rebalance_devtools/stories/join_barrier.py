"""Story B: a Java consumer polls and then stops; the next one hangs in its join until the first one leaves.

A heartbeat response about a rebalance only sets a flag; JoinGroup is sent by poll(), which is not called. The group
waits until the first consumer's own timer makes it leave, max.poll.interval.ms after its last poll.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import JAVA, ClientSpec, Event, Expected, ExpectedAdvice, Parameters
from rebalance_devtools.stories.story import Story

CULPRIT, NEWCOMER = "c1", "c2"
#: A healthy join takes a heartbeat interval of 3 s, longer on a loaded machine.
_LONG_WAIT_MS = 10_000


def draw(generator: random.Random) -> Parameters:
    """Draw a max.poll.interval.ms of 22 to 30 s and how long the first consumer polls before it stops."""
    return {
        "max_poll_ms": generator.randrange(22_000, 30_001, 1_000),
        "session_ms": 45_000,
        "poll_for_ms": generator.randrange(0, 9_001, 1_000),
        "pause_ms": generator.randrange(1_000, 5_001, 500),
        "partitions": generator.randint(3, 6),
        "records_per_second": generator.randint(5, 20),
    }


def draw_default(generator: random.Random) -> Parameters:
    """The same with Java's default max.poll.interval.ms of five minutes."""
    return {**draw(generator), "max_poll_ms": 300_000}


def _settings(parameters: Parameters) -> dict[str, object]:
    return {"max.poll.interval.ms": parameters["max_poll_ms"], "session.timeout.ms": parameters["session_ms"]}


def sick(parameters: Parameters) -> ClientSpec:
    """Return the form of both consumers; `perform` makes the first one stop polling."""
    return ClientSpec(JAVA, _settings(parameters))


def with_short_session(parameters: Parameters) -> ClientSpec:
    """Return the form with the shortest session brokers allow, without effect: heartbeats continue."""
    settings = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 2_000}
    return ClientSpec(JAVA, {**_settings(parameters), **settings})


def expect(_: Parameters) -> Expected:
    """Return the expected finding: the first consumer blocks the join."""
    return Expected(
        "stalled_member_join_barrier",
        culprits=(CULPRIT,),
        advice=(ExpectedAdvice("max.poll.interval.ms"),),
        forbidden_diagnoses=("rebalance_storm", "coordinator_overload", "coordinator_stuck_rebalance", "member_crash"),
        forbidden_advice=("session.timeout.ms",),
    )


def longest_waits(events: Sequence[Event], _: Parameters) -> int:
    """Return the number of clients that waited for their first assignment for `_LONG_WAIT_MS` or longer."""
    started = {event["process"]: event["t_ms"] for event in reversed(events) if event["event"] == "started"}
    assigned = {event["process"]: event["t_ms"] for event in reversed(events) if event["event"] == "assigned"}
    return sum(at - started[process] >= _LONG_WAIT_MS for process, at in assigned.items() if process in started)


def perform(play: Play) -> None:
    """Start the first consumer, which stops polling in the sick form, then start the second."""
    parameters = play.parameters
    play.create_topic(parameters["partitions"])
    play.traffic(per_second=parameters["records_per_second"], partitions=parameters["partitions"])
    if play.cured:
        play.start(CULPRIT)
        play.await_event(CULPRIT, "records")
    else:
        play.start(CULPRIT, poll_for_ms=parameters["poll_for_ms"])
        play.await_event(CULPRIT, "stops_polling")
    play.await_seconds(parameters["pause_ms"] / 1000)
    play.start(NEWCOMER)
    play.await_event(NEWCOMER, "assigned", seconds=parameters["max_poll_ms"] / 1000 + 30)
    play.await_outcome()


STORY = Story(
    id="join_barrier",
    title="B: everybody waits for a consumer that no longer polls",
    what="a Java consumer polls once and stops; the second one hangs until the first one's max.poll.interval is over",
    draw=draw,
    sick=sick,
    cured=sick,
    expect=expect,
    perform=perform,
    count_symptoms=longest_waits,
    seconds=60,
    quiet_seconds=lambda _: 15.0,
)

WRONG_CURE = replace(
    STORY,
    id="join_barrier_wrong_cure",
    title="B: the same, with a short session",
    what="as join_barrier, with session.timeout.ms of 6 s, which changes nothing",
    sick=with_short_session,
)

DEFAULT = replace(
    STORY,
    id="join_barrier_default",
    title="B: the same, with Java's default of five minutes",
    what="as join_barrier, with max.poll.interval.ms of 300 s",
    draw=draw_default,
    seconds=360,
)
