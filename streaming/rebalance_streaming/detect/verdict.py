"""What a rule answers with, before it becomes a finding."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rebalance_contract import Advice, Alternative, Evidence, EvidenceSource, Member, Severity, Subject, SubjectMember

#: Members that a subject of many names.
MOST_MEMBERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one rule says of one subject.

    `severity` null: the catalogue's. `started_at_ms` is when what it describes began. `rebalance_ids` are the
    rebalances it explains; `claims` makes it their primary cause even where another was found for each alone. What must
    last before it counts has `lasting_ms` above 0: it is said, as begun when it was first seen, once it has.

    `JudgedGroup` adds how it stands among others: `primary`, whether it is the cause of its rebalances or is found
    beside it; `last_ms`, when what it is about last happened (epoch ms), null for a condition that stands.
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
    primary: bool = False
    last_ms: int | None = None


def from_probes(verdict: Verdict) -> Verdict:
    """Return a verdict of a group whose log is not read: evidence that rules attribute to the log is from probes."""
    evidence = tuple(
        replace(each, source=EvidenceSource.PROBES) if each.source == EvidenceSource.LOG else each
        for each in verdict.evidence
    )
    return replace(verdict, evidence=evidence)


def subject_of(*members: Member, partitions: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> Subject:
    """Return a subject of members, in a fixed order."""
    named = [SubjectMember(m.member_id, m.client_id, m.host, m.group_instance_id) for m in members]
    return Subject(tuple(sorted(named, key=lambda each: each.member_id or "")), partitions, hosts)


def name_of(member: Member) -> str:
    """Return how people call a member: its static id or client id, and its host."""
    return f"{member.group_instance_id or member.client_id or member.member_id} ({member.host or 'unknown host'})"
