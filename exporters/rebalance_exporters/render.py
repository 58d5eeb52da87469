"""Exposition: receives a picture, hands on the bytes of /metrics in the text format or in OpenMetrics.

Groups come to tens of thousands of series of which hardly any change between two scrapes, so each group is rendered
when it changed and the pieces are joined at a scrape. Both formats write samples alike and differ in HELP and TYPE
only, so the pieces serve both. The monitor's own few series take prometheus-client's way.
"""

from __future__ import annotations

import gzip
import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from rebalance_exporters.health import Readiness, ReadProgress
from rebalance_exporters.metrics import (
    COMMIT_METRICS,
    COUNT,
    FINDING_METRICS,
    GROUP_LABELS,
    GROUP_METRICS,
    LAG_METRICS,
    MEMBER_METRICS,
    MONITOR_METRICS,
    PARTITION_LAG,
    SUM,
    TIMING_METRICS,
    WINDOW_METRICS,
    CommitMoment,
    Metric,
    MonitorState,
    Samples,
)
from rebalance_exporters.view import DELETED, CommitProgress, GroupFindings, GroupKey, Picture
from rebalance_streaming.groups.events import KEPT_PANES, PANE_MS, GroupSnapshot, Panes
from rebalance_streaming.groups.windows import windows_at

_S = TypeVar("_S")

# Higher levels cost several times the CPU of the whole scrape and save little on text as repetitive as this.
_GZIP_LEVEL = 1


class Style(Enum):
    """The formats served, by their content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def choose_style(accept: str | None) -> Style:
    """Choose by the Accept header: OpenMetrics only where it is asked for and weighs at least as much as text."""
    text, openmetrics = 0.0, 0.0
    for kind, parameters in _parse_accept(accept or ""):
        weight = _read_weight(parameters.get("q", "1"))
        if kind == "application/openmetrics-text" and parameters.get("version", "1.0.0") == "1.0.0":
            openmetrics = max(openmetrics, weight)
        elif kind == "text/plain":
            text = max(text, weight)
    return Style.OPENMETRICS if openmetrics > 0 and openmetrics >= text else Style.TEXT


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Tell whether the Accept-Encoding header allows gzip."""
    weights = {
        kind: _read_weight(parameters.get("q", "1")) for kind, parameters in _parse_accept(accept_encoding or "")
    }
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def compress(body: bytes) -> bytes:
    """Return the body as gzip, the same bytes for the same body."""
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


def escape_label(value: str) -> str:
    """Escape a label's value, which both formats do alike."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def render_samples(name: str, label_names: tuple[str, ...], common: str, samples: Samples) -> str:
    """Write samples, one a line; `common` holds the labels that all of them begin with, already written."""
    lines = []
    for values, value in samples:
        labels = "".join(f',{key}="{escape_label(text)}"' for key, text in zip(label_names, values, strict=True))
        lines.append(f"{name}{{{common}{labels}}} {value}\n")
    return "".join(lines)


def render_histogram(name: str, common: str, samples: Samples) -> str:
    """Write a histogram's samples, one a line."""
    lines = []
    for (bound,), value in samples:
        suffix, labels = (bound, "") if bound in (SUM, COUNT) else ("bucket", f',le="{bound}"')
        lines.append(f"{name}_{suffix}{{{common}{labels}}} {value}\n")
    return "".join(lines)


def render_header(metric: Metric[Any], style: Style) -> bytes:
    """Write the HELP and TYPE lines of a family."""
    text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    name = metric.full_name
    if style is Style.OPENMETRICS:
        name, text = metric.family_name, text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {metric.type}\n".encode()


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """One group as written: a chunk per member of GROUP_METRICS, empty where the value is not known.

    `quiet_windows` is a chunk per member of WINDOW_METRICS, good for as long as nothing is in the group's windows.
    """

    snapshot: GroupSnapshot | None
    labels: str
    chunks: tuple[bytes, ...]
    quiet_windows: tuple[bytes, ...]
    series: int


def _group_labels(key: GroupKey) -> str:
    return ",".join(f'{name}="{escape_label(value)}"' for name, value in zip(GROUP_LABELS, key, strict=True))


def render_group(key: GroupKey, snapshot: GroupSnapshot | None) -> GroupBlock:
    """Write a group; without a snapshot (only its commits are known) every chunk is empty."""
    labels = _group_labels(key)
    if snapshot is None:
        return GroupBlock(None, labels, (b"",) * len(GROUP_METRICS), (b"",) * len(WINDOW_METRICS), 0)
    chunks = tuple(_render(metric, labels, snapshot) for metric in GROUP_METRICS)
    quiet = _render_windows(labels, replace(snapshot, windows=Panes(), rebalancing_since_ms=None), 0)
    return GroupBlock(snapshot, labels, chunks, quiet, sum(chunk.count(b"\n") for chunk in (*chunks, *quiet)))


