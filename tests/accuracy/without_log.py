"""Writes the page about monitoring without the log, and the share of right diagnoses in README.

    python -m accuracy.without_log docs/accuracy.md docs/without-the-log.md README.md

The counts are replayed here; the shares are taken from the report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from accuracy.freshness import with_part, with_summary, without_log_lines
from accuracy.recordings import FAMILIES, FOLDER, Recording, recordings
from rebalance_contract import Rebalance
from rebalance_streaming.recordings.line_reader import PROBES_SUFFIX
from rebalance_streaming.recordings.recording import read_lines

_PROCESSES = 2
_CLASSIC, _NEWER, _BOTH = "classic", "KIP-848, share, streams", "several protocols, one after the other"


@dataclass(frozen=True, slots=True)
class Counted:
    """The numbers of rebalances of a recording's group completed since its first probe, with and without the log."""

    kind: str
    with_log: int
    without_log: int


def count(recording: Recording) -> Counted | None:
    """Replay a recording with its log and without it; return null if it has no probes."""
    probed = [line.timestamp_ms for line in read_lines([recording.lines(())]) if line.topic.endswith(PROBES_SUFFIX)]
    if not probed:
        return None
    with_log = _completed(recording, "all", min(probed))
    return Counted(_kind(with_log), len(with_log), len(_completed(recording, "without the log", min(probed))))


def _completed(recording: Recording, sources: str, since_ms: int) -> list[Rebalance]:
    own = [each for each in recording.rebalances(sources) if each.group == recording.run.group]
    return [each for each in own if each.completed_at_ms is not None and each.completed_at_ms >= since_ms]


def _kind(rebalances: Iterable[Rebalance]) -> str:
    types = {each.type == "classic" for each in rebalances}
    return _BOTH if len(types) > 1 else _NEWER if types == {False} else _CLASSIC


def counted_lines(counted: Iterable[Counted]) -> Iterator[str]:
    """Yield the table of counts."""
    found = list(counted)
    yield "| groups | recordings | rebalances | found | recordings with the right number | with too many |"
    yield "|---|---:|---:|---:|---:|---:|"
    for kind in (_CLASSIC, _NEWER, _BOTH):
        own = [each for each in found if each.kind == kind]
        if not own:
            continue
        there, seen = sum(each.with_log for each in own), sum(min(each.with_log, each.without_log) for each in own)
        right = sum(each.with_log == each.without_log for each in own)
        too_many = sum(each.without_log > each.with_log for each in own)
        share = f"{seen} ({seen / there:.0%})" if there else "0"
        yield f"| {kind} | {len(own)} | {there} | {share.replace('%', ' %')} | {right} | {too_many} |"


def write(report: Path, page: Path, readme: Path) -> None:
    """Write both tables into the page, and the summary of the report into README."""
    with ProcessPoolExecutor(_PROCESSES) as pool:
        counted = [each for each in pool.map(count, recordings(FOLDER) + recordings(FAMILIES)) if each is not None]
    text = with_part(page.read_text(), "counted", counted_lines(counted))
    page.write_text(with_part(text, "explained", without_log_lines(report.read_text())))
    readme.write_text(with_summary(readme.read_text(), report.read_text()))


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:4]))
