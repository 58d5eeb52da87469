"""What rules about one lost member ask alike: was it busy, has it gone before, which client is it, what is missing."""

from __future__ import annotations

from rebalance_contract import Alternative
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.departures import Departure, slot_of
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.verdict import HINT, STRONG, UNDETERMINED, Verdict, subject_of

#: How soon a frozen process is back after its session ended; a new process takes longer to start and join.
THAW_MS = 5_000

NO_REPORTS = "client metrics of {host}: reports on time, late or missing would separate these"


def is_busy(departure: Departure) -> bool:
    """Whether records came in while the member was silent: an idle client has nothing to be busy with."""
    return (departure.arriving or 0) > 0


def same_slot(episode: Episode, departure: Departure) -> list[Departure]:
    """Return earlier departures of the same member, under whatever id."""
    slot = slot_of(departure.member)
    return [past for past in episode.earlier if slot_of(past.member) == slot]


def client_of(episode: Episode, departure: Departure) -> ClientHistory | None:
    """Return the reports of the client behind a departure."""
    member = departure.member
    return episode.history.clients.of(member.member_id, member.client_id, member.host, member.group_instance_id)


def missing_reports(departure: Departure) -> tuple[str, ...]:
    """Return what would have told more, where what there is leaves doubt."""
    if departure.liveness is not None or departure.confidence >= STRONG:
        return ()
    return (NO_REPORTS.format(host=departure.member.host or "the member's host"),)


def undetermined(
    episode: Episode, departure: Departure, summary: str, alternatives: tuple[Alternative, ...]
) -> Verdict:
    """Say that nothing separates what may have happened to a member."""
    return Verdict(
        rule=UNDETERMINED,
        confidence=HINT,
        summary=summary,
        started_at_ms=episode.rebalance.started_before_ms,
        subject=subject_of(departure.member),
        evidence=departure.evidence,
        alternatives=alternatives,
        missing=(NO_REPORTS.format(host=departure.member.host or "the member's host"),),
    )
