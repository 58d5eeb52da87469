"""Judges every recording again, with all and with fewer sources, and writes a report.

    python -m accuracy.report docs/accuracy.md

Pure replays: no broker, no clock. Results that need live brokers (`make test-all`) are taken from
tests/accuracy/results, with the commit at which they were measured.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from accuracy import freshness
from accuracy.calibration import calibration_error, quantile, reliability, say_share
from accuracy.fixtures import EXPECTED
from accuracy.outcomes import BESIDE, HINTED, LESS_EXACT, RIGHT, VERDICTS, WRONG, Outcome, outcome_of
from accuracy.recordings import FAMILIES, FOLDER, SOURCES, SPLITS, WAITS, Recording, declared, recordings
from rebalance_devtools.stories.record import VOID
from rebalance_streaming.detect.catalogue import DIAGNOSES
from rebalance_streaming.detect.thresholds import Thresholds

RESULTS = Path(__file__).with_name("results")
_PROCESSES = 2
_NONE = "-"
#: Verdicts in which the cause was found.
_FOUND = (RIGHT, BESIDE)
#: The sources for which the table shows how often a diagnosis was right.
_SHOWN_SOURCES = ("all", "no client metrics", "no prober", "log only")
#: The cell of a diagnosis that no real client has produced.
EXPERIMENTAL = "never seen: experimental"


@dataclass(frozen=True, slots=True)
class Judged:
    """One recording judged with all and with fewer sources.

    Delays are those of every rebalance, in milliseconds; `waits_ms` maps a rule to the delay from when a wait was due
    to its first finding, `said` holds the findings; both with all sources.
    """

    recording: Recording
    outcomes: dict[str, Outcome]
    delays_ms: dict[str, list[int]]
    revised: dict[str, int]
    waits_ms: dict[str, int]
    rebalances: int
    said: frozenset[str]


def judge(recording: Recording) -> Judged:
    """Replay a recording with all and with fewer sources."""
    return Judged(
        recording,
        {sources: outcome_of(recording, sources) for sources in SOURCES},
        {sources: recording.delays_ms(sources) for sources in SOURCES},
        {sources: len(recording.watched(sources).revised) for sources in SOURCES},
        recording.waits_ms(),
        sum(each.completed_at_ms is not None for each in recording.rebalances()),
        frozenset(each.rule for each in recording.judge() if each.group == recording.run.group),
    )


def render(judged: Sequence[Judged], made: str, digest: str) -> str:
    """Return the report."""
    parts = (
        _head(judged, made, digest),
        _overview(judged),
        _healthy(judged),
        _by_family(judged),
        _delays(judged),
        _waits(judged),
        _calibration(judged),
        _confusion(judged),
        _known(judged),
        _drawn_anew(),
        _counts(),
        _one_by_one(judged),
    )
    return "\n".join(line for part in parts for line in (*part, "")).rstrip("\n") + "\n"


def _head(judged: Sequence[Judged], made: str, digest: str) -> Iterator[str]:
    scaled = ", ".join(f"{name} {scale:g}" for name, scale in sorted(declared()["window_scale"].items()))
    void = _void()
    yield from (
        "# Accuracy",
        "",
        f"<!-- digest: {digest} -->",
        f"Written by `make accuracy` {made}: {len(judged)} recordings of real clients on real brokers, replayed with",
        "the rules of that commit. `make lint` fails when the rules or the recordings changed since.",
        "",
        f"- **Known**: {_said_of(judged, 'known')} that the rules were written with or may be tuned to.",
        f"- **Kept back**: {_said_of(judged, 'kept back')} whose recordings are not looked at while",
        "  rules are written, declared with reasons in [families.toml](../tests/accuracy/families.toml). They show how",
        "  often the monitor is right on a fault that it was not made for. Expect lower shares for other faults:",
        "  when the authors decided what to improve, they knew these families and this table. Families were moved from",
        "  kept back to known five times on 2026-11-25 and 26, by a hash of their names, and others replaced them. On",
        "  2026-11-27 three moved because their verdicts were not right and rules were changed for them: without",
        "  that, 4 of the faults here would be others, of which none was right. Ten took their place. Of those",
        "  sink_shrinks is scaled (below) since its verdicts, which were *abstained*, were seen. So earlier figures",
        "  cannot be compared with these.",
        "- **Right**: the cause that the script made is given as primary, with a confidence of at least 55 %, and no",
        "  other harmful cause is given. *Less exact*: `session_expiry` is given instead, and lists this cause.",
        "  *Right, a wrong one beside*: the right cause and a wrong one are given. *Wrong*: only another cause is",
        "  given, or a harmless one for the rebalance that the fault made. *Hinted*: all causes given are below 55 %.",
        "  *Abstained*: no cause, or `undetermined`. The findings at the end of the recording count. Findings that are",
        "  not causes (a wrong setting, a slow assignor, risky batches) need not be primary.",
        "- Behind each share stand the number of runs and its 95 % interval (Wilson): 3 of 3 is 44-100 %.",
        "- **Broker logs**: what the group's coordinators wrote in their brokers' logs, replayed beside the rest as",
        "  `replay --logs` does. The recordings have the lines of `GroupCoordinator` that name the group, not what",
        "  `GroupMetadataManager` writes, nor lines without the group's name; groups on ZooKeeper have no such lines.",
        "- The truth of a run is what its script did and what the brokers' log says, never what the monitor says.",
        f"- Scaled: `detect.window_scale` of {scaled};",
        "  these diagnoses take longer than a recording.",
        "- No recording was replaced because its diagnosis was wrong. Those of retention_overtakes were played again",
        "  when the prober began to ask where partitions begin, which the earlier ones lack.",
        f"- {len(void)} runs were discarded, because a client that the script had not touched",
        f"  was lost (the machine was busy), or the script did not come to its end{_say_void(void)}.",
    )


def _said_of(judged: Sequence[Judged], split: str) -> str:
    inside = [each.recording for each in judged if each.recording.split == split]
    return f"{len(inside)} recordings of {len({each.run.story for each in inside})} families"


def _void() -> list[dict[str, str]]:
    path = FAMILIES / VOID
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _say_void(void: Sequence[dict[str, str]]) -> str:
    return f" ({', '.join(sorted(each['name'] for each in void))})" if void else ""


def _outcomes(judged: Iterable[Judged], split: str, sources: str, *, faults: bool) -> list[Outcome]:
    return [
        each.outcomes[sources]
        for each in judged
        if each.recording.split == split and (each.recording.expected is not None) is faults
    ]


def _overview(judged: Sequence[Judged]) -> Iterator[str]:
    yield from ("## Faults and changes", "")
    yield f"| recordings | sources | {' | '.join(VERDICTS)} | subject right |"
    yield "|---|---|" + "---:|" * (len(VERDICTS) + 1)
    for split in SPLITS:
        for sources in SOURCES:
            found = _outcomes(judged, split, sources, faults=True)
            counts = Counter(each.verdict for each in found)
            named = [each.subject_right for each in found if each.subject_right is not None]
            cells = [say_share(counts[verdict], len(found)) for verdict in VERDICTS]
            yield f"| {split} | {sources} | {' | '.join(cells)} | {say_share(sum(named), len(named))} |"


def _healthy(judged: Sequence[Judged]) -> Iterator[str]:
    yield from ("## Healthy groups", "")
    yield "Accused: anything but information was found, or a harmful cause was claimed."
    yield from ("", "| recordings | sources | group-minutes | accused |", "|---|---|---:|---:|")
    for split in SPLITS:
        for sources in SOURCES:
            found = _outcomes(judged, split, sources, faults=False)
            minutes = sum(each.recording.run.ended_ms - each.recording.run.started_ms for each in found) / 60_000
            accused = sum(each.verdict == WRONG for each in found)
            yield f"| {split} | {sources} | {minutes:.0f} | {say_share(accused, len(found))} |"


def _by_family(judged: Sequence[Judged]) -> Iterator[str]:
    yield from (
        "## Family by family",
        "",
        "The outcomes of each family's runs: of how many, where they differ.",
        "",
    )
    yield f"| family | | runs | should be | {' | '.join(SOURCES)} |"
    yield "|---|---|---:|---|" + "---|" * len(SOURCES)
    groups: defaultdict[tuple[str, str], list[Judged]] = defaultdict(list)
    for each in judged:
        groups[each.recording.split, each.recording.run.story].append(each)
    for (split, story), several in sorted(groups.items()):
        wanted = ", ".join(sorted({each.outcomes["all"].wanted for each in several}))
        cells = [_say_verdicts([each.outcomes[sources] for each in several]) for sources in SOURCES]
        yield f"| {story} | {split} | {len(several)} | {wanted} | {' | '.join(cells)} |"


def _say_verdicts(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(_say_outcome(each) for each in outcomes)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {text}" for text, count in counts.most_common())


def _say_outcome(outcome: Outcome) -> str:
    reported = outcome.verdict in (WRONG, HINTED) and outcome.claimed != "-"
    return f"{outcome.verdict}: {outcome.claimed}" if reported else outcome.verdict


def _delays(judged: Sequence[Judged]) -> Iterator[str]:
    yield from ("## From the end of a rebalance to its first cause", "")
    yield "Of every rebalance that was judged before its recording ended, in the recording's own time. Revised: the"
    yield "cause given first was replaced by another later."
    yield from (
        "",
        "| recordings | sources | rebalances | median | 95 % | longest | revised |",
        "|---|---|" + "---:|" * 5,
    )
    for split in SPLITS:
        for sources in SOURCES:
            several = [each for each in judged if each.recording.split == split]
            delays = [delay for each in several for delay in each.delays_ms[sources]]
            times = (quantile(delays, 0.5), quantile(delays, 0.95), max(delays, default=None))
            reported = " | ".join(_NONE if each is None else f"{each / 1000:.1f} s" for each in times)
            revised = sum(each.revised[sources] for each in several)
            yield f"| {split} | {sources} | {len(delays)} | {reported} | {say_share(revised, len(delays))} |"


def _waits(judged: Sequence[Judged]) -> Iterator[str]:
    yield from ("## From when a wait is due to its finding", "")
    yield "Of what is found while it goes on, the first of each recording, with all sources: how long after it had gone"
    yield "on for as long as the threshold says (of scaled recordings a share of that). One that was over before it was"
    yield "noticed is found when its rebalance is judged."
    yield from (
        "",
        "| diagnosis | due after | recordings | recordings with it | median | longest |",
        "|---|---:|---|---:|---:|---:|",
    )
    for rule, threshold in WAITS.items():
        for split in SPLITS:
            found = [each.waits_ms[rule] for each in judged if each.recording.split == split and rule in each.waits_ms]
            if found:
                times = " | ".join(f"{each / 1000:.1f} s" for each in (statistics.median_low(found), max(found)))
                due_s = getattr(Thresholds(), threshold) / 1000
                yield f"| `{rule}` | {due_s:.0f} s | {split} | {len(found)} | {times} |"


def _calibration(judged: Sequence[Judged]) -> Iterator[str]:
    yield from ("## Calibration", "")
    yield "Every primary cause that was given of what happened since the fault, hints too: how sure the monitor was,"
    yield "and how often it was right. ECE: the mean distance of the two; the aim is 0.10 or less."
    yield from ("", "| recordings | sources | causes given | said | right | ECE |", "|---|---|---:|---:|---:|---:|")
    for split in SPLITS:
        for sources in SOURCES:
            several = [each.outcomes[sources] for each in judged if each.recording.split == split]
            bins = reliability(claim for each in several for claim in each.causes)
            for each in bins:
                right = say_share(round(each.right * each.count), each.count)
                yield f"| {split} | {sources} | {each.count} | {each.said:.2f} | {right} | |"
            error = calibration_error(bins)
            total = sum(each.count for each in bins)
            yield f"| {split} | {sources} | {total} | | | **{_NONE if error is None else f'{error:.2f}'}** |"


def _confusion(judged: Sequence[Judged]) -> Iterator[str]:
    yield from ("## Confusion", "", "What was said where another was right, by all recordings.", "")
    counts = Counter(
        (sources, outcome.wanted, outcome.claimed, outcome.verdict)
        for each in judged
        for sources, outcome in each.outcomes.items()
        if outcome.verdict in (WRONG, HINTED, BESIDE)
    )
    yield from ("| sources | right would be | said | as | times |", "|---|---|---|---|---:|")
    for kind, count in sorted(counts.items()):
        yield f"| {' | '.join(kind)} | {count} |"


def _known(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a row per diagnosis of the catalogue: what it was played with, and how often it was reported and right."""
    rows = {rule: _how_known(rule, judged) for rule in DIAGNOSES}
    seen = [rule for rule, cells in rows.items() if cells is not None]
    yield from (
        "## How each diagnosis is known",
        "",
        f"{len(seen)} of {len(rows)} diagnoses are known from recordings of real clients. *Played*: the families that",
        "have to bring it out, and recordings of the log alone. *Right*: in how many of their runs the cause was",
        "right, by sources. *Beside*: right runs of which it was said too, as a setting worth changing or as what",
        "follows, and less exact ones of which it was said instead. What has neither a right run nor one beside is",
        "experimental: information only.",
        "",
        f"| diagnosis | played | with | on brokers | right with {' | '.join(_SHOWN_SOURCES)} | beside |",
        "|---|---|---|---|" + "---:|" * (len(_SHOWN_SOURCES) + 1),
    )
    for rule, cells in rows.items():
        yield f"| {rule} | {' | '.join(cells or (EXPERIMENTAL, *[_NONE] * (len(_SHOWN_SOURCES) + 3)))} |"


