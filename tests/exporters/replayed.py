"""Rows that a replay hands out, as the rows of topics that the stream would write them to."""

from __future__ import annotations

import json
from typing import Any

from rebalance_exporters.state.view import FINDINGS, GROUPS, HEARTBEATS, IMPACT, LAG, REBALANCES, Row

#: By the kind of a replayed row: its topic, and what its key names after cluster and group.
_TOPICS = {
    "group": (GROUPS, ()),
    "rebalance": (REBALANCES, ("rebalance_id",)),
    "finding": (FINDINGS, ("rule", "finding_id")),
    "timing": (HEARTBEATS, ()),
    "lag": (LAG, ()),
    "rebalance_impact": (IMPACT, ("rebalance_id",)),
    "group_impact": (IMPACT, ()),
}


def topic_row(row: dict[str, Any]) -> Row | None:
    """Return what the stream would write for a row of a replay; null for one that the exporter does not read."""
    if row["kind"] not in _TOPICS:
        return None
    topic, names = _TOPICS[row["kind"]]
    key = "/".join(row[name] for name in ("cluster", "group", *names))
    return Row(topic, key.encode(), json.dumps(row).encode())
