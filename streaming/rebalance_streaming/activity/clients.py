"""Decodes client-metrics messages and packs them into bounded rows, on the executors.

Takes a batch of records of client-metrics topics; returns one row per client and pane (several if it is too large) with
its key for the activity topic, and the number of messages by outcome. Invalid messages are counted too: nothing is
raised. No state is kept between batches, so counters reported as increments stay increments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import pyarrow as pa

from rebalance_contract import CLIENT_VALUES, ClientActivity, ClientConfig, ClientSample, ProcessFigures, encode
from rebalance_contract.clients import APP_OFFSET, HEARTBEAT_AGE
from rebalance_streaming.activity.limit import TimeLimit, TooSlow
from rebalance_streaming.activity.rows import MAX_PACKED_BYTES, split_by_size
from rebalance_streaming.wire.metrics.errors import UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.plausible import CLOCK_AHEAD_MS
from rebalance_streaming.wire.metrics.report import Report, Temporality

#: Outcomes of messages, in addition to the reasons for which a message cannot be decoded.
DECODED, DROPPED, FAILED, TOO_SLOW = "decoded", "dropped", "failed", "too_slow"

#: Maximum number of samples per client and pane. A client that was paused reports minutes at once, one sample per
#: second.
MAX_MOMENTS = 240
#: Maximum number of partitions with positions per client, and of bytes for them in a row.
MAX_PARTITIONS, _OFFSET_BYTES = 2_000, 24_000
#: Maximum processor time for one message.
MAX_SECONDS = 2.0

_LARGEST_PARTITION = 2**31


@dataclass(frozen=True, slots=True)
class TopicFormat:
    """How to read a topic: `format` of its messages (null: detected), `defaults` for missing identity fields."""

    format: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricRecord:
    """One record of a client-metrics topic; `timestamp_ms` is its timestamp."""

    topic: str
    value: bytes | None
    timestamp_ms: int
    headers: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Packed:
    """The result for a batch: rows with their keys, and numbers of messages by (topic, outcome)."""

    rows: list[tuple[str, ClientActivity]]
    counts: dict[tuple[str, str], int]


class _Client(NamedTuple):
    """The identity of a client: all fields that are equal for the samples of a row."""

    group_id: str | None
    client_id: str | None
    member_id: str | None
    instance_id: str | None
    host: str | None
    pid: int | None
    library: str | None
    library_version: str | None
    format: str
    interval_ms: int | None
    config: ClientConfig


@dataclass(slots=True)
class _Moment:
    """A sample that is merged from the reports with the same time.

    `messages` counts, by topic, the messages that are part of no other sample.
    """

    sample: ClientSample
    messages: Counter[str] = field(default_factory=Counter)

    def add(self, other: ClientSample) -> None:
        """Merge another report of the same time; for a value reported twice the later one counts."""
        self.sample = merged(self.sample, other)


@dataclass(slots=True)
class _Pane:
    """Reports of one client in one pane."""

    moments: dict[int, _Moment] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    implausible: int = 0
    is_truncated: bool = False

    def take(self, report: Report, counts: Counter[tuple[str, str]], topic: str | None) -> None:
        """Process a report; `topic` is the topic of its message if that has no other report, else null."""
        sample = self._sample(report)
        moment = self.moments.get(sample.emitted_ms)
        if moment is None:
            moment = self.moments[sample.emitted_ms] = _Moment(sample)
        else:
            moment.add(sample)
        if topic is not None:
            moment.messages[topic] += 1
        self.implausible += report.implausible
        if len(self.moments) > MAX_MOMENTS:
            self._thin(counts)

    def _sample(self, report: Report) -> ClientSample:
        values: dict[str, float] = {}
        increments: dict[str, float] = {}
        never = False
        for point in report.points:
            if point.labels:
                if point.metric == APP_OFFSET and point.value is not None:
                    self._take_offset(point.labels, point.value)
            elif point.metric not in CLIENT_VALUES:
                continue
            elif point.value is None:
                never = never or (point.never and point.metric == HEARTBEAT_AGE)
            elif point.temporality is Temporality.DELTA:
                increments[point.metric] = increments.get(point.metric, 0.0) + point.value
            else:
                values[point.metric] = point.value
        return ClientSample(
            emitted_ms=report.emitted_ms,
            observed_ms=report.observed_ms,
            values=values,
            increments=increments,
            heartbeat_never=never,
            poll_age_ms=_poll_age_ms(report),
            process=_process(report),
            reason=report.reason or None,
            join_state=report.join_state,
        )

    def _take_offset(self, labels: Mapping[str, str], value: float) -> None:
        topic, partition = labels.get("topic"), labels.get("partition", "")
        if topic is None or not (partition.isascii() and partition.isdecimal()) or int(partition) >= _LARGEST_PARTITION:
            return
        place = (topic, int(partition))
        if place not in self.offsets and len(self.offsets) >= MAX_PARTITIONS:
            self.is_truncated = True
            return
        self.offsets[place] = int(value)

    def _thin(self, counts: Counter[tuple[str, str]]) -> None:
        """Drop every second sample but not the last one; the increments of a dropped sample are added to the next."""
        self.is_truncated = True
        order = sorted(self.moments)
        for gone, kept in zip(order[-2::-2], order[-1::-2], strict=False):
            left, stays = self.moments.pop(gone), self.moments[kept]
            for metric, count in left.sample.increments.items():
                stays.sample.increments[metric] = stays.sample.increments.get(metric, 0.0) + count
            for topic, messages in left.messages.items():
                counts[topic, DECODED] -= messages
                counts[topic, DROPPED] += messages


@dataclass(slots=True)
class _Packing:
    """Reports of all clients in a batch."""

    pane_ms: int
    panes: dict[tuple[_Client, int], _Pane] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, reports: tuple[Report, ...], topic: str | None = None) -> None:
        """Process the reports of one message."""
        alone = topic if len(reports) == 1 else None
        for report in reports:
            start_ms = report.observed_ms // self.pane_ms * self.pane_ms
            self.panes.setdefault((_client(report), start_ms), _Pane()).take(report, self.counts, alone)

    def rows(self, cluster: str) -> list[tuple[str, ClientActivity]]:
        """Return the rows, oldest pane first."""
        order = sorted(self.panes, key=lambda each: each[1])
        return [
            (client.group_id or client.client_id or "", row)
            for client, start_ms in order
            for row in _rows(cluster, client, start_ms, self.panes[client, start_ms])
        ]


def pack_reports(reports: Iterable[Report], pane_ms: int, cluster: str = "") -> list[tuple[str, ClientActivity]]:
    """Return reports packed into rows with their keys: the group if known, else the client id, else empty."""
    packing = _Packing(pane_ms)
    for report in reports:
        packing.take((report,))
    return packing.rows(cluster)


def pack_batch(
    batch: pa.RecordBatch,
    topics: Mapping[str, TopicFormat],
    *,
    cluster: str,
    pane_ms: int,
    now_ms: int | None = None,
    seconds: float | None = MAX_SECONDS,
) -> Packed:
    """Return a packed batch with the columns topic, value, timestamp_ms and headers; see `pack_messages`.

    Values are copied from the batch one by one; those that are too large are not copied.
    """
    return pack_messages(_messages(batch), topics, cluster=cluster, pane_ms=pane_ms, now_ms=now_ms, seconds=seconds)


def pack_messages(
    messages: Iterable[MetricRecord],
    topics: Mapping[str, TopicFormat],
    *,
    cluster: str,
    pane_ms: int,
    now_ms: int | None = None,
    seconds: float | None = MAX_SECONDS,
) -> Packed:
    """Return messages decoded and packed into rows; each message is counted with one outcome, and nothing is raised.

    `topics` has the reading options by topic; for other topics the format is detected for each message. `now_ms` is the
    reader's clock, with which later timestamps are replaced; null: they are kept. `seconds` limits the processor time
    for each message in the main thread; null: no limit. Rows have at most MAX_PACKED_BYTES.
    """
    packing = _Packing(pane_ms)
    with TimeLimit(seconds) as limit:
        for message in messages:
            outcome = _take(packing, message, topics.get(message.topic) or TopicFormat(), now_ms, limit)
            packing.counts[message.topic, outcome] += 1
    return Packed(packing.rows(cluster), {each: count for each, count in packing.counts.items() if count})


def _take(packing: _Packing, message: MetricRecord, topic: TopicFormat, now_ms: int | None, limit: TimeLimit) -> str:
    """Decode a message and process its reports; return its outcome."""
    try:
        with limit.running():
            reports = decode_metrics(
                message.value,
                _observed_ms(message.timestamp_ms, now_ms),
                message.headers,
                pinned=topic.format,
                defaults=topic.defaults,
            )
            packing.take(reports, message.topic)
    except UndecodableError as error:
        return str(error.reason)
    except TooSlow:
        return TOO_SLOW
    except Exception:
        # An unexpected message from outside must not stop the stream; it is counted.
        return FAILED
    return DECODED


def _observed_ms(timestamp_ms: int, now_ms: int | None) -> int:
    """Return a plausible time of a record; its producer sets the timestamp, which may be -1 or far in the future."""
    if now_ms is not None and not 0 < timestamp_ms <= now_ms + CLOCK_AHEAD_MS:
        return now_ms
    return max(0, timestamp_ms)


class _Header(msgspec.Struct):
    key: str
    value: bytes | None = None


_header_decoder = msgspec.json.Decoder(list[_Header])


def _headers(text: str | None) -> dict[str, bytes | None]:
    """Return headers by name from Spark's `to_json`, which encodes their values as base64."""
    return {} if text is None else {each.key: each.value for each in _header_decoder.decode(text)}