def _render(metric: Metric[_S], labels: str, of: _S) -> bytes:
    if metric.type == "histogram":
        return render_histogram(metric.full_name, labels, metric.read(of)).encode()
    return render_samples(metric.full_name, metric.labels, labels, metric.read(of)).encode()


def _render_windows(labels: str, group: GroupSnapshot, now_ms: int) -> tuple[bytes, ...]:
    windows = windows_at(group.windows, now_ms, group.rebalancing_since_ms)
    return tuple(_render(metric, labels, windows) for metric in WINDOW_METRICS)


def _is_quiet(group: GroupSnapshot, now_ms: int) -> bool:
    panes = group.windows.panes
    over = not panes or panes[-1].start_ms + (KEPT_PANES + 1) * PANE_MS < now_ms
    return over and group.rebalancing_since_ms is None


class MonitorCollector(Collector):
    """Builds the monitor's own families anew at each scrape, from the state it is given then."""

    def __init__(self, read_state: Callable[[], MonitorState]) -> None:
        self._read_state = read_state

    def collect(self) -> Iterator[Family]:
        """Yield one family per member of MONITOR_METRICS."""
        state = self._read_state()
        for metric in MONITOR_METRICS:
            make = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
            family = make(metric.full_name, metric.help, labels=metric.labels)
            for labels, value in metric.read(state):
                family.add_metric(labels, value)
            yield family


class Pieces(Generic[_S]):
    """A few metrics of every group that change apart from its snapshot; each group's are written when they changed."""

    def __init__(self, metrics: tuple[Metric[_S], ...]) -> None:
        self.metrics = metrics
        self._written: dict[GroupKey, tuple[_S, tuple[bytes, ...]]] = {}

    def render(self, values: Iterable[tuple[GroupKey, str, _S]]) -> tuple[bytes, ...]:
        """Write all groups, given as (key, labels, value) in the order wanted; returns a text per metric."""
        written: dict[GroupKey, tuple[_S, tuple[bytes, ...]]] = {}
        for key, labels, value in values:
            known = self._written.get(key)
            if known is None or known[0] is not value:
                known = value, tuple(_render(metric, labels, value) for metric in self.metrics)
            written[key] = known
        self._written = written
        columns = zip(*(texts for _, texts in written.values()), strict=True)
        return tuple(map(b"".join, columns)) or (b"",) * len(self.metrics)


