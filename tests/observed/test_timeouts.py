"""The time-out that a silence matches if two ways to leave are possible, by the share of the possible time of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from histories import MINUTE, SECOND, T0, Event, commits, history, lost, member, probe, rebalance
from rebalance_contract import Rebalance
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE
from rebalance_streaming.observed.departed_members import find_departures
from rebalance_streaming.observed.departures import CLEAN, SESSION_EXPIRED, UNKNOWN, Departure

#: The departing member, and one that stays; the loss is seen ten minutes after the beginning.
B = member("b-1", [2, 3])
STAYS = member("a-1", [0, 1])
LOST_MS = T0 + 10 * MINUTE


def moving(from_ms: int, to_ms: int, numbers: Sequence[int], every_ms: int) -> list[Event]:
    """Return commits of changed positions: one offset further each time, as with librdkafka and Sarama."""
    return [commits(at, dict.fromkeys(numbers, at // 100)) for at in range(from_ms, to_ms + 1, every_ms)]


def judged(gone: Rebalance, *events: Event) -> Departure:
    """Return the one departure of a rebalance."""
    (found,) = find_departures(history(*events, gone), gone, {}, LOST_MS + MINUTE)
    return found


def test_a_silence_longer_than_closing_takes_is_seldom_that_of_a_clean_leave():
    """Libraries that commit on a timer commit once more when closed; a clean leave is the second choice."""
    who = replace(B, client_id="kgo", session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    of = lost(LOST_MS, who, [STAYS, who], took_ms=20, started_after_ms=T0)
    last_ms = LOST_MS - 8 * SECOND
    beats = [commits(at, {2: at // 100, 3: at // 100}) for at in (last_ms - 10 * SECOND, last_ms)]
    ends = dict.fromkeys((2, 3), LOST_MS // 100)
    found = judged(of, *beats, *(probe(at, ends=ends) for at in (last_ms, LOST_MS)))
    assert (found.silence_ms, found.classes) == (5_250, (SESSION_EXPIRED, CLEAN))


def test_a_moment_known_to_the_millisecond_decides_as_a_longer_one_does():
    """A newcomer waited for it, so it left when the others were released: silent for longer than its session."""
    who = replace(B, client_id="kgo", session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    of = rebalance(LOST_MS, [STAYS, who], [STAYS, member("n-1", [2, 3])], took_ms=0, started_after_ms=T0)
    found = judged(of, *moving(LOST_MS - 38 * SECOND, LOST_MS - 8 * SECOND, [2, 3], every_ms=15 * SECOND))
    assert found.from_ms == found.latest_ms
    assert found.likely == SESSION_EXPIRED


def test_a_leave_whose_rival_hardly_fits_has_none():
    """Nearly all of the possible time is too early for its session to have expired."""
    who = replace(B, client_id="kgo", session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    of = lost(LOST_MS, who, [STAYS, who], took_ms=20, started_after_ms=T0)
    near = judged(of, *moving(LOST_MS - 36 * SECOND, LOST_MS - 6 * SECOND, [2, 3], every_ms=10 * SECOND))
    assert (near.classes, near.confidence) == ((CLEAN, SESSION_EXPIRED), HINT)
    far = judged(of, *moving(LOST_MS - 35_800, LOST_MS - 5_800, [2, 3], every_ms=10 * SECOND))
    assert (far.classes, far.confidence) == ((CLEAN,), PLAUSIBLE)


def test_a_session_that_can_have_ended_at_the_very_end_only_leaves_a_hidden_limit_open():
    """aiokafka leaves by itself, after a time that its records do not have; any other client was removed."""
    last_ms = LOST_MS - 9_760
    beats = [commits(at, {2: at // 100, 3: at // 100}) for at in (last_ms - 10 * SECOND, last_ms)]
    ends = [probe(at, ends=dict.fromkeys((2, 3), LOST_MS // 100)) for at in (last_ms, LOST_MS)]
    for client_id, likely in (("aiokafka-0.8.1", UNKNOWN), ("kgo", SESSION_EXPIRED)):
        who = replace(B, client_id=client_id)
        of = lost(LOST_MS, who, [STAYS, who], took_ms=20, started_after_ms=T0)
        assert judged(of, *beats, *ends).likely == likely
