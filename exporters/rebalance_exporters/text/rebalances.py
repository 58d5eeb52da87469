"""Texts that describe a rebalance: the API carries them for the page, the terminal prints them.

Receives rows of the contract. Times are formatted where they are shown, because they depend on the reader's zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_contract import (
    AlertSilence,
    Generation,
    GroupType,
    Member,
    Moves,
    Rebalance,
    RebalanceImpact,
    SubjectMember,
)
from rebalance_contract.api import PhaseText, RebalanceText, TextPart
from rebalance_contract.display import asked_by
from rebalance_exporters.text.figures import UNKNOWN, amount, bounds, plural, span

#: How long after its end a rebalance may still lack findings: they use later commits and reports.
JUDGED_AFTER_MS = 60_000
#: Why a rebalance has no cause: it has not ended, it ended recently, or no finding is kept.
NO_CAUSE = {
    "not_ended": "not known yet: a rebalance is judged when it has ended",
    "young": "not judged yet: what happens in the seconds after it shows the cause",
    "none_kept": "no finding about this rebalance is kept: it is too old, or the stream that diagnoses does not run",
}
#: For a rebalance known only from probes: the count, and the values that probes do not show.
SEEN, NOT_PROBED = "one at least: counted from probes", "not known: the log is not read"
#: How an aborted rebalance ended.
ABORTED = "ended by the group's deletion"

#: Maximum number of members or deploys named in a line; a deploy moves hundreds of members.
_NAMED = 5


def describe_rebalance(
    rebalance: Rebalance, impact: RebalanceImpact | None, deploys: Sequence[AlertSilence] = ()
) -> RebalanceText:
    """Return the texts of a rebalance; an impact of null means that the diagnosis has not reported yet.

    `deploys` are those announced for the time of the rebalance.
    """
    return RebalanceText(
        why=(*_why(rebalance), *_announced(deploys)),
        took=bounds(rebalance.duration_min_ms, rebalance.duration_max_ms),
        members=_members(rebalance),
        generations=_generations(rebalance),
        steps=_steps(rebalance),
        partitions=_partitions(rebalance.moves),
        without_commits=NOT_PROBED if rebalance.is_at_least else _without_commits(impact),
        lag=_lag(impact, rebalance.started_before_ms),
        phases=tuple(_phases(rebalance)),
    )


def name(member: Member | SubjectMember) -> str:
    """Return a member's name for people, which outlives its member id."""
    host = (member.host or "?").removeprefix("/")
    return f"{member.group_instance_id or member.client_id or member.member_id or '?'}@{host}"


def _members(rebalance: Rebalance) -> str:
    """Return the number of members before and after, including those for which the row had no room."""
    return f"{rebalance.size_before} -> {rebalance.size_after}"


def _why(rebalance: Rebalance) -> Iterator[TextPart]:
    """Yield the trigger of the rebalance, and the members that left, joined and came back."""
    members = rebalance.all_members()
    returned = {member_id for pair in rebalance.replaced for member_id in pair}
    changes = {
        "left": [each for each in rebalance.left if each not in returned],
        "joined": [each for each in rebalance.joined if each not in returned],
        "came back": [new for _, new in rebalance.replaced],
    }
    yield TextPart(rebalance.reason.replace("_", " "))
    has_changes = False
    for what, ids in changes.items():
        if ids:
            yield TextPart(f"{'; ' if has_changes else ' ('}{what}: ")
            yield from _names(ids, members)
            has_changes = True
    if has_changes:
        yield TextPart(")")


def _announced(deploys: Sequence[AlertSilence]) -> Iterator[TextPart]:
    """Yield the announced deploys, the latest first: its members are those that moved."""
    for place, each in enumerate(reversed(deploys[-_NAMED:])):
        yield TextPart(", " if place else "; during an announced deploy: ")
        yield TextPart(each.reason, is_name=True)
        yield TextPart(" by ")
        yield TextPart(asked_by(each.created_by, each.on_behalf_of), is_name=True)


def _names(ids: Sequence[str], members: dict[str, Member]) -> Iterator[TextPart]:
    for place, each in enumerate(ids[:_NAMED]):
        if place:
            yield TextPart(", ")
        yield TextPart(name(members[each]) if each in members else each, is_name=True)
    if len(ids) > _NAMED:
        yield TextPart(f" and {len(ids) - _NAMED} more")


def _generations(rebalance: Rebalance) -> str:
    if rebalance.generation_to is None:
        return UNKNOWN
    before = rebalance.generation_from
    return f"{UNKNOWN if before is None else before} -> {rebalance.generation_to}"


