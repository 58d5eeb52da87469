"""The scenarios: what is done to a group. Their outcome is read from the broker and the clients, see truth.py."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from accuracy.client import SESSION_MS
from accuracy.stage import Play, Stage
from waiting import wait_for


@dataclass(frozen=True)
class Scenario:
    """One scenario: `fast` ones are part of `make test`; `type` is the type of the group at the end.

    Those played `alone` come after all others, because they disturb the shared broker.
    """

    name: str
    play: Play
    fast: bool = False
    alone: bool = False
    type: str = "classic"


def join_and_leave(**settings: Any) -> Play:
    """Three consumers join one after the other and leave again."""

    def play(stage: Stage) -> None:
        stage.start("a", **settings)
        stage.start("b", **settings)
        stage.start("c", **settings)
        stage.leave("b")
        stage.leave("a", "c")

    return play


def java_join_and_leave(**settings: str) -> Play:
    """The same with two consumers of Kafka's Java client."""

    def play(stage: Stage) -> None:
        stage.start_java("a", **settings)
        stage.start_java("b", **settings)
        stage.leave("b")
        stage.leave("a")

    return play


def static_restart(stage: Stage) -> None:
    """A static member is back within its session time-out: no new generation."""
    stage.start("a", instance="i-a", session_ms=20_000)
    stage.start("b", instance="i-b", session_ms=20_000)
    stage.leave("b", settle=False)
    stage.start("b", instance="i-b", session_ms=20_000)
    # Static members leave only when their session expires.
    for name in ("a", "b"):
        stage.kill(name, settle=False)
    wait_for(lambda: _members(stage) == 0, "both sessions to expire")
    stage.settle()


def static_conflict(stage: Stage) -> None:
    """A second process with the same instance id takes over; the first one is fenced and exits."""
    stage.start("a", instance="i-a", session_ms=20_000)
    first = stage.clients["a"]
    stage.start("a", instance="i-a", session_ms=20_000, settle=False)
    wait_for(lambda: not first.is_running, "the fenced member to end")
    stage.settle()
    stage.kill("a")


def sigkill(stage: Stage) -> None:
    """A member is killed; its session expires."""
    stage.start("a")
    stage.start("b", session_ms=6_000)
    stage.kill("b")
    stage.leave("a")


def sigstop(stage: Stage) -> None:
    """A member's process is suspended for longer than its session time-out, then continues."""
    stage.start("a")
    stage.start("b", session_ms=6_000)
    stage.pause("b")
    stage.resume("b")
    stage.leave("a", "b")


def poll_overrun(stage: Stage) -> None:
    """A member does not poll within max.poll.interval.ms, leaves by itself and rejoins."""
    stage.start("a")
    stage.start("b", session_ms=6_000, max_poll_ms=8_000, stall_seconds=24.0)
    stage.signal("b", signal.SIGUSR1)

    def is_back() -> bool:
        said = [each["event"] for each in stage.words("b")]
        return "stalls" in said and "assigned" in said[said.index("stalls") :]

    wait_for(is_back, "b to leave and come back")
    stage.settle()
    stage.leave("a", "b")


def rolling_restart(stage: Stage) -> None:
    """Five members are restarted one after the other, without waiting for the group to settle."""
    names = [f"m{number}" for number in range(5)]
    stage.start(*names)
    for name in names:
        stage.leave(name, settle=False)
        stage.start(name, settle=False)
        wait_for(lambda: _members(stage) == len(names), "the restarted member to be in")
    stage.settle()
    stage.leave(*names)


def _members(stage: Stage) -> int | None:
    """Return the number of members known to the coordinator, or null while it does not answer."""
    found = stage.members()
    return None if found is None else len(found)


def scale(stage: Stage) -> None:
    """The group grows from two members to six and shrinks back."""
    names = [f"m{number}" for number in range(6)]
    stage.start(*names[:2])
    stage.start(*names[2:])
    stage.leave(*names[2:])
    stage.leave(*names[:2])


def growth(stage: Stage) -> None:
    """Partitions are added to the topic."""
    stage.start("a", metadata_ms=2_000)
    stage.start("b", metadata_ms=2_000)
    stage.grow(9)
    stage.leave("a", "b")


def deletion(stage: Stage) -> None:
    """The group becomes empty, is deleted, and is created again."""
    stage.start("a")
    stage.leave("a")
    stage.delete_group()
    stage.start("a")
    stage.leave("a")


def slow_revocation(stage: Stage) -> None:
    """A KIP-848 member is slow to revoke partitions."""
    stage.start("a", protocol="consumer", revoke_seconds=7.0)
    stage.start("b", protocol="consumer")
    stage.leave("b")
    stage.leave("a")


def upgrade_and_downgrade(stage: Stage) -> None:
    """A KIP-848 member joins a classic group, then leaves again: the group is converted and converted back."""
    stage.start("a")
    stage.start("b", protocol="consumer")
    stage.leave("b")
    stage.leave("a")


def coordinator_restart(stage: Stage) -> None:
    """The broker is restarted cleanly under an active group: no rebalance, if sessions outlast the restart."""
    stage.start("a")
    stage.start("b")
    stage.broker.restart()
    wait_for(lambda: _members(stage) == 2, "the group to be loaded")
    stage.settle()
    stage.leave("b")
    stage.leave("a")


def transactions(stage: Stage) -> None:
    """Offsets are committed in transactions, one committed and one aborted, beside a member."""
    stage.start("a")
    producer = Producer({"bootstrap.servers": stage.broker.bootstrap, "transactional.id": stage.group, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": f"{stage.group}-txn"})
    producer.init_transactions(60)
    for offset, commit in ((3, True), (5, False)):
        producer.begin_transaction()
        position = TopicPartition(stage.topic, 0, offset)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), 60)
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    consumer.close()
    stage.leave("a")


SCENARIOS = (
    Scenario("eager", join_and_leave(), fast=True),
    Scenario("cooperative-sticky", join_and_leave(assignor="cooperative-sticky"), fast=True),
    Scenario("kafka-python-range", join_and_leave(library="kp")),
    Scenario("kafka-python-cooperative", join_and_leave(library="kp", assignor="cooperative-sticky")),
    Scenario("java-default", java_join_and_leave(session_timeout_ms=str(SESSION_MS))),
    Scenario("java-kip848", java_join_and_leave(group_protocol="consumer"), type="consumer"),
    Scenario("java-share-group", java_join_and_leave(kind="share"), type="share"),
    Scenario("static-restart", static_restart),
    Scenario("static-conflict", static_conflict),
    Scenario("sigkill", sigkill, fast=True),
    Scenario("sigstop", sigstop),
    Scenario("poll-overrun", poll_overrun),
    Scenario("rolling-restart", rolling_restart),
    Scenario("scale-2-6-2", scale),
    Scenario("partition-growth", growth),
    Scenario("deletion-and-return", deletion),
    Scenario("kip848-join-leave", join_and_leave(protocol="consumer"), fast=True, type="consumer"),
    Scenario("kip848-slow-revocation", slow_revocation, type="consumer"),
    Scenario("upgrade-downgrade", upgrade_and_downgrade),
    Scenario("transactions", transactions, fast=True),
    Scenario("coordinator-restart", coordinator_restart, alone=True),
)
