"""Judges a recording's findings against what happened: right, less exact, beside, hinted, abstained or wrong.

The truth is what the script did and what the brokers' log contains. Only the monitor's state at the recording's end
counts, and a cause counts as claimed only if it is primary with a confidence of at least 55 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from accuracy.recordings import Recording
from rebalance_contract import Finding
from rebalance_devtools.stories.judging import mistakes_of_cured, mistakes_of_sick, mistakes_of_subject
from rebalance_devtools.stories.script import Event, Expected
from rebalance_streaming.detect.catalogue import diagnosis

RIGHT, BESIDE, HINTED, ABSTAINED, WRONG = "right", "right, a wrong one beside", "hinted", "abstained", "wrong"
#: What the right cause has in common with others is claimed (`stands_for` in the catalogue), of a culprit and of a
#: rebalance since the fault, and nothing wrong.
LESS_EXACT = "less exact"
VERDICTS = (RIGHT, LESS_EXACT, BESIDE, WRONG, HINTED, ABSTAINED)

#: A cause with less confidence than this is a hint, not a claim.
CLAIMED = 0.55

#: Families that do not point to a fault. A storm is not a cause itself but accompanies one.
_HARMLESS = ("benign", "undetermined", "aggregate")
#: In addition to wrong settings: findings about a group that need not rebalance, or that accompany the cause of a
#: rebalance.
_NEVER_CAUSES = ("assignor_slow_or_failing", "commit_only_group", "poll_overrun_risk", "rebalance_timeout_excessive")
#: Events in a client's own output that begin a fault which the script did not begin itself.
_BEGINNINGS = ("disk_full", "dies", "stalls", "stops_polling", "revoking")


@dataclass(frozen=True, slots=True)
class Claim:
    """A stated cause, its confidence, and whether it is one of the right ones."""

    rule: str
    confidence: float
    correct: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The judgement of a recording replayed with some sources.

    `claimed` is the claim with the highest confidence that decided the verdict (`-` for none). `subject_right` says
    whether a right claim names all culprits and nobody else (null without a right claim, or if the truth names nobody).
    `causes` are all claims and hints about the time since the fault.
    """

    recording: Recording
    sources: str
    claimed: str
    verdict: str
    subject_right: bool | None
    causes: tuple[Claim, ...]

    @property
    def wanted(self) -> str:
        """The right diagnosis, or `none`."""
        expected = self.recording.expected
        return "none" if expected is None else " + ".join((expected.diagnosis, *expected.also))


def mistakes(recording: Recording, findings: list[Finding]) -> list[str]:
    """Return every wrong cause, culprit and piece of advice in the findings with all sources."""
    if recording.expected is None:
        return mistakes_of_cured(recording.run, findings)
    return mistakes_of_sick(recording.run, recording.expected, findings)


def outcome_of(recording: Recording, sources: str) -> Outcome:
    """Judge a recording with some sources."""
    about = [each for each in recording.judge(sources) if each.group == recording.run.group]
    expected = recording.expected or Expected("")
    answers = _answers(expected)
    claims = {each.rule: each for each in sorted(about, key=lambda each: each.confidence) if _is_claim(each)}
    strays = [each for each in claims.values() if is_stray(expected, each)]
    excuse = _excuse(recording, sources, claims, answers)
    verdict = _verdict(expected, about, claims, strays, excuse)
    if verdict in (HINTED, ABSTAINED) and not excuse and _is_less_exact(recording, sources, expected, about):
        verdict = LESS_EXACT
    deciding = strays or ([excuse] if excuse else [])
    if verdict in (RIGHT, BESIDE):
        claimed = next((each for each in (expected.diagnosis, *expected.accepted) if each in claims), "-")
    elif verdict == WRONG and deciding:
        claimed = max(deciding, key=lambda each: each.confidence).rule
    else:
        claimed = min((each.rule for each in about if verdict in (HINTED, WRONG) and _is_hint(each)), default="-")
    # Findings beside the cause concern other members: a deploy names the members it replaced.
    named_causes = answers - {*expected.beside}
    right = [each for each in about if _is_true(each.rule, named_causes) and each.confidence >= CLAIMED]
    named = None if not (right and expected.culprits) else not [*mistakes_of_subject(recording.run, expected, right)]
    return Outcome(recording, sources, claimed, verdict, named, _causes(recording, sources, about, answers))


def is_stray(expected: Expected, finding: Finding) -> bool:
    """Whether a finding claims a cause that is neither expected nor harmless."""
    return _is_claim(finding) and not _is_harmless(finding.rule) and not _is_true(finding.rule, _answers(expected))


def _is_true(rule: str, answers: set[str]) -> bool:
    """Whether a cause is one of the right ones, or states what one of them has in common with others."""
    return rule in answers or not answers.isdisjoint(diagnosis(rule).stands_for)


