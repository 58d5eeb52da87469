"""The reports a reporter sends and the threads it runs, for tests of the reporters of both Python clients."""

import json
import threading
from typing import Any

from rebalance_exporters.reporters.polls import wall_ms
from waiting import wait_for


class Sent:
    """Captures the reports that a reporter sends, with topic and key."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.places: list[tuple[str, bytes | None]] = []

    def __call__(self, topic: str, key: bytes | None, value: bytes) -> None:
        self.places.append((topic, key))
        self.reports.append(json.loads(value))

    @property
    def keys(self) -> set[bytes | None]:
        return {key for _, key in self.places}

    @property
    def last(self) -> dict[str, Any]:
        """Return a report made after this call."""
        since_ms = wall_ms()
        wait_for(lambda: self.reports and self.reports[-1]["emitted_ms"] > since_ms, "a report")
        return self.reports[-1]


def threads() -> set[threading.Thread]:
    """The threads of all reporters; one of an earlier test may still be ending."""
    return {each for each in threading.enumerate() if each.name.startswith("rebalance-monitor")}
