"""Stands for another stream of the same cluster at a start, without the brokers that report it."""

from __future__ import annotations

import threading

from rebalance_contract import QueryStatus
from rebalance_streaming.brokers.ownership import QueryOwnership


class OtherStream(QueryOwnership):
    """Reports another active stream; null: none."""

    def __init__(self, other: QueryStatus | None) -> None:
        self._there = other

    def other_for_certain(self, stop: threading.Event) -> QueryStatus | None:
        return self._there
