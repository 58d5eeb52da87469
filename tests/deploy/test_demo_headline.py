"""The demo's headline: the first finding about the sick consumer's group is compared with the known fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.test_demo_cure import SICK_FINDING, resolved
from rebalance_contract import Finding, Severity, Subject, SubjectMember
from rebalance_deploy.demo.headline import EXCUSED_SECONDS, LOOK_SECONDS, Headline
from rebalance_deploy.demo.standstill import NOTICED_SECONDS, Standstill
from rebalance_deploy.demo.workload import SICK

RIGHT = replace(SICK_FINDING, primary=True, subject=Subject((SubjectMember("m", SICK.client_id),)))
GRAVER = replace(RIGHT, finding_id="graver", rule="member_crash", severity=Severity.PAGE)


def looked(*heard: Finding, times: int = 3, is_cured: bool = False) -> tuple[Headline, list[str]]:
    """Return a headline that was checked several times after these findings, and its output."""
    said: list[str] = []
    headline = Headline(SICK, said.append)
    for each in heard:
        headline.hear(each)
    for number in range(times):
        headline.look(100.0 + number * LOOK_SECONDS, is_cured=is_cured)
    return headline, said


def test_a_right_headline_is_counted_at_each_look() -> None:
    """Consequences of the cause may accompany it; other groups do not matter."""
    beside = replace(RIGHT, finding_id="storm", rule="rebalance_storm", primary=False, severity=Severity.PAGE)
    headline, said = looked(RIGHT, beside, replace(GRAVER, group="another"))
    assert headline.total() == "the primary finding was right in 3 of 3 checks, one every 10 s"
    assert said == []


def test_it_is_looked_at_every_ten_seconds() -> None:
    """However often it is called."""
    headline, _ = looked(RIGHT, times=1)
    headline.look(100.0 + LOOK_SECONDS - 0.1, is_cured=False)
    assert headline.looks == 1


@pytest.mark.parametrize(
    ("heard", "reported"),
    [
        ([GRAVER], "WRONG  payments-enricher is said to suffer of member_crash"),
        ([resolved(RIGHT)], "WRONG  nothing is said of why payments-enricher rebalances"),
    ],
    ids=["another cause", "no cause"],
)
def test_a_wrong_headline_is_said_once_and_counted_each_time(heard: list[Finding], reported: str) -> None:
    """Another cause with a higher severity, or none, while the consumer is sick."""
    headline, said = looked(RIGHT, *heard)
    assert (headline.looks, headline.wrong, said) == (3, 3, [reported])


def test_the_wrong_member_makes_a_headline_wrong() -> None:
    """The right diagnosis alone is not enough."""
    other = replace(RIGHT, subject=Subject((SubjectMember("m", "enricher-1"),)))
    headline, _ = looked(RIGHT, other)
    assert headline.wrong == 3


def test_nothing_is_expected_before_the_first_diagnosis_and_after_the_cure() -> None:
    """A rebalance has to settle first; a healthy group has no headline."""
    assert looked()[0].looks == 0
    assert looked(GRAVER)[0].looks == 0
    assert looked(RIGHT, resolved(RIGHT), is_cured=True)[0].wrong == 0


def test_what_a_standstill_of_the_machine_does_is_not_held_against_the_headline() -> None:
    """Wrong headlines do not count for a configured time after a stall; right ones count all the same."""
    headline, said = looked(RIGHT, GRAVER, times=0)
    headline.look(100.0, is_cured=False, stood_still_at=99.0)
    headline.hear(resolved(GRAVER))
    headline.look(110.0, is_cured=False, stood_still_at=99.0)
    assert said == []
    assert headline.total() == (
        "the primary finding was right in 1 of 1 checks, one every 10 s; not counted after a standstill of the "
        "machine: 1"
    )
    headline.hear(GRAVER)
    headline.look(99.0 + EXCUSED_SECONDS, is_cured=False, stood_still_at=99.0)
    assert (headline.looks, headline.wrong) == (2, 1)


def test_a_thread_that_wakes_late_shows_a_standstill() -> None:
    """From the duration on that can expire a member's session."""
    standstill = Standstill()
    for now in (10.0, 10.25, 10.25 + NOTICED_SECONDS - 0.1):
        standstill.look(now)
    assert standstill.ended_at is None
    standstill.look(20.0)
    standstill.look(20.25)
    assert standstill.ended_at == 20.0
