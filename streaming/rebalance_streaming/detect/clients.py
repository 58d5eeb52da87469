"""What clients said of themselves: a short history of reports per client, and what it says of a stretch of time.

Receives decoded reports; answers whether heartbeats, polls and the process itself went on. Knows nothing of rules.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rebalance_streaming.wire.metrics.report import ClientConfig, Report, Temporality

HEARTBEAT_AGE = "coordinator_last_heartbeat_seconds_ago"
HEARTBEAT_RATE = "coordinator_heartbeat_rate"
HEARTBEAT_TOTAL = "coordinator_heartbeat_total"
RESPONSE_MAX = "coordinator_heartbeat_response_time_max"
POLL_AGE = "last_poll_seconds_ago"
POLL_GAP_MAX = "time_between_poll_max"
POLL_IDLE = "poll_idle_ratio_avg"
FETCH_RATE = "fetch_manager_fetch_rate"
CONSUMED_RATE = "fetch_manager_records_consumed_rate"
ASSIGNED = "coordinator_assigned_partitions"
JOIN_RATE = "coordinator_join_rate"
FAILED_REBALANCES = "coordinator_failed_rebalance_total"
REVOKED_LATENCY = "coordinator_partition_revoked_latency_max"
ASSIGNED_LATENCY = "coordinator_partition_assigned_latency_max"

_KEPT = 180
_STATISTICS = "librdkafka_stats"
#: A report is late when it takes longer than this to arrive, or when none came for so many intervals.
_DELIVERY_MS, _LATE_REPORT = 1_000, 1.6
_START_SLACK_MS = 3_000
_DEFAULT_INTERVAL_MS = 5_000


@dataclass(frozen=True, slots=True)
class Sight:
    """One report boiled down to what rules ask. Times in epoch milliseconds, ages in milliseconds; null: not told.

    `heartbeat_never`: the client said that it never sent one.
    """

    emitted_ms: int
    observed_ms: int
    member_id: str | None
    heartbeat_age_ms: float | None
    heartbeat_never: bool
    heartbeat_rate: float | None
    heartbeat_total: float | None
    poll_age_ms: float | None
    fetch_rate: float | None
    assigned: float | None
    process_start_ms: int | None
    tick_late_ms: int | None
    cpu_s: float | None
    switches: int | None
    reason: str | None
    join_state: str | None
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a client's reports say of the time before a moment at which its group lost it.

    `last_report_ms` and `next_report_ms` are the reports around that moment, null where there is none; `witnesses`
    counts reports written in the second half of the stretch, `undelivered` those of them that reached the topic only
    after the moment although the client wrote them before. `stood_still_ms` is by how much its reporting stopped:
    how late its thread woke, or how much longer than usual no report was written. `beat_gap_ms` is how long it had
    sent no heartbeat then; null where nothing tells. `beat_rate` is heartbeats per second over the stretch.
    `poll_age_ms` is the largest age of a last poll; `polls_stood_still` is null where nothing tells.
    `restarted`: a later report comes from a younger process. Rates are of the longest gap between reports.
    """

    interval_ms: int
    last_report_ms: int
    next_report_ms: int | None
    witnesses: int
    undelivered: int
    late_ms: int
    stood_still_ms: int
    beat_gap_ms: float | None
    beat_never: bool
    beat_rate: float | None
    poll_age_ms: float | None
    polls_stood_still: bool | None
    restarted: bool
    cpu_share: float | None
    switches_per_second: float | None
    reason: str | None


