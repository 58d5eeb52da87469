"""Offsets that jump or disappear, and records that are processed twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from detect.standing_histories import departed
from detect.views import memory_of, view_of
from histories import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    history,
    member,
    probe,
    rebalance,
    rebalance_id,
    report,
    snapshot,
    take,
)
from rebalance_contract import Severity
from rebalance_streaming.detect.group_view import ConditionRule, GroupView
from rebalance_streaming.detect.rules.duplicates import duplicate_processing
from rebalance_streaming.detect.rules.offsets import offset_rewind, offset_skip, offsets_expired
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, FENCED, REMOVED_BY_ADMIN, UNSYNCED
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.repeated_records import count_repeated

DAY = 24 * HOUR
A, B = member("a-1", [0, 1]), member("b-1", [2, 3])


def working(*, step: int = 100, backlog: int = 0, until: int = 6) -> list[Event]:
    """Two members that commit every 5 s; `backlog` records wait all the time."""
    events: list[Event] = [snapshot(T0 - HOUR, A, B), rebalance(T0 - HOUR, [], [A, B])]
    for turn in range(until):
        at_ms, offset = T0 + turn * 5 * SECOND, 10_000 + turn * step
        events.append(probe(at_ms, ends=dict.fromkeys(range(4), offset + backlog)))
        events.append(commits(at_ms, dict.fromkeys(range(4), offset)))
    return events


def emptied() -> list[Event]:
    return [rebalance(T0 + 30 * SECOND, [A, B], []), snapshot(T0 + 33 * SECOND)]


def jumped(*events: Event, offsets: dict[int, int], after_s: int = 60) -> GroupHistory:
    return history(*events, commits(T0 + after_s * SECOND, offsets))


def verdicts(rule: ConditionRule, known: GroupHistory, after_ms: int = MINUTE, **changes: object) -> list[Verdict]:
    return list(rule(view_of(known, T0 + after_ms, **changes)))


JUMPS = {
    "reset to the beginning": (
        jumped(*working(), *emptied(), offsets=dict.fromkeys(range(4), 0)),
        ("offset_rewind", "administrative_reset", STRONG, Severity.INFO, 4),
    ),
    "reset of one partition to the end": (
        jumped(*working(backlog=9_000), *emptied(), offsets={2: 19_500}),
        ("offset_skip", "administrative_reset", PLAUSIBLE, Severity.TICKET, 1),
    ),
    "seek back": (
        jumped(*working(), offsets={0: 2_000}),
        ("offset_rewind", None, PLAUSIBLE, Severity.TICKET, 1),
    ),
    "stale commit of a former owner": (
        jumped(
            *working(),
            snapshot(T0 + 50 * SECOND, A, B, type="consumer"),
            rebalance(T0 + 50 * SECOND, [A, B], [A, B]),
            offsets={0: 2_000},
        ),
        ("offset_rewind", "stale_commit", PLAUSIBLE, Severity.TICKET, 1),
    ),
    "seek back, of one that had caught up fast": (
        jumped(commits(T0 - 5 * SECOND, dict.fromkeys(range(4), 9_500)), *working(step=20), offsets={0: 9_400}),
        ("offset_rewind", None, PLAUSIBLE, Severity.TICKET, 1),
    ),
    "skip of a backlog": (
        jumped(*working(backlog=90_000), offsets={0: 100_500}),
        ("offset_skip", None, PLAUSIBLE, Severity.PAGE, 1),
    ),
}


@pytest.mark.parametrize("story", JUMPS)
def test_a_jump_is_reported_with_what_did_it(story):
    """Whether the group had members shows who can have moved it; it is a page only for lost records."""
    known, expected = JUMPS[story]
    (found,) = [*verdicts(offset_rewind, known), *verdicts(offset_skip, known)]
    assert (found.rule, found.variant, found.confidence, found.severity, len(found.subject.partitions)) == expected


def deleted(*events: Event, offsets: dict[int, int]) -> GroupHistory:
    """Delete the offsets of a stopped group, let 400 records arrive, start it again, and let it commit."""
    gone = commits(T0 + 40 * SECOND, dict.fromkeys(range(4), None))
    back_ms = T0 + 60 * SECOND
    return history(
        *events,
        *emptied(),
        gone,
        probe(T0 + 55 * SECOND, ends=dict.fromkeys(range(4), 10_900)),
        rebalance(back_ms, [], [A, B]),
        snapshot(back_ms, A, B),
        commits(back_ms + 10 * SECOND, offsets),
    )


@pytest.mark.parametrize(
    ("offsets", "rule", "records"),
    [
        (dict.fromkeys(range(4), 10_950), "offset_skip", 4 * 400),
        (dict.fromkeys(range(4), 20), "offset_rewind", 4 * (10_500 - 20)),
        ({0: 10_500}, None, 0),
    ],
    ids=["from the end", "from the beginning", "where it was"],
)
def test_it_is_reported_where_a_group_begins_whose_offsets_were_deleted(
    offsets: dict[int, int], rule: str | None, records: int
):
    """The records between the deleted offset and the end at the group's return, however few, were not consumed."""
    known = deleted(*working(), offsets=offsets)
    found = [*verdicts(offset_rewind, known, 2 * MINUTE), *verdicts(offset_skip, known, 2 * MINUTE)]
    assert [(each.rule, each.variant) for each in found] == ([(rule, "after_expiry")] if rule else [])
    assert not found or f"by {records:,}".replace(",", "") in found[0].summary.replace(",", "")