class Exposition:
    """Writes /metrics. One scrape at a time: others wait and then find the group's pieces ready."""

    def __init__(
        self, *, limit_groups: int, version: str, collect_partitions: bool = False, collect_members: bool = False
    ) -> None:
        self._lags = Pieces((*LAG_METRICS, PARTITION_LAG) if collect_partitions else LAG_METRICS)
        self._findings = Pieces(FINDING_METRICS)
        self._timings = Pieces((*TIMING_METRICS, *MEMBER_METRICS) if collect_members else TIMING_METRICS)
        self._limit_groups = limit_groups
        self._version = version
        self._lock = threading.Lock()
        self._blocks: dict[GroupKey, GroupBlock] = {}
        self._dropped: frozenset[GroupKey] = frozenset()
        self._dropped_series_total = 0
        self._joined_for: object = None
        self._joined: tuple[bytes, ...] = ()
        self._state: MonitorState | None = None
        self._registry = CollectorRegistry()
        self._registry.register(MonitorCollector(self._read_state))

    def render(
        self, picture: Picture, progress: ReadProgress, readiness: Readiness, now_ms: int, style: Style
    ) -> bytes:
        """Return the whole body of /metrics."""
        with self._lock:
            self._refresh(picture)
            ages = self._render_commits(picture.commits, now_ms)
            windows = self._render_windows(now_ms)
            pieces = (
                *self._lags.render(self._present(picture.lags)),
                *self._findings.render(self._with_findings(picture.findings)),
                *self._timings.render(self._present(picture.timings)),
            )
            clocked = (*pieces, *(text.encode() for text in ages))
            series = sum(block.series for block in self._blocks.values()) + sum(text.count(b"\n") for text in clocked)
            self._state = MonitorState(
                picture=picture,
                progress=progress,
                readiness=readiness,
                now_ms=now_ms,
                version=self._version,
                exported_groups=len(self._blocks),
                dropped_groups=len(self._dropped),
                series=series,
                dropped_series_total=self._dropped_series_total,
            )
            own = generate_openmetrics if style is Style.OPENMETRICS else generate_latest
            table: tuple[Metric[Any], ...] = (
                *GROUP_METRICS,
                *WINDOW_METRICS,
                *self._lags.metrics,
                *self._findings.metrics,
                *self._timings.metrics,
                *COMMIT_METRICS,
            )
            texts = (*self._joined, *windows, *clocked)
            body = [
                part for metric, text in zip(table, texts, strict=True) for part in (render_header(metric, style), text)
            ]
            return b"".join((*body, own(self._registry)))

    def _read_state(self) -> MonitorState:
        assert self._state is not None, "only a scrape collects"
        return self._state

    def _refresh(self, picture: Picture) -> None:
        """Render what changed since the last scrape and forget what is gone."""
        exported, dropped = self._select(picture)
        newly_dropped = dropped - self._dropped
        self._dropped_series_total += sum(_count_series(key, picture) for key in newly_dropped)
        self._dropped = dropped
        if self._joined_for is picture.groups and exported == self._blocks.keys():
            return
        blocks = {}
        for key in sorted(exported):
            snapshot, block = picture.groups.get(key), self._blocks.get(key)
            blocks[key] = block if block and block.snapshot is snapshot else render_group(key, snapshot)
        self._blocks = blocks
        chunks: Iterable[tuple[bytes, ...]] = zip(*(block.chunks for block in blocks.values()), strict=True)
        self._joined = tuple(map(b"".join, chunks)) or (b"",) * len(GROUP_METRICS)
        self._joined_for = picture.groups

    def _select(self, picture: Picture) -> tuple[set[GroupKey], frozenset[GroupKey]]:
        """Split the known groups at the limit. Those known longest stay, so that newcomers replace nobody's series."""
        known = picture.groups.keys() | picture.commits.keys()
        if len(known) <= self._limit_groups:
            return known, frozenset()

        def rank(key: GroupKey) -> tuple[float, GroupKey]:
            snapshot = picture.groups.get(key)
            first_seen = None if snapshot is None else snapshot.first_seen_ms
            return (float("inf") if first_seen is None else first_seen, key)

        exported = set(heapq.nsmallest(self._limit_groups, known, key=rank))
        return exported, frozenset(known - exported)

    def _render_windows(self, now_ms: int) -> tuple[bytes, ...]:
        """Write the windows of all groups as of now, a text per member of WINDOW_METRICS."""
        rows = [
            block.quiet_windows
            if block.snapshot is None or _is_quiet(block.snapshot, now_ms)
            else _render_windows(block.labels, block.snapshot, now_ms)
            for block in self._blocks.values()
        ]
        return tuple(map(b"".join, zip(*rows, strict=True))) or (b"",) * len(WINDOW_METRICS)

    def _present(self, values: Mapping[GroupKey, _S]) -> Iterator[tuple[GroupKey, str, _S]]:
        """Yield what is known of exported groups that are not deleted."""
        for key, block in self._blocks.items():
            value = values.get(key)
            if value is not None and not (block.snapshot and block.snapshot.state == DELETED):
                yield key, block.labels, value

    def _with_findings(
        self, findings: Mapping[GroupKey, GroupFindings]
    ) -> Iterator[tuple[GroupKey, str, GroupFindings]]:
        """Yield the findings of exported groups, and those of whole clusters, which have no group."""
        for key in sorted(findings):
            if key in self._blocks or not key[1]:
                yield key, _group_labels(key), findings[key]

    def _render_commits(self, commits: Mapping[GroupKey, CommitProgress], now_ms: int) -> list[str]:
        """Write what changes with the clock, a text per member of COMMIT_METRICS. A deleted group has no age."""
        present = [
            (block.labels, CommitMoment(commits[key], now_ms))
            for key, block in self._blocks.items()
            if key in commits and not (block.snapshot and block.snapshot.state == DELETED)
        ]
        return [
            "".join(
                render_samples(metric.full_name, metric.labels, labels, metric.read(moment))
                for labels, moment in present
            )
            for metric in COMMIT_METRICS
        ]


def _count_series(key: GroupKey, picture: Picture) -> int:
    return render_group(key, picture.groups.get(key)).series + (key in picture.commits) * len(COMMIT_METRICS)


def _parse_accept(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in header.split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield kind.lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _read_weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