def _messages(batch: pa.RecordBatch) -> Iterator[MetricRecord]:
    names = ("topic", "value", "timestamp_ms", "headers")
    topics, values, times, headers = (batch.column(batch.schema.get_field_index(name)) for name in names)
    for row in range(batch.num_rows):
        yield MetricRecord(topics[row].as_py(), values[row].as_py(), times[row].as_py(), _headers(headers[row].as_py()))


def merged(one: ClientSample, other: ClientSample) -> ClientSample:
    """Return one sample merged from two of the same time; for values in both, the later one counts."""
    return ClientSample(
        emitted_ms=one.emitted_ms,
        observed_ms=other.observed_ms,
        values=one.values | other.values,
        increments=one.increments | other.increments,
        heartbeat_never=one.heartbeat_never or other.heartbeat_never,
        poll_age_ms=one.poll_age_ms if other.poll_age_ms is None else other.poll_age_ms,
        process=_merged_process(one.process, other.process),
        reason=other.reason or one.reason,
        join_state=other.join_state or one.join_state,
    )


def _merged_process(one: ProcessFigures | None, other: ProcessFigures | None) -> ProcessFigures | None:
    if one is None or other is None:
        return other or one
    return ProcessFigures(
        one.start_ms if other.start_ms is None else other.start_ms,
        one.tick_late_ms if other.tick_late_ms is None else other.tick_late_ms,
        one.cpu_s if other.cpu_s is None else other.cpu_s,
        one.voluntary_switches if other.voluntary_switches is None else other.voluntary_switches,
    )