def returned(*events: Event, start: int, offsets: dict[int, int]) -> GroupHistory:
    """Stop a group, let records be deleted up to an offset, start it again, and let it commit."""
    back_ms = T0 + 60 * SECOND
    return history(
        *events,
        *emptied(),
        probe(T0 + 55 * SECOND, ends=dict.fromkeys(range(4), 11_900), starts=dict.fromkeys(range(4), start)),
        rebalance(back_ms, [], [A, B]),
        snapshot(back_ms, A, B),
        commits(back_ms + 10 * SECOND, offsets),
    )


@pytest.mark.parametrize(
    ("start", "records"),
    [(11_700, 4 * (11_700 - 10_500)), (10_600, 4 * 100), (10_500, 0), (0, 0)],
    ids=["most of what waited", "some of it", "only what was read", "nothing"],
)
def test_what_was_deleted_before_a_group_came_back_is_lost_to_it(start: int, records: int):
    """The finding counts these records, however few, and names retention or manual deletion as the cause."""
    known = returned(*working(), start=start, offsets=dict.fromkeys(range(4), 11_800))
    found = [*verdicts(offset_rewind, known, 2 * MINUTE), *verdicts(offset_skip, known, 2 * MINUTE)]
    expected = [("offset_skip", "retention", STRONG, Severity.PAGE)] if records else []
    assert [(each.rule, each.variant, each.confidence, each.severity) for each in found] == expected
    assert not found or f"by {records} records" in found[0].summary.replace(",", "")


def test_a_reset_by_hand_leaves_out_all_that_it_passes():
    """Even if some of them had been deleted: the group had no members when its offset moved."""
    starts = probe(T0 + 55 * SECOND, starts=dict.fromkeys(range(4), 10_600))
    known = jumped(*working(), *emptied(), starts, offsets=dict.fromkeys(range(4), 13_500))
    (found,) = verdicts(offset_skip, known, 2 * MINUTE)
    assert (found.variant, "by 12000 records" in found.summary.replace(",", "")) == ("administrative_reset", True)


def test_what_a_member_may_have_read_before_it_was_deleted_is_not_lost():
    """The member never left and commits rarely: retention may delete records it has read between two commits."""
    known = history(
        *working(),
        probe(T0 + 55 * SECOND, starts=dict.fromkeys(range(4), 10_550)),
        commits(T0 + 60 * SECOND, dict.fromkeys(range(4), 10_600)),
    )
    assert [*verdicts(offset_rewind, known, 2 * MINUTE), *verdicts(offset_skip, known, 2 * MINUTE)] == []


