"""Announced deploys: which rebalances of a group they explain, and which are reported unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from detect.turnover import Run
from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, Event, joined, lost, member, pulse, snapshot
from rebalance_contract import AlertSilence, Finding, Rebalance
from rebalance_streaming.observed.announcements import Announcements

START_MS = T0 + 5 * MINUTE
DEPLOY = AlertSilence(
    CLUSTER,
    "d",
    (GROUP,),
    START_MS - 10 * SECOND,
    START_MS + 5 * MINUTE,
    START_MS - 10 * SECOND,
    "ci",
    "deploy 1.2",
    "deploy",
    version="1.2",
    on_behalf_of="alice",
)
NAMES = ("a", "b", "c")
MEMBERS = [member(f"{name}-1", [2 * number, 2 * number + 1]) for number, name in enumerate(NAMES)]


def restarts(*steps: tuple[str, float, float | None], killed: Sequence[str] = ()) -> list[Event]:
    """Let clients leave at a time after the start, and return at another within 4 minutes (null: never).

    Those in `killed` stop committing a session time-out before they are gone; the others commit until they leave.
    """
    alive, round_of, events = {each.client_id: each for each in MEMBERS}, dict.fromkeys(NAMES, 1), []
    moves: list[tuple[float, str, bool]] = []
    for name, left_s, back_s in steps:
        moves.append((left_s, name, False))
        moves += [] if back_s is None else [(back_s, name, True)]
    for at_s, name, is_back in sorted(moves):
        at_ms = START_MS + round(at_s * SECOND)
        if is_back:
            round_of[name] += 1
            new = replace(MEMBERS[NAMES.index(name)], member_id=f"{name}-{round_of[name]}")
            events.append(joined(at_ms, new, list(alive.values())))
            alive[name] = new
        else:
            events.append(lost(at_ms, alive[name], list(alive.values())))
            del alive[name]
    return [snapshot(T0, *MEMBERS), *_commits(steps, killed), *events]


def _commits(steps: Sequence[tuple[str, float, float | None]], killed: Sequence[str]) -> list[Event]:
    found: list[Event] = []
    for number, name in enumerate(NAMES):
        mine, from_ms = [2 * number, 2 * number + 1], T0
        for _, left_s, back_s in sorted(each for each in steps if each[0] == name):
            left_ms = START_MS + round(left_s * SECOND)
            last_ms = left_ms - 12 * SECOND if name in killed else left_ms - SECOND
            found += pulse(from_ms + (last_ms - from_ms) % (5 * SECOND), last_ms + 1, mine)
            from_ms = left_ms + 10 * MINUTE if back_s is None else START_MS + round(back_s * SECOND) + 4 * SECOND
        found += pulse(from_ms, START_MS + 4 * MINUTE, mine)
    return found


IN_TURN = (("a", 0, 20), ("b", 60, 80), ("c", 120, 140))


def lived(events: Sequence[Event], *rows: AlertSilence, until_ms: int = START_MS + 10 * MINUTE) -> Run:
    """Return a detector that received announcements of deploys at its start and then these events."""
    run = Run()
    for row in rows:
        run.detector.take_announcement(row)
    return run.live(until_ms, *events)


def announced(run: Run) -> Finding | None:
    """The finding about the announced deploy, if there is one."""
    found = [each for each in run.detector.findings.all() if each.variant == "announced"]
    assert len(found) <= 1
    return found[0] if found else None


def claimed(run: Run) -> set[str]:
    """The rebalances explained by the announced deploy."""
    found = announced(run)
    return set() if found is None else set(found.rebalance_ids)


def ids(events: Sequence[Event]) -> list[str]:
    return [each.rebalance_id for each in events if isinstance(each, Rebalance)]


def test_a_rolling_restart_is_the_deploy_that_was_announced():
    """All its rebalances have that one cause, with author and announcement as evidence; no action is advised."""
    events = restarts(*IN_TURN)
    run = lived(events, DEPLOY)
    assert run.causes() == dict.fromkeys(ids(events), "rolling_deploy")
    found = announced(run)
    assert found is not None
    assert found.summary == "A deploy of 1.2 that alice (as ci) announced: 3 members left and 3 came, in 6 rebalances."
    assert {each.severity for each in run.detector.findings.all()} == {"info"}
    (said,) = [each for each in found.evidence if each.source == "announcement"]
    assert (said.value, said.from_ms, said.until_ms) == ("deploy 1.2", DEPLOY.starts_at_ms, DEPLOY.ends_at_ms)


def test_without_announcement_the_same_restart_is_recognised_by_its_looks():
    """It is recognised as a deploy that was not announced."""
    run = lived(restarts(*IN_TURN))
    assert set(run.causes().values()) == {"rolling_deploy"}
    assert announced(run) is None
    assert not [
        each for found in run.detector.findings.all() for each in found.evidence if each.source == "announcement"
    ]


def test_part_of_a_deploy_is_explained_that_would_not_be_recognised_by_its_looks():
    """One instance of three, killed and back, and a newcomer: without the announcement this is a loss and a ticket."""
    events = restarts(("b", 0, 30), killed=("b",))
    alone = lived(events)
    assert "rolling_deploy" not in alone.causes().values()
    run = lived(events, DEPLOY)
    assert set(run.causes().values()) == {"rolling_deploy"}
    found = announced(run)
    assert found is not None
    assert [each.value for each in found.evidence if each.field == "departures"] == ["1 without leaving"]
    assert [each.parameter for each in found.advice] == ["code"]


def test_who_goes_again_and_again_is_a_crash_loop_all_the_same():
    """The new version of one instance dies as soon as it has joined: the deploy explains the other rebalances only."""
    dying = [("b", 60 + 40 * number, 75 + 40 * number) for number in range(5)]
    events = restarts(("a", 0, 20), *dying, killed=("b",))
    run = lived(events, DEPLOY)
    of_b = {f"r{START_MS + at * SECOND}" for _, left, back in dying for at in (left, back)}
    assert claimed(run) == set(ids(events)) - of_b
    firing = [each for each in run.detector.findings.all() if each.state == "firing"]
    assert {each.rule for each in firing} & {"crash_loop", "member_crash", "member_flapping"}
    assert any(each.severity != "info" for each in firing)


def test_a_poll_limit_that_ran_out_during_a_deploy_is_reported():
    """A member that exceeded its poll limit was not stopped by the pipeline."""
    from detect.test_detector import overrun  # noqa: PLC0415

    window = replace(DEPLOY, groups=("*",), starts_at_ms=T0, ends_at_ms=T0 + 60 * MINUTE)
    group = "g"
    events = overrun(group)
    alone, run = Run().live(T0 + 20 * MINUTE, *events), lived(events, window, until_ms=T0 + 20 * MINUTE)
    assert "poll_overrun" in alone.causes().values()
    assert run.causes() == alone.causes()


def test_what_begins_after_its_end_is_not_explained():
    """Nor is a rebalance before its start: the announcement has a start and an end."""
    events = restarts(*IN_TURN)
    first, second = ids(events)[:2]
    early = replace(DEPLOY, ends_at_ms=START_MS + 30 * SECOND)
    assert claimed(lived(events, early)) == {first, second}
    late = replace(DEPLOY, starts_at_ms=START_MS + 100 * SECOND)
    assert claimed(lived(events, late)) == set(ids(events)[4:])
    assert claimed(lived(events, replace(DEPLOY, ends_at_ms=DEPLOY.starts_at_ms))) == set()


def test_a_member_that_was_killed_and_is_not_back_when_it_is_over_is_reported():
    """During the deploy the new instance may still be starting; afterwards the loss is reported like any other."""
    events = restarts(("b", 0, None), killed=("b",))
    (gone,) = ids(events)
    run = lived(events, DEPLOY, until_ms=DEPLOY.ends_at_ms - SECOND)
    assert gone in claimed(run)
    run.live(DEPLOY.ends_at_ms + MINUTE)
    assert claimed(run) == set()
    assert run.causes()[gone] != "rolling_deploy"


def test_who_left_in_order_for_good_is_part_of_it():
    """A deploy may end with fewer instances."""
    events = restarts(("b", 0, None))
    assert claimed(lived(events, DEPLOY)) == set(ids(events))
    assert set(lived(events).causes().values()) == {"scale_in"}


@pytest.mark.parametrize(
    "changes",
    [{"kind": "silence", "version": None}, {"groups": ("other", "gg*")}],
    ids=["a silence", "other groups"],
)
def test_what_is_no_announcement_of_the_group_explains_nothing(changes: dict[str, Any]):
    """An ordinary silence suppresses notifications and does not explain rebalances."""
    assert claimed(lived(restarts(*IN_TURN), replace(DEPLOY, **changes))) == set()


def test_an_announcement_is_taken_up_whenever_it_comes():
    """After the fact, as at a start that reads topics in any order; this includes an early end."""
    events = restarts(*IN_TURN)
    run = lived(events)
    run.detector.take_announcement(DEPLOY)
    run.live(run.now_ms + 5 * SECOND)
    assert claimed(run) == set(ids(events))
    run.detector.take_announcement(replace(DEPLOY, ends_at_ms=START_MS + 30 * SECOND, expired_by="ci"))
    run.live(run.now_ms + 5 * SECOND)
    assert claimed(run) == set(ids(events)[:2])


def test_of_two_deploys_at_a_time_the_later_one_counts():
    """Each rebalance has one explanation."""
    events = restarts(*IN_TURN)
    second = replace(DEPLOY, silence_id="e", starts_at_ms=START_MS + 50 * SECOND, reason="deploy 1.3", version="1.3")
    run = lived(events, DEPLOY, second)
    assert run.causes() == dict.fromkeys(ids(events), "rolling_deploy")
    found = announced(run)
    assert found is not None
    assert {each.value for each in found.evidence if each.source == "announcement"} == {"deploy 1.2", "deploy 1.3"}


def test_the_number_of_announcements_is_bounded():
    """Producers with access to the topic may write many: those with the earliest end are dropped first."""
    known = Announcements()
    for number in range(2_100):
        known.put(replace(DEPLOY, silence_id=str(number), ends_at_ms=DEPLOY.ends_at_ms + number))
    assert len(known.of(CLUSTER, GROUP)) == 2_000
    assert min(each.ends_at_ms for each in known.of(CLUSTER, GROUP)) == DEPLOY.ends_at_ms + 100
