"""Deploys announced by their pipelines: which of a group's rebalances they explain.

An announcement gives the reason for joins and leaves in a time span. It explains rebalances whose members behave as in
a deploy: each client leaves or is killed at most once, and a client that was killed is replaced before the time span
ends. A rebalance with another known cause, or in which a client leaves a second time, is reported as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_contract import UNDETERMINED, AlertSilence, Evidence, EvidenceSource, Member, Rebalance
from rebalance_contract.display import asked_by
from rebalance_streaming.detect.catalogue import PARTS
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules.patterns import crash_loop, member_flapping, short_lived_consumers
from rebalance_streaming.detect.rules.rebalances import left_repeatedly, members_per_slot
from rebalance_streaming.detect.verdict import MOST_MEMBERS, Verdict, subject_of
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import CLAIMED
from rebalance_streaming.observed.departures import CLEAN, SESSION_EXPIRED, slot_of

#: Clock difference allowed: announcements have times of an exporter's clock, records those of a broker's.
_CLOCKS_MS = 5_000
#: Patterns that a deploy does not explain, although each of their rebalances alone might be part of one.
_OTHER_PATTERNS = (crash_loop, short_lived_consumers, member_flapping)


@condition(inputs.REPORTED, without_log=True)
def announced_deploy(view: GroupView) -> Iterator[Verdict]:
    """A deploy was announced, and members come and go as in one; if several overlap, the latest one counts."""
    if not view.announcements:
        return
    others = [each for rule in _OTHER_PATTERNS for each in rule(view) if each.confidence >= CLAIMED]
    taken = {name for each in others for name in each.rebalance_ids}
    for announced in reversed(view.announcements):
        explained = [each for each in _explained(view, announced) if each.rebalance_id not in taken]
        if explained:
            taken |= {each.rebalance_id for each in explained}
            yield _announced_verdict(view, announced, explained)


def _explained(view: GroupView, announced: AlertSilence) -> list[Rebalance]:
    """Return the rebalances that began in the announced time span and whose members came and went as in a deploy."""
    since_ms = announced.starts_at_ms - _CLOCKS_MS
    inside = [each for each in view.history.since_ms(since_ms) if each.started_before_ms < announced.ends_at_ms]
    known = [each for each in inside if each.rebalance_id in view.causes]
    left = _left(view, known)
    again = left_repeatedly((slot_of(each.member) for each in left), members_per_slot(known))
    odd = {each.rebalance_id for each in left if each.rule not in PARTS or slot_of(each.member) in again}
    if view.time.lasted(announced.ends_at_ms, 0):
        odd |= {each.rebalance_id for each in _not_replaced(left, len(_came(known)))}
    return [
        each
        for each in known
        if each.rebalance_id not in odd
        and not any(slot_of(member) in again for member in _came([each]))
        and _may_be_part(each, view.causes[each.rebalance_id])
    ]


def _left(view: GroupView, rebalances: Sequence[Rebalance]) -> list[ExplainedDeparture]:
    names = {each.rebalance_id for each in rebalances}
    return [each for each in view.past if each.rebalance_id in names]


def _came(rebalances: Sequence[Rebalance]) -> list[Member]:
    joined = {name for each in rebalances for generation in each.generations for name in generation.joined}
    there = {m.member_id: m for each in rebalances for m in (*each.members_after, *each.passing)}
    return [member for name, member in there.items() if name in joined]


def _not_replaced(left: Sequence[ExplainedDeparture], came: int) -> list[ExplainedDeparture]:
    """Return the departures not in order that were not replaced: the latest ones, as many as members are missing."""
    gone = [each for each in left if each.departure.likely != CLEAN and each.departure.back_as is None]
    return gone[max(0, len(gone) - max(0, len(left) - came)) :]


def _may_be_part(rebalance: Rebalance, cause: str) -> bool:
    """Whether a cause may be part of a deploy; an undetermined one only if members came or went."""
    return cause in PARTS and (rebalance.changes > 0 or cause != UNDETERMINED)


def _announced_verdict(view: GroupView, announced: AlertSilence, explained: Sequence[Rebalance]) -> Verdict:
    left, came = _left(view, explained), _came(explained)
    moved = [each.member for each in left] or came
    said = Evidence(
        EvidenceSource.ANNOUNCEMENT,
        "deploy",
        announced.reason,
        "announced before its members came and went",
        announced.starts_at_ms,
        announced.ends_at_ms,
    )
    return view.say(
        "rolling_deploy.announced",
        explained[0].started_before_ms,
        subject_of(*moved[:MOST_MEMBERS]),
        evidence=(said,),
        rebalance_ids=tuple(each.rebalance_id for each in explained),
        version=announced.version,
        who=asked_by(announced.created_by, announced.on_behalf_of),
        left=len(left),
        came=len(came),
        killed=sum(each.departure.likely == SESSION_EXPIRED for each in left),
        rebalances=len(explained),
    )
