"""The thin adapter between Spark's state and the pure folds: one call per touched key and batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts, events
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import GroupRecord, dump_state, load_state, new_state
from rebalance_streaming.spark.envelopes import GROUP_SCOPE
from rebalance_streaming.wire.decode import decode_record
from rebalance_streaming.wire.records import GroupMetadataValue

OUTPUT_SCHEMA = "topic string, key binary, value binary"
_STATE_SCHEMA = "blob binary"

Output = tuple[str, str, bytes]


def fold_groups(envelopes: DataFrame, config: StreamConfig) -> DataFrame:
    """Fold envelopes into rows for the output topics (topic, key, value)."""
    return envelopes.groupBy("scope", "name").transformWithState(
        statefulProcessor=GroupProcessor(config),
        outputStructType=OUTPUT_SCHEMA,
        outputMode="append",
        timeMode="none",
    )


class GroupProcessor(StatefulProcessor):
    """Keeps one blob per key: a group's state, or the monitor's own totals."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called once per task."""
        self._state = handle.getValueState("state", _STATE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fold one key's envelopes of this batch; `rows` is an iterator of Row."""
        scope, name = key
        kept = self._state.get()
        blob = None if kept is None else kept[0]
        # Spark hands on a key's rows in no particular order; the log's order is what they mean.
        ordered = sorted(rows, key=lambda row: (row["partition"], row["offset"]))
        step = self._fold_group if scope == GROUP_SCOPE else self._fold_counts
        blob, outputs = step(name, blob, ordered)
        self._state.update((blob,))
        return iter([Row(topic=topic, key=key.encode(), value=value) for topic, key, value in outputs])

    def close(self) -> None:
        """Nothing to release."""

    def _fold_group(self, group: str, blob: bytes | None, rows: list[Row]) -> tuple[bytes, list[Output]]:
        state = new_state(self._config.cluster, group) if blob is None else load_state(bytes(blob))
        outputs: list[Output] = []
        for row in rows:
            state, rebalances = fold(state, _to_record(row))
            outputs += [self._rebalance_row(each) for each in rebalances]
        outputs.append((self._config.groups_topic, f"{self._config.cluster}/{group}", events.encode(state.picture)))
        return dump_state(state), outputs

    def _rebalance_row(self, rebalance: events.Rebalance) -> Output:
        key = f"{rebalance.cluster}/{rebalance.group}/{rebalance.rebalance_id}"
        return (self._config.rebalances_topic, key, events.encode(rebalance))

    def _fold_counts(self, _name: str, blob: bytes | None, rows: list[Row]) -> tuple[bytes, list[Output]]:
        totals = counts.CountTotals() if blob is None else counts.load_totals(bytes(blob))
        totals = counts.fold_counts(totals, [counts.load_counts(bytes(row["value"])) for row in rows])
        published = events.encode(counts.publish(self._config.cluster, totals))
        return counts.dump(totals), [(self._config.status_topic, f"{self._config.cluster}/records", published)]


def _to_record(row: Row) -> GroupRecord:
    value = decode_record(bytes(row["key"]), None if row["value"] is None else bytes(row["value"])).value
    return GroupRecord(
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=row["timestamp_ms"],
        live=row["live"],
        value=value if isinstance(value, GroupMetadataValue) else None,
    )
