"""All advice of all rules, for libraries, group types and current settings: none of it is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from detect.departing import LOST_MS, gone, losing
from detect.standing_histories import departed, moved
from detect.views import view_of
from histories import HOUR, MINUTE, SECOND, T0, Event, history, member, probe, rebalance, report, snapshot
from rebalance_contract import Generation, GroupType, Member
from rebalance_contract.clients import POLL_GAP_MAX
from rebalance_streaming.detect.rules.barrier import explain_barrier, waiting_now
from rebalance_streaming.detect.rules.failover import find_failover
from rebalance_streaming.detect.rules.losses import LOSS_RULES
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.clients import LossReports
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.liveness import PAUSED, UNREACHABLE
from rebalance_streaming.wire.metrics.report import ClientConfig
from refusing import CASES, NAMES, REFUSED_BY_TYPE, SETTINGS, Client, problems, starts

NOW = T0 + 4 * HOUR

#: The reports of a process that was suspended for 80 s.
FROZEN = LossReports(
    **{
        **dict.fromkeys(LossReports.__dataclass_fields__),
        **dict.fromkeys(("witnesses", "undelivered", "late_ms"), 0),
        "interval_ms": 5_000,
        "last_report_ms": LOST_MS - 80_000,
        "stood_still_ms": 80_000,
        "restarted": False,
        "same_process": True,
    }
)


def members_of(of: Client, kind: GroupType, session_ms: int, poll_ms: int, *, static: bool = False) -> list[Member]:
    """Return five members; records of newer types have no session time-out."""
    newer = kind != GroupType.CLASSIC
    return [
        member(
            f"m{i}-1",
            [i],
            client_id=of.client_id,
            session_timeout_ms=None if newer else session_ms,
            rebalance_timeout_ms=poll_ms,
            epoch=3 if newer else None,
            group_instance_id=f"i{i}" if static else None,
        )
        for i in range(5)
    ]


def verdicts(of: Client, kind: GroupType, who: list[Member]) -> Iterator[Verdict]:
    """Yield the verdicts of all rules on a group whose members are lost in many ways, late, restarted and reporting."""
    yield from _of_losses(of, kind, who)
    yield from _of_barriers(of, kind, who)
    yield from _of_conditions(of, kind, who)


def _group(of: Client, kind: GroupType, who: list[Member], at_ms: int = T0) -> Event:
    return snapshot(at_ms, *who, type=kind, protocol=of.protocol, protocol_type=of.protocol_type)


def _of_losses(of: Client, kind: GroupType, who: list[Member]) -> Iterator[Verdict]:
    seen = _group(of, kind, who)
    known = losing(gone(who[1]), events=(seen,))
    known = replace(known, rebalance=replace(known.rebalance, type=kind, protocol=of.protocol))
    ways = product(
        (SESSION_EXPIRED, POLL_TIMEOUT), (None, PAUSED, UNREACHABLE), (None, 2, 60), (8_000, 70_000, 400_000)
    )
    for likely, liveness, back_s, silence_ms in ways:
        lost = gone(who[1], likely, liveness=liveness, back_s=back_s, silence_ms=silence_ms, in_barrier=True)
        fingerprint = make_fingerprint(who[1], assignor=of.protocol)
        lost = replace(lost, client=fingerprint, loss_reports=FROZEN if liveness == PAUSED else None, arriving=5)
        after = replace(known, departures=(lost,))
        for rule, classes in LOSS_RULES:
            found = rule(after, lost) if not classes or likely in classes else None
            if found is not None:
                yield found
    change = rebalance(LOST_MS, who, who[1:], type=kind, protocol=of.protocol)
    after = losing(events=(seen, *moved(LOST_MS)))
    found = find_failover(replace(after, rebalance=change, departures=(gone(who[0]),)))
    if found is not None:
        yield found


def _of_barriers(of: Client, kind: GroupType, who: list[Member]) -> Iterator[Verdict]:
    """Yield verdicts on a barrier that members delayed, in the past and now; groups of the newer types have none."""
    if kind != GroupType.CLASSIC:
        return
    waiting = [probe(LOST_MS + at * SECOND, "PreparingRebalance", who) for at in range(0, 45, 5)]
    generation = Generation(3, "join", join_ended_at_ms=LOST_MS + 42 * SECOND, joined=("n-1",))
    change = rebalance(
        LOST_MS, who, [*who, member("n-1", client_id=of.client_id)], generations=(generation,), protocol=of.protocol
    )
    known = losing(events=(_group(of, kind, who), *waiting))
    for found in (
        explain_barrier(replace(known, rebalance=change)),
        waiting_now(known.history, LOST_MS + 42 * SECOND, 10_000, MINUTE, lag_grows=True),
    ):
        if found is not None:
            yield found


def _of_conditions(of: Client, kind: GroupType, who: list[Member]) -> Iterator[Verdict]:
    """Yield verdicts of all conditions on groups with expired, replaced, hourly restarted and reporting members."""
    session_ms, poll_ms = who[0].session_timeout_ms or 45_000, who[0].rebalance_timeout_ms or 0
    config = ClientConfig(heartbeat_interval_ms=session_ms // 2, max_poll_records=500, request_timeout_ms=30_000)
    reports = [
        report(NOW - at * 5 * SECOND, each, {POLL_GAP_MAX: poll_ms * share}, config=config)
        for each, share in zip(who, (0.5, 0.6, 0.9, 0.9, 0.9), strict=True)
        for at in range(3)
    ]
    for rule, likely, away_ms in (
        ("rolling_deploy", CLEAN, 20_000),
        ("process_pause", SESSION_EXPIRED, session_ms),
        ("static_session_too_short", SESSION_EXPIRED, 2 * session_ms),
        ("static_member_ghost", SESSION_EXPIRED, None),
        ("member_crash", SESSION_EXPIRED, 10_000),
    ):
        every_ms = 30 * SECOND if rule in ("member_crash", "rolling_deploy") else 5 * MINUTE
        events, past = [], []
        for i in range(24):
            at_ms, left = NOW - (24 - i) * every_ms, who[i % len(who)] if rule != "member_crash" else who[0]
            events.append(rebalance(at_ms, who, who, reason="replacement", type=kind, protocol=of.protocol))
            back_ms = None if away_ms is None else at_ms + away_ms
            past.append(departed(at_ms, left, likely, rule=rule, back_ms=back_ms, joined_ms=at_ms - 15 * SECOND))
        known = history(_group(of, kind, who), *events, *reports)
        causes = {each.rebalance_id: rule for each in past}
        view = view_of(known, NOW, past=tuple(past), causes=causes)
        for condition in CONDITIONS:
            yield from condition(view)


@pytest.mark.generated
@pytest.mark.parametrize(("of", "kind"), CASES, ids=[f"{each.client_id}, {kind}" for each, kind in CASES])
def test_no_advice_is_refused(of: Client, kind: GroupType):
    """No setting that the client or group type lacks, no value beyond its limits, no "longer" one that is shorter."""
    rules, wrong = set(), set()
    for (session_ms, poll_ms), static in product(SETTINGS, (False, True)):
        unnamed = NAMES in of.refuses or NAMES in REFUSED_BY_TYPE[kind]
        if not starts(of, kind, session_ms, poll_ms) or (static and unnamed):
            continue
        who = members_of(of, kind, session_ms, poll_ms, static=static)
        for found in verdicts(of, kind, who):
            rules.add(found.rule)
            for advice in found.advice:
                wrong |= {f"{found.rule}: {advice.parameter}: {each}" for each in problems(of, kind, who[0], advice)}
    assert not sorted(wrong)
    # The assertion would also hold without any advice.
    assert len(rules) >= (10 if kind == GroupType.CLASSIC else 6)
