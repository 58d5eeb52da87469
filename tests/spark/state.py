"""A fake of Spark's side of a stateful processor: the state of some keys, kept in memory between batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row

from rebalance_streaming.spark.membership import GroupProcessor

#: Topic, key, value.
Output = tuple[str, str, bytes | None]


class Value:
    """A value state, or the value of one key of a map state."""

    def __init__(self) -> None:
        self.value: tuple[bytes] | None = None

    def get(self) -> tuple[bytes] | None:
        """Return the stored value."""
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        """Store a value."""
        self.value = value


class Map:
    """A map state. `broken` names keys whose value cannot be read."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes]] = {}

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        """Return the value of a key."""
        return self.values.get(key[0])

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        """Store the value of a key."""
        self.values[key[0]] = value

    def removeKey(self, key: tuple[str]) -> None:
        """Remove a key."""
        del self.values[key[0]]


class Bucket:
    """The state of one key of the query."""

    def __init__(self) -> None:
        self.groups, self.own = Map(), Value()

    def getMapState(self, _name: str, _key: str, _value: str) -> Map:
        """Open the map state of the bucket's groups."""
        return self.groups

    def getValueState(self, _name: str, _schema: str) -> Value:
        """Open the value state of the bucket."""
        return self.own


class Store:
    """Feeds processors as Spark does: a new one per batch, with the state left by the earlier ones."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self.buckets: dict[int, Bucket] = {}

    def batch(self, rows: Iterable[tuple[Any, ...]], names: tuple[str, ...]) -> list[Output]:
        """Process a batch and return its rows."""
        by_bucket: dict[int, list[Row]] = {}
        for values in rows:
            row = Row(**dict(zip(names, values, strict=True)))
            by_bucket.setdefault(row["bucket"], []).append(row)
        return [each for bucket, kept in by_bucket.items() for each in self._fold(bucket, kept)]

    def _fold(self, bucket: int, rows: list[Row]) -> Iterator[Output]:
        processor = GroupProcessor(*self._arguments)
        state: Any = self.buckets.setdefault(bucket, Bucket())
        processor.init(state)
        for row in processor.handleInputRows((bucket,), iter(rows), None):
            yield row["topic"], bytes(row["key"]).decode(), row["value"]
        processor.close()
