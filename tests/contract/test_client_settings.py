"""The settings that clients and brokers accept, so that advice never proposes a rejected one."""

from __future__ import annotations

import pytest

from rebalance_contract import GroupType, Member
from rebalance_contract.client_settings import (
    AIOKAFKA,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    SARAMA,
    Version,
    has_cooperative,
    has_keepalive,
    has_poll_records,
    has_static_members,
    is_connect,
    library_of,
    longest_poll_interval_ms,
    session_bound,
    session_setting,
    speaks_kip848,
)


@pytest.mark.parametrize(
    ("kind", "name", "limits"),
    [
        (GroupType.CLASSIC, "session.timeout.ms", (6_000, 1_800_000)),
        (GroupType.CONSUMER, "consumer.session.timeout.ms", (45_000, 60_000)),
        (GroupType.SHARE, "share.session.timeout.ms", (45_000, 60_000)),
        (GroupType.STREAMS, "streams.session.timeout.ms", (45_000, 60_000)),
    ],
)
def test_a_session_is_set_where_the_protocol_has_it(kind: GroupType, name: str, limits: tuple[int, int]):
    """Clients set it in classic groups, the group has it in newer protocols; each type has its own setting."""
    found = session_setting(kind, 45_000 if kind == GroupType.CLASSIC else None)
    assert (found.name, found.shortest_ms, found.longest_ms) == (name, *limits)
    assert found.of_group == (kind != GroupType.CLASSIC)
    assert found.longest_by == f"group.{'' if kind == GroupType.CLASSIC else f'{kind}.'}max.session.timeout.ms"


def test_a_classic_member_of_a_newer_group_has_its_own_session():
    """While a group migrates to KIP-848, its classic members keep their own settings."""
    assert session_setting(GroupType.CONSUMER, 10_000).name == "session.timeout.ms"


@pytest.mark.parametrize(
    ("library", "version", "expected"),
    [
        (JAVA, (), True),
        (JAVA, (2, 3), False),
        (JAVA, (2, 4, 1), True),
        (LIBRDKAFKA, (1, 5), False),
        (LIBRDKAFKA, (2, 10), True),
        (KAFKA_PYTHON, (2, 3, 1), False),
        (KAFKA_PYTHON, (3, 0, 2), True),
        (KAFKA_PYTHON, (), False),
        (SARAMA, (), False),
        (SARAMA, (1, 60, 1), True),
        (FRANZ_GO, (), True),
        (KAFKAJS, (2, 2), False),
        (AIOKAFKA, (0, 14), False),
        (None, (), True),
    ],
)
def test_who_has_the_cooperative_assignor(library: str | None, version: Version, expected: bool):
    """For an unknown version it is assumed only for libraries that have had it for years."""
    assert has_cooperative(library, version) == expected


def test_who_may_be_static():
    """Not kafkajs, versions older than KIP-345, or members of share and streams groups."""
    assert has_static_members(JAVA, (3, 7), GroupType.CLASSIC)
    assert has_static_members(LIBRDKAFKA, (), GroupType.CONSUMER)
    assert has_static_members(None, (), GroupType.CLASSIC)
    assert not has_static_members(KAFKA_PYTHON, (2, 2, 3), GroupType.CLASSIC)
    assert not has_static_members(KAFKAJS, (), GroupType.CLASSIC)
    assert not any(has_static_members(JAVA, (4, 1), kind) for kind in (GroupType.SHARE, GroupType.STREAMS))


def test_what_else_a_library_has():
    """Few libraries have max.poll.records, and few support KIP-848."""
    known = (JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, SARAMA, FRANZ_GO, KAFKAJS)
    assert [each for each in known if has_poll_records(each)] == [JAVA, KAFKA_PYTHON, AIOKAFKA]
    assert [each for each in known if has_keepalive(each)] == [LIBRDKAFKA]
    assert [each for each in known if speaks_kip848(each)] == [JAVA, LIBRDKAFKA, FRANZ_GO]
    assert longest_poll_interval_ms(LIBRDKAFKA) == 86_400_000 < longest_poll_interval_ms(JAVA)


def test_what_bounds_a_session_within_the_client():
    """The poll interval of librdkafka, if known; the request time-out of kafka-python, default or reported."""
    bound = session_bound(LIBRDKAFKA, (), poll_ms=30_000)
    assert bound is not None
    assert (bound.longest_ms, bound.setting) == (30_000, "max.poll.interval.ms")
    assert session_bound(LIBRDKAFKA, (), poll_ms=None) is None
    python = session_bound(KAFKA_PYTHON, (2, 2, 3), poll_ms=30_000)
    assert python is not None
    assert (python.longest_ms, python.setting) == (304_000, "request.timeout.ms")
    reported = session_bound(KAFKA_PYTHON, (), poll_ms=None, request_ms=41_000)
    assert reported is not None
    assert reported.longest_ms == 40_000
    assert session_bound(KAFKA_PYTHON, (3, 0, 2), poll_ms=30_000) is None
    assert session_bound(JAVA, (3, 7), poll_ms=30_000) is None


def test_workers_of_connect():
    """Recognised by their protocol type, otherwise by their assignor."""
    assert is_connect("connect", None)
    assert is_connect(None, "sessioned")
    assert not is_connect("consumer", "default")
    assert not is_connect(None, "range")


def test_a_client_id_shows_the_version():
    """In the formats of aiokafka and kafka-python."""
    assert library_of(Member("m", "aiokafka-0.12.0", "/h"), "roundrobin") == (AIOKAFKA, "0.12.0")
    assert library_of(Member("m", "billing", "/h"), "range") == (None, None)
