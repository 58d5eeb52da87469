"""Story E: pykafka's BalancedConsumer keeps its partitions while it waits for messages (Parsely/pykafka#701).

With consumer_timeout_ms=-1 on an idle topic consume() never returns and never releases the rebalancing lock, so the
first consumer keeps all partitions; newcomers try to take some over, give up and stop.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import ClientSpec, Event, Expected, ExpectedAdvice, Parameters
from rebalance_devtools.stories.story import Story

CULPRIT = "consumer1"
_SICK, _FIXED = "pykafka-2.6.0", "pykafka-2.8.0"
_RETRIES = 5


def draw(generator: random.Random) -> Parameters:
    """Draw the number of newcomers and their back-off between attempts."""
    return {
        "partitions": generator.randint(4, 6),
        "newcomers": generator.randint(1, 3),
        "backoff_ms": generator.randrange(1_500, 2_001, 250),
        "traffic_ms": generator.randrange(3_000, 6_001, 1_000),
        "idle_ms": generator.randrange(2_000, 5_001, 1_000),
    }


def _form(library: str, parameters: Parameters, timeout_ms: int) -> ClientSpec:
    settings = {
        "consumer_timeout_ms": timeout_ms,
        # With the default of 6 s the first consumer loses its partitions if the machine stalls.
        "zookeeper_connection_timeout_ms": 20_000,
        "rebalance_max_retries": _RETRIES,
        "rebalance_backoff_ms": parameters["backoff_ms"],
        "auto_commit_enable": True,
        "auto_commit_interval_ms": 5_000,
    }
    return ClientSpec(library, settings)


def sick(parameters: Parameters) -> ClientSpec:
    """Return the form that waits for messages forever."""
    return _form(_SICK, parameters, -1)


def with_timeout(parameters: Parameters) -> ClientSpec:
    """Return the form that waits for at most 5 s at a time."""
    return _form(_SICK, parameters, 5_000)


def with_more_retries(parameters: Parameters) -> ClientSpec:
    """Return the form whose newcomers try twice as often, without effect: no partition is ever released."""
    spec = sick(parameters)
    return replace(spec, settings={**spec.settings, "rebalance_max_retries": 2 * _RETRIES})


def upgraded(parameters: Parameters) -> ClientSpec:
    """Return the form that waits forever, with the version in which a rebalance interrupts the wait."""
    return _form(_FIXED, parameters, -1)


def expect(_: Parameters) -> Expected:
    """Return the expected finding: the first consumer keeps partitions that it should release."""
    return Expected(
        "zk_partition_owner_conflict",
        culprits=(CULPRIT,),
        advice=(ExpectedAdvice("consumer_timeout_ms", 1, 5_000),),
        upgrade_of="pykafka",
        upgrade_to="2.7.0",
        forbidden_diagnoses=("idle_members", "zk_session_flap", "crash_loop"),
        forbidden_advice=("rebalance_max_retries", "rebalance_backoff_ms"),
    )


def gave_up(events: Sequence[Event], _: Parameters) -> int:
    """Return the number of newcomers that stopped without partitions."""
    return sum(event["event"] == "gave_up" for event in events)


def perform(play: Play) -> None:
    """Let the first consumer read the traffic, wait until it is idle, and start the others."""
    parameters = play.parameters
    play.create_topic(parameters["partitions"])
    traffic = play.traffic(per_second=20, partitions=parameters["partitions"])
    play.start(CULPRIT)
    play.await_event(CULPRIT, "records")
    play.await_seconds(parameters["traffic_ms"] / 1000)
    traffic.stop()
    play.await_seconds(parameters["idle_ms"] / 1000)
    names = [f"consumer{number}" for number in range(2, parameters["newcomers"] + 2)]
    for name in names:
        play.start(name)
    for name in names if play.cured else ():
        play.await_event(name, "in", seconds=90)
    if play.cured:
        play.await_outcome()
        return
    play.wait(lambda: play.symptoms >= len(names), "every newcomer to give up", play.story.seconds)


STORY = Story(
    id="owner_lock",
    title="E: newcomers die with PartitionOwnedError",
    what="pykafka 2.6.0 on an idle topic with consumer_timeout_ms=-1 never gives partitions up; newcomers stop",
    draw=draw,
    sick=sick,
    cured=with_timeout,
    expect=expect,
    perform=perform,
    count_symptoms=gave_up,
    seconds=240,
    quiet_seconds=lambda _: 20.0,
    zookeeper=True,
    group_type="zookeeper",
    versions=("3.9.2",),
)

UPGRADED = replace(STORY, id="owner_lock_upgraded", title="E: the same, cured by pykafka 2.8.0", cured=upgraded)

WRONG_CURE = replace(
    STORY,
    id="owner_lock_wrong_cure",
    title="E: the same, with more retries",
    what="as owner_lock, with rebalance_max_retries twice as high, which changes nothing",
    sick=with_more_retries,
)
