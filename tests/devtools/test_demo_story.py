"""The output of a founding story, and the check that its fix keeps the group quiet."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groups.records import Log, member
from rebalance_contract import Finding, Rebalance, Subject
from rebalance_deploy.errors import UserError
from rebalance_devtools.demo import commentary
from rebalance_devtools.demo.acts import ACTS, describe_expected
from rebalance_devtools.demo.commentary import Commentary
from rebalance_devtools.demo.narration import Narrator, describe_change, describe_form
from rebalance_devtools.demo.story import (
    StoryOptions,
    check_port,
    choose_version,
    find_disturbances,
    name_place,
)
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.programme import FOUNDING
from rebalance_devtools.stories.script import JAVA, ClientSpec, Expected, ExpectedAdvice
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import new_state
from waiting import wait_for

A, B = member("a-1", client_id="a"), member("b-1", client_id="b")


def reported(event: str, second: float, name: str = "c1", **more: Any) -> dict[str, Any]:
    """An event as reported by a client of a play."""
    return {"t_ms": int(second * 1000), "name": name, "process": f"{name}/1", "event": event, **more}


def assigned(second: float, partitions: int, member_id: str, name: str = "c1") -> dict[str, Any]:
    """A client got this many partitions under an id."""
    places = [["t", number] for number in range(partitions)]
    return reported("assigned", second, name, partitions=places, member_id=member_id)


def records(second: float, first: int, last: int, name: str = "c1") -> dict[str, Any]:
    """A client received a range of one partition's records."""
    return reported("records", second, name, count=last - first + 1, ranges=[["t", 0, first, last]])


def lines(*events: dict[str, Any]) -> list[str]:
    """The printed lines for events, in order."""
    narrator = Narrator()
    return [line for event in events if (line := narrator.hear(event)) is not None]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            [reported("started", 1), assigned(4, 3, "m-1")],
            ["c1 starts", "c1 is in the group, 3 s after its start, with 3"],
        ),
        ([reported("started", 1), assigned(20, 1, "m-1")], ["starts", "in the group at last, 19 s after its start"]),
        ([assigned(1, 2, "m-1"), assigned(2, 1, "m-1")], ["with 2 partitions", "c1 has 1 partition now"]),
        ([assigned(1, 2, "m-1"), assigned(2, 2, "m-1")], ["with 2 partitions"]),
        ([assigned(1, 2, "m-1"), assigned(9, 2, "m-2")], ["with 2", "had been put out and is back under another"]),
        ([records(1, 0, 0), records(2, 1, 1), records(9, 2, 3)], ["gets its first record", "gets 2 records"]),
        ([records(1, 0, 0), records(9, 1, 1), records(19, 2, 2)], ["gets its first record", "gets 1 record"]),
        (
            [records(1, 0, 0), records(9, 1, 1), records(19, 1, 1)],
            ["its first record", "gets 1 record", "gets 1 record, which was handed out before"],
        ),
        (
            [records(1, 0, 9), records(9, 5, 14)],
            ["gets its first 10 records", "gets 10 records, 5 of which were handed"],
        ),
        (
            [records(1, 0, 0), records(2, 0, 0, "c2")],
            ["its first record", "c2 gets 1 record, which was handed out before"],
        ),
        ([records(1, 0, 9), reported("processed", 2.5, count=10)], ["10 records"]),
        (
            [records(1, 0, 9), reported("processed", 21, count=10)],
            ["10 records", "done with 10 records after 20.0 s of"],
        ),
        (
            [records(1, 0, 9), *(reported("processed", second, count=10) for second in (4, 4.1, 21, 22))],
            ["10 records", "after 3.0 s of work", "after 20.0 s of work"],
        ),
        (
            [reported("commit_failed", 1, error="CommitFailedException", text="long")],
            ["refused: CommitFailedException"],
        ),
        ([reported("traffic_ends", 1, "")], ["00:00:01  nobody writes"]),
        ([reported("committed", 1), reported("revoked", 1, partitions=[]), reported("closed", 2)], []),
    ],
)
def test_only_what_is_new_is_printed(events: list[dict[str, Any]], said: list[str]):
    """One line for each significant event; routine events and repetitions are left out."""
    found = lines(*events)
    assert len(found) == len(said), found
    assert all(words in line for words, line in zip(said, found, strict=True)), found


