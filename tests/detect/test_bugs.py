"""Known bugs by version, and the upgrades that fix them."""

import pytest

from rebalance_contract import Advice, client_settings
from rebalance_contract.client_settings import JAVA, KAFKA_PYTHON, LIBRDKAFKA, SARAMA, parse_version
from rebalance_streaming.detect.bugs import KNOWN_BUGS, STREAMS, KnownBug, known_bugs, upgrade_advice
from rebalance_streaming.detect.catalogue import DIAGNOSES

CLIENTS = {"broker", "kafka-connect", "pykafka", "ruby-kafka", STREAMS} | {
    *(client_settings.JAVA, client_settings.LIBRDKAFKA, client_settings.KAFKA_PYTHON, client_settings.AIOKAFKA),
    *(client_settings.SARAMA, client_settings.FRANZ_GO, client_settings.KAFKAJS),
}


def title(bug: KnownBug) -> str:
    return f"{bug.client}:{bug.sources[0]}"


@pytest.mark.parametrize("bug", KNOWN_BUGS, ids=title)
def test_a_fault_is_complete(bug: KnownBug):
    """Each bug is of a recognisable client, causes existing diagnoses, and has a source."""
    assert bug.client in CLIENTS
    assert bug.effects
    assert set(bug.effects) <= DIAGNOSES.keys()
    assert bug.sources
    assert bug.text.endswith(".")


@pytest.mark.parametrize("bug", KNOWN_BUGS, ids=title)
def test_the_version_to_go_to_is_without_the_fault(bug: KnownBug):
    """A bug begins with its first version, and neither the end of its range nor the advised version has it."""
    assert bug.since is None or bug.affects(bug.since)
    assert bug.below is None or not bug.affects(bug.below)
    assert bug.fixed_in is None or not bug.affects(parse_version(bug.fixed_in))
    assert (bug.fixed_in is None) == (bug.below is None)


@pytest.mark.parametrize(
    ("library", "version", "rule", "proposed"),
    [
        (KAFKA_PYTHON, "1.3.5", "processing_blocks_heartbeat", "kafka-python 1.4.0 or later"),
        (KAFKA_PYTHON, "1.3.5", "heartbeat_starvation", None),
        (KAFKA_PYTHON, "2.2.7", "member_flapping", None),
        (KAFKA_PYTHON, "2.2.3", "member_flapping", "kafka-python 2.2.4 or later"),
        (KAFKA_PYTHON, "2.2.8", "heartbeat_starvation", None),
        (KAFKA_PYTHON, "2.2.16", "coordinator_failover", "kafka-python 2.2.17 or later"),
        (KAFKA_PYTHON, "3.0.2", "coordinator_failover", "kafka-python 3.0.3 or later"),
        (KAFKA_PYTHON, "3.0.3", "coordinator_failover", None),
        (KAFKA_PYTHON, "1.4.6", "stalled_consumer", "kafka-python 2.0.2 or later"),
        (JAVA, "0.10.0.1", "processing_blocks_heartbeat", "java 0.10.1 or later"),
        (JAVA, "0.10.1", "processing_blocks_heartbeat", None),
        (JAVA, "2.8.2", "cooperative_livelock", "java 3.4.1 or later"),
        (JAVA, "2.8.2", "orphan_partition", "java 3.2.0 or later"),
        (JAVA, "3.1", "stalled_member_join_barrier", "java 3.2.0 or later"),
        (JAVA, "3.2", "stalled_member_join_barrier", None),
        (JAVA, "3.4.0", "duplicate_processing", "java 3.4.1 or later"),
        (JAVA, "2.3.1", "cooperative_livelock", None),
        (JAVA, "4.0.0", "cooperative_livelock", None),
        (STREAMS, "3.3.1", "cooperative_livelock", "kafka-streams 3.3.2 or later"),
        ("kafka-connect", "2.3.0", "rebalance_storm", "kafka-connect 3.4.0 or later"),
        ("kafka-connect", "3.6.0", "connect_scheduled_rebalance", "kafka-connect 3.6.1 or later"),
        ("broker", "2.4.1", "coordinator_stuck_rebalance", "broker 2.8.1 or later"),
        ("broker", "2.8.1", "coordinator_stuck_rebalance", None),
        ("broker", "2.6.0", "coordinator_failover", "broker 2.6.1 or later"),
        (LIBRDKAFKA, "0.11.6", "stalled_consumer", "librdkafka 2.1.0 or later"),
        (LIBRDKAFKA, "2.0.2", "stalled_consumer", "librdkafka 2.1.0 or later"),
        (LIBRDKAFKA, "2.1.0", "poll_overrun", "librdkafka 2.3.0 or later"),
        (LIBRDKAFKA, "2.0.2", "poll_overrun", None),
        (LIBRDKAFKA, "2.6.0", "cooperative_livelock", "librdkafka 2.10.0 or later"),
        (LIBRDKAFKA, "2.6.0", "assignor_slow_or_failing", "librdkafka 2.6.1 or later"),
        (LIBRDKAFKA, "2.10.0", "cooperative_livelock", None),
        (SARAMA, "1.31.0", "processing_blocks_heartbeat", "sarama 1.31.1 or later"),
        (SARAMA, "1.43.0", "stalled_consumer", None),
        ("pykafka", "2.6.0", "zk_partition_owner_conflict", "pykafka 2.7.0 or later"),
    ],
)
def test_the_upgrade_that_helps(library: str, version: str, rule: str, proposed: str | None):
    """The advice is the first version without a bug that causes the diagnosis; without bug or fix there is none."""
    advice = upgrade_advice(library, parse_version(version), rule)
    assert (advice.proposed if advice else None) == proposed


