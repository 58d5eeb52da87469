"""The client library of a member, from its records and from its own reports."""

from __future__ import annotations

from typing import Any

import pytest

from histories import T0, member, packed, report
from rebalance_contract.client_settings import (
    AIOKAFKA,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    SARAMA,
    parse_version,
)
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.wire.metrics.report import ClientConfig

B = member("b-1", [0])


def reported(**changes: Any) -> ClientHistory:
    """Return a client that reported once."""
    found = ClientHistory()
    row = packed(report(T0, B, **changes))
    found.take(row, row.samples[0])
    return found


@pytest.mark.parametrize(
    ("client_id", "library", "version"),
    [
        ("consumer-payments-1", JAVA, None),
        ("consumer-with-dashes-and-1-12", JAVA, None),
        ("consumer-3", JAVA, None),
        ("app-8d5c1f7e-aaaa-bbbb-cccc-0123456789ab-StreamThread-2-consumer", JAVA, None),
        ("rdkafka", LIBRDKAFKA, None),
        ("kafka-python-1.4.6", KAFKA_PYTHON, "1.4.6"),
        ("kafka-python-2.0.2.dev0", KAFKA_PYTHON, "2.0.2.dev0"),
        ("aiokafka-0.8.1", AIOKAFKA, "0.8.1"),
        ("sarama", SARAMA, None),
        ("kgo", FRANZ_GO, None),
        ("kafkajs", KAFKAJS, None),
        ("billing", None, None),
        ("rdkafka-of-mine", None, None),
        ("my-kafka-python-1.4.6", None, None),
        ("", None, None),
    ],
)
def test_a_default_client_id_shows_the_library(client_id: str, library: str | None, version: str | None):
    """kafka-python and aiokafka write their version into it; a chosen name shows nothing."""
    found = make_fingerprint(member("b-1", client_id=client_id))
    assert (found.library, found.version) == (library, version)


@pytest.mark.parametrize(
    ("client_id", "changes", "enforces", "own", "starves"),
    [
        ("consumer-g-1", {}, True, True, False),
        ("consumer-1", {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}, False, False, False),
        ("consumer-1", {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 300_000}, True, True, False),
        ("rdkafka", {}, True, True, False),
        ("kafka-python-1.3.5", {}, False, False, True),
        ("kafka-python-1.4.0", {}, True, True, True),
        ("kafka-python-3.0.3", {}, True, True, True),
        ("aiokafka-0.8.1", {}, True, True, True),
        ("aiokafka-0.5.0", {}, False, True, True),
        ("sarama", {}, False, True, False),
        ("kgo", {}, False, True, False),
        ("kafkajs", {}, False, False, True),
        ("billing", {}, True, True, None),
    ],
)
def test_the_library_decides_what_can_have_happened(
    client_id: str, changes: dict[str, Any], enforces: bool, own: bool, starves: bool | None
):
    """Whether a client leaves by itself, has a heartbeat thread, and whether that can fail in a healthy process."""
    found = make_fingerprint(member("b-1", client_id=client_id, **changes))
    assert (found.enforces_poll, found.own_heartbeats, found.may_starve) == (enforces, own, starves)


@pytest.mark.parametrize(
    ("version", "data", "assignor", "changes", "expected"),
    [
        (3, None, "range", {}, (JAVA, False, False)),
        (3, 4, "cooperative-sticky", {}, (JAVA, False, False)),
        (3, 0, "range", {}, (LIBRDKAFKA, False, False)),
        (3, 8, "cooperative-sticky", {}, (None, False, False)),
        (3, None, "range", {"client_id": "kgo"}, (FRANZ_GO, False, False)),
        (1, 0, "range", {}, (None, None, False)),
        (0, 0, "range", {}, (KAFKA_PYTHON, True, True)),
        (0, 0, "roundrobin", {"rebalance_timeout_ms": 10_000}, (AIOKAFKA, True, True)),
        (0, 0, "range", {"rebalance_timeout_ms": 10_000}, (None, None, False)),
        (0, 0, "RoundRobinAssigner", {}, (None, None, False)),
        (0, 0, None, {}, (None, None, False)),
        (0, None, "range", {}, (None, None, False)),
        (None, None, "range", {}, (None, None, False)),
        (None, None, "sessioned", {}, (JAVA, False, False)),
        (None, None, "uniform", {"epoch": 3, "session_timeout_ms": None}, (None, False, False)),
    ],
)
def test_the_form_of_a_subscription_shows_the_library(
    version: int | None,
    data: int | None,
    assignor: str | None,
    changes: dict[str, Any],
    expected: tuple[str | None, bool | None, bool],
):
    """Null data in Java, empty data in librdkafka, and the oldest version in kafka-python."""
    who = member("b-1", subscription_version=version, user_data_bytes=data, **changes)
    found = make_fingerprint(who, None, assignor)
    assert (found.library, found.may_starve, found.is_guessed) == expected


def test_equal_timeouts_are_those_of_an_old_java_only_in_an_old_subscription():
    """Java 0.10.0 had one time-out for both; a subscription with a generation is years younger."""
    changes = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "client_id": "consumer-1"}
    assert not make_fingerprint(member("b-1", subscription_version=0, **changes)).own_heartbeats
    assert make_fingerprint(member("b-1", subscription_version=3, **changes)).own_heartbeats


@pytest.mark.parametrize(
    ("library", "version", "expected", "enforces"),
    [
        ("apache-kafka-java", "3.7.0", JAVA, True),
        ("kafka-clients", "2.8.1", JAVA, True),
        ("confluent-kafka-python", "2.3.0", LIBRDKAFKA, True),
        ("RDKafka", "0.11.6", LIBRDKAFKA, False),
        ("librdkafka", "1.0.0", LIBRDKAFKA, True),
        ("kafka-python", "1.4.6", KAFKA_PYTHON, True),
        ("aiokafka", None, AIOKAFKA, True),
        ("home-made", "9", "home-made", True),
    ],
)
def test_a_report_decides(library: str, version: str | None, expected: str, enforces: bool):
    """The client's own report takes precedence over a client id that looks like another library's default."""
    found = make_fingerprint(member("b-1", client_id="sarama"), reported(library=library, library_version=version))
    assert (found.library, found.version, found.enforces_poll) == (expected, version, enforces)


def test_a_report_without_a_library_leaves_the_records_word():
    """A format without the library's name keeps the conclusion from the records."""
    found = make_fingerprint(member("b-1", client_id="kafka-python-1.4.6"), reported(library=None))
    assert (found.library, found.release) == (KAFKA_PYTHON, (1, 4, 6))


@pytest.mark.parametrize(
    ("session_ms", "config", "expected"),
    [
        (10_000, ClientConfig(), 3_000),
        (None, ClientConfig(), 5_000),
        (10_000, ClientConfig(heartbeat_interval_ms=10_000), 10_000),
    ],
    ids=["classic default", "the group's of KIP-848", "reported"],
)
def test_the_heartbeat_interval_is_reported_or_the_protocols_default(
    session_ms: int | None, config: ClientConfig, expected: int
):
    """No record has it."""
    who = member("b-1", session_timeout_ms=session_ms)
    assert make_fingerprint(who, reported(config=config)).heartbeat_ms == expected


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2.2.15", (2, 2, 15)), ("3.0.0-SNAPSHOT", (3, 0, 0)), ("1", (1,)), ("v1.2", ()), ("", ()), (None, ())],
)
def test_versions_are_numbers_as_far_as_they_are(text: str | None, numbers: tuple[int, ...]):
    """Only leading numbers count, and other texts are unknown."""
    assert parse_version(text) == numbers