def _how_known(rule: str, judged: Sequence[Judged]) -> tuple[str, ...] | None:
    """Return the cells of a diagnosis, or null if no real client has produced it."""
    played = [each for each in judged if rule in _asked(each.recording)]
    right = {name: sum(each.outcomes[name].verdict in _FOUND for each in played) for name in _SHOWN_SOURCES}
    fixtures = sorted(name for name, reported in EXPECTED.items() if reported == rule)
    others = (each for each in judged if each not in played and rule in each.said)
    beside = sum(each.outcomes["all"].verdict in (RIGHT, LESS_EXACT) for each in others)
    if not (right["all"] or fixtures or beside):
        return None
    runs = [each.recording.run for each in played]
    return (
        ", ".join([*sorted({each.story for each in runs}), *(f"{name} (log)" for name in fixtures)]) or _NONE,
        ", ".join(sorted({each.library for each in runs})) or _NONE,
        ", ".join(sorted({each.kafka_version for each in runs})) or _NONE,
        *(f"{count} of {len(played)}" if played else _NONE for count in right.values()),
        str(beside),
    )


def _asked(recording: Recording) -> tuple[str, ...]:
    """Return the diagnoses that a recording must produce."""
    expected = recording.expected
    return () if expected is None else (expected.diagnosis, *expected.also, *expected.secondary)


