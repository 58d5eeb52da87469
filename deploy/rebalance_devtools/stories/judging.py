"""Compares findings with the expectations of a story. Every function returns mistakes as sentences, none if right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rebalance_contract import Finding
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.script import Expected, ExpectedAdvice
from rebalance_streaming.detect.catalogue import diagnosis

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
#: Severity of findings that a cured group may still have.
_HARMLESS = "info"


def mistakes_of_sick(run: StoryRun, expected: Expected, findings: Iterable[Finding]) -> list[str]:
    """Return the mistakes in the findings of a sick form: cause, culprits, advice, and forbidden findings."""
    about = [each for each in findings if each.group == run.group]
    causes = [each for each in about if each.rule == expected.diagnosis]
    if not causes:
        return [f"{expected.diagnosis} was not found; found: {sorted({each.rule for each in about})}"]
    return [
        *_mistakes_of_cause(run, expected, causes),
        *(f"{rule} was not found" for rule in expected.secondary if rule not in {each.rule for each in about}),
        *_forbidden(expected, about),
    ]


def mistakes_of_cured(run: StoryRun, findings: Iterable[Finding]) -> list[str]:
    """Return the mistakes in the findings of a cured form: all findings above severity info."""
    return [
        f"{each.rule} ({each.severity}) of a group that is well: {each.summary}"
        for each in findings
        if each.group == run.group and each.severity != _HARMLESS
    ]


def _mistakes_of_cause(run: StoryRun, expected: Expected, causes: list[Finding]) -> Iterator[str]:
    # A wrong setting is never the primary cause of a single rebalance.
    if diagnosis(expected.diagnosis).family != "configuration" and not any(each.primary for each in causes):
        yield f"{expected.diagnosis} is not the primary cause"
    if expected.variant is not None and expected.variant not in {each.variant for each in causes}:
        yield f"the variant is {[each.variant for each in causes]}, not {expected.variant}"
    yield from mistakes_of_subject(run, expected, causes)
    said = [advice for each in causes for advice in each.advice]
    for wanted in expected.advice:
        values = [advice.proposed for advice in said if advice.parameter == wanted.parameter]
        if not any(_fits(value, wanted) for value in values):
            yield f"{wanted} is not advised: {values or [advice.parameter for advice in said]}"
    if expected.upgrade_to and not any(each.parameter == "upgrade" for each in said):
        yield f"no upgrade of {expected.upgrade_of} to {expected.upgrade_to} is advised"


def mistakes_of_subject(run: StoryRun, expected: Expected, causes: Iterable[Finding]) -> Iterator[str]:
    """Yield the mistakes in the members that findings name: all culprits must be named, and no other clients."""
    named = {member.member_id for each in causes for member in each.subject.members if member.member_id}
    for name in expected.culprits:
        if not named & set(run.member_ids(name)):
            yield f"{name} ({run.member_ids(name)}) is not named; named are {sorted(named)}"
    innocent = {each for name in _others(run, expected) for each in run.member_ids(name)}
    if expected.culprits and named & innocent:
        yield f"{sorted(named & innocent)} are named and did nothing"


def _others(run: StoryRun, expected: Expected) -> set[str]:
    return {event["name"] for event in run.events} - set(expected.culprits)


def _fits(proposed: str, wanted: ExpectedAdvice) -> bool:
    if wanted.low is None and wanted.high is None:
        return True
    number = _NUMBER.search(proposed)
    low, high = wanted.low or 0, float("inf") if wanted.high is None else wanted.high
    return number is not None and low <= float(number[0]) <= high


def _forbidden(expected: Expected, about: list[Finding]) -> Iterator[str]:
    for each in about:
        if each.rule in expected.forbidden_diagnoses:
            yield f"{each.rule} was found: {each.summary}"
        if each.rule == expected.diagnosis:
            for advice in each.advice:
                if advice.parameter in expected.forbidden_advice:
                    yield f"{advice.parameter} was advised: {advice.proposed}"
