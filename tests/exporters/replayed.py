"""The rows of a replay, converted to the topic rows that the stream would write."""

from __future__ import annotations

import json
from typing import Any

from rebalance_exporters.state.view import FINDINGS, GROUPS, HEARTBEATS, IMPACT, LAG, REBALANCES, Row

#: For each kind of a replayed row: its topic, and the rest of its key after cluster and group.
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
    """Return the topic row for a row of a replay, or null for one that the exporter does not read."""
    if row["kind"] not in _TOPICS:
        return None
    topic, names = _TOPICS[row["kind"]]
    key = "/".join(row[name] for name in ("cluster", "group", *names))
    return Row(topic, key.encode(), json.dumps(row).encode())
