"""Recordings of stories, replayed with all or some of their sources: the findings, and when each was first reported."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from rebalance_contract import CoordinatorActivity, Finding, GroupImpact, GroupSnapshot, Rebalance
from rebalance_devtools.stories.play import StoryRun
from rebalance_devtools.stories.programme import find_story
from rebalance_devtools.stories.script import Expected
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.judgement import Judgement
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.recordings.log_files import read_log_files
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import CLUSTER, PANE_MS, Replay
from rebalance_streaming.wire.records import OFFSETS_TOPIC

_T = TypeVar("_T")

GOLDEN = Path(__file__).parents[1] / "golden"
#: The incidents and scenes that the rules were developed with.
FOLDER = GOLDEN / "stories"
#: Played to measure the rules.
FAMILIES = GOLDEN / "families"
#: The recordings among them that rules may be tuned to.
DECLARED = Path(__file__).with_name("families.toml")

#: Identifies the broker that wrote a line: 3.x writes `[GroupCoordinator 1]`, 4.x `[GroupCoordinator id=1 …]`.
_COORDINATOR = re.compile(r"\[GroupCoordinator (?:id=)?(\d+)")
#: Everything that a coordinator logs about a group that only commits; not an event of the group.
_COMMITS_ONLY = "Creating a simple consumer group"

Split = Literal["known", "kept back"]
SPLITS: tuple[Split, ...] = ("known", "kept back")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources given to the monitor: a recording without some topics (by the ends of their names), and broker logs.

    `log`: whether the groups' records in the offsets topic are read.
    """

    left_out: tuple[str, ...] = ()
    broker_logs: bool = False
    log: bool = True


SOURCES: dict[str, Sources] = {
    "all": Sources(),
    "all with broker logs": Sources(broker_logs=True),
    "no client metrics": Sources(("client-metrics",)),
    "no prober": Sources(("probes",)),
    "log and broker logs": Sources(("client-metrics", "probes"), broker_logs=True),
    "log only": Sources(("client-metrics", "probes")),
    "without the log": Sources(log=False),
    "broker logs instead": Sources(broker_logs=True, log=False),
}


#: Rules about ongoing conditions, and the threshold for the duration of each.
WAITS = {
    "stalled_member_join_barrier": "barrier_ms",
    "reconciliation_stuck": "reconciliation_ms",
    "stalled_consumer": "stalled_ms",
}


@cache
def declared() -> dict[str, dict[str, Any]]:
    """Return the declarations of families, by table name in the file."""
    return tomllib.loads(DECLARED.read_text())


class WatchedDetector(Detector):
    """A detector that records when each rebalance of a group was first given a cause, and causes changed later."""

    def __init__(self, group: str, *settings: Any) -> None:
        super().__init__(*settings)
        self._group = group
        self.first_ms: dict[str, int] = {}
        self.revised: set[str] = set()
        self._first_causes: dict[str, str] = {}

    def advance(self, now_ms: int, most: int | None = None) -> Judgement:
        """Judge, and record the resulting causes."""
        judgement = super().advance(now_ms, most)
        for rebalance, cause in self.causes(self._group).items():
            self.first_ms.setdefault(rebalance, now_ms)
            if self._first_causes.setdefault(rebalance, cause) != cause:
                self.revised.add(rebalance)
        return judgement


