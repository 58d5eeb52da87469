"""Extracts the lines of group coordinators from broker log files, for commands that work without a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rebalance_contract import CoordinatorActivity
from rebalance_streaming.activity.broker_logs import LogPacking
from rebalance_streaming.errors import StreamError
from rebalance_streaming.recordings.compressed import uncompressed
from rebalance_streaming.time_zones import is_time_zone, local_to_utc
from rebalance_streaming.wire.broker_logs.decode import ToUtc
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome

_SHOWN = 160

EXPECTED = (
    "[2026-03-01 14:05:00,123] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] Preparing to "
    "rebalance group NAME in state PreparingRebalance with old generation 4 (reason: ...). (...GroupMetadataManager)"
)


class LogFileError(StreamError):
    """A file has no line of a group's coordinator; the text says what was found and what is expected."""


def read_log_files(
    files: Iterable[Any], *, cluster: str, pane_ms: int, time_zone: str = "UTC"
) -> list[CoordinatorActivity]:
    """Return the log lines of group coordinators in broker log files, which may be compressed with gzip.

    `time_zone` applies to times without a zone. Raises LogFileError for a file without a coordinator's line.
    """
    to_utc, rows = to_utc_of(time_zone), list[CoordinatorActivity]()
    for file in files:
        name = getattr(file, "name", "the input")
        packing, first, count = LogPacking(cluster, pane_ms), b"", 0
        for text in uncompressed(file, name, LogFileError):
            line = text.encode() if isinstance(text, str) else text
            first, count = first or line.strip(), count + 1
            packing.take(line, None, to_utc)
        if not packing.counts[LineOutcome.DECODED]:
            raise LogFileError(_explain(name, packing, first, count))
        rows += packing.rows()
    return rows


def to_utc_of(time_zone: str) -> ToUtc:
    """Return a function that converts local times to UTC. Raises LogFileError for an unknown time zone."""
    if not is_time_zone(time_zone):
        raise LogFileError(f"{time_zone!r} is no time zone; give a name such as Europe/Berlin or UTC")
    return local_to_utc(time_zone)


def _explain(name: str, packing: LogPacking, first: bytes, count: int) -> str:
    if not count or packing.counts.keys() <= {LineOutcome.EMPTY}:
        return f"{name} is empty; give a broker's server.log"
    if first.startswith(b"{") and b'"value_hex"' in first:
        return f"{name} is a recording, not a broker's log: replay takes it without --logs"
    kinds = {str(each): packing.counts[each] for each in packing.counts if each != LineOutcome.EMPTY}
    seen = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    start = first[:_SHOWN].decode(errors="replace")
    return (
        f"no line of {name} is one of a group's coordinator ({seen}); it begins with {start!r}, and lines like "
        f"this are expected: {EXPECTED}; give the server.log of the group's coordinator, with level INFO"
    )
