"""What a recording's findings are worth, held against what happened: right, hinted, abstained or wrong."""

from __future__ import annotations

from dataclasses import dataclass

from accuracy.recordings import Recording
from rebalance_contract import Finding
from rebalance_devtools.stories.judging import mistakes_of_cured, mistakes_of_sick
from rebalance_streaming.detect.catalogue import diagnosis

RIGHT, HINTED, ABSTAINED, WRONG = "right", "hinted", "abstained", "wrong"

#: Said with less than this, a cause is a hint and not a claim.
CLAIMED = 0.55


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a recording was judged with some sources: what was claimed (`-` for nothing), and what that is worth."""

    recording: Recording
    sources: str
    claimed: str
    verdict: str

    @property
    def wanted(self) -> str:
        """The diagnosis that is right, or `none`."""
        return "none" if self.recording.expected is None else self.recording.expected.diagnosis


def mistakes(recording: Recording, findings: list[Finding]) -> list[str]:
    """Return everything about cause, culprit and advice that findings with all sources have wrong."""
    if recording.expected is None:
        return mistakes_of_cured(recording.run, findings)
    return mistakes_of_sick(recording.run, recording.expected, findings)


def outcome_of(recording: Recording, sources: str) -> Outcome:
    """Judge a recording; the surest claimed cause counts, hints count only where nothing is claimed."""
    findings = recording.judge(sources)
    expected = recording.expected
    wanted = None if expected is None else expected.diagnosis
    about = [each for each in findings if each.group == recording.run.group]
    claims = claimed_causes(findings, recording.run.group)
    if wanted is not None and any(each.rule == wanted for each in about):
        best = max((each for each in about if each.rule == wanted), key=lambda each: each.confidence)
        wrong = [each for each in claims.values() if each.rule != wanted and each.confidence > best.confidence]
        return Outcome(recording, sources, wanted, WRONG if wrong else RIGHT)
    if claims:
        surest = max(claims.values(), key=lambda each: each.confidence)
        return Outcome(recording, sources, surest.rule, WRONG)
    hints = sorted({each.rule for each in about if each.primary and _is_hint(each)})
    return Outcome(recording, sources, hints[0] if hints else "-", HINTED if hints else ABSTAINED if wanted else RIGHT)


def claimed_causes(findings: list[Finding], group: str) -> dict[str, Finding]:
    """Return the causes that were claimed for a group, harmless ones left out, by rule: the surest of each."""
    found: dict[str, Finding] = {}
    for each in findings:
        harmless = diagnosis(each.rule).family in ("benign", "undetermined")
        if each.group == group and each.primary and not harmless and each.confidence >= CLAIMED:
            known = found.get(each.rule)
            found[each.rule] = each if known is None or each.confidence > known.confidence else known
    return found


def _is_hint(finding: Finding) -> bool:
    return finding.rule != "undetermined" and (finding.severity != "info" or finding.rule == "member_crash")
