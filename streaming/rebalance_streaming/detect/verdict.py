"""The result of a rule, before it becomes a finding."""

from __future__ import annotations

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
    primary: bool = False
    last_ms: int | None = None


def from_probes(verdict: Verdict) -> Verdict:
    """Return a verdict for a group whose log is not read: evidence attributed to the log is attributed to probes."""
    evidence = tuple(
        replace(each, source=EvidenceSource.PROBES) if each.source == EvidenceSource.LOG else each
        for each in verdict.evidence
    )
    return replace(verdict, evidence=evidence)


def subject_of(*members: Member, partitions: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> Subject:
    """Return members as a subject, sorted by member id."""
    named = [SubjectMember(m.member_id, m.client_id, m.host, m.group_instance_id) for m in members]
    return Subject(tuple(sorted(named, key=lambda each: each.member_id or "")), partitions, hosts)


def name_of(member: Member) -> str:
    """Return the display name of a member: its static id or client id, and its host."""
    return f"{member.group_instance_id or member.client_id or member.member_id} ({member.host or 'unknown host'})"
