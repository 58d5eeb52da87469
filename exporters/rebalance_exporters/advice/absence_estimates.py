"""Estimates for settings that would have covered absences: a larger limit would have waited for the absent member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rebalance_contract import Advice, Member, Rebalance
from rebalance_contract.api_reports import EstimateRange, SettingEstimate
from rebalance_contract.client_settings import (
    SessionSetting,
    has_poll_records,
    has_static_members,
    library_of,
    parse_version,
    session_bound,
    session_or_usual,
    session_setting,
)
from rebalance_exporters.advice.absences import (
    DID_NOT_POLL,
    NO_CAUSE,
    STARVED,
    STOOD_STILL,
    Absence,
    DepartureKind,
    PastRebalance,
    poll_limit_of,
)
from rebalance_exporters.advice.estimates import (
    ENOUGH,
    MARGIN,
    NOT,
    AvoidedRebalances,
    Cover,
    Setting,
    length_of,
    owners_of,
    write_ms,
)
from rebalance_exporters.advice.look_back import LookBack
from rebalance_exporters.advice.values import read_ms, read_share
from rebalance_exporters.text.figures import plural, span

#: The setting that limits the time between two polls of a Connect worker, which works for its connectors in between.
POLL_INTERVAL_OF_CONNECT = "rebalance.timeout.ms"

_SECOND = 1_000
_SESSIONS_MS = tuple(_SECOND * each for each in (10, 15, 20, 30, 45, 60, 90, 120, 180, 300))
_POLL_INTERVALS_MS = tuple(_SECOND * each for each in (15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1_800))
#: Candidates for max.poll.records, in percent of its current value.
_RECORD_SHARES = (50, 33, 25, 20, 10, 5, 2, 1)


def estimate_session(past: LookBack, value: int | None) -> SettingEstimate:
    """Estimate a longer session timeout, for members that died or stood still.

    `value`: in milliseconds; null picks the best.
    """

    def covers(absence: Absence, session_ms: float) -> Cover:
        if absence.departure not in (DepartureKind.EXPIRED, DepartureKind.UNKNOWN) or absence.rule in DID_NOT_POLL:
            return NOT
        is_static = absence.member.group_instance_id is not None
        if absence.is_restart and not is_static:
            # A restarted dynamic member joins as a new member, with any session timeout.
            return NOT
        agreed = absence.departure is DepartureKind.EXPIRED and (is_static or absence.rule in STOOD_STILL)
        return _within(absence, session_ms, agreed=agreed)

    now = _session_now(past)
    advised = _advised(past, now.setting.name)
    chosen, tally = _best(past, covers, now.ladder, value, advised=advised, most=now.most_ms)
    deaths = [each for each in past.in_period() if each.departure is DepartureKind.EXPIRED and each.back_in is None]
    cost = f"a member that dies is noticed after {_from(now.now_ms, chosen)}, and its partitions wait as long"
    if chosen is not None and now.longest_ms > chosen:
        cost = f"{cost}; members that have more, up to {span(now.longest_ms)}, are to keep it"
    if any(each.rule in STARVED for each in past.in_period()):
        cost = f"{cost}; what starves the heartbeats stays, see the findings"
    if deaths:
        cost = f"{cost}; {plural(len(deaths), 'member')} died, or stayed away, in this time"
    return tally.estimate(
        now.setting.name,
        write_ms(now.known_ms),
        write_ms(chosen) or "",
        chosen,
        cost=cost,
        basis="members whose session ran out and that came back as the same process: session, and time until they were "
        "back",
    )


def estimate_max_poll_interval(past: LookBack, value: int | None) -> SettingEstimate:
    """Estimate a longer poll interval, for members that left because they did not poll.

    `value`: in milliseconds; null picks the best.
    """

    def covers(absence: Absence, interval_ms: float) -> Cover:
        if (
            absence.departure not in (DepartureKind.POLL_LIMIT, DepartureKind.UNKNOWN)
            or absence.is_restart
            or absence.rule in STOOD_STILL
        ):
            return NOT
        if poll_limit_of(absence.member) is None and value is None:
            # Without a known limit, no value is known to be longer.
            return NOT
        agreed = absence.departure is DepartureKind.POLL_LIMIT and absence.rule in DID_NOT_POLL
        return _within(absence, interval_ms, agreed=agreed)

    current = _poll_limit(past)
    name = POLL_INTERVAL_OF_CONNECT if past.is_connect else Setting.MAX_POLL_INTERVAL
    advised = _advised(past, name)
    chosen, tally = _best(past, covers, _above(_POLL_INTERVALS_MS, current), value, advised=advised)
    return tally.estimate(
        name,
        write_ms(current),
        write_ms(chosen) or "",
        chosen,
        cost=(
            f"a consumer that is stuck is noticed after {_from(current, chosen)}, "
            "and may hold up a rebalance for as long where the protocol is classic"
        ),
        basis="members that left because they did not poll, and came back: the limit, and time until they were back",
    )


def estimate_max_poll_records(past: LookBack, value: int | None) -> SettingEstimate:
    """Estimate smaller batches, for members that left because they did not poll.

    `value`: in percent of the current value; null picks the best.
    """

    def covers(absence: Absence, share: float) -> Cover:
        limit, (low, high) = absence.limit_ms, absence.silent_ms
        if absence.departure is not DepartureKind.POLL_LIMIT or limit is None or absence.back_in is None:
            return NOT
        if past.is_connect or not has_poll_records(_library(past, absence)[0]):
            return NOT
        advised = any(each.parameter == Setting.MAX_POLL_RECORDS for each in past.rebalances[absence.left_in].advice)
        if not advised and absence.rule not in NO_CAUSE:
            return NOT
        certain = (
            advised
            and absence.rule not in NO_CAUSE
            and absence.is_same
            and high is not None
            and high * share < 100 * limit
        )
        return Cover(certain, low * share < 100 * limit)

    advised = _advised(past, Setting.MAX_POLL_RECORDS, read_share)
    chosen, tally = _best(past, covers, _RECORD_SHARES, value, advised=advised, is_share=True)
    return tally.estimate(
        Setting.MAX_POLL_RECORDS,
        None,
        "" if chosen is None else f"{chosen} % of what it is",
        chosen,
        cost="more polls for as many records; less is fetched ahead of the work",
        basis="batches that took longer than max.poll.interval.ms, if a part of the records takes that part of the "
        "time",
    )


def estimate_static(past: LookBack, value: int | None) -> SettingEstimate:
    """Estimate static membership, for members that were restarted.

    `value`: the session timeout in milliseconds; null picks the best.
    """

    def covers(absence: Absence, session_ms: float) -> Cover:
        is_dynamic = absence.member.group_instance_id is None
        unexplained = absence.rule in NO_CAUSE
        if not is_dynamic or absence.departure is DepartureKind.POLL_LIMIT or not (absence.is_restart or unexplained):
            return NOT
        if past.is_connect or not has_static_members(*_library(past, absence), past.type):
            return NOT
        agreed = absence.is_restart and absence.departure is not DepartureKind.UNKNOWN
        return _within(absence, session_ms, agreed=agreed)

    now = _session_now(past)
    # The first candidate is the current session timeout: static names alone.
    chosen, tally = _best(past, covers, (now.now_ms, *now.ladder), value, most=now.most_ms)
    name = f"{now.setting.name} of the group" if now.setting.of_group else now.setting.name
    more = "" if chosen in (None, now.now_ms) else f", with {name} = {chosen}"
    stops = [each for each in past.in_period() if each.departure is DepartureKind.LEFT and each.back_in is None]
    cost = f"a member that stops for good is noticed only {span(chosen or now.now_ms)} later; names must be unique"
    if stops:
        cost = f"{cost}; {plural(len(stops), 'member')} left for good in this time"
    return tally.estimate(
        Setting.STATIC,
        None,
        f"a stable name per instance{more}",
        chosen,
        cost=cost,
        basis="members that were started again under the same client id and host within the session",
    )


def _within(absence: Absence, limit_ms: float, *, agreed: bool) -> Cover:
    low, high = absence.silent_ms
    if absence.back_in is None:
        # It may have come back after the end of the period.
        return Cover(False, low < limit_ms and absence.rule in NO_CAUSE and absence.departure is DepartureKind.UNKNOWN)
    return Cover(agreed and absence.is_same and high is not None and high < limit_ms, low < limit_ms)


_Covers = Callable[[Absence, float], Cover]


def _best(
    past: LookBack,
    covers: _Covers,
    ladder: Sequence[int],
    value: int | None,
    *,
    advised: Iterable[int] = (),
    is_share: bool = False,
    most: int | None = None,
) -> tuple[int | None, AvoidedRebalances]:
    """Return the smallest change that avoids nearly as many rebalances as any would, and what it would have avoided.

    If findings advise a larger change, the smallest such value is taken instead, so that both advise the same. `most`
    is the maximum that clients or brokers accept, null if there is none; it needs no safety margin because no larger
    value is possible.
    """
    if value is not None:
        return value, _avoided(past, covers, value)

    def counted(each: int) -> EstimateRange:
        margin = MARGIN if is_share else 1 if each == most else 1 / MARGIN
        return _avoided(past, covers, each * margin).counts

    advised = [each for each in advised if most is None or each <= most]
    # A larger change avoids at least as many, so the last candidate sets the maximum.
    best = counted(ladder[-1]) if ladder else EstimateRange()
    for each in ladder if best.high else ():
        count = counted(each)
        if count.low >= ENOUGH * best.low if best.low else count.high >= ENOUGH * best.high:
            chosen = _next(advised, each, is_share=is_share)
            return chosen, _avoided(past, covers, chosen)
    return None, AvoidedRebalances()


def _next(advised: Iterable[int], value: int, *, is_share: bool) -> int:
    """Return the smallest advised change that is larger than the change to `value`, or `value` if there is none."""
    if is_share:
        return max((each for each in advised if each < value), default=value)
    return min((each for each in advised if each > value), default=value)


def _advised(past: LookBack, setting: str, read: Callable[[Advice], int | None] = read_ms) -> set[int]:
    """Return the values that findings advise for a setting, about rebalances of the period."""
    advice = (one for _, each in past.counted() for one in each.advice if one.parameter.startswith(setting))
    return {value for each in advice if (value := read(each)) is not None}


def _avoided(past: LookBack, covers: _Covers, value: float) -> AvoidedRebalances:
    """Add up the rebalances in which a value would have covered every member that left or joined."""
    cover_of: dict[tuple[int, str], Cover] = {}
    for absence in past.absences:
        cover = covers(absence, value)
        cover_of[absence.left_in, absence.member.member_id] = cover
        if absence.back_in is not None and absence.new_id is not None:
            cover_of[absence.back_in, absence.new_id] = cover
    tally = AvoidedRebalances()
    for place, each in past.counted():
        cover = _cover(each.rebalance, [cover_of.get((place, name), NOT) for name in _changes(each.rebalance)])
        if cover.possible:
            tally.add(each, cover, _lost_of_others(each))
    return tally


def _changes(rebalance: Rebalance) -> list[str]:
    return [*rebalance.left, *rebalance.joined]


def _cover(rebalance: Rebalance, covers: Sequence[Cover]) -> Cover:
    if not covers or not all(each.possible for each in covers):
        return NOT
    # Nothing is known of members that came and went during the rebalance, or did not fit into its row.
    whole = not rebalance.passing and not rebalance.is_truncated
    return Cover(whole and all(each.certain for each in covers), True)


def _lost_of_others(past: PastRebalance) -> EstimateRange:
    """Return the lost time that would have been avoided: at least that of other members' partitions, at most all."""
    if past.impact is None:
        return EstimateRange()
    changed = {*past.rebalance.left, *past.rebalance.joined}
    members = (*past.rebalance.members_before, *past.rebalance.members_after)
    own = owners_of(member for member in members if member.member_id in changed).keys()
    start_ms = past.rebalance.started_before_ms
    others = sum(length_of(each, start_ms) for each in past.impact.silences if (each.topic, each.partition) not in own)
    return EstimateRange(min(others, past.impact.lost_partition_ms), past.impact.lost_partition_ms)


