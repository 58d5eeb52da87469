"""What clients reported about themselves: a short history of reports per client, and conclusions about a period.

Receives packed rows of client reports; determines whether heartbeats, polls and the process itself went on. Independent
of rules.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rebalance_contract import ClientActivity, ClientConfig, ClientSample, Member, ProcessFigures
from rebalance_contract.clients import (
    APP_OFFSET,
    ASSIGNED,
    FETCH_RATE,
    HEARTBEAT_AGE,
    HEARTBEAT_RATE,
    HEARTBEAT_TOTAL,
    POLL_AGE,
    REBALANCE_AGE,
)

_KEPT = 180
#: Bounds against clients that are made up, or that get new names all the time: per group, and per process.
_KEPT_CLIENTS, _KEPT_ALIKE, _KEPT_MEMBER_IDS = 12_000, 50, 30_000
_KEPT_PLACES = 5_000
#: Reports of all clients of a group, some 1 kB each: above 2,200 clients each keeps fewer, but at least the latest few.
_KEPT_OF_GROUP, _FEWEST = 400_000, 30
#: A process that is silent for as long as a start reads back is forgotten, as pods have new names; checked this often.
_SILENT_MS, _LOOK_MS = 3_600_000, 600_000
_STATISTICS = "librdkafka_stats"
#: A report is late when it takes longer than this to arrive, or when none came for this many intervals.
_DELIVERY_MS, _LATE_REPORT = 1_000, 1.6
_START_SLACK_MS = 3_000
#: A member that leaves gives its partitions up within this time.
_REBALANCED_MS = 1_000
_DEFAULT_INTERVAL_MS = 5_000
_LONGEST_PARTITION = 10
_NO_FIGURES = ProcessFigures()


@dataclass(frozen=True, slots=True)
class ClientReport:
    """What a client reports of one moment. Times in epoch milliseconds, ages in milliseconds; null: not reported.

    `heartbeat_never`: the client reports that it never sent one. `values` holds all values by canonical name, and
    running sums of counters that are reported as increments; `increments` are the names of these counters.
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
    increments: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LossReports:
    """What a client's reports show about the time before its group lost it.

    `last_report_ms` and `next_report_ms` are the reports around the loss, null where there is none; `witnesses`
    counts reports written in the second half of the period, `undelivered` how many of them reached the topic only
    after the loss although the client wrote them before. `stood_still_ms` is for how long its reporting stopped: how
    late its thread woke, or how much longer than usual no report was written. `beat_gap_ms` is how long before the loss
    it had sent its last heartbeat, null where not reported. `never_beat_ms` is for how long it had reported, up to its
    last report, that it never sent a heartbeat although it had partitions. `beat_rate` is heartbeats per second over
    the period. `poll_age_ms` is the largest age of a last poll, `polled_ms` when it last polled for certain before it
    was lost, `fetches` whether it fetched at the end; null where not reported. `restarted`: a later report comes from a
    younger process; `same_process`: the next report comes from the same process. Rates are of the longest gap between
    reports. `reason` is the client's own reason for its last rebalance, `reason_before` the reason that it reported at
    the start of the period. librdkafka repeats its reason until it has another one to give all partitions up:
    `reason_is_new` means that the reason concerns this period, because another was reported before, or because the
    client gave its partitions up again when it was lost.
    """

    interval_ms: int
    last_report_ms: int
    next_report_ms: int | None
    witnesses: int
    undelivered: int
    late_ms: int
    stood_still_ms: int
    beat_gap_ms: float | None
    never_beat_ms: int | None
    beat_rate: float | None
    poll_age_ms: float | None
    polled_ms: float | None
    fetches: bool | None
    restarted: bool
    same_process: bool
    cpu_share: float | None
    switches_per_second: float | None
    reason: str | None
    reason_before: str | None
    reason_is_new: bool