def _answers(expected: Expected) -> set[str]:
    answers = {expected.diagnosis, *expected.also, *expected.accepted, *expected.beside, *expected.secondary}
    return answers - {""}


def _verdict(
    expected: Expected, about: list[Finding], claims: dict[str, Finding], strays: list[Finding], excuse: Finding | None
) -> str:
    if not expected.diagnosis:
        if strays or any(each.severity != "info" for each in about):
            return WRONG
        return HINTED if any(_is_hint(each) for each in about) else RIGHT
    found = any(_is_said(rule, about, claims) for rule in (expected.diagnosis, *expected.accepted))
    if found and all(_is_said(rule, about, claims) for rule in expected.also):
        return BESIDE if strays else RIGHT
    if strays or (excuse and not found):
        return WRONG
    return HINTED if found or any(_is_hint(each) for each in about) else ABSTAINED


def _is_said(rule: str, about: list[Finding], claims: dict[str, Finding]) -> bool:
    # A wrong setting is never the cause of a single rebalance.
    standing = diagnosis(rule).family == "configuration" or rule in _NEVER_CAUSES
    return rule in claims or (standing and any(each.rule == rule and each.confidence >= CLAIMED for each in about))


def _is_less_exact(recording: Recording, sources: str, expected: Expected, about: list[Finding]) -> bool:
    """Whether for each fault its cause is claimed, or by another claim what that has in common with other causes."""
    if not expected.diagnosis:
        return False
    claims = {each.rule: each for each in about if _is_claim(each)}
    found = any(_is_said(rule, about, claims) for rule in (expected.diagnosis, *expected.accepted))
    wanted = expected.also if found else (expected.diagnosis, *expected.also)
    unsaid = [rule for rule in wanted if not _is_said(rule, about, claims)]
    covering = [each for each in about if _may_cover(recording, sources, expected, each)]
    covered = [rule for rule in unsaid if any(rule in diagnosis(each.rule).stands_for for each in covering)]
    return bool(covered) and covered == unsaid and len(covering) >= len(unsaid)


def _may_cover(recording: Recording, sources: str, expected: Expected, finding: Finding) -> bool:
    """Whether a claim of what several causes have in common concerns a culprit, if any, and a time since the fault."""
    if not (_is_claim(finding) and diagnosis(finding.rule).stands_for):
        return False
    named = {each.member_id for each in finding.subject.members}
    culprits = {name for each in expected.culprits for name in recording.run.member_ids(each)}
    since = {name for _, name in _rebalances_since(recording, sources)}
    return (not culprits or bool(named & culprits)) and (not since or not since.isdisjoint(finding.rebalance_ids))


def _excuse(recording: Recording, sources: str, claims: dict[str, Finding], answers: set[str]) -> Finding | None:
    """Return the harmless cause claimed for the first rebalance after the fault, or null if it is right."""
    first = _first_rebalance(recording, sources)
    wrong = (
        each
        for each in claims.values()
        if first in each.rebalance_ids and diagnosis(each.rule).family == "benign" and each.rule not in answers
    )
    return next(wrong, None) if first and recording.expected else None


def _first_rebalance(recording: Recording, sources: str) -> str | None:
    """Return the id of the first rebalance that ended after the fault began, or null if unknown."""
    return min(_rebalances_since(recording, sources), default=(0, None))[1]


def _rebalances_since(recording: Recording, sources: str) -> list[tuple[int, str]]:
    """Return the rebalances that ended after the fault began as (end in epoch ms, id); empty if that is not known."""
    began_ms = min((each["t_ms"] for each in recording.run.events if _is_beginning(each)), default=None)
    return [
        (each.completed_at_ms, each.rebalance_id)
        for each in recording.rebalances(sources)
        if each.completed_at_ms is not None and began_ms is not None and each.completed_at_ms > began_ms
    ]


def _is_beginning(event: Event) -> bool:
    return event["process"] == "" or event["event"] in _BEGINNINGS


def _causes(recording: Recording, sources: str, about: list[Finding], answers: set[str]) -> tuple[Claim, ...]:
    """Return the stated causes; harmless ones only if they are right or explain the first rebalance after the fault."""
    first = _first_rebalance(recording, sources) if recording.expected else None
    return tuple(
        Claim(each.rule, each.confidence, _is_true(each.rule, answers))
        for each in about
        if each.primary
        and diagnosis(each.rule).family not in ("undetermined", "aggregate")
        and (not _is_harmless(each.rule) or each.rule in answers or first in each.rebalance_ids)
    )


def _is_claim(finding: Finding) -> bool:
    return finding.primary and finding.confidence >= CLAIMED


def _is_harmless(rule: str) -> bool:
    return diagnosis(rule).family in _HARMLESS


def _is_hint(finding: Finding) -> bool:
    return finding.primary and not _is_harmless(finding.rule)