class _SessionNow(NamedTuple):
    """The current session timeout: of members that lost their session, else the longest of any.

    `known_ms` is null if no record has it; `now_ms` is the default then. `longest_ms` is the longest of any member.
    `most_ms` is the maximum that clients and brokers accept, and `ladder` lists the candidates.
    """

    setting: SessionSetting
    known_ms: int | None
    now_ms: int
    longest_ms: int
    most_ms: int
    ladder: tuple[int, ...]


def _session_now(past: LookBack) -> _SessionNow:
    known_ms = _limit_of_missed(past, DepartureKind.EXPIRED, lambda member: member.session_timeout_ms)
    setting = session_setting(past.type, known_ms)
    now_ms = session_or_usual(known_ms)
    # Only members that left count: the others need no longer session.
    gone = {each.member.member_id: each.member for each in past.in_period()}
    bounds = [] if setting.of_group else [_bound_of(past, each) for each in gone.values()]
    most_ms = min([setting.longest_ms, *(each for each in bounds if each is not None)])
    longest_ms = max((each.session_timeout_ms or 0 for each in past.members()), default=0)
    values = {each for each in (*_SESSIONS_MS, most_ms) if now_ms < each <= min(most_ms, _SESSIONS_MS[-1])}
    return _SessionNow(setting, known_ms, now_ms, longest_ms, most_ms, tuple(sorted(values)))


