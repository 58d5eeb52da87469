"""Rendering of /metrics: receives a snapshot of the fleet, returns bytes in the text format or in OpenMetrics.

Groups have tens of thousands of series, and few change between two scrapes, so each group is rendered when it changes,
and the pieces are joined at a scrape. The pieces serve both formats, which differ only in headers and exemplars. The
monitor's own few series are rendered by prometheus-client.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from rebalance_contract import AlertSilence, GroupLag, GroupSnapshot, GroupState, GroupTiming, GroupType
from rebalance_contract.api import Readiness
from rebalance_exporters.metrics.findings import FINDING_METRICS, SILENCE_METRICS
from rebalance_exporters.metrics.formats import Style, Writer, render_header, render_labels
from rebalance_exporters.metrics.groups import GROUP_LABELS, GROUP_METRICS, STATE_SECONDS, GroupFacts, complete_states
from rebalance_exporters.metrics.lag import COMMIT_AGE, LAG_METRICS, PARTITION_LAG, TIME_LAG, WINDOW_METRICS, LagMoment
from rebalance_exporters.metrics.monitor import MONITOR_METRICS, MonitorState, Reload
from rebalance_exporters.metrics.series import Metric
from rebalance_exporters.metrics.timings import MEMBER_METRICS, TIMING_METRICS, member_labels
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.fleet import FleetSnapshot
from rebalance_exporters.state.health import ReadProgress, read_until_ms
from rebalance_exporters.state.kept import Examples, GroupFindings, GroupKey
from rebalance_exporters.state.silences import SilencedFindings
from rebalance_exporters.state.state_times import StateTimes, seconds_by_state

_S = TypeVar("_S")
_NO_EXAMPLES = Examples()
_GROUP_WRITERS = tuple(Writer(metric) for metric in GROUP_METRICS)
_STATE_WRITER, _AGE_WRITER, _TIME_LAG_WRITER = Writer(STATE_SECONDS), Writer(COMMIT_AGE), Writer(TIME_LAG)

#: Names, in metrics, of the limits that leave out series.
GROUPS_LIMIT, MEMBERS_LIMIT = "groups", "members_per_group"


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """One rendered group: a chunk per member of GROUP_METRICS, empty if the value is not known.

    The two formats share most chunks.
    """

    facts: GroupFacts
    labels: str
    text: tuple[bytes, ...]
    openmetrics: tuple[bytes, ...]
    series: int

    @property
    def snapshot(self) -> GroupSnapshot:
        """The group's snapshot."""
        return self.facts.snapshot

    def chunks(self, style: Style) -> tuple[bytes, ...]:
        """Return the chunks of one format."""
        return self.openmetrics if style is Style.OPENMETRICS else self.text


def render_group(key: GroupKey, facts: GroupFacts) -> GroupBlock:
    """Return a rendered group."""
    labels = render_labels(GROUP_LABELS, key)
    texts = [writer.write_both(labels, facts) for writer in _GROUP_WRITERS]
    plain = tuple([text.encode() for text, _ in texts])
    rich = tuple([chunk if rich is text else rich.encode() for chunk, (text, rich) in zip(plain, texts, strict=True)])
    return GroupBlock(facts, labels, plain, rich, sum([text.count("\n") for text, _ in texts]))


def join_columns(rows: Iterable[tuple[bytes, ...]], width: int) -> tuple[bytes, ...]:
    """Return the first members of all rows joined, the second members joined, and so on."""
    return tuple(map(b"".join, zip(*rows, strict=True))) or (b"",) * width


class MonitorCollector(Collector):
    """Builds the monitor's own families anew at each scrape, from the state at that time."""

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
    """A few metrics of every group that change independently of its snapshot, rendered again only if they changed."""

    def __init__(self, metrics: tuple[Metric[_S], ...]) -> None:
        self.metrics = metrics
        self._writers = tuple(Writer(metric) for metric in metrics)
        self._written: dict[GroupKey, tuple[_S, tuple[bytes, ...]]] = {}
        self._joined = (b"",) * len(metrics)
        self.series = 0

    def render(self, values: Iterable[tuple[GroupKey, str, _S]]) -> tuple[bytes, ...]:
        """Return a text per metric for all groups, given as (key, labels, value) in the order wanted."""
        written: dict[GroupKey, tuple[_S, tuple[bytes, ...]]] = {}
        changed = False
        for key, labels, value in values:
            known = self._written.get(key)
            if known is None or known[0] is not value:
                known = value, tuple([writer.write(labels, value).encode() for writer in self._writers])
                changed = True
            written[key] = known
        if changed or len(written) != len(self._written):
            self._joined = join_columns([texts for _, texts in written.values()], len(self.metrics))
            self.series = _count_lines(self._joined)
        self._written = written
        return self._joined


