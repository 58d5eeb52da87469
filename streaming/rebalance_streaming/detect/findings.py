"""Turns verdicts into findings: one per group, rule and subject, from its first verdict to its end.

Receives the verdicts that hold now; remembers recent findings. A finding about rebalances ends when none has followed
for a while, one about a condition ends with the condition. A finding that a better explanation replaced is withdrawn. A
finding that is part of a larger one names it as its parent, and only the parent pages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from rebalance_contract import (
    Evidence,
    EvidenceSource,
    Finding,
    FindingState,
    Severity,
    Subject,
    SubjectMember,
    finding_key,
)
from rebalance_streaming.detect.catalogue import diagnosis, family_of, with_trait
from rebalance_streaming.detect.verdict import MOST_MEMBERS, Verdict
from rebalance_streaming.groups.identity import client_stem

_T = TypeVar("_T")

_KEPT_IDS, _ANNOUNCED = 200, 10
#: Time within which a resolved finding that comes back is reopened instead of created (long enough for a nightly job),
#: and the maximum number of resolved findings remembered per group.
_REMEMBERED_MS, _REMEMBERED = 2 * 24 * 3_600_000, 50
#: Families with one finding per group and variant, regardless of the members concerned.
_ONE_PER_GROUP = frozenset({"benign", "undetermined"})
#: Families whose findings about rebalances are withdrawn, not resolved, when they are no longer stated.
_CAUSES_OF_LOSSES = frozenset({"heartbeats", "polling"})
#: Rules whose findings have others as parts: for the whole cluster under the group "", for a group under its name.
_PARENTS = with_trait("gathers")
_COUNTED = with_trait("counted")
#: Prefix of the summaries of experimental diagnoses.
_EXPERIMENTAL = "Experimental: "
#: Verdicts with the same key become one finding: group, rule and subject.
Key = tuple[str, str, str]


def subject_key(stated: Verdict | Finding) -> str:
    """Return what distinguishes findings of one rule: the subject, by names that survive a rejoin."""
    if family_of(stated.rule) in _ONE_PER_GROUP:
        return stated.variant or ""
    subject = stated.subject
    members = sorted({_member_key(member) for member in subject.members})
    return ",".join([*members, *sorted(subject.partitions), *([] if members else sorted(subject.hosts))])


def _member_key(member: SubjectMember) -> str:
    if member.group_instance_id is not None:
        return member.group_instance_id
    return f"{client_stem(member.client_id or member.member_id or '')}@{member.host or ''}"


class Findings:
    """All findings of one cluster. `lists_all`: those that ended long ago stay in the result of `all`."""

    def __init__(self, cluster: str, *, lists_all: bool = True) -> None:
        self._cluster = cluster
        self._groups: dict[str, dict[Key, Finding]] = {}
        self._forgotten: dict[str, dict[Key, Finding]] | None = {} if lists_all else None
        #: Ids of findings of an earlier run that have not been stated since.
        self._restored: set[str] = set()
        #: By group and finding id: the rebalances of which an earlier run found it to be the cause.
        self._caused: dict[str, dict[str, tuple[str, ...]]] = {}

    def restore(self, finding: Finding) -> None:
        """Take up a finding that an earlier run published; one of a removed rule ends at the next update."""
        self._groups.setdefault(finding.group, {}).setdefault(_key_of(finding), finding)
        self._restored.add(finding.finding_id)
        if finding.primary and finding.rebalance_ids:
            self._caused.setdefault(finding.group, {})[finding.finding_id] = finding.rebalance_ids

    def all(self) -> list[Finding]:
        """Return every finding that was not withdrawn, oldest first; only the latest of each key."""
        found: dict[Key, Finding] = {}
        for groups in (self._forgotten or {}, self._groups):
            for group in groups.values():
                found |= group
        return sorted(found.values(), key=lambda each: (each.started_at_ms, each.finding_id))

    def firing(self, group: str) -> list[Finding]:
        """Return the firing findings of one group."""
        return [each for each in self._groups.get(group, {}).values() if each.state == FindingState.FIRING]

    def ends_ms(self, group: str, resolve_after_ms: int) -> Iterator[int]:
        """Yield from when on (epoch ms) each firing finding of a group ends if it is not stated."""
        for each in self.firing(group):
            yield self._stays_until_ms(each, resolve_after_ms)

    def _stays_until_ms(self, finding: Finding, resolve_after_ms: int) -> int:
        """Return until when a finding that is not stated stays: of an earlier run, while its past is read again.

        What an earlier run counted is not counted again, so it stays until its time is over.
        """
        stands = finding.rule in _COUNTED and finding.finding_id in self._restored
        return finding.updated_at_ms + resolve_after_ms * stands

    def forget_group(self, group: str) -> None:
        """Drop the findings of a group that is gone."""
        for groups in (self._groups, self._forgotten or {}):
            groups.pop(group, None)
        self._caused.pop(group, None)

    def update(
        self,
        group: str,
        verdicts: Sequence[Verdict],
        now_ms: int,
        resolve_after_ms: int,
        unjudged: Callable[[], Collection[str]] = frozenset,
    ) -> tuple[list[Finding], list[Finding]]:
        """Take up all verdicts that hold for a group now; return (findings that changed, findings withdrawn).

        `unjudged` returns the ids of remembered rebalances that this run does not judge, or not yet: for these, the
        causes found by an earlier run apply.
        """
        self._keep_caused(group, unjudged)
        stated: dict[Key, list[Verdict]] = {}
        for each in verdicts:
            stated.setdefault((group, each.rule, subject_key(each)), []).append(each)
        changed, known = [], self._groups.setdefault(group, {})
        self._forget(group, [key for key, each in known.items() if _is_long_over(each, stated.get(key, ()), now_ms)])
        # Before the others are written: a finding that ends is no parent.
        ended, withdrawn = self._close(known, stated.keys(), now_ms, resolve_after_ms)
        for key, several in sorted(stated.items(), key=lambda item: item[0][1] not in _PARENTS):
            finding = self._placed(self._written(key, several, now_ms, resolve_after_ms))
            self._restored.discard(finding.finding_id)
            if _differs(known.get(key), finding):
                known[key] = finding
                changed.append(finding)
        over = [key for key, each in known.items() if each.resolved_at_ms is not None and key not in stated]
        if len(over) > _REMEMBERED:
            over.sort(key=lambda key: (known[key].resolved_at_ms or 0, key))
            self._forget(group, over[:-_REMEMBERED])
        return [*changed, *ended], withdrawn

    def _keep_caused(self, group: str, unjudged: Callable[[], Collection[str]]) -> None:
        """Drop the causes that an earlier run found for rebalances that this run judged or that are forgotten."""
        if caused := self._caused.pop(group, None):
            names = unjudged()
            kept = {finding: tuple(each for each in ids if each in names) for finding, ids in caused.items()}
            if kept := {finding: ids for finding, ids in kept.items() if ids}:
                self._caused[group] = kept

    def _forget(self, group: str, keys: Collection[Key]) -> None:
        """Drop findings that are over."""
        for key in keys:
            finding = self._groups[group].pop(key)
            if self._forgotten is not None:
                self._forgotten.setdefault(group, {})[key] = finding

    def _written(self, key: Key, several: list[Verdict], now_ms: int, resolve_after_ms: int) -> Finding:
        alike = _of_usual_variant(several)
        verdict = max(alike, key=lambda each: (each.last_ms is None, each.last_ms or 0, each.confidence))
        best = max(alike, key=lambda each: (each.confidence, not each.is_consequence, each.last_ms or 0))
        known = self._groups[key[0]].get(key)
        primary = [each for each in several if each.primary]
        ids = tuple(dict.fromkeys(name for each in primary or several for name in each.rebalance_ids))
        if primary and known is not None:
            ids = (*self._caused.get(key[0], {}).get(known.finding_id, ()), *ids)
        stands = any(each.last_ms is None for each in several)
        last_ms = None if stands else max(each.last_ms or 0 for each in several)
        over_ms = None if last_ms is None else last_ms + resolve_after_ms
        resolved = over_ms is not None and now_ms >= over_ms
        entry = diagnosis(verdict.rule)
        started_ms = min(each.started_at_ms for each in several)
        if known is not None and known.state == FindingState.FIRING:
            started_ms = min(started_ms, known.started_at_ms)
        return Finding(
            finding_id=_identifier(self._cluster, key, started_ms) if known is None else known.finding_id,
            cluster=self._cluster,
            group=key[0],
            rule=verdict.rule,
            severity=Severity.INFO if entry.experimental else verdict.severity or entry.severity,
            state=FindingState.RESOLVED if resolved else FindingState.FIRING,
            primary=bool(primary),
            confidence=round(best.confidence, 2),
            subject=_latest_subject(several),
            started_at_ms=started_ms,
            # A reopened finding was detected anew; the detection time of an earlier spell does not apply.
            detected_at_ms=now_ms if known is None or known.detected_at_ms < started_ms else known.detected_at_ms,
            updated_at_ms=now_ms,
            resolved_at_ms=over_ms if resolved else None,
            summary=_EXPERIMENTAL + best.summary if entry.experimental else best.summary,
            variant=verdict.variant,
            rebalances=len(ids),
            rebalance_ids=ids[-_KEPT_IDS:],
            evidence=_distinct(verdict.evidence, best.evidence, _announced(several)),
            alternatives=best.alternatives or verdict.alternatives,
            missing=verdict.missing,
            advice=best.advice or verdict.advice,
            experimental=entry.experimental,
        )

    def _placed(self, finding: Finding) -> Finding:
        """Return a finding with its parent; a part does not page, its parent does, unless that is experimental."""
        rebalances = set(finding.rebalance_ids)
        for group in ("", finding.group):  # the whole cluster first
            for each in self._groups.get(group, {}).values():
                open_parent = each.rule in _PARENTS - {finding.rule} and each.state == FindingState.FIRING
                if open_parent and rebalances & set(each.rebalance_ids):
                    relieved = finding.severity == Severity.PAGE and not each.experimental
                    severity = Severity.TICKET if relieved else finding.severity
                    return replace(finding, parent=each.finding_id, severity=severity)
        return finding

    def _close(
        self, known: dict[Key, Finding], stated: Collection[Key], now_ms: int, resolve_after_ms: int
    ) -> tuple[list[Finding], list[Finding]]:
        ended, withdrawn = [], []
        for key in [key for key in known if key not in stated]:
            finding = known[key]
            if finding.state != FindingState.FIRING or now_ms < self._stays_until_ms(finding, resolve_after_ms):
                continue
            self._restored.discard(finding.finding_id)
            done = replace(finding, state=FindingState.RESOLVED, resolved_at_ms=now_ms, updated_at_ms=now_ms)
            if finding.rebalance_ids and (finding.primary or family_of(finding.rule) in _CAUSES_OF_LOSSES):
                withdrawn.append(done)
                del known[key]
            else:
                known[key] = done
                ended.append(done)
        return ended, withdrawn


def _is_long_over(finding: Finding, stated: Collection[Verdict], now_ms: int) -> bool:
    """Whether a finding ended so long ago that verdicts stated now, if any, belong to a new finding."""
    over_ms = finding.resolved_at_ms
    if over_ms is None or now_ms < over_ms + _REMEMBERED_MS:
        return False
    return all(each.last_ms is None or each.last_ms > over_ms for each in stated)


def _of_usual_variant(several: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with the most frequent variant; all if none has a variant."""
    counted = Counter(each.variant for each in several if each.variant is not None)
    if not counted:
        return list(several)
    usual = counted.most_common(1)[0][0]
    return [each for each in several if each.variant == usual]


