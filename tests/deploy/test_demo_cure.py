"""The demo's second act: the stream's findings decide when the sick consumer is cured, and with which value."""

from dataclasses import replace

import pytest

from exporters.api.test_overview import FINDING
from exporters.contract_rows import rebalance_row
from rebalance_contract import Advice, FindingState, Rebalance, Severity, decode
from rebalance_deploy.demo.cure import SETTING, Cure
from rebalance_deploy.demo.workload import SICK

SICK_FINDING = replace(
    FINDING,
    group=SICK.group,
    rule="poll_overrun",
    severity=Severity.TICKET,
    state=FindingState.FIRING,
    advice=(Advice(SETTING, "6000", "60000 (60 s)", "5 x the longest poll"), Advice("code", None, "pause()", "")),
)
BESIDE = replace(SICK_FINDING, finding_id="beside", rule="rebalance_storm", advice=())
REBALANCE = decode(rebalance_row("before", group=SICK.group).value or b"", Rebalance)


def resolved(finding):
    """Return a finding after its resolution."""
    return replace(finding, state=FindingState.RESOLVED)


@pytest.fixture
def said():
    """The output of the demo."""
    return []


@pytest.fixture
def cure(said):
    """A demo that has not received findings yet."""
    return Cure(SICK, said.append)


@pytest.mark.parametrize(
    "finding",
    [
        replace(SICK_FINDING, advice=SICK_FINDING.advice[1:]),
        replace(SICK_FINDING, rule="slow_processing"),
        replace(SICK_FINDING, group="another"),
        replace(SICK_FINDING, advice=(Advice(SETTING, "6000", "more than a poll takes", ""),)),
    ],
    ids=["no value", "another diagnosis", "another group", "no number"],
)
def test_only_a_number_for_the_sick_consumer_is_a_cure(cure, finding):
    """A program cannot follow advice in words."""
    cure.hear(finding)
    assert not cure.is_advised


def test_the_sick_consumer_gets_the_value_advised_and_nothing_else_changes(cure, said):
    """The latest value is used: it becomes more precise with every poll."""
    cure.hear(replace(SICK_FINDING, advice=(Advice(SETTING, "6000", "20000", ""),)))
    cure.hear(SICK_FINDING)
    assert cure.is_advised
    assert not cure.is_applied
    assert cure.apply() == replace(SICK, max_poll_interval_ms=60_000)
    assert cure.is_applied
    assert f"{SETTING}=60000 (was 6000)" in said[0]


def test_the_group_is_calm_when_all_that_was_said_of_it_is_over(cure, said):
    """Findings and alerts are resolved; rebalances since the restart are reported.

    Hints and other groups do not count.
    """
    for each in (REBALANCE, SICK_FINDING, BESIDE, replace(BESIDE, finding_id="hint", severity=Severity.INFO)):
        cure.hear(each)
    cure.apply()
    for number in range(2):
        cure.hear(replace(REBALANCE, rebalance_id=f"after-{number}"))
    cure.hear(resolved(SICK_FINDING))
    cure.hear(replace(resolved(BESIDE), group="another"))
    cure.look(lambda: False)
    assert not cure.is_calm
    cure.hear(resolved(BESIDE))
    cure.look(lambda: True)
    assert not cure.is_calm, "an alert fires"
    for _ in range(2):
        cure.look(lambda: False)
    assert cure.is_calm
    assert [each for each in said if each.startswith("calm")] == [
        f"calm: nothing is left to say of {SICK.group}; rebalances since {SICK.client_id} was stopped and started: 2"
    ]


def test_a_group_that_nothing_is_said_of_yet_is_not_cured(cure, said):
    """Calm means that findings were resolved, not that there were none yet."""
    cure.hear(SICK_FINDING)
    cure.hear(resolved(SICK_FINDING))
    cure.look(lambda: False)
    assert not cure.is_calm
    assert said == []