QUIET = {
    "working": history(*working()),
    "a burst is consumed": jumped(*working(), offsets=dict.fromkeys(range(4), 90_000)),
    "a backlog is caught up after a standstill": jumped(*working(step=0, backlog=90_000), offsets={0: 100_000}),
    "a batch again after a rebalance": jumped(*working(), offsets={0: 9_800}),
    "the topic was recreated": jumped(
        *working(), probe(T0 + 50 * SECOND, ends=dict.fromkeys(range(4), 7)), offsets={0: 5}
    ),
}


@pytest.mark.parametrize("story", QUIET)
def test_ordinary_progress_is_no_jump(story):
    """Catching up is fast, and a rebalance repeats a batch; neither is reported."""
    assert [*verdicts(offset_rewind, QUIET[story]), *verdicts(offset_skip, QUIET[story])] == []


@pytest.mark.parametrize(("offset", "expected"), [(2_000, 1), (9_800, 0)])
def test_what_was_judged_once_stays_so(offset, expected):
    """Earlier commits are soon forgotten: the answer stays the same, and ends after ten minutes."""
    known = jumped(*working(), offsets={0: offset})
    assert len(verdicts(offset_rewind, known)) == expected
    for turn in range(20):
        take(known, commits(T0 + MINUTE + (turn + 1) * 5 * SECOND, dict.fromkeys(range(4), 20_000 + turn)))
    assert len(verdicts(offset_rewind, known, 3 * MINUTE)) == expected
    assert verdicts(offset_rewind, known, 12 * MINUTE) == []
    assert memory_of(known).jumps == {}


def test_a_jump_after_a_long_absence_is_an_expiry():
    """The members return after more than the retention, and begin at the position of auto.offset.reset."""
    back = T0 + 8 * DAY
    known = history(*working(), *emptied(), rebalance(back, [], [A, B]), snapshot(back, A, B))
    take(known, commits(back + 30 * SECOND, dict.fromkeys(range(4), 0)))
    (found,) = verdicts(offset_rewind, known, 8 * DAY + MINUTE)
    assert found.variant == "after_expiry"
    later = history(*working(), *emptied(), rebalance(T0 + 2 * MINUTE, [], [A, B]), snapshot(T0 + 2 * MINUTE, A, B))
    take(later, commits(back, dict.fromkeys(range(4), 0)))
    (found,) = verdicts(offset_rewind, later, 8 * DAY + MINUTE)
    assert found.variant is None


# --- offsets_expired ---


def test_expiry_is_announced_and_then_reported():
    """A warning from four fifths of the retention on; at the tombstones, the consequence for the next start."""
    known = history(*working(), *emptied())
    assert verdicts(offsets_expired, known, 5 * DAY) == []
    (warning,) = verdicts(offsets_expired, known, 6 * DAY)
    assert (warning.variant, warning.severity) == ("expires_soon", Severity.TICKET)
    assert "24 h" in warning.summary
    take(known, commits(T0 + 7 * DAY + MINUTE, dict.fromkeys(range(4), None)))
    (found,) = verdicts(offsets_expired, known, 7 * DAY + HOUR)
    assert (found.variant, found.confidence, found.severity) == (None, CERTAIN, Severity.TICKET)
    take(known, commits(T0 + 7 * DAY + 2 * HOUR, dict.fromkeys(range(4), 0)))
    assert verdicts(offsets_expired, known, 7 * DAY + 3 * HOUR) == []


def test_a_retention_that_is_longer_shows():
    """If offsets outlive the known retention, they are not about to expire."""
    assert verdicts(offsets_expired, history(*working(), *emptied()), 9 * DAY) == []


