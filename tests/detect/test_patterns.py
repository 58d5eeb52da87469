"""Common causes of several rebalances of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from detect.member_stays import START_MS, A, Story, judged, lives, who
from detect.standing_histories import departed
from detect.views import view_of
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    history,
    joined,
    lost,
    member,
    probe,
    rebalance,
    report,
    snapshot,
)
from rebalance_contract import UNDETERMINED, GroupType, Rebalance, Severity
from rebalance_streaming.detect.group_view import GroupView
from rebalance_streaming.detect.rules.patterns import (
    crash_loop,
    member_flapping,
    rebalance_storm,
    rolling_deploy,
    short_lived_consumers,
)
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN
from rebalance_streaming.observed.liveness import ALIVE, GONE

# --- Crash loops ---

DYING = ((0, 30), (60, 90), (130, 160))


def test_an_instance_that_dies_again_and_again_is_in_a_loop():
    """Three short lives within ten minutes: named, with their number and length, and claiming their rebalances."""
    events, past = lives(*DYING, liveness=GONE)
    (found,) = judged(crash_loop, (events, past), START_MS + 5 * MINUTE)
    assert (found.rule, found.confidence, found.claims) == ("crash_loop", STRONG, True)
    assert who(found) == ["b-3"]
    assert "joined and died 3 times in 130 s, each time after about 30.0 s" in found.summary
    assert found.started_at_ms == START_MS + 30 * SECOND
    assert set(found.rebalance_ids) == {each.rebalance_id for each in events if isinstance(each, Rebalance)}


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({"liveness": GONE, "sure": HINT}, STRONG),
        ({"rule": "ungraceful_shutdown"}, STRONG),
        ({"member": {"client_id": "kgo"}, "sure": HINT}, HINT),
        ({"sure": HINT}, HINT),
    ],
    ids=["reports ended", "beside their ghosts", "cannot starve", "unknown client"],
)
def test_who_is_cut_off_comes_and_goes_like_a_dying_one(changes: dict[str, Any], confidence: float):
    """Reports, or a successor beside the old member, separate the two; a library that cannot be starved does not."""
    (found,) = judged(crash_loop, lives(*DYING, **changes), START_MS + 5 * MINUTE)
    assert found.confidence == confidence


def test_a_loop_in_which_others_die_too_is_a_hint():
    """Another client is lost twice meanwhile: a shared cause, such as a record, may have ended both."""
    events, past = lives(*DYING, liveness=GONE)
    (alone,) = judged(crash_loop, (events, past), START_MS + 5 * MINUTE)
    times = (START_MS + at * SECOND for at in (40, 100))
    others = [departed(at, member("c-1", [3]), SESSION_EXPIRED, rule="member_crash") for at in times]
    story = events, sorted([*past, *others], key=lambda each: each.left_ms)
    (found,) = judged(crash_loop, story, START_MS + 5 * MINUTE)
    assert (alone.confidence, found.confidence) == (STRONG, HINT)


def test_a_client_that_died_once_died_each_time():
    """One death beside an old member is certain; the other unexplained session expiries were deaths, too."""
    events, past = lives(*DYING, rule="undetermined", sure=HINT)
    assert judged(crash_loop, (events, past), START_MS + 5 * MINUTE) == []
    once = [replace(past[0], rule="ungraceful_shutdown", confidence=PLAUSIBLE), *past[1:]]
    (found,) = judged(crash_loop, (events, once), START_MS + 5 * MINUTE)
    assert found.confidence == PLAUSIBLE


@pytest.mark.parametrize(
    "story",
    [
        lives(*DYING[:2]),
        lives((0, 30), (400, 430), (800, 830)),
        lives((0, 130), (140, 270), (280, 410)),
        lives(*DYING, likely=POLL_TIMEOUT, rule="poll_overrun"),
        lives(*DYING, rule="heartbeat_starvation"),
        lives(*DYING, others=True),
        lives(*DYING, likely=CLEAN, rule="rolling_deploy"),
    ],
    ids=["twice", "spread out", "long lives", "overruns", "starved", "three clients", "in order"],
)
def test_other_series_are_no_crash_loop(story: Story):
    """Too few, too far apart, too long, with another cause, or of several clients."""
    assert judged(crash_loop, story, START_MS + 15 * MINUTE) == []


def test_a_growing_pause_between_orderly_exits_is_a_supervisors():
    """10, 20, 40 s: the back-off of Kubernetes for a process that closes its consumer and exits."""
    story = lives((0, 20), (30, 50), (70, 90), (130, 150), likely=CLEAN, rule="rolling_deploy")
    (found,) = judged(crash_loop, story, START_MS + 5 * MINUTE)
    assert (found.confidence, who(found)) == (PLAUSIBLE, ["b-4"])
    steady = lives((0, 20), (30, 50), (60, 80), (90, 110), likely=CLEAN, rule="rolling_deploy")
    assert judged(crash_loop, steady, START_MS + 5 * MINUTE) == []


def in_vain(*, starts: bool = True, works: bool = False, waiting: bool = True) -> Story:
    """Let a client that an error ends leave cleanly three times; its processes report when each started."""
    story, past = lives((0, 20), (30, 50), (60, 80), likely=CLEAN, rule="rolling_deploy")
    events: list[Event] = [*story, probe(START_MS - SECOND, ends={2: 90 if waiting else 42})]
    events.append(commits(START_MS - MINUTE, {2: 42}))
    begun = (-5, 25, 55, 85) if starts else (-5, -5, -5, -5)
    for number, (at_s, began_s) in enumerate(zip((0, 30, 60, 90), begun, strict=True), 1):
        who, at_ms = member(f"b-{number}", [2]), START_MS + at_s * SECOND
        events.append(report(at_ms, who, process_start_ms=START_MS + began_s * SECOND, pid=number))
        if works:
            events.append(commits(at_ms + 5 * SECOND, {2: 42 + number}))
    return events, past


def test_processes_that_an_error_ends_may_say_good_bye():
    """Each leaves cleanly, without progress on waiting records, and another process starts: it counts as dying."""
    (found,) = judged(crash_loop, in_vain(), START_MS + 5 * MINUTE)
    assert (found.rule, found.confidence, who(found)) == ("crash_loop", STRONG, ["b-3"])


@pytest.mark.parametrize("changes", [{"starts": False}, {"works": True}, {"waiting": False}])
def test_who_leaves_in_order_and_did_its_work_does_not_die(changes: dict[str, bool]):
    """One process recreates its consumer, each run makes progress, or no records wait."""
    assert judged(crash_loop, in_vain(**changes), START_MS + 5 * MINUTE) == []


def test_a_process_that_dies_before_its_first_report_is_recognised_by_the_next():
    """Lives without reports ended in deaths if reports show that another process started after them."""
    story, past = lives(*DYING)
    began = [
        report(START_MS + at * SECOND, member("b-9"), process_start_ms=START_MS + at * SECOND, pid=at)
        for at in (55, 125, 170)
    ]
    (found,) = judged(crash_loop, ([*story, *began], past), START_MS + 5 * MINUTE)
    assert found.confidence == STRONG


# --- Consumers per job ---


def jobs(count: int, *, length_s: int = 20, every_s: int = 300, likely: str = CLEAN) -> Story:
    stays = [(number * every_s, number * every_s + length_s) for number in range(count)]
    return lives(*stays, likely=likely, rule="scale_in", others=True)


def test_a_consumer_per_job_shakes_the_group():
    """Six short lives in an hour, each with a clean leave: one finding for all of them."""
    events, past = jobs(6)
    (found,) = judged(short_lived_consumers, (events, past), START_MS + 30 * MINUTE)
    assert (found.rule, found.confidence, found.claims) == ("short_lived_consumers", STRONG, True)
    assert found.summary == "6 consumers joined for about 20.0 s each and left in order."
    assert {each.rebalance_id for each in events if isinstance(each, Rebalance)} == set(found.rebalance_ids)
    assert len(found.rebalance_ids) == 12
    assert {each.parameter for each in found.advice} == {"code", "group.id"}


@pytest.mark.parametrize(
    "story",
    [
        jobs(5),
        jobs(6, length_s=130),
        jobs(6, every_s=800),
        jobs(6, likely=SESSION_EXPIRED),
        jobs(6, likely=UNKNOWN),
    ],
    ids=["five", "long lives", "over more than an hour", "killed", "nobody knows how they left"],
)
def test_other_visitors_are_no_short_lived_consumers(story: Story):
    """Fewer, longer, rarer, or not known to have left cleanly."""
    assert judged(short_lived_consumers, story, START_MS + 80 * MINUTE) == []


def test_a_group_that_loses_others_as_well_has_another_trouble():
    """More than a third of the departures are of another kind, so they are not only from jobs."""
    events, past = jobs(6)
    more, lost_others = lives((5, 400), (405, 800), (805, 1_200), name="x", rule="member_crash", others=True)
    everything = (events + more, sorted([*past, *lost_others], key=lambda each: each.left_ms))
    assert judged(short_lived_consumers, everything, START_MS + 30 * MINUTE) == []
    one = (events + more[:2], sorted([*past, *lost_others[:1]], key=lambda each: each.left_ms))
    assert [each.rule for each in judged(short_lived_consumers, one, START_MS + 30 * MINUTE)] == [
        "short_lived_consumers"
    ]


# --- Deploys ---


def deploy(
    count: int, *, likely: Sequence[str] = (), every_s: int = 60, skip_return: int = 0, topics: tuple[str, ...] = ()
) -> Story:
    """Replace instances one after the other; each is back under a new id after twenty seconds."""
    names = [f"m{number}" for number in range(count)]
    alive = {name: member(f"{name}-1", [number]) for number, name in enumerate(names)}
    events, past = [], []
    for number, name in enumerate(names):
        at, old = START_MS + number * every_s * SECOND, alive.pop(name)
        kind = likely[number] if likely else CLEAN
        rule = {CLEAN: "rolling_deploy", SESSION_EXPIRED: "member_crash", POLL_TIMEOUT: "poll_overrun"}[kind]
        events.append(lost(at, old, [old, *alive.values()]))
        past.append(departed(at, old, kind, rule=rule))
        if number < count - skip_return:
            new = replace(old, member_id=f"{name}-2", topics=topics or old.topics)
            events.append(joined(at + 20_000, new, list(alive.values())))
            alive[name] = new
    return events, past


def test_every_instance_replaced_once_is_a_deploy():
    """Each left cleanly and returned: strong, claiming all its rebalances, with their number."""
    events, past = deploy(4)
    (found,) = judged(rolling_deploy, (events, past), START_MS + 10 * MINUTE)
    assert (found.rule, found.confidence, found.claims) == ("rolling_deploy", STRONG, True)
    assert found.summary == "4 of 4 instances were replaced once each within 180 s; that took 8 rebalances."
    assert set(found.rebalance_ids) == {each.rebalance_id for each in events if isinstance(each, Rebalance)}
    assert who(found) == ["m0-1", "m1-1", "m2-1", "m3-1"]
    assert [each.parameter for each in found.advice] == ["group.instance.id"]


@pytest.mark.parametrize(
    ("story", "confidence"),
    [
        (deploy(3), STRONG),
        (deploy(4, skip_return=1), STRONG),
        (deploy(4, likely=[CLEAN, CLEAN, CLEAN, SESSION_EXPIRED]), PLAUSIBLE),
        (deploy(4, likely=[CLEAN, CLEAN, SESSION_EXPIRED, SESSION_EXPIRED]), PLAUSIBLE),
        (deploy(4, likely=[CLEAN, SESSION_EXPIRED, SESSION_EXPIRED, SESSION_EXPIRED]), None),
        (deploy(4, likely=[CLEAN, CLEAN, CLEAN, POLL_TIMEOUT]), None),
        (deploy(4, every_s=301), None),
        (deploy(4, skip_return=2), None),
        (deploy(2, skip_return=1), None),
        (deploy(4, topics=("other",)), None),
        (deploy(1), None),
    ],
    ids=[
        "three",
        "the last is on its way",
        "one killed",
        "half killed",
        "most killed",
        "one overran",
        "too slow",
        "two did not return",
        "one of two did not return",
        "another program",
        "one",
    ],
)
def test_how_sure_a_deploy_is(story: Story, confidence: float | None):
    """By the share that left cleanly and returned; the most common other cause is reported by name."""
    found = judged(rolling_deploy, story, START_MS + 30 * MINUTE)
    assert [each.confidence for each in found if each.rule == "rolling_deploy"] == (
        [] if confidence is None else [confidence]
    )


def workers(
    count: int = 3,
    *,
    away_s: int = 20,
    likely: Sequence[str] = (),
    liveness: str | None = None,
    last_is_back: bool = True,
) -> Story:
    """Replace instances without a class of departure, one a minute; each is back after a while."""
    events, past = deploy(count)
    kinds = likely or [UNKNOWN] * count
    unknown = []
    for each, kind in zip(past, kinds, strict=True):
        back_ms = each.left_ms + away_s * SECOND if last_is_back or each is not past[-1] else None
        found = replace(each.departure, classes=(kind,), back_ms=back_ms, liveness=liveness)
        unknown.append(replace(each, rule=UNDETERMINED, departure=found))
    return events, unknown


@pytest.mark.parametrize(
    ("story", "confidence"),
    [
        (workers(), PLAUSIBLE),
        (workers(likely=[CLEAN, UNKNOWN, UNKNOWN]), PLAUSIBLE),
        (workers(2), HINT),
        (workers(away_s=70), HINT),
        (workers(away_s=3), HINT),
        (workers(last_is_back=False), HINT),
        (workers(liveness=ALIVE), HINT),
        (workers(likely=[UNKNOWN, UNKNOWN, SESSION_EXPIRED]), HINT),
    ],
    ids=["in turn", "one in order", "two", "at once", "behind its ghost", "one is away", "they lived", "one expired"],
)
def test_who_goes_through_a_whole_group_in_turn_is_a_hand(story: Story, confidence: float):
    """Kafka Connect workers commit nothing in their group: how they left is unknown, but the order shows a deploy."""
    (found,) = judged(rolling_deploy, story, START_MS + 10 * MINUTE)
    assert (found.rule, found.confidence) == ("rolling_deploy", confidence)


def test_a_group_without_barriers_is_replaced_in_turn_within_one_rebalance():
    """A share group continues at once: the only sign is that an instance joined after its predecessor was gone."""
    events, past = workers(away_s=3)
    shared = [replace(each, type=GroupType.SHARE) if isinstance(each, Rebalance) else each for each in events]
    (found,) = judged(rolling_deploy, (shared, past), START_MS + 10 * MINUTE)
    assert (found.rule, found.confidence) == ("rolling_deploy", PLAUSIBLE)


@pytest.mark.parametrize(
    ("likely", "expected"),
    [
        ([SESSION_EXPIRED] * 4, PLAUSIBLE),
        ([CLEAN, SESSION_EXPIRED, SESSION_EXPIRED, SESSION_EXPIRED], PLAUSIBLE),
        ([CLEAN, CLEAN, SESSION_EXPIRED, SESSION_EXPIRED], None),
    ],
)
@pytest.mark.parametrize("sure", [True, False])
def test_instances_that_die_in_turn_are_stopped_without_being_closed(
    likely: list[str], expected: float | None, sure: bool
):
    """Each died and returned, one after the other: a deploy that kills, if the deaths are more than hints."""
    events, past = deploy(4, likely=likely)
    known = [
        replace(each, rule="member_crash", confidence=PLAUSIBLE if sure else HINT)
        if each.departure.likely == SESSION_EXPIRED
        else each
        for each in past
    ]
    found = judged(rolling_deploy, (events, known), START_MS + 10 * MINUTE)
    assert [each.confidence for each in found if each.rule == "ungraceful_shutdown"] == (
        [expected] if expected and sure else []
    )


def test_small_groups_gain_little_by_static_membership():
    """It is advised from four instances on."""
    (found,) = judged(rolling_deploy, deploy(3), START_MS + 10 * MINUTE)
    assert found.advice == ()


def test_an_instance_that_goes_twice_is_no_deploy():
    """The same slot left twice, and never two of it at a time."""
    events, past = deploy(3)
    again = member("m0-2", [0])
    events.append(lost(START_MS + 200 * SECOND, again, [again, member("m1-2", [1]), member("m2-2", [2])]))
    events.append(joined(START_MS + 220 * SECOND, member("m0-3", [0]), [member("m1-2", [1]), member("m2-2", [2])]))
    past.append(departed(START_MS + 200 * SECOND, again, CLEAN, rule="rolling_deploy"))
    assert judged(rolling_deploy, (events, past), START_MS + 10 * MINUTE) == []


# --- Storms ---

NOW = START_MS + 10 * MINUTE


def stormy(*causes: str | None, took_s: int = 5, every_s: int = 60, events: Sequence[Event] = ()) -> GroupView:
    """Let a group rebalance once a minute, each with a cause; null: not judged yet."""
    made = [rebalance(NOW - (n + 1) * every_s * SECOND, [A], [A], took_ms=took_s * SECOND) for n in range(len(causes))]
    known = {each.rebalance_id: cause for each, cause in zip(made, causes, strict=True) if cause is not None}
    return view_of(history(snapshot(T0, A), *events, *reversed(made)), NOW, causes=known)


def test_a_storm_carries_the_cause_that_most_have():
    """Five in ten minutes: their number, the share of time lost, and the most common cause."""
    (found,) = rebalance_storm(stormy("poll_overrun", "poll_overrun", "member_crash", "poll_overrun", "undetermined"))
    assert (found.rule, found.variant, found.severity, found.claims) == (
        "rebalance_storm",
        "poll_overrun",
        Severity.TICKET,
        False,
    )
    assert found.summary == "5 rebalances in 600 s, 4% of the time rebalancing; 3 of 5 by poll overrun."
    assert found.started_at_ms == NOW - 5 * MINUTE
    assert len(found.rebalance_ids) == 5


@pytest.mark.parametrize(
    ("known", "variant"),
    [
        (stormy(*["poll_overrun"] * 4), None),
        (stormy(*["poll_overrun"] * 4, "rolling_deploy", "scale_out"), None),
        (stormy(*["poll_overrun"] * 5, every_s=150), None),
        (stormy("poll_overrun", "poll_overrun", took_s=90), "poll_overrun"),
        (stormy("poll_overrun", "poll_overrun", took_s=89), None),
        (stormy("poll_overrun", took_s=300), None),
        (stormy(*[None] * 5), UNDETERMINED),
    ],
    ids=["four", "some explained", "slower", "a third of the time", "less of it", "a long one", "not judged yet"],
)
def test_a_storm_is_five_in_ten_minutes_or_a_third_of_the_time(known: GroupView, variant: str | None):
    """Rebalances explained by a deploy or growth do not count; one long wait is no storm."""
    assert [each.variant for each in rebalance_storm(known)] == ([] if variant is None else [variant])


def harm(*, lag: int = 50, arriving: int = 10, stood_min: int = 8) -> list[Event]:
    """Let a partition make no progress for minutes while records wait and arrive."""
    stop_ms = NOW - stood_min * MINUTE
    ends = [probe(stop_ms + at * MINUTE, ends={0: 100 + lag + at * arriving}) for at in range(stood_min + 1)]
    return [commits(stop_ms - 5_000, {0: 90}), commits(stop_ms, {0: 100}), *ends]


def test_a_storm_that_harms_pages():
    """Records wait, more arrive, and there was no progress for five minutes."""
    (found,) = rebalance_storm(stormy(*["poll_overrun"] * 5, events=harm()))
    assert found.severity == Severity.PAGE


@pytest.mark.parametrize(
    ("events", "grows"),
    [
        (harm(), True),
        (harm(lag=0, arriving=0), False),
        (harm(arriving=0), False),
        (harm(stood_min=4), False),
        (harm()[:2], False),
        ([], False),
    ],
    ids=["harm", "nothing waits", "nothing arrives", "not for long", "no probes", "nothing known"],
)
def test_harm_is_standstill_with_growing_lag(events: list[Event], grows: bool):
    """A partition with lag, without progress for five minutes, whose lag still grows."""
    assert view_of(history(snapshot(T0, A), *events), NOW).lag_grows() == grows


def test_a_quiet_group_has_no_pattern():
    """Nobody joined or left."""
    known = view_of(history(snapshot(T0, A), *harm()), NOW)
    assert [
        verdict
        for rule in (crash_loop, short_lived_consumers, rolling_deploy, member_flapping, rebalance_storm)
        for verdict in rule(known)
    ] == []


def test_members_are_distinguished_by_client_and_host():
    """Two instances of one client on different hosts that each left once are no loop."""
    here, there = lives((0, 30)), lives((60, 90), member={"host": "/elsewhere"})
    more = lives((130, 160), member={"host": "/third"})
    events, past = [*here[0], *there[0], *more[0]], [*here[1], *there[1], *more[1]]
    assert judged(crash_loop, (events, past), START_MS + 5 * MINUTE) == []
