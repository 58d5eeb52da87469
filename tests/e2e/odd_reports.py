"""A story's confluent-kafka client that is healthy but sends odd reports.

    python odd_reports.py '{"name": …}' CLOCK_MS AFTER_SECONDS FOR_SECONDS

Its process's clock is `CLOCK_MS` ahead. `AFTER_SECONDS` after its start its reporter sends nothing for `FOR_SECONDS`.
"""

from __future__ import annotations

import sys
import time
from unittest import mock

from rebalance_devtools.stories.programs import consume_confluent
from rebalance_exporters.reporters.outbox import Outbox, OutgoingReport


def set_clock(ahead_seconds: float) -> None:
    """Set this process's clock ahead."""
    true_time = time.time
    time.time = lambda: true_time() + ahead_seconds


def hold_reports(after_seconds: float, for_seconds: float) -> None:
    """Let the reporter's sends fail for a while."""
    put, began = Outbox.put, time.monotonic()

    def put_unless_held(self: Outbox, report: OutgoingReport) -> None:
        if not after_seconds <= time.monotonic() - began < after_seconds + for_seconds:
            put(self, report)

    mock.patch.object(Outbox, "put", put_unless_held).start()


if __name__ == "__main__":
    text, clock_ms, after, lasting = sys.argv[1:]
    set_clock(int(clock_ms) / 1000)
    hold_reports(float(after), float(lasting))
    consume_confluent.main(text)
