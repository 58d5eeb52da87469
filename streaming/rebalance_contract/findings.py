"""Findings of rules: the diagnosis, its subject, the evidence and the advice."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnySeverity, AnySource, AnyStrength, FindingState

#: Rule of the finding of a rebalance without a known cause.
UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class SubjectMember:
    """A member as findings name it. `member_id` is the latest one; null if only the client is known."""

    member_id: str | None
    client_id: str | None = None
    host: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a finding. `partitions` are written `topic-partition`; all empty: the group as a whole."""

    members: tuple[SubjectMember, ...] = ()
    partitions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation: `source` is its origin, `rule` what it means.

    `value` is text for people, with its unit. The observation was made between `from_ms` and `until_ms` (epoch
    milliseconds); null: over the time of the finding. `strength` is its weight, null if it is descriptive only.
    `against`: it is evidence against the diagnosis, which is made nevertheless.
    """

    source: AnySource
    field: str
    value: str
    rule: str
    from_ms: int | None = None
    until_ms: int | None = None
    strength: AnyStrength | None = None
    against: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A diagnosis that was considered and not chosen. `impossible`: it is ruled out, for the reason in `why_not`."""

    rule: str
    why_not: str
    impossible: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change: a setting's name (or `upgrade`, `code`, `operation`), its value now, and the proposed one.

    `current` is null if it is not known, `proposed` is a value with unit or a sentence, `formula` how it was derived.
    """

    parameter: str
    current: str | None
    proposed: str
    formula: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a rule: topic `…findings`, key `cluster/group/rule/subject`.

    Readers must treat an unknown `severity` as the gravest.
    `primary`: it is the cause of the rebalances in `rebalance_ids` (the latest ones; `rebalances` counts all), or of a
    problem without a rebalance; consequences of a cause, and settings worth changing, are not primary. Every rebalance
    has exactly one primary finding, which is `undetermined` if no cause was found.
    `variant` names the mechanism if a diagnosis has several. `confidence` is the probability, 0 to 1, that the
    diagnosis is right. `parent` is the finding that this one is a part of. `group` is empty for findings about a
    whole cluster. `experimental`: the diagnosis has not been seen with a real client yet; its severity is always
    information, and its summary mentions this. `is_truncated`: members, partitions, evidence or the ends of texts were
    left out so that the row fits.
    """

    finding_id: str
    cluster: str
    group: str
    rule: str
    severity: AnySeverity
    state: FindingState
    primary: bool
    confidence: float
    subject: Subject
    started_at_ms: int
    detected_at_ms: int
    updated_at_ms: int
    resolved_at_ms: int | None
    summary: str
    variant: str | None = None
    rebalances: int = 0
    rebalance_ids: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    missing: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    parent: str | None = None
    experimental: bool = False
    is_truncated: bool = False
    schema_version: int = SCHEMA_VERSION