def with_counts(readme: str, report: str) -> str:
    """Return README with the report's numbers of diagnoses seen with real clients, and of the others."""
    unseen = len(experimental(report))
    counts = f"{len(DIAGNOSES) - unseen} diagnoses that were seen on real clients and {unseen} experimental"
    return re.sub(r"\d+ diagnoses that were seen on real clients and \d+ experimental", counts, readme)


def experimental(report: str) -> set[str]:
    """Return the diagnoses that the report lists without a real client."""
    return set(re.findall(rf"^\| (\w+) \| {EXPERIMENTAL} \|", report, re.MULTILINE))


def _drawn_anew() -> Iterator[str]:
    """Yield the results of the incidents that are played on live brokers; their recordings are not kept."""
    yield from _from_results(
        "stories",
        "## The five incidents, drawn anew",
        "Times, partitions and members drawn from seeds; right when cause, culprit and advice are and nothing forbidden"
        " is said. Judged with the rules of that day: the recordings are not kept.",
    )


def _counts() -> Iterator[str]:
    """Yield the comparison of the monitor's counts with what happened."""
    yield from _from_results(
        "counts",
        "## Counts",
        "The monitor watching live, each figure as it said it; where the truth (the broker's log, the clients'"
        " callbacks) differs, it stands in brackets.",
    )


