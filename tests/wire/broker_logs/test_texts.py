"""Each coordinator line of any version becomes the event that it describes, and no other line does."""

from collections import Counter
from dataclasses import replace

import pytest

from goldens import scenarios, timeline
from rebalance_contract import CoordinatorEvent
from rebalance_streaming.wire.broker_logs.decode import decode_record
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome
from rebalance_streaming.wire.broker_logs.reasons import read_members
from rebalance_streaming.wire.broker_logs.texts import TEXTS
from wire.broker_logs.lines import JAVA, LINES, SCALA, A, B, java, scala


@pytest.mark.parametrize(
    ("version", "line", "expected"), LINES, ids=lambda each: each if isinstance(each, str) and len(each) < 9 else ""
)
def test_a_line_is_the_event_that_it_describes(version: str, line: str, expected: CoordinatorEvent):
    """Group, members, generation, trigger and reason come from the line, with its own time and its writer."""
    lines = decode_record(line.encode(), None)
    assert lines.events == [("g", replace(expected, broker=1))]
    assert lines.counts == {LineOutcome.DECODED: 1}


def test_every_text_is_in_the_table():
    """A text without a line in the table would be untested."""
    bodies = [line.partition(JAVA if JAVA in line else SCALA)[2] for _, line, _ in LINES]
    tried = {next(n for n, each in enumerate(TEXTS) if each.template.match(body) is not None) for body in bodies}
    left = ["…".join(each.template.words) for n, each in enumerate(TEXTS) if n not in tried]
    assert left == []


def test_a_line_of_several_members_is_an_event_for_each():
    """Members that were left behind by a barrier become one event each."""
    line = java(f"Group g removed dynamic members who haven't joined: [{A}, {B}]")
    lines = decode_record(line.encode(), None)
    assert [each.member_id for _, each in lines.events] == [A, B]
    assert lines.counts == {LineOutcome.DECODED: 1}


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("Set(a, b)", ["a", "b"]),
        ("HashSet(a)", ["a"]),
        ("[a, b]", ["a", "b"]),
        ("[]", []),
        ("a, b", ["a", "b"]),
        ("Set()", []),
    ],
)
def test_collections_of_scala_and_java_are_read(text: str, members: list[str]):
    """Both languages' formats of collections are parsed."""
    assert read_members(text) == members


@pytest.mark.parametrize(
    "line",
    [
        java(
            "[GroupId g] Member m new assignment state: epoch=2, previousEpoch=1, state=STABLE, assignedPartitions=[]."
        ),
        java("[GroupId g] Computed new metadata hash: 5."),
        java("[GroupId g] Creating a simple consumer group via manual offset commit."),
        java("Generated 3 tombstone records while cleaning up group metadata in 1 milliseconds."),
        java(
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance."
        ),
        scala("Elected as the group coordinator for partition 12 in epoch 3"),
        "[2026-11-22 23:58:48,123] INFO [GroupMetadataManager brokerId=1] Scheduling loading of offsets and group metadata from __consumer_offsets-12 for epoch 3 (kafka.coordinator.group.GroupMetadataManager)",
        "[2026-11-22 23:58:48,123] INFO [BrokerServer id=1] Transition from STARTING to STARTED (kafka.server.BrokerServer)",
        "java.lang.IllegalStateException: no",
        "\tat kafka.coordinator.group.GroupCoordinator.handleJoinGroup(GroupCoordinator.scala:188)",
    ],
)
def test_what_is_no_event_is_counted_as_other(line: str):
    """Most lines of a broker's log are irrelevant, and cause no warning."""
    assert decode_record(line.encode(), None).counts == {LineOutcome.OTHER: 1}


def test_new_words_of_a_coordinator_are_counted_apart():
    """A broker of a later version may write new texts, which must be visible."""
    line = java("Group g was put off until tomorrow.")
    assert decode_record(line.encode(), None).counts == {LineOutcome.UNKNOWN_TEXT: 1}


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance"])
def test_a_group_may_have_any_name(state: str):
    """Groups and clients may have any names."""
    for group in ("my group", "a] b", "x (y)", "Preparing", "ä-😀"):
        line = java(
            f"Preparing to rebalance group {group} in state {state} with old generation 2 (reason: Adding new member {A} with group instance id null; client reason: (reason: x).)."
        )
        ((name, found),) = decode_record(line.encode(), None).events
        assert (name, found.member_id, found.reason) == (group, A, "(reason: x)")


@pytest.mark.recordings
def test_every_line_that_real_coordinators_wrote_is_known():
    """Brokers 3.9.2, 4.0.1 and 4.3.1, old and new coordinators, classic, consumer, share and streams groups."""
    counts: Counter[LineOutcome] = Counter()
    for scenario in scenarios():
        for step in timeline(scenario):
            if step["event"] == "broker_log":
                # The timelines omit the prefix of the new coordinator.
                text = step["text"] if step["text"].startswith(("[GroupC", "[GroupM")) else f"{JAVA}{step['text']}"
                lines = decode_record(text.encode(), step["t_ms"])
                assert not lines.counts[LineOutcome.UNKNOWN_TEXT], text
                counts.update(lines.counts)
    assert counts[LineOutcome.DECODED] > 1_000
