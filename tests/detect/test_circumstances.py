"""Code shared by rules about one lost member, and the finding if the causes cannot be separated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.departing import LOST_MS, A, B, gone, losing, said, who
from detect.standing_histories import departed
from histories import MINUTE, SECOND, Event, member, rebalance
from rebalance_contract import UNDETERMINED
from rebalance_streaming.detect.rules.circumstances import is_busy, missing_reports, same_slot, say_lost
from rebalance_streaming.detect.rules.heartbeats import frozen_or_starved, unknown_loss
from rebalance_streaming.detect.rules.losses import LOSS_RULES
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED, UNKNOWN, Departure
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.liveness import GONE


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (gone(replace(B, client_id="kgo"), back_s=2, silence_ms=40_000), ("process_pause", HINT)),
        (gone(replace(B, client_id="kgo"), back_s=10, silence_ms=40_000), ("process_pause", HINT)),
        (gone(replace(B, client_id="kgo"), back_s=13, silence_ms=40_000), ("process_pause", HINT)),
        (gone(replace(B, client_id="kgo"), back_s=14, silence_ms=40_000), (UNDETERMINED, 0.4)),
        (gone(replace(B, client_id="kafka-python-2.3.0"), back_s=2), (UNDETERMINED, 0.4)),
        (gone(back_s=2), (UNDETERMINED, 0.4)),
        (gone(), (UNDETERMINED, 0.4)),
    ],
)
def test_what_came_back_at_once_stood_still_if_it_cannot_starve(of: Departure, expected: tuple[str, float] | None):
    """Three causes remain possible, and the source that would separate them is named.

    It may have been cut off as well, so the finding is a hint.
    """
    found = frozen_or_starved(losing(of), of)
    assert said(found) == expected
    if found is not None and found.rule == UNDETERMINED:
        assert {each.rule for each in found.alternatives} == {"heartbeat_starvation", "process_pause", "member_crash"}
        assert found.missing == ("client metrics of /host-b: reports on time, late or missing would separate these",)
    elif found is not None:
        assert found.advice[0].proposed == "83000"


BACK = gone(replace(B, client_id="kgo", host=A.host), back_s=5, silence_ms=12_000)
AGAIN_MS = LOST_MS + 20 * SECOND


@pytest.mark.parametrize(
    ("of", "events", "after_s", "expected"),
    [
        (BACK, (), 35, PLAUSIBLE),
        (BACK, (), 34, HINT),
        (replace(BACK, member=replace(BACK.member, session_timeout_ms=45_000)), (), 94, HINT),
        (replace(BACK, member=replace(BACK.member, session_timeout_ms=45_000)), (), 95, PLAUSIBLE),
        (replace(BACK, member=replace(BACK.member, host="/alone")), (), 60, HINT),
        (replace(BACK, in_barrier=True), (), 60, HINT),
        (BACK, (rebalance(AGAIN_MS, [A, member("b-2", [2, 3])], [A]),), 60, HINT),
        (replace(BACK, client=make_fingerprint(replace(BACK.member, client_id="rdkafka"))), (), 60, PLAUSIBLE),
        (replace(BACK, silence_ms=298_000, client=make_fingerprint(replace(B, client_id="rdkafka"))), (), 60, HINT),
    ],
    ids=[
        "it stays",
        "not for long yet",
        "nor by its session",
        "for two sessions",
        "nobody else of its host",
        "its ghost was awaited",
        "lost again",
        "far from its poll limit",
        "near to it",
    ],
)
def test_one_alone_that_is_back_to_stay_stood_still(
    of: Departure, events: tuple[Event, ...], after_s: int, expected: float
):
    """Its host was not cut off, as another member went on.

    A crashed process comes back beside its old member, or dies again.
    """
    found = frozen_or_starved(losing(of, events=events, after_s=after_s), of)
    assert said(found) == ("process_pause", expected)
    assert found is not None
    assert ("others of its host went on" in found.summary) == (expected == PLAUSIBLE)


def test_one_that_is_lost_again_and_again_may_as_well_die():
    """The third loss in a row looks like a crash loop, however long the member stayed in between."""
    earlier = [departed(LOST_MS - minute * MINUTE, BACK.member, SESSION_EXPIRED) for minute in (2, 4)]
    assert said(frozen_or_starved(losing(BACK, past=earlier[:1]), BACK)) == ("process_pause", PLAUSIBLE)
    assert said(frozen_or_starved(losing(BACK, past=earlier), BACK)) == ("process_pause", HINT)


def test_a_known_departure_is_not_unknown():
    """The last rule applies only if no class matches."""
    assert dict(LOSS_RULES)[unknown_loss] == (UNKNOWN,)
    unknown = gone(likely=UNKNOWN)
    assert said(unknown_loss(losing(unknown), unknown)) == (UNDETERMINED, 0.4)


@pytest.mark.parametrize(("arriving", "busy"), [(None, False), (0, False), (1, True)])
def test_work_is_what_came_in(arriving: int | None, busy: bool):
    """Unknown is not busy: unobserved work is not assumed."""
    assert is_busy(gone(arriving=arriving)) == busy


def test_a_slot_survives_a_new_id():
    """Earlier departures of the same client on the same host, whatever its member id was."""
    past = [
        departed(LOST_MS - 5 * MINUTE, member("b-0"), SESSION_EXPIRED, rule="member_crash"),
        departed(LOST_MS - 4 * MINUTE, member("b-0", host="/elsewhere"), SESSION_EXPIRED, rule="member_crash"),
        departed(LOST_MS - 3 * MINUTE, member("c-0"), SESSION_EXPIRED, rule="member_crash"),
    ]
    of = gone()
    assert [each.to_ms for each in same_slot(losing(of, past=past), of)] == [LOST_MS - 5 * MINUTE]


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"confidence": PLAUSIBLE}, True),
        ({"confidence": STRONG}, False),
        ({"confidence": HINT, "liveness": GONE}, False),
    ],
)
def test_reports_are_missed_only_where_doubt_is_left(changes: dict[str, Any], missing: bool):
    """If the source exists, or nothing is in doubt, none is requested; otherwise it is named by host."""
    assert bool(missing_reports(gone(**changes))) == missing
    nameless = gone(replace(B, host=""), confidence=HINT)
    assert missing_reports(nameless)[0].startswith("client metrics of the member's host:")


def test_the_verdict_of_a_loss_has_the_evidence_of_how_the_member_left():
    """It is about the member, begins a session before its removal, has the evidence and the missing sources."""
    of = gone(confidence=HINT)
    found = say_lost("undetermined.gone", of)
    assert (found.started_at_ms, who(found), found.evidence) == (of.to_ms - of.session_ms, ["b-1"], of.evidence)
    assert missing_reports(of)[0] in found.missing
    assert say_lost("undetermined.gone", of, LOST_MS, missing=()).started_at_ms == LOST_MS