def _count_lines(texts: Iterable[bytes]) -> int:
    return sum(text.count(b"\n") for text in texts)


class StateClock:
    """The shown time of one group in its states: it never decreases, although the stream reports a little late.

    Between two changes of state only one of the numbers grows, and the text of the others is reused.
    """

    __slots__ = ("_base_ms", "_ended", "_shown", "_start", "_state", "_times", "_type")

    def __init__(self) -> None:
        self._times: StateTimes | None = None
        self._type: str | None = None
        self._shown: dict[str, float] = {}
        self._state = self._ended = self._start = ""
        self._base_ms = 0

    def write(self, labels: str, group: GroupSnapshot, times: StateTimes, now_ms: int) -> str:
        """Return the group's samples as of now."""
        if times is not self._times or group.type != self._type:
            self._turn(labels, group, times, now_ms)
        if not self._state:
            return self._ended
        seconds = max(self._shown[self._state], (self._base_ms + now_ms - times.since_ms) / 1000)
        self._shown[self._state] = seconds
        return f"{self._ended}{self._start}{seconds}\n"

    def _turn(self, labels: str, group: GroupSnapshot, times: StateTimes, now_ms: int) -> None:
        """Take over a changed state: the time spent in the previous one is final."""
        self._times, self._type = times, group.type
        spent = complete_states(group, seconds_by_state(times, now_ms))
        self._shown = {state: max(seconds, self._shown.get(state, 0.0)) for state, seconds in spent.items()}
        self._state = times.state if times.state in self._shown else ""
        self._base_ms = times.ended_ms.get(self._state, 0)
        self._start = _STATE_WRITER.begin(labels, (self._state,))
        self._ended = _STATE_WRITER.write(labels, {s: shown for s, shown in self._shown.items() if s != self._state})


class MomentPieces:
    """The metrics that change with the clock: time spent in states, age of commits, and age of unread records."""

    metrics: tuple[Metric[Any], ...] = (STATE_SECONDS, COMMIT_AGE, TIME_LAG)

    def __init__(self) -> None:
        self._clocks: dict[GroupKey, StateClock] = {}
        self.series = 0

    def render(
        self,
        states: Mapping[GroupKey, StateTimes],
        blocks: Mapping[GroupKey, GroupBlock],
        lags: Iterable[tuple[GroupKey, str, GroupLag]],
        now_ms: int,
    ) -> tuple[bytes, ...]:
        """Return a text per metric for all groups as of now."""
        spent, clocks, ages, time_lags = [], {}, [], []
        for key, block in blocks.items():
            times = states.get(key)
            if times is not None:
                clock = clocks[key] = self._clocks.get(key) or StateClock()
                spent.append(clock.write(block.labels, block.snapshot, times, now_ms))
        for _, labels, lag in lags:
            moment = LagMoment(lag, now_ms)
            ages.append(_AGE_WRITER.write(labels, moment))
            time_lags.append(_TIME_LAG_WRITER.write(labels, moment))
        self._clocks = clocks
        texts = ("".join(spent).encode(), "".join(ages).encode(), "".join(time_lags).encode())
        self.series = _count_lines(texts)
        return texts