def _latest_subject(several: Sequence[Verdict]) -> Subject:
    """Return the latest subject, with the latest description of each member; one member may have had several ids."""
    members: dict[str, SubjectMember] = {}
    for each in sorted(several, key=lambda each: each.last_ms or 0):
        for member in each.subject.members:
            members[member.member_id or _member_key(member)] = member
    named: dict[str, list[SubjectMember]] = {}
    for member in members.values():
        named.setdefault(_member_key(member), []).append(member)
    latest = several[-1].subject
    # Keep all names, since they are the finding's key; of a member that came back often, keep the latest ids.
    each_keeps = max(1, MOST_MEMBERS // max(1, len(named)))
    kept = [m for same in named.values() for m in same[-each_keeps:]]
    return Subject(tuple(kept), latest.partitions, latest.hosts)


def _distinct(*lists: Sequence[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(each for several in lists for each in several))


def _announced(several: Sequence[Verdict]) -> list[Evidence]:
    """Return the announcements of the latest deploys; each explains the rebalances of its own time."""
    ordered = sorted(several, key=lambda each: each.last_ms or 0)
    announced = [said for each in ordered for said in each.evidence if said.source == EvidenceSource.ANNOUNCEMENT]
    return announced[-_ANNOUNCED:]


def _differs(known: Finding | None, new: Finding) -> bool:
    return known is None or replace(known, updated_at_ms=0) != replace(new, updated_at_ms=0)


def as_verdict(finding: Finding) -> Verdict:
    """Return a finding as the verdict of its rule, without the rebalances that it is about.

    The severity PAGE is left out, because it is decided again.
    """
    weighed = finding.severity in (Severity.INFO, Severity.TICKET)
    return Verdict(
        rule=finding.rule,
        confidence=finding.confidence,
        summary=finding.summary.removeprefix(_EXPERIMENTAL),
        started_at_ms=finding.started_at_ms,
        subject=finding.subject,
        variant=finding.variant,
        severity=Severity(finding.severity) if weighed else None,
        evidence=finding.evidence,
        alternatives=finding.alternatives,
        missing=finding.missing,
        advice=finding.advice,
    )


def _key_of(finding: Finding) -> Key:
    return finding.group, finding.rule, subject_key(finding)


def topic_key(finding: Finding) -> str:
    """Return the key under which a finding is published."""
    return finding_key(finding.cluster, *_key_of(finding))


def _identifier(cluster: str, key: Key, started_ms: int) -> str:
    text = "/".join((cluster, *key, str(started_ms)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
