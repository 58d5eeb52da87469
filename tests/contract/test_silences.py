"""Which silences are valid, and when they are in force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_contract import AlertSilence, SilenceIndex, silence_problems, topics
from rebalance_contract.silences import MAX_AHEAD_MS, MAX_DEPLOY_MS, MAX_DURATION_MS

T0 = 1_790_000_000_000
HOUR_MS = 3_600_000
ONE = AlertSilence("prod", "1", ("orders", "payments-*", "*"), T0, T0 + HOUR_MS, T0, "alice", "deploy 1.2")


def test_a_plain_silence_has_no_problem():
    """Names, prefixes, and everything; a silence that was ended before its start, and the longest one."""
    for each in (ONE, replace(ONE, ends_at_ms=T0), replace(ONE, ends_at_ms=T0 + MAX_DURATION_MS)):
        assert list(silence_problems(each)) == []


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"groups": ()}, "1 to 50"),
        ({"groups": ("a",) * 51}, "1 to 50"),
        ({"groups": ("",)}, "1 to 1000"),
        ({"groups": ("a" * 1_001,)}, "1 to 1000"),
        ({"groups": ("a" * 1_000,) * 17}, "16384 at most"),
        ({"groups": ("a*b",)}, "at its end"),
        ({"groups": ("**",)}, "at its end"),
        ({"ends_at_ms": T0 - 1}, "after it begins"),
        ({"ends_at_ms": T0 + MAX_DURATION_MS + 1}, "31 days"),
        ({"starts_at_ms": T0 + 32 * 24 * HOUR_MS, "ends_at_ms": T0 + 33 * 24 * HOUR_MS}, "within 31 days"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 501}, "reason"),
        ({"created_by": ""}, "who"),
        ({"created_by": "x" * 201}, "who"),
        ({"expired_by": "x" * 201}, "who"),
        ({"kind": "x" * 51}, "kind"),
        ({"kind": "deploy", "ends_at_ms": T0 + MAX_DEPLOY_MS + 1}, "24 hours"),
        ({"kind": "deploy", "version": " "}, "version"),
        ({"kind": "deploy", "version": "x" * 101}, "version"),
        ({"version": "1.2"}, "no version"),
        ({"on_behalf_of": " "}, "for whom"),
        ({"on_behalf_of": "x" * 201}, "for whom"),
    ],
)
def test_what_no_silence_may_be(changes, reported):
    """Each problem is one sentence that states what is allowed."""
    (problem,) = silence_problems(replace(ONE, **changes))
    assert reported in problem


def test_what_is_looked_up_is_what_a_silence_is_about():
    """The index gives the same answers as each silence, each once and in the order of their starts, for any names."""
    names = ("a", "ab", "abc", "b", "")
    patterns = [("a",), ("a*", "ab"), ("*", "abc"), ("abc*",), ("b", "b*"), ("ab*", "a*")]
    made = [
        replace(ONE, silence_id=str(number), groups=groups, starts_at_ms=T0 - number)
        for number, groups in enumerate(patterns)
    ]
    index = SilenceIndex.of([*made, replace(ONE, cluster="test", silence_id="x")])
    for name in names:
        reported = [each.silence_id for each in index.covering("prod", name)]
        assert reported == [each.silence_id for each in reversed(made) if each.is_about(name)]


def test_it_holds_from_its_start_up_to_its_end():
    """The end is exclusive, so two consecutive silences are never in force at the same time."""
    assert [ONE.is_in_force(T0 + at) for at in (-1, 0, HOUR_MS - 1, HOUR_MS)] == [False, True, True, False]
    assert not replace(ONE, ends_at_ms=T0).is_in_force(T0)


def test_what_happened_while_it_held_overlaps_it():
    """A rebalance that began before, or ended after, overlaps as well."""
    spans = [(-9, -1), (-9, 0), (5, 6), (HOUR_MS - 1, HOUR_MS + 9), (HOUR_MS, HOUR_MS + 9)]
    assert [ONE.overlaps(T0 + a, T0 + b) for a, b in spans] == [False, True, True, True, False]


def test_the_topic_keeps_a_silence_for_longer_than_it_can_last():
    """A silence with the latest allowed start and the maximum duration is still in the topic at its end."""
    assert topics.SILENCES.retention_ms is not None
    assert topics.SILENCES.retention_ms > MAX_AHEAD_MS + MAX_DURATION_MS
