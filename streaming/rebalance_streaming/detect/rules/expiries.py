"""States an expired session as such where its cause is only guessed.

Rules about single members keep working with the guess; only what is stated of a rebalance changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rebalance_contract import UNDETERMINED, Alternative, Subject
from rebalance_streaming.detect.catalogue import diagnosis, with_trait
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed.confidence import CLAIMED, PLAUSIBLE
from rebalance_streaming.observed.departures import SESSION_EXPIRED, UNKNOWN, Departure
from rebalance_streaming.observed.liveness import ALIVE, HEALTHY
from rebalance_streaming.observed.timeouts import may_have_overrun

_T = TypeVar("_T")

EXPIRY = "session_expiry"
#: Causes that are stated as an expired session when they are hints.
_GUESSES = frozenset({*diagnosis(EXPIRY).stands_for, UNDETERMINED})
_DEATHS = with_trait("death")
#: Causes that fit every expired session, unless they are impossible for another reason.
_ALWAYS_FIT = ("process_pause", "network_partition", "member_crash")


@dataclass(frozen=True, slots=True)
class _Expired:
    """A hint about why members were lost, and how they left: their sessions surely expired."""

    hint: Verdict
    lost: Sequence[Departure]

    def impossible(self) -> set[str]:
        """Return the causes that fit none of these members."""
        ruled_out = {each.rule for each in self.hint.alternatives if each.impossible}
        if all(each.client.may_starve is False for each in self.lost):
            ruled_out.add("heartbeat_starvation")
        if all(each.process_survived for each in self.lost):
            ruled_out |= _DEATHS
        return ruled_out


def with_expiries(
    verdicts: tuple[Verdict, ...],
    departures: Mapping[str, Departure],
    returns: Mapping[str, Departure],
    earlier: Verdict | None = None,
) -> tuple[Verdict, ...]:
    """Return the verdicts on one rebalance, hints about members whose sessions surely expired replaced by one verdict.

    `departures` are those that the rebalance rests on, `returns` the earlier ones of members that came back in it, both
    by member id. `earlier` is the expired session that an earlier run stated of it, from rows that may not be read
    again; it applies unless something else is known now. The primary verdict stays the first.
    """
    hints = [each for each in verdicts if each.confidence < CLAIMED and each.rule in _GUESSES]
    stated = verdicts
    for known, state in ((departures, _loss), (returns, _return)):
        if expired := [_Expired(each, lost) for each in hints if (lost := _expired(each.subject, known))]:
            stated = _replaced(stated, [each.hint for each in expired], state(expired))
            hints = [each for each in hints if each in stated]
    first = verdicts[0]
    if (
        stated is verdicts
        and earlier is not None
        and first in hints
        and not _contradicted(earlier.subject, {**returns, **departures})
    ):
        return _replaced(verdicts, [first], replace(earlier, is_consequence=first.is_consequence))
    return stated


def _replaced(verdicts: Sequence[Verdict], hints: Sequence[Verdict], stated: Verdict) -> tuple[Verdict, ...]:
    """Return the verdicts with another one in the place of the first of some, without the others of these."""
    place = min(verdicts.index(each) for each in hints)
    others = [each for each in verdicts if each not in hints]
    return (*others[:place], stated, *others[place:])


def _expired(subject: Subject, departures: Mapping[str, Departure]) -> list[Departure]:
    """Return how the members of a subject left; empty unless the sessions of all surely expired."""
    lost = [departures.get(each.member_id or "") for each in subject.members]
    known = [each for each in lost if each is not None and _surely_expired(each)]
    return known if len(known) == len(lost) else []


def _surely_expired(departure: Departure) -> bool:
    """Whether the session expired and nothing else fits: its client does not report that it was well, and it polled.

    A static member that does not poll sends no leave request, so its session expires.
    """
    if departure.likely != SESSION_EXPIRED or departure.confidence < CLAIMED or may_have_overrun(departure):
        return False
    return departure.member.group_instance_id is None and departure.liveness not in (HEALTHY, ALIVE)


def _contradicted(subject: Subject, departures: Mapping[str, Departure]) -> bool:
    """Whether a member is now known to have left in another way, or to have been well."""
    left = [departures[name] for each in subject.members if (name := each.member_id or "") in departures]
    return any(
        each.liveness in (HEALTHY, ALIVE)
        or (each.likely not in (SESSION_EXPIRED, UNKNOWN) and each.confidence >= CLAIMED)
        for each in left
    )


def _loss(expired: Sequence[_Expired]) -> Verdict:
    """Return the verdict that sessions expired, in place of hints about why."""
    hints = [each.hint for each in expired]
    by_id = {each.member.member_id: each for part in expired for each in part.lost}
    lost = [by_id[name] for name in sorted(by_id)]
    members = [each.member for each in lost]
    partitions = _distinct(each.subject.partitions for each in hints)
    hosts = _distinct(each.subject.hosts for each in hints)
    subject = subject_of(*members, partitions=partitions, hosts=hosts)
    verdict = say(
        "session_expiry",
        min(each.started_at_ms for each in hints),
        subject,
        confidence=min(each.confidence for each in lost),
        evidence=_distinct(each.evidence for each in hints),
        missing=_distinct(each.missing for each in hints),
        advice=_distinct(each.advice for each in hints),
        rebalance_ids=hints[0].rebalance_ids,
        members=members,
        several=len(lost) > 1,
        session=max(each.session_ms for each in lost),
        away=max((each.away_ms for each in lost if each.away_ms is not None), default=None),
    )
    is_consequence = all(each.is_consequence for each in hints)
    return replace(verdict, alternatives=_alternatives(expired), is_consequence=is_consequence)


def _return(expired: Sequence[_Expired]) -> Verdict:
    """Return the verdict on a rebalance of members that came back after their sessions expired."""
    sure = min(PLAUSIBLE, *(each.confidence for part in expired for each in part.lost))
    return replace(expired[0].hint, rule=EXPIRY, confidence=sure, alternatives=_alternatives(expired))


def _alternatives(expired: Sequence[_Expired]) -> tuple[Alternative, ...]:
    """Return the causes that fit any member, the guesses first, then those of the hints that fit none or fit less."""
    ruled_out = set.intersection(*(each.impossible() for each in expired))
    given = [each for part in expired for each in part.hint.alternatives]
    named = (
        *(each.hint.rule for each in expired),
        *(each.rule for each in given if each.rule in _GUESSES and not each.impossible),
        *_ALWAYS_FIT,
    )
    fitting = [each for each in dict.fromkeys(named) if each not in ruled_out and each != UNDETERMINED]
    texts = ("the likeliest of its possible causes", *("fits as well" for _ in fitting[1:]))
    others = {
        each.rule: each
        for each in given
        if each.rule not in fitting and (each.rule in ruled_out if each.impossible else each.rule not in _GUESSES)
    }
    return (*map(Alternative, fitting, texts), *others.values())


def _distinct(several: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(each for some in several for each in some))