@dataclass(frozen=True, slots=True)
class Watched:
    """The results of a replay: rows by kind, when each rebalance was given a cause, and causes changed later."""

    rows: dict[str, list[bytes]]
    first_ms: dict[str, int]
    revised: frozenset[str]


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording and the truth about it."""

    name: str
    run: StoryRun
    folder: Path = FOLDER
    _found_with: dict[str, Watched] = field(default_factory=dict, repr=False, compare=False)

    @property
    def split(self) -> Split:
        """Whether rules may be tuned to the recording. Raises KeyError for a family that is not declared."""
        kept_back = self.run.story in declared()["kept_back"]
        if kept_back == (self.run.story in declared()["known"]):
            raise KeyError(f"{self.run.story} has to be declared once in {DECLARED}")
        return "kept back" if kept_back else "known"

    @property
    def window_scale(self) -> float:
        """The factor by which windows and hold times are multiplied."""
        return float(declared()["window_scale"].get(self.run.story, 1.0))

    @property
    def expected(self) -> Expected | None:
        """The expected diagnosis, or null if none is expected."""
        story = find_story(self.run.story)
        reported = None if self.run.cured else story.expect(self.run.parameters)
        return None if reported is None or reported.diagnosis in ("", "none") else reported

    def lines(self, left_out: tuple[str, ...]) -> Iterator[bytes]:
        """Yield the recorder's lines, without those of some topics, by the ends of their names."""
        path = self.folder / f"{self.name}.jsonl"
        raw = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
        for line in raw.splitlines(keepends=True):
            if not any(f'{topic}"'.encode() in line for topic in left_out):
                yield line

    def broker_rows(self) -> list[CoordinatorActivity]:
        """Return the rows from the logs of the group's coordinators; empty for a group stored in ZooKeeper.

        Brokers and recorders ran in UTC. Raises LogFileError if no line of a log can be read.
        """
        logs = defaultdict[str, list[bytes]](list)
        for line in self.run.broker_lines:
            if _COMMITS_ONLY in line:
                continue
            broker = _COORDINATOR.search(line)
            logs["" if broker is None else broker[1]].append(line.encode() + b"\n")
        return read_log_files(logs.values(), cluster=CLUSTER, pane_ms=PANE_MS)

    def groups(self) -> list[GroupSnapshot]:
        """Return the groups at the end of a replay."""
        return self._rows("group", GroupSnapshot)

    def rebalances(self, sources: str = "all") -> list[Rebalance]:
        """Return the rebalances at the end of a replay."""
        return self._rows("rebalance", Rebalance, sources)

    def impacts(self) -> list[GroupImpact]:
        """Return the impact of the rebalances on their groups, at the end of a replay."""
        return self._rows("group_impact", GroupImpact)

    def judge(self, sources: str = "all") -> list[Finding]:
        """Return the findings of a replay with these sources."""
        return self._rows("finding", Finding, sources)

    def delays_ms(self, sources: str) -> list[int]:
        """Return each rebalance's delay from its end to its first cause, except those judged after the last row."""
        first_ms = self.watched(sources).first_ms
        ends_ms = {each.rebalance_id: each.completed_at_ms for each in self._rows("rebalance", Rebalance, sources)}
        return [at - end for name, at in first_ms.items() if (end := ends_ms.get(name)) is not None]

    def waits_ms(self) -> dict[str, int]:
        """Return the delay of each rule of WAITS from when a wait was due to its first finding, in milliseconds.

        A wait is due when it has lasted as long as the rule's threshold. A wait that was over before it was noticed
        counts as well: it is found when its rebalance is judged.
        """
        thresholds, found = self.thresholds.scaled(self.window_scale), dict[str, int]()
        for each in sorted(self.judge(), key=lambda finding: finding.detected_at_ms):
            if each.rule in WAITS and each.group == self.run.group:
                due_ms = each.started_at_ms + getattr(thresholds, WAITS[each.rule])
                found.setdefault(each.rule, each.detected_at_ms - due_ms)
        return found

    def watched(self, sources: str) -> Watched:
        """Return the results of a replay with these sources. Cached, because a replay is slow."""
        if sources not in self._found_with:
            self._found_with[sources] = self._replayed(SOURCES[sources])
        return self._found_with[sources]

    def _rows(self, kind: str, of: type[_T], sources: str = "all") -> list[_T]:
        return [msgspec.json.decode(row, type=of) for row in self.watched(sources).rows[kind]]

    @property
    def thresholds(self) -> Thresholds:
        """The default thresholds, with the brokers' own offset retention, which a monitor has to be configured with."""
        minutes = find_story(self.run.story).broker_config.get("offsets.retention.minutes")
        return Thresholds() if minutes is None else Thresholds(retention_ms=int(minutes) * 60_000)

    def _replayed(self, sources: Sources) -> Watched:
        config = DetectConfig(window_scale=self.window_scale, thresholds=self.thresholds)
        detector = WatchedDetector(self.run.group, CLUSTER, config)
        settings = EngineConfig(cluster=CLUSTER, source_topic=OFFSETS_TOPIC, detect=config)
        engine = Engine(settings, make_detector=lambda *_: detector)
        state, rows = Replay(engine=engine, without_log=not sources.log), defaultdict[str, list[bytes]](list)
        if sources.broker_logs:
            state.take_logs(self.broker_rows())
        for row in chain(state.feed(read_lines([self.lines(sources.left_out)])), state.finish()):
            rows[row["kind"]].append(msgspec.json.encode(row))
        return Watched(rows, detector.first_ms, frozenset(detector.revised))


def recordings(folder: Path = FOLDER) -> list[Recording]:
    """Return every recording in a folder."""
    return [read_recording(path) for path in sorted(folder.glob("*.truth.json"))]


def read_recording(path: Path) -> Recording:
    """Read a recording by the path of its truth."""
    reported: dict[str, Any] = json.loads(path.read_text())
    fields = {name: reported[name] for name in StoryRun.__dataclass_fields__ if name in reported}
    fields |= {"events": tuple(reported["events"]), "broker_lines": tuple(reported["broker_lines"])}
    return Recording(path.name.removesuffix(".truth.json"), StoryRun(**fields), path.parent)