def test_records_not_worth_a_line_are_counted():
    """The number shows that work continues."""
    narrator = Narrator()
    for event in (records(1, 0, 9), records(2, 10, 14), records(2, 10, 14, "c2")):
        narrator.hear(event)
    assert narrator.handed_out == 20


def test_a_process_started_again_is_a_new_one():
    """Its first assignment is not a return under another id."""
    again = {**assigned(9, 2, "m-2"), "process": "c1/2"}
    assert "had been put out" not in lines(assigned(1, 2, "m-1"), again)[1]


def test_a_fix_is_described_by_what_differs():
    """Library and settings, each before and after; behaviour of the program has no setting name."""
    sick = ClientSpec("kafka-python-1.4.6", {"a": 1, "b": 2}, {"hold": "gil"})
    cured = ClientSpec("kafka-python-1.4.7", {"b": 3, "c": 4, "a": 1}, {"hold": "process"})
    assert describe_change(sick, cured) == [
        "kafka-python-1.4.6 -> kafka-python-1.4.7",
        "b: 2 -> 3",
        "c: not set -> 4",
    ]
    assert describe_change(sick, sick) == []
    assert describe_form(sick) == "kafka-python-1.4.6  a=1  b=2"
    assert describe_form(ClientSpec(JAVA, {"a": 1})) == "Java's kafka-clients  a=1"


def test_every_founding_incident_has_its_letter():
    """In the same order as everywhere else, and each with a fix in words."""
    assert [act.story.id.removesuffix("_upgraded") for act in ACTS.values()] == [story.id for story in FOUNDING]
    assert all(act.story.title.startswith(f"{letter.upper()}: ") and act.fix for letter, act in ACTS.items())


def test_what_was_to_be_said_is_in_one_line():
    """Cause, culprits and the change."""
    bare = Expected("poll_overrun")
    assert describe_expected(bare) == "poll_overrun"
    full = Expected(
        "zk", culprits=("a", "b"), variant="v", advice=(ExpectedAdvice("t_ms"),), upgrade_of="x", upgrade_to="2"
    )
    assert describe_expected(full) == "zk (v), by a and b; to change: t_ms or an upgrade of x"


def test_a_kafka_without_the_story_is_refused_with_those_that_have_it():
    """Before anything is started; without a choice it is the story's default version."""
    assert choose_version(StoryOptions(letter="e")) == "3.9.2"
    assert choose_version(StoryOptions(letter="b", kafka_version="4.3.1")) == "4.3.1"
    with pytest.raises(UserError, match=r"story e cannot play on Kafka 4\.3\.1: .* choose 3\.9\.2"):
        choose_version(StoryOptions(letter="e", kafka_version="4.3.1"))