def _from_results(name: str, title: str, words: str) -> Iterator[str]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    yield from (title, "", f"Drawn on {results['date']} at {results['commit']} by `make test-all`.", words, "")
    for number, row in enumerate([results["columns"], *results["rows"]]):
        yield f"| {' | '.join(map(str, row))} |"
        if number == 0:
            yield "|" + "---|" * len(row)
    if results.get("notes"):
        yield from ("", results["notes"])


def _one_by_one(judged: Sequence[Judged]) -> Iterator[str]:
    yield from (
        "## Recording by recording",
        "",
        "Session, heartbeat and commit intervals in seconds where they were drawn.",
        "",
    )
    yield f"| recording | broker | client | session, heartbeat, commit | should be | {' | '.join(SOURCES)} |"
    yield "|---|---|---|---|---|" + "---|" * len(SOURCES)
    for each in sorted(judged, key=lambda each: (each.recording.split, each.recording.name)):
        run = each.recording.run
        drawn = [run.parameters.get(name) for name in ("session_ms", "heartbeat_ms", "commit_ms")]
        times = ", ".join(_NONE if value is None else f"{value / 1000:g}" for value in drawn)
        cells = [_say_outcome(each.outcomes[sources]) for sources in SOURCES]
        yield (
            f"| {each.recording.name} | {run.kafka_version} | {run.library} | {times} |"
            f" {each.outcomes['all'].wanted} | {' | '.join(cells)} |"
        )


