"""Rules that raise exceptions are quarantined and counted, while the others continue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from detect.turnover import Run
from histories import (
    GROUP,
    HOUR,
    MINUTE,
    SECOND,
    T0,
    commits,
    joined,
    lost,
    member,
    packed,
    probe,
    pulse,
    rebalance,
    rebalance_id,
    report,
    snapshot,
)
from rebalance_contract import (
    Finding,
    OffsetActivity,
    TopicOffsets,
)
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.detect import answers, detector
from rebalance_streaming.detect.answers import Answers
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.explaining import Explainer
from rebalance_streaming.detect.group_view import Condition, GroupView
from rebalance_streaming.detect.judge import GroupJudge
from rebalance_streaming.detect.judged_group import JudgedGroup
from rebalance_streaming.detect.quarantine import QUARANTINE_MS, Quarantine
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.inputs import EVERYTHING

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])


def ends(at_ms: int, offsets: dict[int, int]) -> OffsetActivity:
    """Return a probe of the topic's end offsets."""
    return OffsetActivity("prod", GROUP, at_ms, ends={"orders": TopicOffsets(list(offsets), list(offsets.values()))})


def test_the_largest_offsets_do_not_overflow():
    """Clients may commit any number; sums and products of them stay within 64 bits."""
    everywhere = dict.fromkeys(range(1_000), 2**63 - 1)
    run = Run().live(T0 + SECOND, snapshot(T0, A, B))
    for turn, offset in enumerate((0, 2**63 - 1, 5, 2**63 - 1)):
        run.detector.take_commits(commits(T0 + turn * SECOND, dict.fromkeys(everywhere, offset)))
        run.detector.take_offsets(ends(T0 + turn * SECOND, everywhere))
    run.live(T0 + 10 * MINUTE, step_ms=5 * SECOND)
    assert not run.detector.quarantined


# --- Rules that raise ---


def test_a_rule_that_raises_is_set_aside_for_its_group(monkeypatch: pytest.MonkeyPatch):
    """Other rules and other groups continue; it is counted, and reported once an hour instead of at each turn."""

    def stumbles(look: GroupView) -> Iterator[Verdict]:
        if look.history.group == "odd":
            raise ZeroDivisionError
        return iter(())

    heard: list[tuple[str, str]] = []
    conditions = (Condition(stumbles), *answers.CONDITIONS)
    monkeypatch.setattr(answers, "CONDITIONS", conditions)
    answers._rules.cache_clear()
    run = Run(on_quarantine=lambda stage, group, _: heard.append((stage, group)))
    five = [member(f"{letter}-1", [at]) for at, letter in enumerate("abcde")]
    for group in ("odd", "sound"):
        run.detector.take_group(replace(snapshot(T0, *five), group=group))
    for turn in range(20):
        run.live(T0 + (turn + 1) * 30 * SECOND)
        run.detector.take_group(replace(snapshot(T0 + turn, *five), group="odd"))
    answers._rules.cache_clear()
    assert heard == [("stumbles", "odd")]
    assert dict(run.detector.quarantined) == {("stumbles", "ZeroDivisionError"): 1}
    assert {each.group for each in run.detector.findings.all() if each.rule == "eager_assignor"} == {"odd", "sound"}


def test_timing_that_cannot_be_worked_out_is_set_aside_for_its_group():
    """The heartbeat timing of other groups is published, and the call returns."""
    heard: list[tuple[str, str]] = []
    detector = Detector("prod", on_quarantine=lambda stage, group, _: heard.append((stage, group)))
    odd = packed(report(T0, A, group_id="odd"))
    sample = replace(odd.samples[0], poll_age_ms=10**400)
    for group, row in (
        ("odd", replace(odd, samples=(sample,))),
        ("sound", packed(report(T0, A, {POLL_AGE: 1}, group_id="sound"))),
    ):
        detector.take_group(replace(snapshot(T0, A), group=group))
        detector.take_clients(row)
    for turn in range(3):
        assert [each.group for each in detector.timings(T0 + turn * 5 * SECOND)] == ["sound"]
    assert heard == [("timing", "odd")]
    assert dict(detector.quarantined) == {("timing", "OverflowError"): 1}


def test_what_was_set_aside_long_ago_takes_no_memory():
    """A group with unexplainable rebalances keeps getting new ones; each is evaluated once."""
    quarantine, asked = Quarantine(), []

    def fail() -> None:
        asked.append(None)
        raise ValueError

    for number in range(2_000):
        for _ in range(2):
            quarantine.ask("explain", GROUP, T0 + number * MINUTE, fail, None, about=f"0-{number}")
    assert len(asked) == quarantine.counts["explain", "ValueError"] == 2_000
    assert len(quarantine._until_ms) == 60


