"""Members that leave and rejoin repeatedly for an unknown reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detect.member_stays import START_MS, A, Story, judged, lives
from detect.standing_histories import departed
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    member,
    rebalance,
    snapshot,
)
from rebalance_contract import UNDETERMINED
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.rules.patterns import (
    member_flapping,
)
from rebalance_streaming.observed.confidence import HINT
from rebalance_streaming.observed.departures import POLL_TIMEOUT, UNKNOWN


def test_a_member_that_flaps_for_no_known_reason_is_reported_with_what_is_missing():
    """Three returns in a quarter of an hour without an explanation: a hint, with the missing sources."""
    story = lives((0, 200), (210, 400), (410, 600), (610, 700), rule=UNDETERMINED)
    (found,) = judged(member_flapping, story, START_MS + 15 * MINUTE)
    assert (found.rule, found.confidence, found.claims) == ("member_flapping", HINT, True)
    assert found.summary == "b (/host-b) left and came back 3 times; no source says why."
    assert found.missing == ("client metrics of /host-b",)
    assert "heartbeat_starvation" in {each.rule for each in found.alternatives}


@pytest.mark.parametrize(
    "story",
    [
        lives((0, 200), (210, 400), (410, 600), rule=UNDETERMINED),
        lives((0, 200), (800, 1_000), (1_600, 1_800), (2_000, 2_100), rule=UNDETERMINED),
        lives((0, 200), (210, 400), (410, 600), (610, 700), rule="poll_overrun", likely=POLL_TIMEOUT),
        lives((0, 200), (210, 400), (410, 600), (610, 700), rule=UNDETERMINED, others=True),
    ],
    ids=["two returns", "spread out", "explained", "four clients"],
)
def test_what_is_rare_or_explained_does_not_flap(story: Story):
    """Every more specific rule takes precedence over this fallback."""
    assert judged(member_flapping, story, START_MS + 40 * MINUTE) == []


@pytest.mark.parametrize(("rounds", "flaps"), [(1, False), (2, False), (3, True)])
def test_clients_that_share_a_name_and_a_host_flap_when_one_of_them_surely_does(rounds: int, flaps: bool):
    """Three that leave and return together once are a deploy that stops all before it starts any."""
    events, past, here = list[Event](), list[ExplainedDeparture](), [member(f"b-{n}") for n in range(3)]
    for number in range(rounds):
        at_ms = START_MS + number * 2 * MINUTE
        new = [member(f"b-{number}{n}") for n in range(3)]
        events += [rebalance(at_ms, here, []), rebalance(at_ms + MINUTE, [], new, reason="first_join")]
        past += [
            departed(at_ms, old, UNKNOWN, rule=UNDETERMINED, back_as=back, back_ms=at_ms + MINUTE)
            for old, back in zip(here, new, strict=True)
        ]
        here = new
    assert bool(judged(member_flapping, (events, past), START_MS + 10 * MINUTE)) == flaps


def test_a_client_that_is_alone_by_now_flaps_whatever_shared_its_name_before():
    """Hours ago its host had four clients of that name."""
    four = [member(f"b-{number}0") for number in range(4)]
    events, past = lives((0, 200), (210, 400), (410, 600), (610, 700), rule=UNDETERMINED)
    events = [rebalance(T0 - 60 * MINUTE, [A], [A, *four]), rebalance(T0 - 50 * MINUTE, [A, *four], [A]), *events]
    assert judged(member_flapping, (events, past), START_MS + 15 * MINUTE)


@pytest.mark.parametrize(("offset", "others", "flaps"), [(-1, 4, False), (4, 4, True), (9, 4, True)])
def test_a_worker_of_connect_that_is_behind_leaves_to_read_on(offset: int, others: int, flaps: bool):
    """The reason is known; a worker that is not behind may flap like any other member."""
    events, past = lives(
        (0, 200), (210, 400), (410, 600), (610, 700), rule=UNDETERMINED, member={"config_offset": offset}
    )
    leader = snapshot(START_MS + 710 * SECOND, replace(A, config_offset=others))
    found = judged(member_flapping, ([*events, leader], past), START_MS + 15 * MINUTE)
    assert [each.rule for each in found] == (["member_flapping"] if flaps else [])