def _client(report: Report) -> _Client:
    return _Client(
        report.group_id,
        report.client_id,
        report.member_id,
        report.instance_id,
        report.host,
        report.pid,
        report.library,
        report.library_version,
        report.format,
        report.interval_ms,
        report.config,
    )


def _poll_age_ms(report: Report) -> int | None:
    if report.last_poll_return_ms is not None:
        return max(0, report.emitted_ms - report.last_poll_return_ms)
    return None if report.waiting_since_ms is None else 0


def _process(report: Report) -> ProcessFigures | None:
    figures = ProcessFigures(report.process_start_ms, report.tick_late_ms, report.cpu_s, report.voluntary_switches)
    return None if figures == _NO_FIGURES else figures


_NO_FIGURES = ProcessFigures()


def _rows(cluster: str, client: _Client, start_ms: int, pane: _Pane) -> Iterator[ClientActivity]:
    """Yield the rows of a client in a pane: one, or several if its samples do not fit."""
    offsets, all_fit = _offsets(pane.offsets)
    row = ClientActivity(
        cluster,
        start_ms,
        (),
        **client._asdict(),
        app_offsets=offsets,
        implausible=pane.implausible,
        is_truncated=pane.is_truncated or not all_fit,
    )
    samples = (pane.moments[emitted_ms].sample for emitted_ms in sorted(pane.moments))
    for part in split_by_size(samples, MAX_PACKED_BYTES - len(encode(row))):
        yield replace(row, samples=part)
        # Values for the pane as a whole are only in the first row.
        row = replace(row, app_offsets={}, implausible=0)


def _offsets(offsets: Mapping[tuple[str, int], int]) -> tuple[dict[str, dict[str, int]], bool]:
    """Return positions by topic and partition, as many as fit, and whether all of them fit."""
    found: dict[str, dict[str, int]] = {}
    room = _OFFSET_BYTES
    for (topic, partition), offset in offsets.items():
        room -= len(str(partition)) + len(str(offset)) + 4
        if topic not in found:
            room -= len(encode(topic)) + 4
        if room < 0:
            return found, False
        found.setdefault(topic, {})[str(partition)] = offset
    return found, True
