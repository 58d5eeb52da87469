"""Estimates for settings that make rebalances cheaper, or avoid them when a group starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from rebalance_contract import GroupType, Rebalance, RebalanceImpact
from rebalance_contract.api_reports import Avoided, EstimateRange, SettingEstimate
from rebalance_contract.client_settings import (
    COOPERATIVE_ASSIGNOR,
    EAGER_ASSIGNORS,
    OWN_ASSIGNORS,
    has_cooperative,
    library_of,
    parse_version,
    speaks_kip848,
)
from rebalance_exporters.advice.absences import HELD_UP, WAITED_FOR, PastRebalance, when_begun, when_last_joined
from rebalance_exporters.advice.estimates import (
    ENOUGH,
    MARGIN,
    MAYBE,
    NAMED_REBALANCES,
    AvoidedRebalances,
    Cover,
    Setting,
    length_of,
    owners_of,
    write_ms,
)
from rebalance_exporters.advice.look_back import LookBack
from rebalance_exporters.text.figures import plural, span

_INITIAL_DELAYS_MS = tuple(1_000 * each for each in (5, 10, 15, 30))


def estimate_assignor(past: LookBack, _: int | None) -> SettingEstimate:
    """Estimate the cooperative assignor."""

    def helps(each: Rebalance) -> bool:
        eager = each.type == GroupType.CLASSIC and each.protocol in EAGER_ASSIGNORS
        return eager and all(has_cooperative(*library) for library in _libraries(each))

    lost_ms, names = _kept_working(past, helps)
    protocols = {each.rebalance.protocol for _, each in past.counted()} - {None}
    return SettingEstimate(
        setting=Setting.ASSIGNOR,
        current=", ".join(sorted(filter(None, protocols))) or None,
        proposed=COOPERATIVE_ASSIGNOR,
        value=None,
        avoided=Avoided(lost_partition_ms=lost_ms),
        cost="a second, short round of each rebalance that moves partitions; all clients must know it, and two rolling "
        "restarts change over, or a stop of all members where the client cannot mix both, as librdkafka",
        basis="partitions that kept their owner and stood still all the same; at least as long as the rebalance took",
        rebalance_ids=names,
    )


def estimate_protocol(past: LookBack, _: int | None) -> SettingEstimate:
    """Estimate the protocol of KIP-848."""

    def helps(each: Rebalance) -> bool:
        movable = each.type == GroupType.CLASSIC and each.protocol not in OWN_ASSIGNORS
        return movable and all(speaks_kip848(library) for library, _ in _libraries(each))

    lost_ms, names = _kept_working(past, helps)
    # The wait for a member that does not join: without a barrier, the other members do not wait for it.
    waited = [each for _, each in past.counted() if helps(each.rebalance) and each.rule in WAITED_FOR]
    waited_ms = sum(each.rebalance.duration_min_ms or 0 for each in waited)
    return SettingEstimate(
        setting=Setting.PROTOCOL,
        current="classic" if any(helps(each.rebalance) for _, each in past.counted()) else None,
        proposed="consumer (KIP-848)",
        value=None,
        avoided=Avoided(rebalancing_ms=EstimateRange(0, waited_ms), lost_partition_ms=lost_ms),
        cost="needs brokers of 4.0 or newer and clients that know it; assignors of the clients' own are given up",
        basis="as for the assignor, and the time that a group waited for a member that did not join",
        rebalance_ids=tuple(dict.fromkeys((*names, *(each.rebalance.rebalance_id for each in waited))))[
            :NAMED_REBALANCES
        ],
    )


def _libraries(rebalance: Rebalance) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    for member in (*rebalance.members_before, *rebalance.members_after):
        library, version = library_of(member, rebalance.protocol)
        yield library, parse_version(version)


def _kept_working(past: LookBack, helps: Callable[[Rebalance], bool]) -> tuple[EstimateRange, tuple[str, ...]]:
    """Return the lost time of partitions that kept their owner, and the ids of the rebalances with such time."""
    low = high = 0
    names: list[str] = []
    for _, each in past.counted():
        if each.impact is None or not helps(each.rebalance):
            continue
        at_least, at_most = _lost_of_kept(each.rebalance, each.impact, each.rule)
        if at_most:
            names.append(each.rebalance.rebalance_id)
        low, high = low + at_least, high + at_most
    return EstimateRange(low, high), tuple(reversed(names))[:NAMED_REBALANCES]


def _lost_of_kept(rebalance: Rebalance, impact: RebalanceImpact, rule: str | None) -> tuple[int, int]:
    """Return how long partitions that kept their owner stood still: at least and at most, in milliseconds.

    A member of an eager group has no partitions during the rebalance; a longer gap may be a pause of commits. A member
    that held up the others stands still with any assignor: for the lower bound it is taken to be the one with the
    longest gaps.
    """
    before, after = owners_of(rebalance.members_before), owners_of(rebalance.members_after)
    took_ms = rebalance.duration_min_ms or 0
    lengths: dict[str, list[int]] = defaultdict(list)
    for each in impact.silences:
        owner = before.get((each.topic, each.partition))
        if owner is not None and owner == after.get((each.topic, each.partition)):
            lengths[owner].append(length_of(each, rebalance.started_before_ms))
    least = [sum(min(each, took_ms) for each in of_owner) for of_owner in lengths.values()]
    held_up = max(least, default=0) if rule in HELD_UP else 0
    return sum(least) - held_up, sum(map(sum, lengths.values()))


def estimate_initial_delay(past: LookBack, value: int | None) -> SettingEstimate:
    """Estimate a longer wait of the brokers for the first members of a group that starts.

    `value`: in milliseconds; null picks the best.
    """
    arrivals = list(_arrivals_at_start(past))
    starts = sum(_is_start(each.rebalance) for _, each in past.counted())

    def avoided(delay_ms: float) -> AvoidedRebalances:
        tally = AvoidedRebalances()
        lost: set[str] = set()
        for each, start, (low, high) in arrivals:
            # Each arrival restarts the coordinator's wait; the first one that comes too late ends it.
            cover = Cover(high < delay_ms and start not in lost, low < delay_ms and start not in lost)
            if not cover.possible:
                lost.add(start)
                continue
            tally.add(each, cover, EstimateRange(0, 0 if each.impact is None else each.impact.lost_partition_ms))
        return tally

    chosen = value
    if chosen is None:
        best = max((avoided(each / MARGIN).counts.high for each in _INITIAL_DELAYS_MS), default=0)
        enough = (each for each in _INITIAL_DELAYS_MS if avoided(each / MARGIN).counts.high >= ENOUGH * best)
        chosen = next(enough, None) if best else None
    tally = AvoidedRebalances() if chosen is None else avoided(chosen)
    return tally.estimate(
        Setting.INITIAL_DELAY,
        None,
        write_ms(chosen) or "",
        chosen,
        cost=(
            f"set on the brokers, for all groups: each start of a group takes {span(chosen)} at least; "
            f"this one started empty {plural(starts, 'time')}"
        ),
        basis="members that joined a group soon after it had started empty",
    )


def _is_start(rebalance: Rebalance) -> bool:
    return rebalance.type == GroupType.CLASSIC and not rebalance.members_before and bool(rebalance.joined)


def _arrivals_at_start(past: LookBack) -> Iterator[tuple[PastRebalance, str, tuple[int, int]]]:
    """Yield rebalances in which members joined a newly started group, the id of its start, and the time between.

    The time is a range in milliseconds and counts from the previous arrival.
    """
    start, before = "", EstimateRange()
    counted = {place for place, _ in past.counted()}
    back = {(each.back_in, each.new_id) for each in past.absences}
    for place, each in enumerate(past.rebalances):
        rebalance = each.rebalance
        if _is_start(rebalance):
            start, before = rebalance.rebalance_id, when_last_joined(rebalance)
            continue
        came = bool(rebalance.joined) and not rebalance.left and not rebalance.passing
        if not start or not came or any((place, name) in back for name in rebalance.joined):
            start = ""
            continue
        begun = when_begun(rebalance)
        if place in counted:
            yield each, start, (max(0, begun.low - before.high), max(0, begun.high - before.low))
        before = when_last_joined(rebalance)


def estimate_heartbeat(past: LookBack, _: int | None) -> SettingEstimate:
    """Estimate the heartbeat interval that findings advise."""
    tally, proposed, current = AvoidedRebalances(), "", None
    for _place, each in past.counted():
        advice = next((one for one in each.advice if one.parameter == Setting.HEARTBEAT), None)
        if advice is not None:
            proposed, current = advice.proposed, advice.current
            tally.add(each, MAYBE, EstimateRange(0, 0 if each.impact is None else each.impact.lost_partition_ms))
    return tally.estimate(
        Setting.HEARTBEAT,
        current,
        proposed or "a third of the session at most",
        None,
        cost="more heartbeats, which are small",
        basis="rebalances whose cause advises it: a heartbeat that is lost leaves no row",
    )