def say_when(run: Callable[[Sequence[str]], str]) -> str:
    """Return the date and the commit of this report, from the output of git."""
    changed = [line for line in run(("git", "status", "--porcelain", "--", "streaming")).splitlines() if line]
    commit = run(("git", "rev-parse", "--short=10", "HEAD")).strip()
    return f"on {datetime.now(UTC):%Y-%m-%d} at {commit}{' with changes to streaming/' if changed else ''}"


def write_results(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: str = "") -> None:
    """Write the results measured on live brokers, for the report."""
    when = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _output(("git", "rev-parse", "--short=10", "HEAD")).strip(),
    }
    reported = {**when, "columns": list(columns), "rows": [list(row) for row in rows], "notes": notes}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(reported, indent=1, ensure_ascii=False) + "\n")


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=freshness.ROOT).stdout


def main(arguments: list[str]) -> None:
    """Write the report."""
    (target,) = arguments
    every = [each for folder in (FOLDER, FAMILIES) for each in recordings(folder)]
    with ProcessPoolExecutor(_PROCESSES) as pool:
        judged = list(pool.map(judge, every))
    report = render(judged, say_when(partial(_output)), freshness.digest())
    Path(target).write_text(report)
    if Path(target).resolve() == freshness.REPORT:
        freshness.README.write_text(with_counts(freshness.README.read_text(), report))


if __name__ == "__main__":
    main(sys.argv[1:])
