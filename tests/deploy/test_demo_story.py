"""What a person reads of a founding story, and what counts as quiet after its fix."""

from __future__ import annotations

from typing import Any

import pytest

from groups.records import Log, member
from rebalance_deploy.demo.narration import Narrator, describe_change, describe_form
from rebalance_deploy.demo.story import ACTS, describe_expected, find_disturbances
from rebalance_deploy.stories.play import StoryRun
from rebalance_deploy.stories.programme import FOUNDING
from rebalance_deploy.stories.story import ClientSpec, Expected
from rebalance_streaming.groups.events import Finding, Rebalance, Subject
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import new_state

A, B = member("a-1", client_id="a"), member("b-1", client_id="b")


def told(event: str, second: float, name: str = "c1", **more: Any) -> dict[str, Any]:
    """An event as a client of a play tells it."""
    return {"t_ms": int(second * 1000), "name": name, "process": f"{name}/1", "event": event, **more}


def assigned(second: float, partitions: int, member_id: str, name: str = "c1") -> dict[str, Any]:
    """A client got so many partitions under an id."""
    places = [["t", number] for number in range(partitions)]
    return told("assigned", second, name, partitions=places, member_id=member_id)


def records(second: float, first: int, last: int, name: str = "c1") -> dict[str, Any]:
    """A client was handed a range of one partition's records."""
    return told("records", second, name, count=last - first + 1, ranges=[["t", 0, first, last]])


def lines(*events: dict[str, Any]) -> list[str]:
    """What is said of events, in order."""
    narrator = Narrator()
    return [line for event in events if (line := narrator.hear(event)) is not None]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([told("started", 1), assigned(4, 3, "m-1")], ["c1 starts", "c1 is in the group, 3 s after its start, with 3"]),
        ([told("started", 1), assigned(20, 1, "m-1")], ["starts", "in the group at last, 19 s after its start"]),
        ([assigned(1, 2, "m-1"), assigned(2, 1, "m-1")], ["with 2 partitions", "c1 has 1 partition now"]),
        ([assigned(1, 2, "m-1"), assigned(2, 2, "m-1")], ["with 2 partitions"]),
        ([assigned(1, 2, "m-1"), assigned(9, 2, "m-2")], ["with 2", "had been put out and is back under another"]),
        ([records(1, 0, 0), records(2, 1, 1), records(9, 2, 3)], ["gets its first record", "gets 2 records"]),
        (
            [records(1, 0, 9), records(9, 5, 14)],
            ["gets its first 10 records", "gets 10 records, 5 of which were handed"],
        ),
        (
            [records(1, 0, 0), records(2, 0, 0, "c2")],
            ["its first record", "c2 gets 1 record, which was handed out before"],
        ),
        ([records(1, 0, 9), told("processed", 2.5, count=10)], ["10 records"]),
        ([records(1, 0, 9), told("processed", 21, count=10)], ["10 records", "done with 10 records after 20.0 s of"]),
        ([told("commit_failed", 1, error="CommitFailedException", text="long")], ["refused: CommitFailedException"]),
        ([told("traffic_ends", 1, "")], ["00:00:01  nobody writes"]),
        ([told("committed", 1), told("revoked", 1, partitions=[]), told("closed", 2)], []),
    ],
)
def test_only_what_is_new_is_told(events: list[dict[str, Any]], said: list[str]):
    """One line for each thing worth knowing: routine, and what was told already, is left out."""
    found = lines(*events)
    assert len(found) == len(said), found
    assert all(words in line for words, line in zip(said, found, strict=True)), found


def test_a_process_started_again_is_a_new_one():
    """Its first assignment is not a return under another id."""
    again = {**assigned(9, 2, "m-2"), "process": "c1/2"}
    assert "had been put out" not in lines(assigned(1, 2, "m-1"), again)[1]


def test_a_fix_is_told_as_what_differs():
    """Library, settings and what the program does, each before and after."""
    sick = ClientSpec("kafka-python-1.4.6", {"a": 1, "b": 2}, {"hold": "gil"})
    cured = ClientSpec("kafka-python-1.4.7", {"b": 3, "c": 4, "a": 1}, {"hold": "process"})
    assert describe_change(sick, cured) == [
        "kafka-python-1.4.6 -> kafka-python-1.4.7",
        "b: 2 -> 3",
        "c: not set -> 4",
        "hold: gil -> process",
    ]
    assert describe_change(sick, sick) == []
    assert describe_form(sick) == "kafka-python-1.4.6  a=1  b=2"


def test_every_founding_incident_has_its_letter():
    """In the order in which they are told everywhere else, and each with a fix in words."""
    assert [act.story for act in ACTS.values()] == list(FOUNDING)
    assert all(act.story.title.startswith(f"{letter.upper()}: ") and act.fix for letter, act in ACTS.items())


def test_what_was_to_be_said_is_told_in_one_line():
    """Cause, culprits, what to change."""
    bare = Expected("poll_overrun")
    assert describe_expected(bare) == "poll_overrun"
    full = Expected("zk_owner", culprits=("a", "b"), variant="v", upgrade_of="x", upgrade_to="2")
    assert describe_expected(full) == "zk_owner (v), by a and b; change: upgrade to 2"


RUN = StoryRun(
    story="s",
    cured=True,
    seed=1,
    kafka_version="3.9.2",
    library="java",
    parameters={},
    group="cured",
    topic="t",
    started_ms=1_000,
    ended_ms=9_000,
    symptoms=0,
    events=(),
    broker_lines=(),
)


def finding(**changes: Any) -> Finding:
    """A finding as the rules would make it."""
    fields: dict[str, Any] = {
        "finding_id": "f",
        "cluster": "default",
        "group": "cured",
        "rule": "poll_overrun",
        "severity": "ticket",
        "state": "firing",
        "primary": True,
        "confidence": 0.9,
        "subject": Subject(),
        "started_at_ms": 0,
        "detected_at_ms": 5_000,
        "updated_at_ms": 0,
        "resolved_at_ms": None,
        "summary": "words",
    }
    return Finding(**{**fields, **changes})


def rebalances(log: Log) -> list[Rebalance]:
    """Fold a log to its rebalances."""
    state, found = new_state("test", "cured"), []
    for record in log.records:
        state, events = fold(state, record)
        found += [event for event in events if isinstance(event, Rebalance)]
    return found


def test_joining_and_information_are_quiet():
    """So is what was found of the incident itself before its fix."""
    joined = rebalances(Log().write(1, A).write(2, A, B))
    known = [finding(severity="info", rule="scale_out"), finding(group="sick", detected_at_ms=500)]
    assert find_disturbances(RUN, "poll_overrun", known, joined) == []


@pytest.mark.parametrize(
    ("found", "log", "words"),
    [
        ([finding()], Log(), "poll_overrun (ticket) of a group that is well"),
        ([finding(group="sick")], Log(), "poll_overrun was found again, in sick"),
        ([], Log().write(1, A, B).write(2, A), "a rebalance beyond joining"),
    ],
)
def test_each_disturbance_is_named(found: list[Finding], log: Log, words: str):
    """A complaint, the old cause anywhere, and anybody's leaving."""
    (sentence,) = find_disturbances(RUN, "poll_overrun", found, rebalances(log))
    assert words in sentence