def _bound_of(past: LookBack, member: Member) -> int | None:
    """Return the longest session timeout that a member's client accepts; null if only the brokers limit it."""
    library, version = library_of(member, past.protocol)
    bound = session_bound(library, parse_version(version), poll_ms=member.rebalance_timeout_ms)
    return None if bound is None else bound.longest_ms


def _library(past: LookBack, absence: Absence) -> tuple[str | None, tuple[int, ...]]:
    library, version = library_of(absence.member, past.rebalances[absence.left_in].rebalance.protocol)
    return library, parse_version(version)


def _limit_of_missed(past: LookBack, kind: DepartureKind, read: Callable[[Member], int | None]) -> int | None:
    """Return the largest limit of the members that exceeded theirs, else of any member; null if not known."""
    missed = [read(each.member) for each in past.in_period() if each.departure is kind]
    known = [each for each in missed if each is not None] or [each for each in map(read, past.members()) if each]
    return max(known, default=None)


def _poll_limit(past: LookBack) -> int | None:
    """Return the largest max.poll.interval.ms of members that exceeded it, else of any member; null if not known."""
    return _limit_of_missed(past, DepartureKind.POLL_LIMIT, poll_limit_of)


def _above(ladder: Sequence[int], current: int | None) -> tuple[int, ...]:
    return tuple(each for each in ladder if current is None or each > current)


def _from(current: int | None, value: int | None) -> str:
    """Return the new time, with the current one, as text."""
    now = "what it is" if current is None else span(current)
    return now if value is None else f"{span(value)} instead of {now}"
