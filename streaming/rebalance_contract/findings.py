"""What a rule found: the diagnosis, its subject, the evidence and the advice."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnySeverity, AnySource, AnyStrength, FindingState

#: The rule of the finding that says that no cause of a rebalance was found.
UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class SubjectMember:
    """A member as findings name it. `member_id` is the latest one; null where only the client is known."""

    member_id: str | None
    client_id: str | None = None
    host: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """Who or what a finding is about. `partitions` are written `topic-partition`; all empty: the group as a whole."""

    members: tuple[SubjectMember, ...] = ()
    partitions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation: `source` is where it comes from, `rule` what it means.

    `value` is text as a person reads it, with its unit. It was made between `from_ms` and `until_ms` (epoch
    milliseconds); null: over the time of the finding. `strength` is how much it counts, null where it only describes.
    `against`: it speaks against the diagnosis, which is given all the same.
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
    """A diagnosis that was considered and not chosen. `impossible`: it cannot be, by what `why_not` says."""

    rule: str
    why_not: str
    impossible: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change: a setting's name (or `upgrade`, `code`, `operation`), its value now, and the proposed one.

    `current` is null where it could not be read, `proposed` is a value with unit or a sentence, `formula` its origin.
    """

    parameter: str
    current: str | None
    proposed: str
    formula: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: topic `…findings`, key `cluster/group/rule/subject`.

    A `severity` that a reader does not know is to be taken as grave as any.
    `primary`: it is the cause given for the rebalances in `rebalance_ids` (the latest ones; `rebalances` counts all),
    or of a trouble without a rebalance; what follows from a cause, and settings worth changing, are not. Every
    rebalance has exactly one primary finding, if only `undetermined`.
    `variant` names the mechanism where a diagnosis has several. `confidence` is the probability, 0 to 1, that the
    diagnosis is right. `parent` is the finding that this one is a part of. `group` is empty for findings about a
    whole cluster. `experimental`: the diagnosis is not known from any real client yet; it is information whatever it
    would be otherwise, and its summary says so. `is_truncated`: members, partitions, evidence or the ends of texts were
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
