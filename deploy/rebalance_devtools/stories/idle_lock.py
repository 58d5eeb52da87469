"""Story A: kafka-python 1.4.6 on a topic that became idle (dpkp/kafka-python#1418).

The iterator waits for records inside the client's poll and holds the client's lock; the heartbeat thread needs the same
lock. In the fast form every fetch waits longer than the session time-out; the real form uses the client's defaults,
with which the wait ends only when the metadata expires, after five minutes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import ClientSpec, Expected, ExpectedAdvice, Parameters, returns_under_new_ids
from rebalance_devtools.stories.story import Story

_SICK, _FIXED = "kafka-python-1.4.6", "kafka-python-1.4.7"


def draw_fast(generator: random.Random) -> Parameters:
    """Draw a session of 6 to 8 s, and a fetch that waits 2.5 to 4 s longer."""
    session_ms = generator.randrange(6_000, 8_001, 500)
    return {
        "session_ms": session_ms,
        "heartbeat_ms": session_ms // 3,
        "fetch_wait_ms": session_ms + generator.randrange(2_500, 4_001, 500),
        "members": generator.randint(2, 3),
        # At least one broker must have no waiting fetch, or the metadata requests of the cured form wait behind one.
        "leading_brokers": 1,
        "partitions": generator.randint(6, 10),
        "traffic_ms": generator.randrange(8_000, 14_001, 1_000),
        "records_per_second": generator.randint(20, 40),
    }


def draw_real(generator: random.Random) -> Parameters:
    """Draw only the size of the group and the traffic; everything else is the client's default."""
    return {
        "session_ms": 10_000,
        "heartbeat_ms": 3_000,
        "members": generator.randint(3, 5),
        "partitions": 50,
        "leading_brokers": 2,
        "traffic_ms": generator.randrange(20_000, 40_001, 5_000),
        "records_per_second": generator.randint(50, 100),
    }


def _settings(parameters: Parameters) -> dict[str, Any]:
    settings = {
        "session_timeout_ms": parameters["session_ms"],
        "heartbeat_interval_ms": parameters["heartbeat_ms"],
    }
    if "fetch_wait_ms" in parameters:
        settings["fetch_max_wait_ms"] = parameters["fetch_wait_ms"]
    return settings


def sick(parameters: Parameters) -> ClientSpec:
    """Return the form with the faulty version."""
    return ClientSpec(_SICK, _settings(parameters))


def with_young_metadata(parameters: Parameters) -> ClientSpec:
    """Return the same version with the work-around: a metadata age of at most a heartbeat interval."""
    return ClientSpec(_SICK, {**_settings(parameters), "metadata_max_age_ms": parameters["heartbeat_ms"]})


def with_longer_polls(parameters: Parameters) -> ClientSpec:
    """Return the same version with what its users tried first, without effect: a longer interval, single records."""
    return ClientSpec(_SICK, {**_settings(parameters), "max_poll_interval_ms": 1_800_000, "max_poll_records": 1})


def upgraded(parameters: Parameters) -> ClientSpec:
    """Return the form with the version in which the fault is fixed."""
    return ClientSpec(_FIXED, _settings(parameters))


def expect(parameters: Parameters) -> Expected:
    """Return the expected finding: heartbeats starve; neither the poll loop nor the session time-out is the cause."""
    heartbeat_ms = parameters["heartbeat_ms"]
    return Expected(
        "heartbeat_starvation",
        variant="idle_lock",
        advice=(ExpectedAdvice("metadata_max_age_ms", heartbeat_ms, heartbeat_ms),),
        upgrade_of="kafka-python",
        upgrade_to="1.4.7",
        forbidden_diagnoses=("poll_overrun", "member_crash", "process_pause"),
        forbidden_advice=("max_poll_interval_ms", "max_poll_records", "session_timeout_ms"),
    )


def perform(play: Play) -> None:
    """Consume with traffic for a while, then stop the traffic."""
    parameters = play.parameters
    coordinator = play.coordinator()
    # If the coordinator leads a consumed partition, 1.4.6 sends fetches and heartbeats through the same connection.
    others = [each for each in play.brokers() if each != coordinator]
    play.create_topic(parameters["partitions"], leaders=others[: parameters["leading_brokers"]])
    names = [f"c{number}" for number in range(1, parameters["members"] + 1)]
    traffic = play.traffic(per_second=parameters["records_per_second"], partitions=parameters["partitions"])
    play.start_all(names, "records")
    play.await_seconds(parameters["traffic_ms"] / 1000)
    traffic.stop()
    play.note("", "traffic_ends")
    play.await_outcome()


_COMMON: Mapping[str, Any] = {
    "sick": sick,
    "expect": expect,
    "perform": perform,
    "count_symptoms": returns_under_new_ids,
    "brokers": 3,
}

FAST = Story(
    id="idle_lock",
    title="A: evicted whenever the topic is idle",
    what="kafka-python 1.4.6 iterates over an idle topic; its heartbeats wait for a lock that the poll keeps",
    draw=draw_fast,
    cured=with_young_metadata,
    seconds=90,
    enough=2,
    enough_recorded=4,
    quiet_seconds=lambda parameters: 5 * parameters["session_ms"] / 1000,
    **_COMMON,
)

UPGRADED = replace(
    FAST,
    id="idle_lock_upgraded",
    title="A: the same, cured by kafka-python 1.4.7",
    what="as idle_lock, with the version in which it was mended as the cure",
    cured=upgraded,
)

WRONG_CURE = replace(
    FAST,
    id="idle_lock_wrong_cure",
    title="A: the same, after what its users tried first",
    what="as idle_lock, with max_poll_interval_ms of half an hour and max_poll_records=1, which change nothing",
    sick=with_longer_polls,
)

REAL = Story(
    id="idle_lock_real",
    title="A: as it was reported, with the client's defaults",
    what="kafka-python 1.4.6 with default settings; first eviction five to six minutes after the topic fell silent",
    draw=draw_real,
    cured=with_young_metadata,
    seconds=600,
    enough=1,
    quiet_seconds=lambda _: 420.0,
    slow=True,
    **_COMMON,
)