def test_nothing_is_set_aside_for_longer_if_the_clock_is_set_back():
    """It would be until the clock reaches its former time."""
    quarantine = Quarantine()
    quarantine.add("explain", GROUP, T0 + HOUR, ValueError())
    quarantine.turn_back(T0)
    assert quarantine.is_quarantined("explain", GROUP, T0)
    assert not quarantine.is_quarantined("explain", GROUP, T0 + QUARANTINE_MS)


def test_a_rebalance_that_cannot_be_judged_has_an_undetermined_cause():
    """A member that left in no generation: undetermined, once; the next rebalance is judged as usual."""
    odd = rebalance(T0 + MINUTE, [A, B], [A], generations=())
    run = Run().live(T0 + 2 * MINUTE, snapshot(T0, A, B), odd)
    run.live(T0 + 6 * MINUTE, rebalance(T0 + 3 * MINUTE, [A], [A, member("c-1", [4])]))
    assert run.causes() == {odd.rebalance_id: "undetermined", rebalance_id(T0 + 3 * MINUTE): "scale_out"}
    assert dict(run.detector.quarantined) == {("explain", "IndexError"): 1}


def fails_from(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, from_ms: int) -> list[int]:
    """Make a method of the explainer or the judge raise from a time on; return the times, a growing list."""
    act, raised = getattr(owner, name), list[int]()

    def attempt(self: object, judged_group: JudgedGroup, *others: Any, **more: Any) -> Any:
        now_ms = judged_group.timetable.judged_ms
        if now_ms < from_ms:
            return act(self, judged_group, *others, **more)
        raised.append(now_ms)
        raise ValueError

    monkeypatch.setattr(owner, name, attempt)
    return raised


def test_a_cause_that_cannot_be_found_again_is_left_alone_while_set_aside(monkeypatch: pytest.MonkeyPatch):
    """It was due to be found again, and that raised: later judgements do not each evaluate all rules."""
    gone = lost(T0 + MINUTE, B, [A, B])
    raised = fails_from(monkeypatch, Explainer, "_explain", T0 + 2 * MINUTE)
    everything: list[int] = []
    ask = Answers.ask

    def asked(self: Answers, view: GroupView, changed: int, quarantine: Quarantine) -> bool:
        everything.extend([view.now_ms] * (changed == EVERYTHING))
        return ask(self, view, changed, quarantine)

    run = Run().live(T0 + 30 * MINUTE, snapshot(T0, A, B), *pulse(T0, T0 + MINUTE, range(4)), gone)
    monkeypatch.setattr(Answers, "ask", asked)
    later = [commits(at, dict.fromkeys(range(4), 9_000)) for at in range(run.now_ms, T0 + 40 * MINUTE, 5 * SECOND)]
    run.live(T0 + 40 * MINUTE, *later)
    assert len(raised) == len(everything) == 1  # the latter: the sweep
    run.live(T0 + 65 * MINUTE, step_ms=5 * SECOND)
    assert [each - raised[0] for each in raised] == [0, QUARANTINE_MS]


def test_findings_that_cannot_be_stated_are_left_alone_while_set_aside(monkeypatch: pytest.MonkeyPatch):
    """They were due to be stated again, and that raised: the group is not judged at each later turn."""
    raised = fails_from(monkeypatch, GroupJudge, "_state", T0 + 5 * MINUTE)
    judged: list[int] = []
    judge = GroupJudge.judge

    def counted(self: GroupJudge, judged_group: JudgedGroup, now_ms: int) -> list[Finding]:
        judged.append(now_ms)
        return judge(self, judged_group, now_ms)

    run = Run().live(T0 + 30 * MINUTE, snapshot(T0, A, B), joined(T0 + MINUTE, B, [A]))
    assert run.finding("scale_out").state == "firing"
    monkeypatch.setattr(GroupJudge, "judge", counted)
    run.live(T0 + 40 * MINUTE)
    assert len(judged) <= 2
    run.live(T0 + 75 * MINUTE, step_ms=5 * SECOND)
    # It is tried once an hour.
    assert [round((each - raised[0]) / QUARANTINE_MS, 1) for each in raised] == [0, 1]


# --- Groups that do not exist ---


@pytest.mark.generated
def test_groups_that_only_probes_name_are_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch):
    """At most 5,000 invented names are kept, for half an hour; a real group is never rejected."""
    assert detector._MOST_UNCONFIRMED == 5_000
    # Each kept group is judged several times.
    monkeypatch.setattr(detector, "_MOST_UNCONFIRMED", 500)
    run = Run().live(T0 + SECOND)
    seen = probe(T0 + SECOND, "Stable")
    for number in range(2_000):
        run.detector.take_probe(replace(seen, group=f"invented-{number}"))
    run.detector.take_group(snapshot(T0, A, B))
    assert len(run.detector.groups()) == 501
    assert sum(run.detector.quarantined.values()) == 1_500
    run.live(T0 + 45 * MINUTE, step_ms=10 * SECOND)
    assert run.detector.groups() == [GROUP]