def test_simple_groups_age_from_their_last_commit():
    """They have no members whose departure could start the clock."""
    known = history(snapshot(T0, type="simple"), commits(T0, {0: 5, 1: 5}))
    assert [each.variant for each in verdicts(offsets_expired, known, 6 * DAY)] == ["expires_soon"]
    assert verdicts(offsets_expired, known, HOUR) == []


def test_topics_no_longer_subscribed_expire_in_a_running_group():
    """Informational: the group does not read them any more."""
    old = commits(T0 + MINUTE, {0: 5, 1: 5}, topic="legacy")
    gone = commits(T0 + 8 * DAY, {0: None, 1: None}, topic="legacy")
    (found,) = verdicts(offsets_expired, history(*working(), old, gone), 8 * DAY + HOUR)
    assert (found.variant, found.severity, found.subject.partitions) == (
        "unsubscribed",
        Severity.INFO,
        ("legacy-0", "legacy-1"),
    )


@pytest.mark.parametrize(
    "known",
    [
        history(*working(), *emptied(), commits(T0 + DAY, dict.fromkeys(range(4), None))),
        history(*working(), commits(T0 + MINUTE, {0: 5}, topic="x"), commits(T0 + DAY, {0: None}, topic="x")),
        history(
            *working(), *emptied(), commits(T0 + MINUTE, {0: 5}, topic="x"), commits(T0 + DAY, {0: None}, topic="x")
        ),
        history(*working(), commits(T0 + DAY, dict.fromkeys(range(4), None))),
    ],
    ids=["the group was deleted", "a topic was deleted", "a topic of an empty group", "a subscribed topic"],
)
def test_deletions_soon_after_use_are_no_expiry(known):
    """They were deleted by somebody, or with the topic."""
    assert verdicts(offsets_expired, known, DAY + HOUR) == []


# --- Duplicates ---

AT = T0 + 30 * SECOND
GONE = rebalance(AT, [A, B], [B], took_ms=5_000)
LOST = {"orders": [0, 1]}


def test_librdkafka_reports_it_exactly():
    """Records delivered to the application beyond the last commit were processed, and will be again."""
    points = {"app_offset": 10_730.0}
    reports = [
        report(AT - SECOND, A, points=tuple(_point(name, value, p) for name, value in points.items() for p in (0, 1)))
    ]
    known = history(*working(backlog=5_000), *reports, GONE, snapshot(AT + 5 * SECOND, B))
    assert count_repeated(known, GONE, LOST) == (2 * 230, "application_offsets")
    back = history(*working(backlog=5_000), *reports, GONE, snapshot(AT + 5 * SECOND, member("a-2", [0, 1]), B))
    assert count_repeated(back, GONE, LOST) == (200, "rate")


def _point(name: str, value: float, partition: int):
    made = report(AT, A, {name: value}).points[0]
    return made.__class__(name, value, {"topic": "orders", "partition": str(partition)})


def test_totals_count_what_was_consumed_beyond_what_was_produced():
    """Between two moments without lag; not if some client does not report."""
    total = "fetch_manager_records_consumed_total"
    quiet = [*working(step=0, until=5)]
    reports = [report(AT - SECOND, each, {total: 400.0}) for each in (A, B)]
    later = [probe(AT + 60 * SECOND, ends=dict.fromkeys(range(4), 10_050))]
    later += [commits(AT + 61 * SECOND, dict.fromkeys(range(4), 10_050))]
    end = [report(AT + 65 * SECOND, A, {total: 470.0}), report(AT + 65 * SECOND, B, {total: 600.0})]
    assert count_repeated(history(*quiet, *reports, GONE, *later, *end), GONE, LOST) == (70, "totals")
    assert count_repeated(history(*quiet, *reports, GONE, *later, *end[:1]), GONE, LOST) == (0, "rate")