@dataclass(slots=True)
class ClientHistory:
    """Reports of one client, oldest first. Identity fields hold the latest that was told."""

    client_id: str | None = None
    member_id: str | None = None
    group_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    library: str | None = None
    version: str | None = None
    interval_ms: int = _DEFAULT_INTERVAL_MS
    config: ClientConfig = field(default_factory=ClientConfig)
    #: Its statistics reach the topic through the application's own poll loop, so they come late when that stands still.
    through_application: bool = False
    sights: deque[Sight] = field(default_factory=lambda: deque(maxlen=_KEPT))
    #: Running sums of delta counters.
    sums: dict[str, float] = field(default_factory=dict)
    lag: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)

    def take(self, report: Report) -> None:
        """Take up a report. One that is older than the newest finds its place by its own time."""
        last = self.latest()
        if last is None or report.emitted_ms >= last.emitted_ms:
            self._take_identity(report)
        values, never = self._values(report)
        self._place(_sight(report, values, never=never))

    def _take_identity(self, report: Report) -> None:
        self.client_id = report.client_id or self.client_id
        self.member_id = report.member_id or self.member_id
        self.group_id = report.group_id or self.group_id
        self.instance_id = report.instance_id or self.instance_id
        self.host = report.host or self.host
        self.library = report.library or self.library
        self.version = report.library_version or self.version
        if report.interval_ms:
            self.interval_ms = report.interval_ms
        self.through_application = report.format == _STATISTICS
        if report.config != ClientConfig():
            self.config = report.config

    def _place(self, sight: Sight) -> None:
        place = bisect_left(self.sights, sight.emitted_ms, key=lambda each: each.emitted_ms)
        if place < len(self.sights) and self.sights[place].emitted_ms == sight.emitted_ms:
            # Formats with one metric per message tell a moment in pieces.
            self.sights[place] = _merged(self.sights[place], sight)
        elif place == len(self.sights):
            self.sights.append(sight)
        else:
            self.sights = deque(sorted((*self.sights, sight), key=lambda each: each.emitted_ms), maxlen=_KEPT)

    def _values(self, report: Report) -> tuple[dict[str, float], bool]:
        values: dict[str, float] = {}
        never = False
        for point in report.points:
            if "partition" in point.labels:
                self._take_partition(point.labels, point.metric, point.value)
            elif "topic" in point.labels or "node_id" in point.labels:
                continue
            elif point.value is None:
                never = never or (point.never and point.metric == HEARTBEAT_AGE)
            elif point.temporality is Temporality.DELTA:
                self.sums[point.metric] = self.sums.get(point.metric, 0.0) + point.value
                values[point.metric] = self.sums[point.metric]
            else:
                values[point.metric] = point.value
        return values, never

    def _take_partition(self, labels: dict[str, str], metric: str, value: float | None) -> None:
        if value is not None and "topic" in labels and labels["partition"].isdigit():
            place = (labels["topic"], int(labels["partition"]))
            self.lag.setdefault(place, {})[metric] = value

    def latest(self) -> Sight | None:
        """Return the newest report."""
        return self.sights[-1] if self.sights else None

    def before(self, lost_ms: int, length_ms: int) -> Stretch | None:
        """Return what was reported about the time before a loss; null when there is no report before it."""
        known = [each for each in self.sights if each.emitted_ms <= lost_ms]
        after = [each for each in self.sights if each.emitted_ms > lost_ms]
        if not known:
            return None
        inside = [each for each in known if each.emitted_ms >= lost_ms - length_ms]
        seen = inside or known[-1:]
        touching = [*known[-len(inside) - 1 :], *after[:1]]
        quiet, one, other = _longest_gap(touching)
        late_half = [each for each in inside if each.emitted_ms > lost_ms - length_ms // 2]
        next_ = after[0] if after else None
        return Stretch(
            interval_ms=self.interval_ms,
            last_report_ms=known[-1].emitted_ms,
            next_report_ms=None if next_ is None else next_.emitted_ms,
            witnesses=len(late_half),
            undelivered=sum(each.observed_ms > lost_ms + _DELIVERY_MS for each in late_half),
            late_ms=max((each.observed_ms - each.emitted_ms for each in (*late_half, *after[:1])), default=0),
            stood_still_ms=self._stood_still(touching[1:], quiet),
            beat_gap_ms=_beat_gap(known[-1], next_, lost_ms),
            beat_never=any(each.heartbeat_never and (each.assigned or 0) > 0 for each in seen),
            beat_rate=_heartbeat_rate(touching),
            poll_age_ms=_largest(each.poll_age_ms for each in (*seen, *self._same_polls(after, lost_ms))),
            polls_stood_still=_polls_stood_still(seen),
            restarted=_restarted(touching, after),
            cpu_share=_per_second(one, other, "cpu_s"),
            switches_per_second=_per_second(one, other, "switches"),
            reason=next((each.reason for each in after[:3] if each.reason != known[-1].reason), None)
            or known[-1].reason,
        )

    def _stood_still(self, sights: list[Sight], quiet_ms: int) -> int:
        ticks = [each.tick_late_ms for each in sights if each.tick_late_ms is not None]
        if ticks:
            return max(ticks)
        return max(0, quiet_ms - round(_LATE_REPORT * self.interval_ms))

    def _same_polls(self, after: list[Sight], lost_ms: int) -> list[Sight]:
        """Return the next report if it still tells of a poll before the loss."""
        if after and after[0].poll_age_ms is not None and after[0].emitted_ms - after[0].poll_age_ms < lost_ms:
            return [replace(after[0], poll_age_ms=after[0].poll_age_ms - (after[0].emitted_ms - lost_ms))]
        return []


def _sight(report: Report, values: dict[str, float], *, never: bool) -> Sight:
    age, poll_age = values.get(HEARTBEAT_AGE), values.get(POLL_AGE)
    polled_ms = report.last_poll_return_ms
    if poll_age is None and polled_ms is not None:
        poll_age = max(0.0, (report.emitted_ms - polled_ms) / 1000)
    if poll_age is None and report.waiting_since_ms is not None:
        poll_age = 0.0  # it is in poll() this very moment
    return Sight(
        emitted_ms=report.emitted_ms,
        observed_ms=report.observed_ms,
        member_id=report.member_id,
        heartbeat_age_ms=None if age is None else age * 1000,
        heartbeat_never=never,
        heartbeat_rate=values.get(HEARTBEAT_RATE),
        heartbeat_total=values.get(HEARTBEAT_TOTAL),
        poll_age_ms=None if poll_age is None else poll_age * 1000,
        fetch_rate=values.get(FETCH_RATE),
        assigned=values.get(ASSIGNED),
        process_start_ms=report.process_start_ms,
        tick_late_ms=report.tick_late_ms,
        cpu_s=report.cpu_s,
        switches=report.voluntary_switches,
        reason=report.reason or None,
        join_state=report.join_state,
        values=values,
    )


def _merged(one: Sight, other: Sight) -> Sight:
    fields = {
        name: getattr(other, name) if getattr(other, name) not in (None, False, {}) else getattr(one, name)
        for name in Sight.__dataclass_fields__
    }
    return Sight(**{**fields, "values": {**one.values, **other.values}})


def _longest_gap(sights: list[Sight]) -> tuple[int, Sight | None, Sight | None]:
    pairs = itertools.pairwise(sights)
    return max(
        ((b.emitted_ms - a.emitted_ms, a, b) for a, b in pairs), key=lambda each: each[0], default=(0, None, None)
    )


def _beat_gap(last: Sight, next_: Sight | None, lost_ms: int) -> float | None:
    """Return how long before a loss the last heartbeat was sent; the report after it knows best."""
    for sight in (next_, last):
        if sight is not None and sight.heartbeat_age_ms is not None:
            sent_ms = sight.emitted_ms - sight.heartbeat_age_ms
            if sent_ms <= lost_ms:
                return lost_ms - sent_ms
    return None


def _restarted(sights: list[Sight], after: list[Sight]) -> bool:
    starts = [each.process_start_ms for each in sights if each.process_start_ms is not None]
    later = [each.process_start_ms for each in after if each.process_start_ms is not None]
    # librdkafka's is computed from a clock of whole seconds.
    return bool(starts and later and later[-1] - starts[0] > _START_SLACK_MS)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _heartbeat_rate(sights: list[Sight]) -> float | None:
    """Return heartbeats per second: by counter where there is one, else the last windowed rate."""
    counted = [each for each in sights if each.heartbeat_total is not None]
    if len(counted) > 1 and counted[-1].emitted_ms > counted[0].emitted_ms:
        first, last = counted[0], counted[-1]
        return ((last.heartbeat_total or 0) - (first.heartbeat_total or 0)) / (
            (last.emitted_ms - first.emitted_ms) / 1000
        )
    return next((each.heartbeat_rate for each in reversed(sights) if each.heartbeat_rate is not None), None)


def _polls_stood_still(sights: list[Sight]) -> bool | None:
    """Return whether the application did not poll at the end of the stretch; null where nothing tells."""
    for each in reversed(sights):
        if each.poll_age_ms is not None:
            return each.poll_age_ms > 5_000
        if each.fetch_rate is not None:
            return each.fetch_rate == 0
    return None


def _per_second(before: Sight | None, after: Sight | None, name: str) -> float | None:
    if before is None or after is None or after.emitted_ms <= before.emitted_ms:
        return None
    one, other = getattr(before, name), getattr(after, name)
    if one is None or other is None or other < one:
        return None
    return float(other - one) / ((after.emitted_ms - before.emitted_ms) / 1000)


@dataclass(slots=True)
class Clients:
    """All clients that reported of one group, found by member id, else by client id and host."""

    known: dict[str, list[ClientHistory]] = field(default_factory=dict)
    by_member: dict[str, ClientHistory] = field(default_factory=dict)

    def take(self, report: Report) -> None:
        """Take up a report: to the process it comes from, so that a history survives a rejoin under a new id."""
        who = report.instance_id or report.client_id or report.member_id
        key = f"{report.host or ''}/{report.pid or ''}/{who}"
        same = self.known.setdefault(key, [])
        told = self.by_member.get(report.member_id or "")
        found = [each for each in same if each is told or each.member_id in (None, report.member_id)]
        if report.member_id is None and len(same) == 1:
            found = same  # it is out of its group for now
        # Two consumers of one process may share a client id: one that is silent lately has got a new member id.
        silent = [each for each in same if _is_due(each, report)]
        history = (found or silent or [ClientHistory()])[0]
        if not any(each is history for each in same):
            same.append(history)
        if report.member_id is not None:
            self.by_member[report.member_id] = history
        history.take(report)

    def of(self, member_id: str, client_id: str, host: str, instance_id: str | None) -> ClientHistory | None:
        """Return a member's client: by member id, else instance, else client id with host, else a unique client id."""
        found = self.by_member.get(member_id)
        if found is not None:
            return found
        same = [
            each
            for each in self
            if (instance_id is not None and each.instance_id == instance_id) or each.client_id == client_id
        ]
        near = [each for each in same if each.host is not None and each.host == host]
        if len(near) == 1:
            return near[0]
        # A member id that is known belongs to somebody else.
        free = [each for each in same if each.member_id is None]
        return free[0] if len(free) == 1 else same[0] if len(same) == 1 and same[0].member_id is None else None

    def __iter__(self) -> Iterator[ClientHistory]:
        return (history for several in self.known.values() for history in several)


def _is_due(history: ClientHistory, report: Report) -> bool:
    last = history.latest()
    return (
        report.member_id is not None
        and last is not None
        and report.emitted_ms - last.emitted_ms > (history.interval_ms // 2)
    )
