"""Every recording of a story is diagnosed correctly with all sources, and never confidently wrong with fewer."""

from __future__ import annotations

from collections import Counter

import pytest

from accuracy.outcomes import WRONG, mistakes, outcome_of
from accuracy.recordings import SOURCES, Recording, recordings
from rebalance_contract import CountedImpact, EvidenceSource

pytestmark = pytest.mark.recordings

RECORDINGS = recordings()


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_a_recording_is_explained(recording: Recording) -> None:
    """With all sources the findings have the right cause, culprit and advice, and nothing about healthy parts."""
    if recording.name.endswith("-no-metrics"):
        pytest.skip("was recorded without client metrics")
    assert mistakes(recording, recording.judge()) == []


@pytest.mark.parametrize("sources", [each for each in SOURCES if each != "all"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_fewer_sources_make_no_wrong_cause(recording: Recording, sources: str) -> None:
    """Causes that cannot be distinguished give an undetermined finding, or a hint that names the missing sources."""
    assert outcome_of(recording, sources).verdict != WRONG


def test_the_coordinators_words_are_evidence_where_they_are_given() -> None:
    """Coordinator logs show which members left by their own request, which a recording without them does not."""
    recording = next(each for each in RECORDINGS if each.name == "poll_overrun-1")
    sources = {
        chosen: {evidence.source for each in recording.judge(chosen) for evidence in each.evidence}
        for chosen in ("log and broker logs", "log only")
    }
    assert EvidenceSource.BROKER_LOG in sources["log and broker logs"]
    assert EvidenceSource.BROKER_LOG not in sources["log only"]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_every_rebalance_has_one_primary_cause(recording: Recording) -> None:
    """No rebalance is left out, and none has two causes."""
    primary = Counter(name for each in recording.judge() if each.primary for name in each.rebalance_ids)
    ended = Counter(each.rebalance_id for each in recording.rebalances() if each.completed_at_ms is not None)
    assert primary == ended


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_only_those_who_left_timed_out(recording: Recording) -> None:
    """Members count as timed out at most once, and only if they left or were replaced."""
    costs = {each.group: each.totals() for each in recording.impacts()}
    for group in recording.groups():
        counters, cost = group.counters, costs.get(group.group, CountedImpact())
        timed_out = cost.members_expired + cost.members_poll_timeout
        assert timed_out <= counters.members_left + counters.members_replaced, group.group