def test_a_port_in_use_is_reported_before_anything_starts():
    """With the flag to use instead; 0 always works."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .* --port"):
            check_port(port)
    check_port(0)


def test_a_problem_says_where_to_look_once():
    """The path of the logs is added unless the problem names it already."""
    assert name_place("stream ended: x", Path("/tmp/d")) == "stream ended: x; the logs are kept in /tmp/d"
    assert name_place("see /tmp/d/c1.log", Path("/tmp/d")) == "see /tmp/d/c1.log"


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
    """A finding as made by the rules."""
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
    """Return the rebalances of a log."""
    state, found = new_state("test", "cured"), []
    for record in log.records:
        state, events = fold(state, record)
        found += [event for event in events if isinstance(event, Rebalance)]
    return found


def test_joining_and_information_are_quiet():
    """So are findings about the incident itself, however late."""
    joined = rebalances(Log().write(1, A).write(2, A, B))
    known = [finding(severity="info", rule="scale_out"), finding(group="sick", detected_at_ms=5_000)]
    assert find_disturbances(RUN, "poll_overrun", known, joined) == []


@pytest.mark.parametrize(
    ("found", "log", "words"),
    [
        ([finding()], Log(), "poll_overrun (ticket) of a group that is well"),
        ([finding(group="sick", started_at_ms=5_000)], Log(), "poll_overrun was found again, in sick"),
        ([], Log().write(1, A, B).write(2, A), "a rebalance beyond joining"),
    ],
)
def test_each_disturbance_is_named(found: list[Finding], log: Log, words: str):
    """A new finding, the old cause anywhere, and a departure."""
    (sentence,) = find_disturbances(RUN, "poll_overrun", found, rebalances(log))
    assert words in sentence


def test_a_symptom_that_came_back_is_named():
    """Even if the monitor reports nothing."""
    assert find_disturbances(replace(RUN, symptoms=2), "poll_overrun", [], []) == ["the symptom came back 2 times"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The monitor's answers about findings; it has no rebalances."""
    found: list[Finding] = []
    monkeypatch.setattr(commentary, "read_findings", lambda _: list(found))
    monkeypatch.setattr(commentary, "read_rebalances", lambda _, __: [])
    monkeypatch.setattr(commentary, "_ASK_SECONDS", 0.01)
    return found


def test_a_finding_is_printed_in_full_once_and_its_changes_in_a_line(answers: list[Finding]):
    """As a separate block; findings of other groups, and unrequested informational ones, are not printed."""
    said: list[str] = []
    with Commentary("", "cured", {"scale_out"}, said.append) as speaker:
        answers += [finding(severity="info", rule="scale_out"), finding(finding_id="b", group="another")]
        answers += [finding(finding_id="c", severity="info", rule="scale_in")]
        wait_for(lambda: said, lambda: "nothing was said")
        answers[0] = finding(severity="info", rule="scale_out", state="resolved")
        wait_for(lambda: len(said) >= 2, lambda: said)
        speaker.hear(reported("started", 1))
    speaker.hear(reported("started", 2, "c2"))
    in_full, in_short, of_client = said
    assert in_full.startswith("\nthe monitor finds:\n00:00:00  cured  FIRING info: scale_out")
    assert in_full.endswith("words\n")
    assert in_short == "00:00:00  cured  RESOLVED info: scale_out, 90% sure"
    assert of_client == "00:00:01  c1 starts"


@pytest.mark.waits
def test_quiet_is_reported_with_the_work_that_goes_on_in_it(answers: list[Finding], monkeypatch: pytest.MonkeyPatch):
    """It shows that clients are running; records reported before do not count."""
    assert answers == []
    monkeypatch.setattr(commentary, "_QUIET_STEP_SECONDS", 0.5)
    said: list[str] = []
    with Commentary("", "cured", (), said.append) as speaker:
        speaker.hear(records(1, 0, 9))
        speaker.hear(records(2, 10, 12))
        # On a busy machine it may run between the two, and later than half a second.
        wait_for(lambda: re.search(r"\.\.\. no news for \d+ s, 3 records read meanwhile$", said[-1]), lambda: said)


def test_a_quiet_that_went_on_unsaid_is_reported_once(answers: list[Finding]):
    """After a pause of the machine there is one line for all of it."""
    assert answers == []
    said: list[str] = []
    speaker = Commentary("", "cured", (), said.append)
    speaker._news_at -= 46
    with speaker:
        wait_for(lambda: said, lambda: said)
    # On a busy machine it may run another step later.
    assert re.search(r"\.\.\. no news for (45|60|75|90) s, 0 records read meanwhile$", said[0])
    assert len(said) == 1


def test_blocks_are_set_apart_by_one_empty_line(answers: list[Finding]):
    """Two findings at the same time are separated by one empty line as well."""
    said: list[str] = []
    answers += [finding(), finding(finding_id="b")]
    with Commentary("", "cured", (), said.append):
        wait_for(lambda: len(said) >= 2, lambda: said)
    first, second = said
    assert first.startswith("\nthe")
    assert second.startswith("the")
    assert {text[-2:] for text in said} == {"s\n"}