def _steps(rebalance: Rebalance) -> str | None:
    if rebalance.is_at_least:
        return SEEN
    count, aborted = rebalance.all_generations, rebalance.generations_aborted
    if count <= 1 and not aborted:
        return None
    return plural(count, "generation") + (f", {aborted} more without an assignment" if aborted else "")


def _partitions(moves: Moves | None) -> str:
    if moves is None:
        return "not known, as the assignments are not in a known form"
    counts = {
        "changed owner": sum(map(len, moves.moved.values())),
        "stayed": moves.kept,
        "new": moves.gained,
        "without an owner now": moves.lost,
    }
    counted = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    back = sum(map(len, moves.ping_ponged.values()))
    return (counted or "none") + (f"; {back} taken away and given back at once" if back else "")


def _without_commits(impact: RebalanceImpact | None) -> str:
    if impact is None:
        return "not known yet, the diagnosis has not reported"
    if not impact.silences and not impact.lost_partition_ms:
        return "none for unusually long"
    more = " or more" if impact.is_truncated else ""
    return f"{plural(len(impact.silences), 'partition')}{more}, {span(impact.lost_partition_ms)} in all at most"


def _lag(impact: RebalanceImpact | None, began_ms: int) -> str | None:
    if impact is None or impact.lag_peak is None:
        return None
    before = "?" if impact.lag_before is None else amount(impact.lag_before)
    if impact.lag_recovered_at_ms is None:
        ended = "not back before the next rebalance, or not within 15 min"
    else:
        ended = f"back {span(max(0, impact.lag_recovered_at_ms - began_ms))} after the start"
    return f"{before} -> {amount(impact.lag_peak)}, {ended}"


def _phases(rebalance: Rebalance) -> Iterator[PhaseText]:
    """Yield the phases in order of time; a classic group has one more for each later generation. Probes show none."""
    if not rebalance.is_at_least:
        yield from _classic(rebalance) if rebalance.type == GroupType.CLASSIC else _newer(rebalance)
    if rebalance.completed_at_ms is None:
        yield PhaseText("still going on", UNKNOWN)


def _classic(rebalance: Rebalance) -> Iterator[PhaseText]:
    first, later = rebalance.generations[:1], rebalance.generations[1:]
    if not rebalance.members_after and not later:
        yield _since_start("until nobody was left", rebalance, rebalance.completed_at_ms)
        return
    yield _since_start("join: until all members were there", rebalance, rebalance.join_ended_at_ms)
    before_ms = first[0].assigned_at_ms if first else None
    if rebalance.sync_ms is not None:
        yield _lasting("sync: the leader assigns the partitions", rebalance.sync_ms, before_ms)
    for each in later:
        yield _generation(each, before_ms)
        before_ms = each.assigned_at_ms


def _newer(rebalance: Rebalance) -> Iterator[PhaseText]:
    assigned_ms = rebalance.generations[-1].assigned_at_ms if rebalance.generations else None
    if rebalance.assigning_ms is not None:
        yield _lasting("assigning: the coordinator decides", rebalance.assigning_ms, assigned_ms)
    if rebalance.reconciling_ms is not None:
        what = "reconciling: members hand over and take up"
        yield _lasting(what, rebalance.reconciling_ms, rebalance.completed_at_ms)


def _generation(generation: Generation, before_ms: int | None) -> PhaseText:
    aborted = f", {generation.aborted_before} before it without an assignment" if generation.aborted_before else ""
    what = f"generation {generation.generation}: {generation.reason.replace('_', ' ')}{aborted}"
    until_ms = generation.assigned_at_ms
    if before_ms is None or until_ms is None:
        return PhaseText(what, UNKNOWN, until_ms=until_ms)
    return _lasting(what, max(0, until_ms - before_ms), until_ms)


def _lasting(what: str, length_ms: int, until_ms: int | None) -> PhaseText:
    return PhaseText(what, span(length_ms), length_ms, until_ms)


def _since_start(what: str, rebalance: Rebalance, until_ms: int | None) -> PhaseText:
    if until_ms is None:
        return PhaseText(what, UNKNOWN)
    low_ms, earliest_ms = max(0, until_ms - rebalance.started_before_ms), rebalance.started_after_ms
    high_ms = None if earliest_ms is None else max(low_ms, until_ms - earliest_ms)
    return PhaseText(what, bounds(low_ms, high_ms), low_ms, until_ms)
