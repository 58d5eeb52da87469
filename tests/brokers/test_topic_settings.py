"""Warnings about existing topics with wrong settings."""

from dataclasses import replace

import pytest

from rebalance_contract.topics import CLIENT_METRICS, GROUPS, REBALANCES, TOPICS, Topic
from rebalance_streaming.brokers.topic_settings import check_topic


@pytest.mark.parametrize("topic", TOPICS, ids=lambda each: each.name)
def test_a_topic_made_from_the_table_is_right(topic: Topic):
    """Topics created by the stream pass its own check."""
    assert check_topic("x", topic, topic.settings) is None


@pytest.mark.parametrize("topic", TOPICS, ids=lambda each: each.name)
def test_what_is_not_reported_counts_as_right(topic: Topic):
    """A setting that a broker does not report is not wrong."""
    assert check_topic("x", topic, {}) is None


@pytest.mark.parametrize(
    ("wanted", "found", "fatal"),
    [
        ("compact", "delete", True),
        ("compact", "compact,delete", True),
        ("compact", "", False),
        ("delete", "compact", True),
        ("delete", "compact,delete", True),
        ("delete", "", False),
        ("compact,delete", "compact", False),
        ("compact,delete", "delete", False),
        ("compact,delete", "delete, compact", None),
    ],
)
def test_a_policy_that_loses_rows_is_no_beginning(wanted: str, found: str, fatal: bool | None):
    """Settings that lose rows, by age or compaction, are errors; those that keep rows too long are warnings."""
    wrong = check_topic("x", replace(GROUPS, cleanup_policy=wanted), {"cleanup.policy": found})
    assert (None if wrong is None else wrong.is_fatal) is fatal


def test_one_sentence_says_all_and_how_to_mend_it():
    """Two problems of a topic are one sentence with one command, in the syntax of kafka-configs."""
    wrong = check_topic("rm.rebalances", REBALANCES, {"cleanup.policy": "compact", "max.message.bytes": "1000"})
    assert wrong is not None
    assert not wrong.is_fatal
    assert wrong.sentence.startswith("topic rm.rebalances has cleanup.policy=compact instead of compact,delete")
    assert wrong.sentence.endswith(
        "mend it: kafka-configs --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name rm.rebalances "
        f"--add-config 'cleanup.policy=[compact,delete],max.message.bytes={REBALANCES.max_message_bytes}'"
    )


def test_what_strangers_may_write_compressed_is_said():
    """The default allows a message that decompresses to more than the available memory."""
    wrong = check_topic("x", CLIENT_METRICS, {"compression.type": "producer"})
    assert wrong is not None
    assert not wrong.is_fatal
    assert wrong.sentence.endswith("--add-config 'compression.type=uncompressed'")
