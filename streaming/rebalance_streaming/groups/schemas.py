"""JSON Schemas of the rows in the monitor's topics, made from the contract's own dataclasses.

python -m rebalance_streaming.groups.schemas docs/schemas
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from rebalance_streaming.groups import events

#: What stands in which topic, by the topic's name without prefix; the status topic has two kinds.
ROWS = {
    "groups": events.GroupSnapshot,
    "rebalances": events.Rebalance,
    "commits": events.CommitSummary,
    "heartbeats": events.GroupTiming,
    "status-client-metrics": events.ReportTotals,
    "findings": events.Finding,
    "probes": events.Probe,
    "status-query": events.QueryStatus,
    "status-records": events.DecodeTotals,
}


def render(row: type) -> str:
    """Return a row's schema as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(row)), indent=2).decode() + "\n"


def write(folder: Path) -> None:
    """Write one file per row."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in ROWS.items():
        (folder / f"{name}.schema.json").write_text(render(row))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
