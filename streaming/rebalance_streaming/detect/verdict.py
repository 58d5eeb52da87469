"""The result of a rule, before it becomes a finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rebalance_contract import Advice, Alternative, Evidence, EvidenceSource, Member, Severity, Subject, SubjectMember

#: Maximum number of members listed in a subject.
MOST_MEMBERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one rule for one subject.

    `severity` null: the catalogue's. `started_at_ms` is when the described situation began. `rebalance_ids` are the
    rebalances it explains; `claims` makes it their primary cause even if each has another cause by itself. A
    `lasting_ms` above 0 is the minimum duration of a condition: it is reported once it has held for that long, with the
    time it was first seen as its start.

    `is_consequence`: its rebalances have this cause only because an earlier rebalance has it, which they follow or in
    which the members that came back were lost.

    `JudgedGroup` sets `primary` (whether it is the primary cause of its rebalances, not a secondary one) and `last_ms`
    (when its rebalances last ended, in epoch ms; null for a condition that holds now).
    """

    rule: str
    confidence: float
    summary: str
    started_at_ms: int
    subject: Subject = field(default_factory=Subject)
    variant: str | None = None
    severity: Severity | None = None
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    missing: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    rebalance_ids: tuple[str, ...] = ()
    claims: bool = False
    lasting_ms: int = 0
    is_consequence: bool = False
    primary: bool = False
    last_ms: int | None = None


def from_probes(verdict: Verdict) -> Verdict:
    """Return a verdict for a group whose log is not read: evidence attributed to the log is attributed to probes."""
    evidence = tuple(
        replace(each, source=EvidenceSource.PROBES) if each.source == EvidenceSource.LOG else each
        for each in verdict.evidence
    )
    return replace(verdict, evidence=evidence)


def merge(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return one verdict per rule with the subjects of all its verdicts; the surest rule first."""
    by_rule: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_rule.setdefault(verdict.rule, []).append(verdict)
    merged = [_joined(each) for each in by_rule.values()]
    return sorted(merged, key=lambda each: -each.confidence)


def _joined(verdicts: list[Verdict]) -> Verdict:
    """Return the surest verdict with the most frequent variant, extended to all subjects."""
    usual = Counter(each.variant for each in verdicts).most_common(1)[0][0]
    first = max((each for each in verdicts if each.variant == usual), key=lambda each: each.confidence)
    members: dict[str, SubjectMember] = {
        member.member_id or member.client_id or "": member for each in verdicts for member in each.subject.members
    }
    subject = Subject(
        tuple(members[name] for name in sorted(members)),
        tuple(sorted({p for each in verdicts for p in each.subject.partitions})),
        tuple(sorted({h for each in verdicts for h in each.subject.hosts})),
    )
    others = len(members) - len(first.subject.members)
    also = f" {others} other member{'s' if others > 1 else ''} likewise." if others > 0 else ""
    return replace(
        first,
        subject=subject,
        summary=first.summary + also,
        started_at_ms=min(each.started_at_ms for each in verdicts),
        missing=tuple(dict.fromkeys(text for each in verdicts for text in each.missing)),
    )


def subject_of(*members: Member, partitions: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> Subject:
    """Return members as a subject, sorted by member id."""
    named = [SubjectMember(m.member_id, m.client_id, m.host, m.group_instance_id) for m in members]
    return Subject(tuple(sorted(named, key=lambda each: each.member_id or "")), partitions, hosts)


def name_of(member: Member) -> str:
    """Return the display name of a member: its static id or client id, and its host."""
    return f"{member.group_instance_id or member.client_id or member.member_id} ({member.host or 'unknown host'})"