@pytest.mark.parametrize("version", ["1.4.0", "1.4.6", "2.0.1", "2.2.7"])
def test_starved_kafka_python_goes_further_than_the_last_fix(version: str):
    """The fixes of its heartbeat thread end at 2.2.8, but an upgrade should go further, to 2.3.1 or 3.x."""
    advice = upgrade_advice(KAFKA_PYTHON, parse_version(version), "heartbeat_starvation")
    assert advice is not None
    assert advice.proposed.startswith("kafka-python 2.3.1 or later, best 3.x")


def test_advice_says_from_where_and_why():
    """The advice has the setting, the current version, and the bug with its sources."""
    bug = next(each for each in KNOWN_BUGS if each.client == "pykafka")
    assert upgrade_advice("pykafka", (2, 6, 0), "zk_partition_owner_conflict") == Advice(
        parameter="upgrade",
        current="pykafka 2.6.0",
        proposed="pykafka 2.7.0 or later",
        formula=f"known faults of this version: {bug.text} (Parsely/pykafka#701)",
    )


@pytest.mark.parametrize(
    ("library", "version"),
    sorted({(bug.client, ".".join(map(str, bug.since or (0, 1)))) for bug in KNOWN_BUGS}),
)
def test_whoever_follows_the_advice_needs_no_other(library: str, version: str):
    """The advised version has no bug with a fix that causes the same diagnosis."""
    release = parse_version(version)
    for rule in {rule for bug in known_bugs(library, release, kip848=True) for rule in bug.effects}:
        advice = upgrade_advice(library, release, rule, kip848=True)
        if advice is not None:
            reached = parse_version(advice.proposed.removeprefix(f"{library} "))
            assert reached > release
            assert [bug for bug in known_bugs(library, reached, rule, kip848=True) if bug.fixed_in] == []


def test_nothing_is_known_of_an_unknown_version():
    """A client without a known library or version is not blamed; only a bug of all versions is certain."""
    assert known_bugs(None, (1, 0)) == ()
    assert known_bugs(KAFKA_PYTHON, ()) == ()
    assert upgrade_advice(None, (1, 0), "heartbeat_starvation") is None
    assert upgrade_advice(KAFKA_PYTHON, (), "heartbeat_starvation") is None


def test_faults_of_the_newer_protocol_are_its_own():
    """A bug of KIP-848 explains nothing in a classic group."""
    assert known_bugs(LIBRDKAFKA, (2, 13, 0), "poll_overrun") == ()
    assert [bug.fixed_in for bug in known_bugs(LIBRDKAFKA, (2, 13, 0), "poll_overrun", kip848=True)] == ["2.15.0"]


def test_short_versions_are_filled_with_zeros():
    """3.0 is 3.0.0, so it is not older than a fix in 3.0.0."""
    assert {bug.fixed_in for bug in known_bugs(JAVA, (3, 0))} == {bug.fixed_in for bug in known_bugs(JAVA, (3, 0, 0))}
    assert "3.0.0" not in {bug.fixed_in for bug in known_bugs(JAVA, (3, 0))}


def test_without_a_rule_all_faults_of_a_version_are_returned():
    """Every known bug of a version in use is a ticket, even if it has had no effect so far."""
    found = known_bugs(LIBRDKAFKA, (1, 6, 1))
    assert {"stalled_consumer", "cooperative_livelock", "assignment_imbalance"} <= {r for b in found for r in b.effects}
    assert set(known_bugs(LIBRDKAFKA, (1, 6, 1), "stalled_consumer")) < set(found)
