"""States an expired session as such where its cause is only guessed.

Rules about single members keep working with the guess; only what is stated of a rebalance changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rebalance_contract import UNDETERMINED, Alternative
from rebalance_streaming.detect.catalogue import diagnosis, with_trait
from rebalance_streaming.detect.verdict import Verdict, merge
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed.confidence import CLAIMED, PLAUSIBLE
from rebalance_streaming.observed.departures import SESSION_EXPIRED, Departure
from rebalance_streaming.observed.liveness import ALIVE, HEALTHY
from rebalance_streaming.observed.timeouts import may_have_overrun

#: Causes that are stated as an expired session when they are hints.
_GUESSES = frozenset({*diagnosis("session_expiry").stands_for, UNDETERMINED})
_DEATHS = with_trait("death")
#: Causes that fit every expired session, unless they are impossible for another reason.
_ALWAYS_FIT = ("process_pause", "network_partition", "member_crash")


def with_expiries(
    verdicts: tuple[Verdict, ...], departures: Mapping[str, Departure], returns: Mapping[str, Departure]
) -> tuple[Verdict, ...]:
    """Return the verdicts on one rebalance, hints about members whose sessions surely expired replaced by that.

    `departures` are those of the rebalance, `returns` the earlier ones of members that came back in it, both by member
    id. The primary verdict stays the first.
    """
    found = [_expiry(each, departures, returns) for each in verdicts]
    expired = [each for each in found if each is not None]
    if not expired:
        return verdicts
    first = next(place for place, each in enumerate(found) if each is not None)
    stated = [each for each, expiry in zip(verdicts, found, strict=True) if expiry is None]
    return (*stated[:first], *merge(expired), *stated[first:])


def _expiry(hint: Verdict, departures: Mapping[str, Departure], returns: Mapping[str, Departure]) -> Verdict | None:
    """Return the verdict that sessions expired, in place of a hint about why; null if that is not sure."""
    if hint.confidence >= CLAIMED or hint.rule not in _GUESSES:
        return None
    if lost := _expired(hint, departures):
        return _stated(hint, lost)
    if back := _expired(hint, returns):
        sure = min(PLAUSIBLE, *(each.confidence for each in back))
        return replace(hint, rule="session_expiry", confidence=sure, alternatives=_alternatives(hint, back))
    return None


def _expired(hint: Verdict, departures: Mapping[str, Departure]) -> list[Departure]:
    """Return the departures of the members that a hint is about; empty unless the sessions of all surely expired."""
    names = [each.member_id for each in hint.subject.members if each.member_id is not None]
    lost = [departures[name] for name in names if name in departures]
    return lost if all(_surely_expired(each) for each in lost) else []


def _stated(hint: Verdict, lost: Sequence[Departure]) -> Verdict:
    verdict = say(
        "session_expiry",
        hint.started_at_ms,
        hint.subject,
        confidence=min(each.confidence for each in lost),
        evidence=hint.evidence,
        missing=hint.missing,
        advice=hint.advice,
        rebalance_ids=hint.rebalance_ids,
        members=[each.member for each in lost],
        several=len(lost) > 1,
        session=max(each.session_ms for each in lost),
        away=max((each.away_ms for each in lost if each.away_ms is not None), default=None),
    )
    return replace(verdict, alternatives=_alternatives(hint, lost))


def _alternatives(hint: Verdict, lost: Sequence[Departure]) -> tuple[Alternative, ...]:
    """Return the causes that fit, the guessed one first, then those of the hint that are impossible or fit less."""
    ruled_out = {each.rule for each in hint.alternatives if each.impossible}
    if any(each.client.may_starve is False for each in lost):
        ruled_out.add("heartbeat_starvation")
    if any(each.process_survived for each in lost):
        ruled_out |= _DEATHS
    named = (hint.rule, *(each.rule for each in hint.alternatives if each.rule in _GUESSES), *_ALWAYS_FIT)
    fitting = [each for each in dict.fromkeys(named) if each not in ruled_out and each != UNDETERMINED]
    texts = ("the likeliest of its possible causes", *("fits as well" for _ in fitting[1:]))
    others = (each for each in hint.alternatives if each.impossible or each.rule not in _GUESSES)
    return (*map(Alternative, fitting, texts), *others)


def _surely_expired(departure: Departure) -> bool:
    """Whether the session expired and nothing else fits: its client does not report that it was well, and it polled.

    A static member that does not poll sends no leave request, so its session expires.
    """
    if departure.likely != SESSION_EXPIRED or departure.confidence < CLAIMED or may_have_overrun(departure):
        return False
    return departure.member.group_instance_id is None and departure.liveness not in (HEALTHY, ALIVE)
