"""The demo's headline: what is said first of the sick consumer's group is held against what is so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.test_demo_cure import SICK_FINDING, resolved
from rebalance_contract import Finding, Severity, Subject, SubjectMember
from rebalance_deploy.demo.headline import LOOK_SECONDS, Headline
from rebalance_deploy.demo.workload import SICK

RIGHT = replace(SICK_FINDING, primary=True, subject=Subject((SubjectMember("m", SICK.client_id),)))
GRAVER = replace(RIGHT, finding_id="graver", rule="member_crash", severity=Severity.PAGE)


def looked(*heard: Finding, times: int = 3, is_cured: bool = False) -> tuple[Headline, list[str]]:
    """Return a headline that was looked at some times after these findings came, and what it said."""
    said: list[str] = []
    headline = Headline(SICK, said.append)
    for each in heard:
        headline.hear(each)
    for number in range(times):
        headline.look(100.0 + number * LOOK_SECONDS, is_cured=is_cured)
    return headline, said


def test_a_right_headline_is_counted_at_each_look() -> None:
    """And what follows from the cause may stand beside it, whatever other groups have."""
    beside = replace(RIGHT, finding_id="storm", rule="rebalance_storm", primary=False, severity=Severity.PAGE)
    headline, said = looked(RIGHT, beside, replace(GRAVER, group="another"))
    assert headline.total() == "the headline was right in 3 of 3 looks, one every 10 s"
    assert said == []


def test_it_is_looked_at_every_ten_seconds() -> None:
    """However often it is asked."""
    headline, _ = looked(RIGHT, times=1)
    headline.look(100.0 + LOOK_SECONDS - 0.1, is_cured=False)
    assert headline.looks == 1


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        ([GRAVER], "WRONG  payments-enricher is said to suffer of member_crash"),
        ([resolved(RIGHT)], "WRONG  nothing is said of why payments-enricher rebalances"),
    ],
    ids=["another cause", "no cause"],
)
def test_a_wrong_headline_is_said_once_and_counted_each_time(heard: list[Finding], told: str) -> None:
    """Another cause that is graver, or none, while the consumer is sick."""
    headline, said = looked(RIGHT, *heard)
    assert (headline.looks, headline.wrong, said) == (3, 3, [told])


def test_the_wrong_member_makes_a_headline_wrong() -> None:
    """The diagnosis alone is not enough."""
    other = replace(RIGHT, subject=Subject((SubjectMember("m", "enricher-1"),)))
    headline, _ = looked(RIGHT, other)
    assert headline.wrong == 3


def test_nothing_is_expected_before_the_first_diagnosis_and_after_the_cure() -> None:
    """A rebalance has to settle first; a healthy group has no headline."""
    assert looked()[0].looks == 0
    assert looked(GRAVER)[0].looks == 0
    assert looked(RIGHT, resolved(RIGHT), is_cured=True)[0].wrong == 0
