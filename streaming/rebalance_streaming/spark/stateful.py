"""The thin adapter between Spark's state and the pure folds: one call per touched key and batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts, episodes, events, notices
from rebalance_streaming.groups.classic import DELETED
from rebalance_streaming.groups.fold import fold, settle
from rebalance_streaming.groups.model import GroupRecord, GroupState, dump_state, load_state, new_state
from rebalance_streaming.groups.probing import observe
from rebalance_streaming.spark.envelopes import GROUP_SCOPE, NOTICE, PROBE
from rebalance_streaming.wire.decode import decode_record

OUTPUT_SCHEMA = "topic string, key binary, value binary"
_STATE_SCHEMA = "blob binary"

#: Topic, key, and value; null is a tombstone.
Output = tuple[str, str, bytes | None]


def fold_groups(envelopes: DataFrame, config: StreamConfig) -> DataFrame:
    """Fold envelopes into rows for the output topics (topic, key, value)."""
    return envelopes.groupBy("scope", "name").transformWithState(
        statefulProcessor=GroupProcessor(config),
        outputStructType=OUTPUT_SCHEMA,
        outputMode="append",
        timeMode="ProcessingTime",
    )


class GroupProcessor(StatefulProcessor):
    """Keeps one blob per key: a group's state, or the monitor's own totals."""

    def __init__(self, config: StreamConfig) -> None:
        # What workers get carries no credentials.
        self._config = replace(config, kafka={})

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called once per task."""
        self._handle = handle
        self._state = handle.getValueState("state", _STATE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fold one key's envelopes of this batch; `rows` is an iterator of Row."""
        scope, name = key
        kept = self._state.get()
        blob = None if kept is None else kept[0]
        # Spark hands on a key's rows in no particular order; the log's order is what they mean.
        ordered = sorted(rows, key=lambda row: (row["type"] in (PROBE, NOTICE), row["partition"], row["offset"]))
        step = self._fold_group if scope == GROUP_SCOPE else self._fold_counts
        blob, outputs = step(name, blob, ordered)
        if blob is not None:
            self._state.update((blob,))
        return _rows(outputs)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Do what time alone calls for; a group that writes nothing more would never be asked again.

        Counts a rebalance that has been over for long enough, and drops a group that has been gone for long enough.
        """
        scope, name = key
        kept = self._state.get()
        if kept is None or scope != GROUP_SCOPE:
            return iter([])
        state, now_ms = load_state(bytes(kept[0])), _now_ms()
        forget_ms = self._forgets_at_ms(state)
        if forget_ms is not None and now_ms >= forget_ms:
            self._state.clear()
            return _rows([(self._config.groups_topic, f"{self._config.cluster}/{name}", None)])
        settled = settle(state, now_ms)
        if settled is state:
            return iter([])
        self._state.update((dump_state(settled),))
        return _rows([self._group_row(settled)])

    def close(self) -> None:
        """Nothing to release."""

    def _fold_group(self, group: str, blob: bytes | None, rows: list[Row]) -> tuple[bytes | None, list[Output]]:
        """Return the state to keep, null for a group of which there still is nothing to know, and what to publish."""
        before = state = new_state(self._config.cluster, group) if blob is None else load_state(bytes(blob))
        changed: dict[str, events.Rebalance] = {}
        now_ms = _now_ms()
        for row in rows:
            if row["type"] == PROBE:
                state, rebalances = _observe(state, bytes(row["value"]))
            elif row["type"] == NOTICE:
                state, rebalances = notices.note(state, notices.load(bytes(row["value"])))
            else:
                state, rebalances = fold(state, _to_record(row, now_ms))
            changed |= {each.rebalance_id: each for each in rebalances}
        self._remind(before, state)
        outputs = [self._rebalance_row(each) for each in changed.values()]
        if state.picture != before.picture:
            outputs.append(self._group_row(state))
        return None if blob is None and state == before else dump_state(state), outputs

    def _remind(self, before: GroupState, after: GroupState) -> None:
        """Ask to be called when something is due that was not due before."""
        for due_of in (episodes.settles_at_ms, self._forgets_at_ms):
            due = due_of(after)
            if due is not None and due != due_of(before):
                # Spark refuses a time that has passed.
                self._handle.registerTimer(max(due, _now_ms() + 1_000))

    def _forgets_at_ms(self, state: GroupState) -> int | None:
        picture = state.picture
        if picture.state != DELETED or picture.updated_at_ms is None:
            return None
        return picture.updated_at_ms + int(self._config.forget_groups_after_hours * 3_600_000)

    def _group_row(self, state: GroupState) -> Output:
        key = f"{self._config.cluster}/{state.picture.group}"
        return (self._config.groups_topic, key, events.encode(state.picture))

    def _rebalance_row(self, rebalance: events.Rebalance) -> Output:
        key = f"{rebalance.cluster}/{rebalance.group}/{rebalance.rebalance_id}"
        return (self._config.rebalances_topic, key, events.encode(rebalance))

    def _fold_counts(self, _name: str, blob: bytes | None, rows: list[Row]) -> tuple[bytes, list[Output]]:
        totals = counts.CountTotals() if blob is None else counts.load_totals(bytes(blob))
        told = [notices.load(bytes(row["value"])) for row in rows]
        totals = counts.fold_counts(totals, [each.counts for each in told if isinstance(each, notices.Counted)])
        published = events.encode(counts.publish(self._config.cluster, totals))
        return counts.dump_totals(totals), [(self._config.status_topic, f"{self._config.cluster}/records", published)]


def _rows(outputs: list[Output]) -> Iterator[Row]:
    return iter([Row(topic=topic, key=key.encode(), value=value) for topic, key, value in outputs])


def _observe(state: GroupState, text: bytes) -> tuple[GroupState, tuple[events.Rebalance, ...]]:
    try:
        return observe(state, events.decode(text, events.Probe))
    except events.ContractError:
        # Somebody else's message in the probes topic changes nothing.
        return state, ()


def _to_record(row: Row, now_ms: int) -> GroupRecord:
    record = decode_record(bytes(row["key"]), None if row["value"] is None else bytes(row["value"]))
    return GroupRecord(
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=row["timestamp_ms"],
        live=row["live"],
        value=record.value,
        record_type=row["type"],
        member_id=getattr(record.key, "member_id", None),
        received_at_ms=now_ms,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
