"""The proposals of `advise`, for libraries, group types and current settings: none of them is rejected."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from exporters.advice.test_estimator import NOW_MS, rebalance
from rebalance_contract import Advice, GroupType, Member
from rebalance_exporters.advice.absences import PastRebalance
from rebalance_exporters.advice.estimates import Setting
from rebalance_exporters.advice.estimator import avoids_something, estimate
from rebalance_exporters.advice.look_back import look_back
from refusing import CASES, SETTINGS, Client, problems, starts

CAUSES = (None, "process_pause", "poll_overrun", "crash_loop", "rolling_deploy", "stalled_member_join_barrier")
AWAY_S = (1, 8, 25, 100, 400)


def past(of: Client, kind: GroupType, who: Member, *, rule: str | None, way: str, away_s: int) -> list[PastRebalance]:
    """A member is lost in one of many ways, and rejoins; the other continues."""
    other, back = replace(who, member_id="a-1", host="/a"), replace(who, member_id="b-2")
    gone: dict[str, Any] = {
        "expired": [who.member_id] if way == "expired" else None,
        "poll_timeout": [who.member_id] if way == "poll" else [],
    }
    longer = (("session.timeout.ms", "1800000"), ("consumer.session.timeout.ms", "90000"))
    advice = tuple(Advice(name, None, value, "-") for name, value in longer)
    kept: dict[str, Any] = {"type": kind, "protocol": of.protocol, "advice": advice, "rule": rule}
    return [
        rebalance(0, (other, who), (other,), lost={0: 5_000}, **gone, **kept),
        rebalance(away_s, (other,), (other, back), lost={0: 5_000}, **kept),
    ]


@pytest.mark.generated
@pytest.mark.parametrize(("of", "kind"), CASES, ids=[f"{each.client_id}, {kind}" for each, kind in CASES])
def test_nothing_is_proposed_that_is_refused(of: Client, kind: GroupType):
    """For any events, and any advice of findings."""
    reported, wrong = set(), set()
    for (session_ms, poll_ms), rule, way, away_s in product(SETTINGS, CAUSES, ("expired", "poll", "left"), AWAY_S):
        if not starts(of, kind, session_ms, poll_ms):
            continue
        who = Member(
            "b-1",
            of.client_id,
            "/b",
            session_timeout_ms=session_ms if kind == GroupType.CLASSIC else None,
            rebalance_timeout_ms=poll_ms,
            partitions={"t": [0]},
        )
        rebalances = past(of, kind, who, rule=rule, way=way, away_s=away_s)
        for each in estimate(look_back(rebalances, NOW_MS, NOW_MS + 86_400_000)):
            if avoids_something(each):
                reported.add(each.setting)
                advice = Advice(each.setting, each.current, each.proposed, "-")
                wrong |= set(problems(of, kind, who, advice, longer=True))
                if each.setting == Setting.STATIC and "with " in each.proposed:
                    name, _, value = each.proposed.partition("with ")[2].partition(" = ")
                    wrong |= set(problems(of, kind, who, Advice(name, None, value, "-"), longer=True))
    assert not sorted(wrong)
    # The assertion would also hold without proposals.
    assert any(name.endswith("session.timeout.ms") for name in reported)
