"""Advice to a whole group by the kind of its members: consumers of a library, or workers of Connect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detect.departing import LOST_MS, A, B, gone, losing
from histories import T0, history, rebalance, snapshot
from rebalance_contract import GroupType, Member
from rebalance_streaming.detect.rules.member_settings import (
    barrier_advice,
    have_poll_records,
    is_movable,
    may_be_named,
    sessions_of,
)
from rebalance_streaming.detect.rules.polling import poll_overrun
from rebalance_streaming.observed.departures import POLL_TIMEOUT


def of(client_id: str) -> tuple[Member, Member]:
    return replace(A, client_id=client_id), replace(B, client_id=client_id)


def parameters(*, client_id: str, protocol: str, protocol_type: str = "consumer", then: str | None = None) -> set[str]:
    """Return the advice for a group whose members wait: now, or (`then`) in a rebalance with this protocol."""
    known = history(snapshot(T0, *of(client_id), protocol=protocol, protocol_type=protocol_type))
    past = None if then is None else rebalance(LOST_MS, of(client_id), of(client_id), protocol=then)
    return {each.parameter for each in barrier_advice(known, past)}


def test_a_barrier_is_shorter_with_a_cooperative_assignor_where_there_is_one():
    """Not if the group has one or its clients lack it; a rebalance is judged by the protocol it had."""
    usual = {"code", "max.poll.interval.ms"}
    assert parameters(client_id="rdkafka", protocol="range") == usual | {"partition.assignment.strategy"}
    assert parameters(client_id="rdkafka", protocol="cooperative-sticky") == usual
    assert parameters(client_id="rdkafka", protocol="cooperative-sticky", then="range") > usual
    assert parameters(client_id="rdkafka", protocol="range", then="cooperative-sticky") == usual
    assert parameters(client_id="aiokafka-0.12.0", protocol="roundrobin") == usual
    assert parameters(client_id="kafkajs", protocol="RoundRobinAssigner") == usual
    assert parameters(client_id="a-StreamThread-1-consumer", protocol="stream") == usual


def test_workers_of_connect_wait_for_another_setting():
    """rebalance.timeout.ms, with any assignor."""
    worker = {"operation", "rebalance.timeout.ms"}
    assert parameters(client_id="connect-1", protocol="sessioned", protocol_type="connect") == worker
    assert parameters(client_id="connect-1", protocol="", protocol_type="connect", then="default") == worker


def test_the_advice_for_a_worker_of_connect_that_did_not_poll_names_its_own_limit():
    """A connector delayed its herder: it has neither batches nor max.poll.interval.ms."""
    who = replace(B, client_id="connect-1", rebalance_timeout_ms=60_000)
    lost = gone(who, POLL_TIMEOUT)
    known = losing(lost, events=(snapshot(T0, A, who, protocol="sessioned", protocol_type="connect"),))
    found = poll_overrun(replace(known, rebalance=replace(known.rebalance, protocol="sessioned")), lost)
    assert found is not None
    assert "did not poll within rebalance.timeout.ms (60.0 s)" in found.summary
    assert {each.parameter for each in found.advice} == {"operation", "rebalance.timeout.ms"}
    consumer = poll_overrun(losing(lost), lost)
    assert consumer is not None
    assert "did not poll within max.poll.interval (60.0 s)" in consumer.summary


@pytest.mark.parametrize(
    ("client_id", "kind", "protocol", "has"),
    [
        ("consumer-g-1", GroupType.CLASSIC, "range", "names kip848 records"),
        ("rdkafka", GroupType.CLASSIC, "range", "names kip848"),
        ("kafka-python-2.2.3", GroupType.CLASSIC, "range", "records"),
        ("kafkajs", GroupType.CLASSIC, "RoundRobinAssigner", ""),
        ("consumer-g-1", GroupType.CONSUMER, "uniform", "names records"),
        ("consumer-g-1", GroupType.SHARE, None, "records"),
        ("a-StreamThread-1-consumer", GroupType.STREAMS, None, "records"),
        ("a-StreamThread-1-consumer", GroupType.CLASSIC, "stream", "names records"),
        ("connect-1", GroupType.CLASSIC, "sessioned", ""),
        ("of our own", GroupType.CLASSIC, "range", "names kip848 records"),
    ],
)
def test_what_members_have_to_set(client_id: str, kind: GroupType, protocol: str | None, has: str):
    """Instance ids, the newer protocol and the batch size, by library, group type and protocol."""
    kind_of_protocol = "connect" if client_id.startswith("connect") else "consumer"
    who = of(client_id)
    known = history(snapshot(T0, *who, type=kind, protocol=protocol, protocol_type=kind_of_protocol))
    asked_of = {
        "names": may_be_named(known, who),
        "kip848": is_movable(known),
        "records": have_poll_records(known, who),
    }
    assert " ".join(name for name, found in asked_of.items() if found) == has


def test_a_group_that_was_never_seen_is_taken_for_a_classic_one():
    """Only the lost member is known."""
    assert [each.setting.name for each in sessions_of(history(), (A,))] == ["session.timeout.ms"]
    assert may_be_named(history(), (A,))
