"""The comparison of findings with expectations: right findings pass, each kind of wrong one is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import rebalance_contract as contract
from rebalance_contract import Finding, Subject, SubjectMember
from rebalance_devtools.stories.judging import mistakes_of_cured, mistakes_of_sick
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.script import Expected, ExpectedAdvice

EXPECTED = Expected(
    "poll_overrun",
    culprits=("a",),
    variant="long",
    secondary=("duplicate_processing",),
    advice=(ExpectedAdvice("max.poll.records", 1, 10),),
    upgrade_of="x",
    upgrade_to="2",
    forbidden_diagnoses=("member_crash",),
    forbidden_advice=("session.timeout.ms",),
)


def reported(name: str, member_id: str) -> dict[str, Any]:
    return {"t_ms": 1, "name": name, "process": name, "event": "assigned", "member_id": member_id}


RUN = StoryRun(
    story="s",
    cured=False,
    seed=1,
    kafka_version="4.3.1",
    library="java",
    parameters={},
    group="g",
    topic="t",
    started_ms=0,
    ended_ms=1,
    symptoms=1,
    events=(reported("a", "a-1"), reported("b", "b-1")),
    broker_lines=(),
)


def found(rule: str, **changes: Any) -> Finding:
    """A finding as made by the rules."""
    fields: dict[str, Any] = {
        "finding_id": rule,
        "cluster": "default",
        "group": "g",
        "rule": rule,
        "severity": "ticket",
        "state": "firing",
        "primary": False,
        "confidence": 0.9,
        "subject": Subject(),
        "started_at_ms": 0,
        "detected_at_ms": 0,
        "updated_at_ms": 0,
        "resolved_at_ms": None,
        "summary": "words",
    }
    return Finding(**{**fields, **changes})


ADVICE = (contract.Advice("max.poll.records", "30", "10", "-"), contract.Advice("upgrade", "1", "2 or later", "-"))
CAUSE = found("poll_overrun", primary=True, variant="long", subject=Subject((SubjectMember("a-1"),)), advice=ADVICE)
CHILD = found("duplicate_processing")


def test_what_is_right_has_no_mistakes():
    """Cause, culprit, variant, advice within the bounds, and consequences."""
    assert mistakes_of_sick(RUN, EXPECTED, [CAUSE, CHILD]) == []


@pytest.mark.parametrize(
    ("findings", "word"),
    [
        ([CHILD], "poll_overrun was not found"),
        ([CAUSE], "duplicate_processing was not found"),
        ([replace(CAUSE, group="another"), CHILD], "poll_overrun was not found"),
        ([replace(CAUSE, primary=False), CHILD], "not the primary"),
        ([replace(CAUSE, variant=None), CHILD], "variant"),
        ([replace(CAUSE, subject=Subject()), CHILD], "is not named"),
        ([replace(CAUSE, subject=Subject((SubjectMember("a-1"), SubjectMember("b-1")))), CHILD], "did nothing"),
        ([replace(CAUSE, advice=ADVICE[1:]), CHILD], "is not advised"),
        ([replace(CAUSE, advice=(replace(ADVICE[0], proposed="11"), ADVICE[1])), CHILD], "is not advised"),
        ([replace(CAUSE, advice=ADVICE[:1]), CHILD], "no upgrade"),
        ([CAUSE, CHILD, found("member_crash")], "member_crash was found"),
        (
            [replace(CAUSE, advice=(*ADVICE, contract.Advice("session.timeout.ms", None, "1", "-"))), CHILD],
            "was advised",
        ),
    ],
)
def test_each_mistake_is_named(findings: list[Finding], word: str):
    """One sentence for each mistake."""
    (mistake,) = mistakes_of_sick(RUN, EXPECTED, findings)
    assert word in mistake


def test_a_cured_group_may_be_informed_about():
    """Informational findings are allowed, others are not; findings of other groups do not count."""
    assert mistakes_of_cured(RUN, [replace(CAUSE, severity="info"), replace(CAUSE, group="another")]) == []
    (mistake,) = mistakes_of_cured(RUN, [CAUSE])
    assert "poll_overrun (ticket)" in mistake
