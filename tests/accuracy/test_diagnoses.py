"""Every recording of a story is diagnosed right with all sources, and never confidently wrong with fewer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from accuracy.fixtures import EXPECTED
from accuracy.outcomes import ABSTAINED, HINTED, RIGHT, WRONG, Outcome, mistakes, outcome_of
from accuracy.recordings import SOURCES, Recording, recordings
from rebalance_contract import CountedImpact

pytestmark = pytest.mark.recordings

RECORDINGS = recordings()
REPORT = Path(__file__).parents[2] / "docs" / "accuracy-diagnoses.md"


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_a_recording_is_explained(recording: Recording) -> None:
    """With all its sources: the right cause, culprit and advice of what went wrong, nothing of what did not."""
    if recording.name.endswith("-no-metrics"):
        pytest.skip("was recorded without client metrics")
    assert mistakes(recording, recording.judge()) == []


@pytest.mark.parametrize("sources", [each for each in SOURCES if each != "all"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_fewer_sources_make_no_wrong_cause(recording: Recording, sources: str) -> None:
    """What cannot be told apart comes out as undetermined or a hint that names what is missing."""
    assert outcome_of(recording, sources).verdict != WRONG


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_every_rebalance_has_one_primary_cause(recording: Recording) -> None:
    """No rebalance is left out and none has two."""
    primary = Counter(name for each in recording.judge() if each.primary for name in each.rebalance_ids)
    ended = Counter(each.rebalance_id for each in recording.rebalances() if each.completed_at_ms is not None)
    assert primary == ended


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.name)
def test_only_those_who_left_timed_out(recording: Recording) -> None:
    """Nobody is counted as timed out who neither left nor was replaced, nor twice."""
    costs = {each.group: each.totals() for each in recording.impacts()}
    for group in recording.groups():
        counters, cost = group.counters, costs.get(group.group, CountedImpact())
        timed_out = cost.members_expired + cost.members_poll_timeout
        assert timed_out <= counters.members_left + counters.members_replaced, group.group


@pytest.mark.slow
def test_the_report_is_written() -> None:
    """`make test-all` writes docs/accuracy-diagnoses.md from what it found."""
    outcomes = [outcome_of(each, sources) for sources in SOURCES for each in RECORDINGS]
    assert len({each.recording.run.story for each in outcomes}) >= 10
    if os.environ.get("ACCURACY_REPORT"):
        REPORT.write_text(_report(outcomes))


def _report(outcomes: list[Outcome]) -> str:
    lines = [
        "# Accuracy of the diagnosis",
        "",
        "Written by `make test-all` from the recordings in tests/golden/stories: real clients, real faults, replayed",
        "with all sources, without client metrics, and with the log alone. `right`: the diagnosis was found, nothing",
        "else claimed more surely. `hinted`: only something below 55 % was said. `abstained`: undetermined. `wrong`:",
        "another cause was claimed. Recordings without a fault are right when nothing is claimed.",
        "",
        "| sources | right | hinted | abstained | wrong |",
        "|---|---:|---:|---:|---:|",
    ]
    for sources in SOURCES:
        count = Counter(each.verdict for each in outcomes if each.sources == sources)
        lines.append(f"| {sources} | {count[RIGHT]} | {count[HINTED]} | {count[ABSTAINED]} | {count[WRONG]} |")
    lines += [
        "",
        "## Recording by recording",
        "",
        f"| recording | diagnosis | {' | '.join(SOURCES)} |",
        "|---|---|---|---|---|",
    ]
    by_recording: dict[str, list[Outcome]] = {}
    for each in outcomes:
        by_recording.setdefault(each.recording.name, []).append(each)
    for name, several in sorted(by_recording.items()):
        wanted = several[0].wanted
        cells = [
            each.verdict if each.claimed in (wanted, "-") else f"{each.verdict}: {each.claimed}" for each in several
        ]
        lines.append(f"| {name} | {wanted} | {' | '.join(cells)} |")
    exercised = [*_exercised(outcomes)]
    lines += ["", f"## {len(exercised)} diagnoses exercised", "", "| diagnosis | by |", "|---|---|", *exercised]
    lines += ["", "## Confusion", "", "Which diagnosis was said, with which sources, where another was right.", ""]
    confused = Counter(
        (each.sources, each.wanted, each.claimed, each.verdict) for each in outcomes if each.verdict in (WRONG, HINTED)
    )
    lines += ["| sources | right would be | said | as | times |", "|---|---|---|---|---:|"]
    lines += [f"| {' | '.join(kind)} | {count} |" for kind, count in sorted(confused.items())]
    return "\n".join(lines) + "\n"


def _exercised(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield a row per diagnosis that some recording has to bring out, and does."""
    by: dict[str, set[str]] = {}
    for each in outcomes:
        if each.recording.expected is not None and each.verdict == RIGHT:
            for rule in (each.wanted, *each.recording.expected.secondary):
                by.setdefault(rule, set()).add(f"{each.recording.run.story} (live)")
    for name, rule in EXPECTED.items():
        by.setdefault(rule, set()).add(name)
    for rule, names in sorted(by.items()):
        yield f"| {rule} | {', '.join(sorted(names))} |"