class MemberLimit:
    """Leaves out members beyond a limit per group, always the same ones, and counts each series left out once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._limited: dict[GroupKey, tuple[GroupTiming, GroupTiming]] = {}
        self._dropped: dict[GroupKey, frozenset[tuple[str, str]]] = {}
        self.dropped_series = 0

    def apply(self, key: GroupKey, timing: GroupTiming) -> GroupTiming:
        """Return the timing with at most the allowed number of members; the same object for the same timing."""
        known = self._limited.get(key)
        if known is None or known[0] is not timing:
            known = self._limited[key] = (timing, self._cut(key, timing))
        return known[1]

    def forget(self, present: Iterable[GroupKey]) -> None:
        """Forget all groups but those present."""
        gone = self._limited.keys() - present
        for key in gone:
            del self._limited[key]
            self._dropped.pop(key, None)

    def _cut(self, key: GroupKey, timing: GroupTiming) -> GroupTiming:
        names = sorted({member_labels(member) for member in timing.members})
        beyond = frozenset(names[self._limit :])
        new = beyond - self._dropped.get(key, frozenset())
        self._dropped[key] = beyond
        if not beyond:
            return timing
        left_out = replace(timing, members=tuple(m for m in timing.members if member_labels(m) in new))
        self.dropped_series += sum(len(list(metric.read(left_out))) for metric in MEMBER_METRICS)
        return replace(timing, members=tuple(m for m in timing.members if member_labels(m) not in beyond))


class Exposition:
    """Renders /metrics, one scrape at a time; a scrape that waits then finds the pieces of the groups rendered."""

    def __init__(
        self,
        *,
        limit_groups: int,
        version: str,
        limit_members_per_group: int = 100,
        collect_partitions: bool = False,
        collect_members: bool = False,
    ) -> None:
        per_partition = (PARTITION_LAG,) if collect_partitions else ()
        self._lags = Pieces((*WINDOW_METRICS, *LAG_METRICS, *per_partition))
        self._findings = Pieces(FINDING_METRICS)
        self._silenced_findings = SilencedFindings()
        self._silences = Pieces(SILENCE_METRICS)
        self._timings = Pieces((*TIMING_METRICS, *MEMBER_METRICS) if collect_members else TIMING_METRICS)
        self._moments = MomentPieces()
        self._members = MemberLimit(limit_members_per_group) if collect_members else None
        self._limit_groups = limit_groups
        self._version = version
        self._lock = threading.Lock()
        self._blocks: dict[GroupKey, GroupBlock] = {}
        self._dropped: frozenset[GroupKey] = frozenset()
        self._dropped_series = 0
        self._joined: dict[Style, tuple[bytes, ...]] = {}
        self._state: MonitorState | None = None
        self._read_until: dict[str, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(MonitorCollector(self._read_state))

    def render(
        self,
        fleet: FleetSnapshot,
        progress: ReadProgress,
        readiness: Readiness,
        now_ms: int,
        style: Style,
        *,
        owners: Owners | None = None,
        reloads: tuple[Reload, ...] = (),
    ) -> bytes:
        """Return the whole body of /metrics."""
        with self._lock:
            self._note_read_until(fleet, now_ms)
            self._refresh(fleet, owners or Owners())
            lags = list(self._present(lambda key: fleet.live_lag(key, now_ms)))
            pieces = (
                *self._lags.render(lags),
                *self._findings.render(self._with_findings(fleet, now_ms)),
                *self._silences.render(self._silenced(fleet, now_ms)),
                *self._timings.render(self._limited(fleet, now_ms)),
                *self._moments.render(fleet.states, self._blocks, lags, now_ms),
            )
            clocked = (self._lags, self._findings, self._silences, self._timings, self._moments)
            series = sum([block.series for block in self._blocks.values()]) + sum([each.series for each in clocked])
            self._state = MonitorState(
                fleet=fleet,
                progress=progress,
                readiness=readiness,
                now_ms=now_ms,
                version=self._version,
                exported_groups=len(self._blocks),
                dropped_groups=len(self._dropped),
                series=series,
                dropped_series={
                    GROUPS_LIMIT: self._dropped_series,
                    MEMBERS_LIMIT: self._members.dropped_series if self._members else 0,
                },
                reloads=reloads,
            )
            return self._put_together((*self._join(style), *pieces), style)

    def _put_together(self, texts: tuple[bytes, ...], style: Style) -> bytes:
        table: tuple[Metric[Any], ...] = (
            *GROUP_METRICS,
            *self._lags.metrics,
            *self._findings.metrics,
            *self._silences.metrics,
            *self._timings.metrics,
            *self._moments.metrics,
        )
        parts = [
            part for metric, text in zip(table, texts, strict=True) for part in (render_header(metric, style), text)
        ]
        own = generate_openmetrics if style is Style.OPENMETRICS else generate_latest
        return b"".join((*parts, own(self._registry)))

    def _read_state(self) -> MonitorState:
        assert self._state is not None, "only a scrape collects"
        return self._state

    def _join(self, style: Style) -> tuple[bytes, ...]:
        joined = self._joined.get(style)
        if joined is None:
            rows = (block.chunks(style) for block in self._blocks.values())
            joined = self._joined[style] = join_columns(rows, len(GROUP_METRICS))
        return joined

    def _refresh(self, fleet: FleetSnapshot, owners: Owners) -> None:
        """Render the groups changed since the last scrape, drop those that are gone, and replace all blocks at once."""
        exported, dropped = self._select(fleet)
        self._dropped_series += sum(_count_series(key, fleet) for key in dropped - self._dropped)
        self._dropped = dropped
        order = self._blocks if exported == self._blocks.keys() else sorted(exported)
        blocks, changed = {}, order is not self._blocks
        for key in order:
            block = self._blocks.get(key)
            if block is None or not self._is_current(block, key, fleet, owners):
                block, changed = render_group(key, self._facts(key, fleet, owners)), True
            blocks[key] = block
        if changed:
            self._blocks, self._joined = blocks, {}

    def _select(self, fleet: FleetSnapshot) -> tuple[set[GroupKey], frozenset[GroupKey]]:
        """Return the groups to export and those to drop. Those known longest are exported, so new ones replace none."""
        known = set(fleet.groups)
        if len(known) <= self._limit_groups:
            return known, frozenset()

        def rank(key: GroupKey) -> tuple[float, GroupKey]:
            first_seen = fleet.groups[key].first_seen_ms
            return (float("inf") if first_seen is None else first_seen, key)

        exported = set(heapq.nsmallest(self._limit_groups, known, key=rank))
        return exported, frozenset(known - exported)

    def _present(self, read: Callable[[GroupKey], _S | None]) -> Iterator[tuple[GroupKey, str, _S]]:
        """Yield the values, except null, of exported groups that are not deleted."""
        for key, block in self._blocks.items():
            value = read(key)
            if value is not None and block.snapshot.state != GroupState.DELETED:
                yield key, block.labels, value

    def _limited(self, fleet: FleetSnapshot, now_ms: int) -> Iterator[tuple[GroupKey, str, GroupTiming]]:
        """Yield the live timings of exported groups, without the members beyond the limit."""
        timings = fleet.live_timings(now_ms)
        if self._members is None:
            yield from self._present(timings.get)
            return
        self._members.forget(fleet.timings.keys())
        for key, labels, timing in self._present(timings.get):
            yield key, labels, self._members.apply(key, timing)

    def _with_findings(self, fleet: FleetSnapshot, now_ms: int) -> Iterator[tuple[GroupKey, str, GroupFindings]]:
        """Yield the findings of exported groups, and those of whole clusters, which have no group.

        None fires for a silenced group.
        """
        self._silenced_findings.forget(fleet.findings)
        for key in sorted(fleet.findings):
            if key in self._blocks or not key[1]:
                silence = fleet.silences.in_force(key, now_ms)
                shown = self._silenced_findings.findings(key, fleet.findings[key], silence)
                yield key, render_labels(GROUP_LABELS, key), shown

    def _silenced(self, fleet: FleetSnapshot, now_ms: int) -> Iterator[tuple[GroupKey, str, AlertSilence]]:
        """Yield the silences in force of exported groups and of whole clusters."""
        if not fleet.silences.by_name:
            return
        clusters = {(cluster, "") for cluster, _ in self._blocks}
        for key in (*sorted(clusters - self._blocks.keys()), *self._blocks):
            silence = fleet.silences.in_force(key, now_ms)
            if silence is not None:
                yield key, render_labels(GROUP_LABELS, key), silence

    def _note_read_until(self, fleet: FleetSnapshot, now_ms: int) -> None:
        """Note up to when the log was read. This never decreases, because totals already shown must not decrease."""
        for cluster, until_ms in read_until_ms(fleet).items():
            self._read_until[cluster] = max(min(until_ms, now_ms), self._read_until.get(cluster, 0))

    def _facts(self, key: GroupKey, fleet: FleetSnapshot, owners: Owners) -> GroupFacts:
        examples = fleet.examples.get(key, _NO_EXAMPLES)
        read_until_ms = self._read_until.get(key[0])
        return GroupFacts.about(fleet.groups[key], owners.team_of(*key), examples, fleet.cost(key), read_until_ms)

    def _is_current(self, block: GroupBlock, key: GroupKey, fleet: FleetSnapshot, owners: Owners) -> bool:
        facts = block.facts
        return (
            _shows_the_same(facts.snapshot, fleet.groups[key])
            and facts.examples is fleet.examples.get(key, _NO_EXAMPLES)
            and facts.cost is fleet.cost(key)
            and (facts.settles_ms is None or self._read_until.get(key[0], 0) < facts.settles_ms)
            and facts.owner == owners.team_of(*key)
        )


def _shows_the_same(shown: GroupSnapshot, now: GroupSnapshot) -> bool:
    """Return whether two snapshots have the same series; a commit of a simple group changes only its time."""
    if shown is now:
        return True
    return now.type == GroupType.SIMPLE and replace(now, updated_at_ms=shown.updated_at_ms) == shown


def _count_series(key: GroupKey, fleet: FleetSnapshot) -> int:
    """Return about how many series a dropped group would have: those of its snapshot, lag and states."""
    snapshot, lag = fleet.groups[key], fleet.lags.get(key)
    moment = None if lag is None else LagMoment(lag, lag.at_ms)
    return (
        render_group(key, GroupFacts.about(snapshot)).series
        + len(complete_states(snapshot, {}))
        + (0 if lag is None else sum(len(metric.read(lag)) for metric in (*WINDOW_METRICS, *LAG_METRICS)))
        + (0 if moment is None else sum(len(metric.read(moment)) for metric in (COMMIT_AGE, TIME_LAG)))
    )