def test_the_pace_until_the_loss_gives_an_estimate():
    """Twenty records a second, five seconds after the last commit; never more than the waiting records."""
    assert count_repeated(history(*working(backlog=5_000), GONE), GONE, LOST) == (200, "rate")
    assert count_repeated(history(*working(backlog=30), GONE), GONE, LOST) == (60, "rate")
    assert count_repeated(history(*working(), GONE), GONE, LOST) == (0, "rate")


def test_rewinds_are_a_lower_bound_and_nothing_is_no_number():
    """Without end offsets only commits that went back are certain; without any input the number is unknown."""
    committing = [each for each in working() if not hasattr(each, "end_offsets")]
    assert count_repeated(history(*committing, GONE), GONE, LOST) is None
    known = history(*committing, GONE, commits(AT + 10 * SECOND, {0: 10_300}))
    assert count_repeated(known, GONE, LOST) == (200, "rewinds")
    assert count_repeated(known, GONE, {}) is None


def losing(departures: Sequence[object], *, backlog: int = 5_000, now_ms: int = AT + 25 * SECOND) -> GroupView:
    known = history(*working(backlog=backlog), GONE)
    return view_of(known, now_ms, past=tuple(departures), causes={rebalance_id(AT): "poll_overrun"})


def test_duplicates_above_a_thousandth_are_reported_with_their_cause():
    """The count is kept after the commits it is based on are forgotten."""
    here = losing([departed(AT, A)])
    (found,) = duplicate_processing(here)
    assert (found.rule, found.confidence, found.rebalance_ids) == (
        "duplicate_processing",
        PLAUSIBLE,
        (rebalance_id(AT),),
    )
    assert "200 records" in found.summary
    assert found.evidence[1].rule == "poll_overrun"
    for turn in range(20):
        take(here.history, commits(AT + (turn + 6) * 5 * SECOND, dict.fromkeys(range(4), 20_000 + turn)))
    (later,) = duplicate_processing(view_of(here.history, AT + 5 * MINUTE, past=here.past, causes=here.causes))
    assert later.rebalance_ids == found.rebalance_ids


def test_duplicates_are_over_when_there_were_none_for_a_while():
    """A cured group is quiet for as long after its last duplicates as after any recurring event."""
    here = losing([departed(AT, A)])
    assert list(duplicate_processing(here))
    ended = here.history.rebalances[rebalance_id(AT)].completed_at_ms
    for passed_ms, stands in ((9 * MINUTE, True), (11 * MINUTE, False)):
        later = view_of(here.history, ended + passed_ms, past=here.past, causes=here.causes)
        assert bool(list(duplicate_processing(later))) is stands


@pytest.mark.parametrize("likely", [FENCED, UNSYNCED, REMOVED_BY_ADMIN])
def test_who_is_removed_by_others_repeats_records_too(likely: str):
    """The member did not leave by itself, and so did not commit first."""
    assert [each.rule for each in duplicate_processing(losing([departed(AT, A, likely)]))] == ["duplicate_processing"]


@pytest.mark.parametrize(
    "here",
    [
        losing([departed(AT, A, CLEAN)]),
        losing([departed(AT, A)], backlog=0),
        losing([departed(AT, A)], now_ms=AT + 3 * MINUTE),
        losing([]),
    ],
    ids=["left in order", "nothing waited", "too late to count", "nobody lost"],
)
def test_without_lost_work_there_are_no_duplicates(here):
    """Members that commit before they leave repeat nothing."""
    assert list(duplicate_processing(here)) == []


def test_few_duplicates_of_many_records_are_not_worth_a_word():
    """Below a thousandth of the records that arrived meanwhile."""
    here = losing([departed(AT, A)])
    strict = view_of(here.history, here.now_ms, past=here.past, thresholds=Thresholds(duplicates_share=0.2))
    assert list(duplicate_processing(strict)) == []


def test_a_quiet_group_has_none_of_it():
    """No rule of the module reports anything for a healthy group."""
    assert [verdict for rule in CONDITIONS for verdict in rule(view_of(history(*working()), T0 + MINUTE))] == []