@dataclass(slots=True)
class ClientHistory:
    """Reports of one client, oldest first. Identity fields hold the latest that was reported."""

    client_id: str | None = None
    member_id: str | None = None
    group_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    pid: int | None = None
    library: str | None = None
    version: str | None = None
    interval_ms: int = _DEFAULT_INTERVAL_MS
    config: ClientConfig = field(default_factory=ClientConfig)
    #: Its statistics reach the topic through the application's poll loop, so they come late while the loop is blocked.
    through_application: bool = False
    reports: deque[ClientReport] = field(default_factory=lambda: deque(maxlen=_KEPT))
    #: Running sums of delta counters.
    sums: dict[str, float] = field(default_factory=dict)
    lag: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    #: Reports up to this time were dropped because the group is large.
    dropped_ms: int = -1
    #: When it last reported, by the latest time that any client of the group had reported until then.
    heard_ms: int = 0

    def take(self, row: ClientActivity, sample: ClientSample) -> None:
        """Process a sample of a row. A sample that is older than the newest is inserted by its time."""
        is_full = len(self.reports) == _KEPT
        if sample.emitted_ms <= self.dropped_ms or (is_full and sample.emitted_ms < self.reports[0].emitted_ms):
            return
        last = self.latest()
        if last is None or sample.emitted_ms >= last.emitted_ms:
            self._take_identity(row)
        self._place(_report(row, sample, self._values(sample)))

    def _take_identity(self, row: ClientActivity) -> None:
        self.client_id = row.client_id or self.client_id
        self.member_id = row.member_id or self.member_id
        self.group_id = row.group_id or self.group_id
        self.instance_id = row.instance_id or self.instance_id
        self.host = row.host or self.host
        self.pid = row.pid or self.pid
        self.library = row.library or self.library
        self.version = row.library_version or self.version
        if row.interval_ms:
            self.interval_ms = row.interval_ms
        self.through_application = row.format == _STATISTICS
        if row.config != ClientConfig():
            self.config = row.config

    def _place(self, report: ClientReport) -> None:
        place = bisect_left(self.reports, report.emitted_ms, key=lambda each: each.emitted_ms)
        if place < len(self.reports) and self.reports[place].emitted_ms == report.emitted_ms:
            # Formats with one metric per message report one moment in several messages.
            self.reports[place] = _merged(self.reports[place], report)
        elif place == len(self.reports):
            self.reports.append(report)
        else:
            self.reports = deque(sorted((*self.reports, report), key=lambda each: each.emitted_ms), maxlen=_KEPT)

    def _values(self, sample: ClientSample) -> dict[str, float]:
        if not sample.increments:
            return sample.values
        known = self._at(sample.emitted_ms)
        # A row may arrive twice: the increments of a moment are added up once.
        added = frozenset() if known is None else known.increments
        values = dict(sample.values)
        for metric, count in sample.increments.items():
            if metric not in added:
                self.sums[metric] = self.sums.get(metric, 0.0) + count
                values[metric] = self.sums[metric]
        return values

    def _at(self, emitted_ms: int) -> ClientReport | None:
        place = bisect_left(self.reports, emitted_ms, key=lambda each: each.emitted_ms)
        found = self.reports[place] if place < len(self.reports) else None
        return found if found is not None and found.emitted_ms == emitted_ms else None

    def take_offsets(self, offsets: Mapping[str, Mapping[str, int]]) -> None:
        """Note the offsets up to which librdkafka passed records to the application, by topic and partition."""
        for topic, by_partition in offsets.items():
            for partition, offset in by_partition.items():
                if partition.isascii() and partition.isdecimal() and len(partition) <= _LONGEST_PARTITION:
                    self.lag[topic, int(partition)] = {APP_OFFSET: float(offset)}
        while len(self.lag) > _KEPT_PLACES:
            del self.lag[next(iter(self.lag))]

    def latest(self) -> ClientReport | None:
        """Return the newest report."""
        return self.reports[-1] if self.reports else None

    def had(self, member_id: str) -> bool:
        """Whether it reported under a member id, in the reports that are kept."""
        return any(each.member_id == member_id for each in self.reports)

    def before(self, lost_ms: int, length_ms: int, surely_ms: int | None = None) -> LossReports | None:
        """Return what was reported about the time before a loss; null when there is no report before it.

        `surely_ms`: the loss was not earlier than this.
        """
        known = [each for each in self.reports if each.emitted_ms <= lost_ms]
        after = [each for each in self.reports if each.emitted_ms > lost_ms]
        if not known:
            return None
        inside = [each for each in known if each.emitted_ms >= lost_ms - length_ms]
        seen = inside or known[-1:]
        touching = [*known[-len(inside) - 1 :], *after[:1]]
        quiet, one, other = _longest_gap(touching)
        late_half = [each for each in inside if each.emitted_ms > lost_ms - length_ms // 2]
        next_ = after[0] if after else None
        earlier = known[-len(inside) - 1] if len(known) > len(inside) else seen[0]
        reason = next((each.reason for each in after[:3] if each.reason != known[-1].reason), None) or known[-1].reason
        same_process = bool(after) and self._is_same_process(known[-1], after[0])
        since_ms = lost_ms if surely_ms is None else surely_ms
        return LossReports(
            interval_ms=self.interval_ms,
            last_report_ms=known[-1].emitted_ms,
            next_report_ms=None if next_ is None else next_.emitted_ms,
            witnesses=len(late_half),
            undelivered=sum(each.observed_ms > lost_ms + _DELIVERY_MS for each in late_half),
            late_ms=max((each.observed_ms - each.emitted_ms for each in (*late_half, *after[:1])), default=0),
            stood_still_ms=self._stood_still(touching[1:], quiet),
            beat_gap_ms=_beat_gap(known[-1], next_, lost_ms),
            never_beat_ms=_never_beat_ms(known),
            beat_rate=_heartbeat_rate(touching),
            poll_age_ms=_largest(each.poll_age_ms for each in (*seen, *self._same_polls(after, lost_ms))),
            polled_ms=_polled_ms([*known[-60:], *after[:1]], lost_ms if surely_ms is None else surely_ms),
            fetches=next((each.fetch_rate > 0 for each in reversed(seen) if each.fetch_rate is not None), None),
            restarted=_restarted(touching, after),
            same_process=same_process,
            cpu_share=_per_second(one, other, "cpu_s"),
            switches_per_second=_per_second(one, other, "switches"),
            reason_before=seen[0].reason,
            reason=reason,
            reason_is_new=reason != earlier.reason
            or (same_process and _rebalanced_anew([known[-1], *after[:3]], reason, since_ms, lost_ms)),
        )

    def ran_through(self, from_ms: int, to_ms: int) -> bool:
        """Whether one process is known to have reported before and after a period."""
        before = next((each for each in reversed(self.reports) if each.emitted_ms <= from_ms), None)
        after = next((each for each in self.reports if each.emitted_ms >= to_ms), None)
        return before is not None and after is not None and self._is_same_process(before, after)

    def _stood_still(self, reports: list[ClientReport], quiet_ms: int) -> int:
        ticks = [each.tick_late_ms for each in reports if each.tick_late_ms is not None]
        if ticks:
            return max(ticks)
        return max(0, quiet_ms - round(_LATE_REPORT * self.interval_ms))

    def _same_polls(self, after: list[ClientReport], lost_ms: int) -> list[ClientReport]:
        """Return the next report if the last poll that it reports was still before the loss."""
        if after and after[0].poll_age_ms is not None and after[0].emitted_ms - after[0].poll_age_ms < lost_ms:
            return [replace(after[0], poll_age_ms=after[0].poll_age_ms - (after[0].emitted_ms - lost_ms))]
        return []

    def _is_same_process(self, one: ClientReport, other: ClientReport) -> bool:
        """Whether two reports are known to come from one process.

        Decided by the process's start or id; otherwise by a member id, which only the client that got it knows, or by
        totals that continue.
        """
        starts = (one.process_start_ms, other.process_start_ms)
        if None not in starts:
            return not _restarted([one], [other])
        same_member = one.member_id is not None and one.member_id == other.member_id and self.instance_id is None
        totals = [name for name, value in one.values.items() if name.endswith("_total") and value > 0]
        went_on = bool(totals) and all(other.values.get(name, 0.0) >= one.values[name] for name in totals)
        return self.pid is not None or same_member or went_on


def _report(row: ClientActivity, sample: ClientSample, values: dict[str, float]) -> ClientReport:
    age, poll_age = values.get(HEARTBEAT_AGE), values.get(POLL_AGE)
    process = sample.process or _NO_FIGURES
    return ClientReport(
        emitted_ms=sample.emitted_ms,
        observed_ms=sample.observed_ms,
        member_id=row.member_id,
        heartbeat_age_ms=None if age is None else age * 1000,
        heartbeat_never=sample.heartbeat_never,
        heartbeat_rate=values.get(HEARTBEAT_RATE),
        heartbeat_total=values.get(HEARTBEAT_TOTAL),
        poll_age_ms=sample.poll_age_ms if poll_age is None else poll_age * 1000,
        fetch_rate=values.get(FETCH_RATE),
        assigned=values.get(ASSIGNED),
        process_start_ms=process.start_ms,
        tick_late_ms=process.tick_late_ms,
        cpu_s=process.cpu_s,
        switches=process.voluntary_switches,
        reason=sample.reason,
        join_state=sample.join_state,
        values=values,
        increments=frozenset(sample.increments),
    )


def _merged(one: ClientReport, other: ClientReport) -> ClientReport:
    """Return two messages about one moment as one report; where both have a value, the later one counts."""
    later = {name: getattr(other, name) for name in ClientReport.__dataclass_fields__}
    fields = {name: getattr(one, name) if value is None else value for name, value in later.items()}
    fields["heartbeat_never"] = one.heartbeat_never or other.heartbeat_never
    fields["increments"] = one.increments | other.increments
    return ClientReport(**{**fields, "values": one.values | other.values})


def _longest_gap(reports: list[ClientReport]) -> tuple[int, ClientReport | None, ClientReport | None]:
    gaps = ((b.emitted_ms - a.emitted_ms, a, b) for a, b in itertools.pairwise(reports))
    return max(gaps, key=lambda each: each[0], default=(0, None, None))


def _rebalanced_anew(reports: list[ClientReport], reason: str | None, from_ms: int, to_ms: int) -> bool:
    """Whether reports after a loss show that the client gave its partitions up again, and give this reason for it.

    Statistics may be reported later than they were made: the age has to be less than before, or to point to the time
    of the loss.
    """
    for before, after in itertools.pairwise(reports):
        was, age = before.values.get(REBALANCE_AGE), after.values.get(REBALANCE_AGE)
        if age is None or after.reason != reason:
            continue
        anew_ms = after.emitted_ms - age * 1000
        if (was is not None and age < was) or from_ms - _REBALANCED_MS <= anew_ms <= to_ms + _REBALANCED_MS:
            return True
    return False


def _beat_gap(last: ClientReport, next_: ClientReport | None, lost_ms: int) -> float | None:
    """Return how long before a loss the last heartbeat was sent; the report after the loss takes precedence."""
    for report in (next_, last):
        if report is not None and report.heartbeat_age_ms is not None:
            sent_ms = report.emitted_ms - report.heartbeat_age_ms
            if sent_ms <= lost_ms:
                return lost_ms - sent_ms
    return None


def _restarted(reports: list[ClientReport], after: list[ClientReport]) -> bool:
    starts = [each.process_start_ms for each in reports if each.process_start_ms is not None]
    later = [each.process_start_ms for each in after if each.process_start_ms is not None]
    # librdkafka computes it from a clock of whole seconds.
    return bool(starts and later and later[-1] - starts[0] > _START_SLACK_MS)


def _never_beat_ms(known: list[ClientReport]) -> int | None:
    """Return for how long the latest reports have stated that a member never sent a heartbeat; null: they do not."""
    silent = itertools.takewhile(lambda each: each.heartbeat_never and (each.assigned or 0) > 0, reversed(known))
    times = [each.emitted_ms for each in silent]
    return times[0] - times[-1] if times else None


def _polled_ms(reports: list[ClientReport], lost_ms: int) -> float | None:
    """Return when the latest poll before a loss was; null if no report has its age."""
    polls = (each.emitted_ms - each.poll_age_ms for each in reports if each.poll_age_ms is not None)
    return max((each for each in polls if each <= lost_ms), default=None)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _heartbeat_rate(reports: list[ClientReport]) -> float | None:
    """Return heartbeats per second: from the counter if there is one, else the last windowed rate."""
    counted = [each for each in reports if each.heartbeat_total is not None]
    if len(counted) > 1 and counted[-1].emitted_ms > counted[0].emitted_ms:
        first, last = counted[0], counted[-1]
        beats = (last.heartbeat_total or 0) - (first.heartbeat_total or 0)
        return beats / ((last.emitted_ms - first.emitted_ms) / 1000)
    return next((each.heartbeat_rate for each in reversed(reports) if each.heartbeat_rate is not None), None)


def _per_second(before: ClientReport | None, after: ClientReport | None, name: str) -> float | None:
    if before is None or after is None or after.emitted_ms <= before.emitted_ms:
        return None
    one, other = getattr(before, name), getattr(after, name)
    if one is None or other is None or other < one:
        return None
    return float(other - one) / ((after.emitted_ms - before.emitted_ms) / 1000)


#: Key of a client: kind of name ("instance" or "client"), name, and host; host null: clients without a member id.
_Key = tuple[str, str, str | None]


@dataclass(slots=True)
class _ClientIndex:
    """Clients by instance or client id with their host, and also without host while they have no member id."""

    _found: dict[_Key, dict[int, ClientHistory]] = field(default_factory=dict)
    #: By `id()` of the object, because what is known of a client changes.
    _keys: dict[int, tuple[_Key, ...]] = field(default_factory=dict)

    def put(self, client: ClientHistory) -> None:
        """Add or update a client."""
        keys = tuple(_keys_of(client))
        if self._keys.get(id(client)) == keys:
            return
        self.remove(client)
        self._keys[id(client)] = keys
        for key in keys:
            self._found.setdefault(key, {})[id(client)] = client

    def remove(self, client: ClientHistory) -> None:
        """Drop a client."""
        for key in self._keys.pop(id(client), ()):
            del self._found[key][id(client)]
            if not self._found[key]:
                del self._found[key]

    def only_one(self, member: Member, host: str | None) -> ClientHistory | None:
        """Return the client that has a member's names and a host; null where there is none, or several."""
        only: ClientHistory | None = None
        for kind, name in (("instance", member.group_instance_id), ("client", member.client_id)):
            found = {} if name is None else self._found.get((kind, name, host), {})
            if len(found) > 1:
                return None
            for client in found.values():
                if only is not None and client is not only:
                    return None
                only = client
        return only


def _keys_of(client: ClientHistory) -> Iterator[_Key]:
    for kind, name in (("instance", client.instance_id), ("client", client.client_id)):
        if name is not None and client.host is not None:
            yield kind, name, client.host
        if name is not None and client.member_id is None:
            yield kind, name, None


@dataclass(slots=True)
class Clients:
    """All clients that reported from one group, found by member id, else by client id and host."""

    known: dict[str, list[ClientHistory]] = field(default_factory=dict)
    by_member: dict[str, ClientHistory] = field(default_factory=dict)
    _index: _ClientIndex = field(default_factory=_ClientIndex)
    #: Time of the latest record with a report, and when silent clients were last looked for.
    _latest_ms: int = 0
    _looked_ms: int = 0

    def take(self, row: ClientActivity) -> None:
        """Assign a row to the process it comes from, so that its history survives a rejoin under a new id."""
        if not row.samples:
            return
        history = self._history_of(row, row.samples[0].emitted_ms)
        for sample in row.samples:
            history.take(row, sample)
        most = max(_FEWEST, _KEPT_OF_GROUP // len(self.known))
        while len(history.reports) > most:
            history.dropped_ms = history.reports.popleft().emitted_ms
        # Not its own time: a client whose clock is behind would always count as silent.
        self._latest_ms = history.heard_ms = max(self._latest_ms, *(each.observed_ms for each in row.samples))
        if self._latest_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = self._latest_ms
            self._forget_silent()
        history.take_offsets(row.app_offsets)
        self._index.put(history)

    def _history_of(self, row: ClientActivity, emitted_ms: int) -> ClientHistory:
        who = row.instance_id or row.client_id or row.member_id
        key = f"{row.host or ''}/{row.pid or ''}/{who}"
        same = self.known.get(key) or self._begin(key)
        of_member = self.by_member.get(row.member_id or "")
        found = [each for each in same if each is of_member or each.member_id in (None, row.member_id)]
        if row.member_id is None and len(same) == 1:
            found = same  # it is out of its group for now
        # Two consumers of one process may share a client id: the one that was silent lately has a new member id.
        silent = [each for each in same if _is_due(each, row.member_id, emitted_ms)]
        history = (found or silent or [ClientHistory()])[0]
        if not any(each is history for each in same):
            if len(same) >= _KEPT_ALIKE:
                self._index.remove(same.pop(same.index(min(same, key=_latest_ms))))
            same.append(history)
        if row.member_id is not None:
            self.by_member[row.member_id] = history
            if len(self.by_member) > _KEPT_MEMBER_IDS:
                del self.by_member[next(iter(self.by_member))]
        return history

    def _begin(self, key: str) -> list[ClientHistory]:
        """Make room for a process: at the limit, forget the tenth that has been silent longest."""
        if len(self.known) >= _KEPT_CLIENTS:
            by_age = sorted(self.known, key=lambda each: max(map(_latest_ms, self.known[each]), default=0))
            self._forget(by_age[: _KEPT_CLIENTS // 10])
        return self.known.setdefault(key, [])

    def _forget_silent(self) -> None:
        horizon_ms = self._latest_ms - _SILENT_MS
        self._forget([key for key, same in self.known.items() if all(each.heard_ms < horizon_ms for each in same)])

    def _forget(self, keys: Iterable[str]) -> None:
        forgotten = [history for key in keys for history in self.known.pop(key)]
        for history in forgotten:
            self._index.remove(history)
        gone = {id(history) for history in forgotten}
        if gone:
            self.by_member = {each: known for each, known in self.by_member.items() if id(known) not in gone}

    def of(self, member: Member) -> ClientHistory | None:
        """Return a member's client: by member id, else instance, else client id with host, else a unique client id."""
        found = self.by_member.get(member.member_id) or self._index.only_one(member, member.host)
        # A client with another member id belongs to another member.
        return found or self._index.only_one(member, None)

    def latest_of(self, member: Member) -> ClientReport | None:
        """Return the newest report of a member's client; null where it does not report."""
        client = self.of(member)
        return None if client is None else client.latest()

    def config_of(self, member: Member) -> ClientConfig:
        """Return the settings that a member's client reported; all null where it reported none."""
        client = self.of(member)
        return ClientConfig() if client is None else client.config

    def __iter__(self) -> Iterator[ClientHistory]:
        return (history for several in self.known.values() for history in several)

    def next_start_ms(self, client_id: str, reported_ms: int) -> int | None:
        """Return when a client's first process after the one that reported at a time started; null if not known."""
        reports = [each for history in self if history.client_id == client_id for each in history.reports]
        starts = [(each.emitted_ms, each.process_start_ms) for each in reports if each.process_start_ms is not None]
        present = max((start_ms for emitted_ms, start_ms in starts if emitted_ms <= reported_ms), default=None)
        if present is None:
            return None
        return min((start_ms for _, start_ms in starts if start_ms - present > _START_SLACK_MS), default=None)


def _latest_ms(history: ClientHistory) -> int:
    last = history.latest()
    return 0 if last is None else last.emitted_ms


def _is_due(history: ClientHistory, member_id: str | None, emitted_ms: int) -> bool:
    last = history.latest()
    return member_id is not None and last is not None and emitted_ms - last.emitted_ms > (history.interval_ms // 2)
