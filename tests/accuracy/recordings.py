"""Recordings of stories, replayed with all or some of their sources, and what was found held against the truth."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rebalance_contract import Finding, GroupImpact, GroupSnapshot, Rebalance
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.programme import find_story
from rebalance_devtools.stories.story import Expected
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.replay import Replay, make_engine, read_lines

_T = TypeVar("_T")

FOLDER = Path(__file__).parents[1] / "golden" / "stories"

#: Which lines of a recording a monitor with those sources would have.
SOURCES: dict[str, tuple[str, ...]] = {
    "all": (),
    "no client metrics": ("client-metrics",),
    "log only": ("client-metrics", "probes"),
}
#: Short recordings of things that the catalogue wants to see for an hour.
SCALES = {"shared_group_id": 0.005, "stalled_consumer": 0.05}


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording and what happened in it."""

    name: str
    run: StoryRun
    folder: Path = FOLDER
    _rows: dict[tuple[str, float], dict[str, list[bytes]]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def expected(self) -> Expected | None:
        """What must be said of it; null if nothing must."""
        story = find_story(self.run.story)
        told = None if self.run.cured else story.expect(self.run.parameters)
        return None if told is None or told.diagnosis in ("", "none") else told

    def lines(self, left_out: tuple[str, ...]) -> Iterator[bytes]:
        """Yield the recorder's lines without those of some topics, by the ends of their names."""
        path = self.folder / f"{self.name}.jsonl"
        raw = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
        for line in raw.splitlines(keepends=True):
            if not any(f'{topic}"'.encode() in line for topic in left_out):
                yield line

    def groups(self) -> list[GroupSnapshot]:
        """Return the groups as a replay leaves them."""
        return self._found("group", GroupSnapshot)

    def rebalances(self) -> list[Rebalance]:
        """Return the rebalances as a replay leaves them."""
        return self._found("rebalance", Rebalance)

    def impacts(self) -> list[GroupImpact]:
        """Return what rebalances cost their groups, as a replay leaves it."""
        return self._found("group_impact", GroupImpact)

    def judge(self, sources: str = "all") -> list[Finding]:
        """Return what a replay finds with these sources."""
        return self._found("finding", Finding, sources, SCALES.get(self.run.story, 1.0))

    def _found(self, kind: str, of: type[_T], sources: str = "all", window_scale: float = 1.0) -> list[_T]:
        """Return the rows of a kind. One replay serves all kinds, because it takes longest."""
        if (sources, window_scale) not in self._rows:
            self._rows[sources, window_scale] = self._replayed(sources, DetectConfig(window_scale=window_scale))
        return [msgspec.json.decode(row, type=of) for row in self._rows[sources, window_scale][kind]]

    def _replayed(self, sources: str, config: DetectConfig) -> dict[str, list[bytes]]:
        state = Replay(engine=make_engine("default", config))
        rows: dict[str, list[bytes]] = defaultdict(list)
        for row in chain(state.feed(read_lines([self.lines(SOURCES[sources])])), state.finish()):
            rows[row["kind"]].append(msgspec.json.encode(row))
        return rows


def recordings() -> list[Recording]:
    """Return every recording that is kept."""
    return [read_recording(path) for path in sorted(FOLDER.glob("*.truth.json"))]


def read_recording(path: Path) -> Recording:
    """Read a recording by the path of its truth."""
    told: dict[str, Any] = json.loads(path.read_text())
    fields = {name: told[name] for name in StoryRun.__dataclass_fields__ if name in told}
    fields |= {"events": tuple(told["events"]), "broker_lines": tuple(told["broker_lines"])}
    return Recording(path.name.removesuffix(".truth.json"), StoryRun(**fields), path.parent)
