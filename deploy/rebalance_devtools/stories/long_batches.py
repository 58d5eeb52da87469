"""Story C: a batch takes longer than max.poll.interval.ms, so its commit is rejected and it is processed twice.

Played with a minimal listener loop (poll, process every record, commit the batch), and with Spring's own container.
Spring Kafka 3.3 reports a commit that the coordinator rejects to nobody: the batch is repeated without an error.
"""

from __future__ import annotations

import random
from dataclasses import replace

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import (
    JAVA,
    SPRING,
    ClientSpec,
    Expected,
    ExpectedAdvice,
    Parameters,
    failed_commits,
    lost_partitions,
    processed_twice,
)
from rebalance_devtools.stories.story import Story

_NAMES = ("node1", "node2")
#: Batches written in advance for each node in addition to its quick ones; few, so that a batch soon repeats.
_BATCHES_READY = 2


def draw(generator: random.Random) -> Parameters:
    """Draw batches that take 1.3 to 1.8 times max.poll.interval.ms, after up to two quick ones."""
    max_poll_ms = generator.randrange(12_000, 18_001, 1_000)
    batch = generator.randint(20, 40)
    record_ms = int(max_poll_ms * generator.uniform(1.3, 1.8) / batch)
    return {
        "max_poll_ms": max_poll_ms,
        "session_ms": 10_000,
        "heartbeat_ms": 3_000,
        "batch": batch,
        "record_ms": record_ms,
        "quick_batches": generator.randint(0, 2),
        "partitions": generator.randint(4, 10),
        "healthy_batch": max_poll_ms // 2 // record_ms,
    }


def _with_batch(parameters: Parameters, batch: int) -> ClientSpec:
    settings = {
        "max.poll.interval.ms": parameters["max_poll_ms"],
        "session.timeout.ms": parameters["session_ms"],
        "heartbeat.interval.ms": parameters["heartbeat_ms"],
        "max.poll.records": batch,
        "enable.auto.commit": "false",
    }
    program = {
        "record_ms": parameters["record_ms"],
        "quick_batches": parameters["quick_batches"],
        "quick_record_ms": parameters["record_ms"] // 10,
        "commit": "true",
    }
    return ClientSpec(JAVA, settings, program)


def sick(parameters: Parameters) -> ClientSpec:
    """Return the form with batches that take too long."""
    return _with_batch(parameters, parameters["batch"])


def with_long_session(parameters: Parameters) -> ClientSpec:
    """Return the sick form with a long session, which has no effect: heartbeats were sent all the time."""
    spec = sick(parameters)
    return replace(spec, settings={**spec.settings, "session.timeout.ms": 4 * parameters["session_ms"]})


def cured(parameters: Parameters) -> ClientSpec:
    """Return the form with batches that take at most half of max.poll.interval.ms."""
    return _with_batch(parameters, parameters["healthy_batch"])


def _in_spring(spec: ClientSpec) -> ClientSpec:
    """Return a form with Spring's container, which commits what a poll returned without being told to."""
    return replace(spec, library=SPRING, program={k: v for k, v in spec.program.items() if k != "commit"})


def expect(parameters: Parameters) -> Expected:
    """Return the expected finding: batches exceed the poll interval; the session time-out is not the cause."""
    return Expected(
        "poll_overrun",
        culprits=_NAMES,
        secondary=("duplicate_processing", "no_progress_loop"),
        # Java clients do not report settings, so the advised value is a percentage of the current one.
        advice=(ExpectedAdvice("max.poll.records", 1, 100 * (parameters["healthy_batch"] + 1) / parameters["batch"]),),
        forbidden_diagnoses=("heartbeat_starvation", "member_crash", "session_timeout_too_short"),
        forbidden_advice=("session.timeout.ms",),
    )


def perform(play: Play) -> None:
    """Let two nodes process existing records and a little traffic; in the sick form until a whole batch repeats."""
    parameters = play.parameters
    partitions, batch = parameters["partitions"], parameters["batch"]
    play.create_topic(partitions)
    play.fill(len(_NAMES) * batch * (_BATCHES_READY + parameters["quick_batches"]), partitions=partitions)
    play.traffic(per_second=1, partitions=partitions)
    play.start_all(_NAMES, "records")
    play.await_outcome()
    if not play.cured:
        play.wait(lambda: processed_twice(play.events) >= batch, "a batch to come twice", play.story.seconds)


STORY = Story(
    id="long_batches",
    title="C: the same batch again and again",
    what="two Java consumers work longer on a batch than max.poll.interval allows; commits fail, records come twice",
    draw=draw,
    sick=sick,
    cured=cured,
    expect=expect,
    perform=perform,
    count_symptoms=failed_commits,
    seconds=180,
    enough=3,
    enough_recorded=5,
    quiet_seconds=lambda parameters: 2.5 * parameters["max_poll_ms"] / 1000,
)

WRONG_CURE = replace(
    STORY,
    id="long_batches_wrong_cure",
    title="C: the same, with a long session",
    what="as long_batches, with a session.timeout.ms four times as long, which changes nothing",
    sick=with_long_session,
)

IN_SPRING = replace(
    STORY,
    id="long_batches_spring",
    title="C: the same with Spring Kafka",
    what="two listener containers of Spring Kafka work longer on a batch than max.poll.interval allows; the same batch"
    " comes again and again, without an error",
    sick=lambda parameters: _in_spring(sick(parameters)),
    cured=lambda parameters: _in_spring(cured(parameters)),
    count_symptoms=lost_partitions,
)
