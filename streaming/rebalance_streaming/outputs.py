"""What a replay can be asked for: apart from the replay itself, so that the command line's help needs no numpy."""

from __future__ import annotations

#: By name, the kinds of rows it answers with.
OUTPUTS: dict[str, tuple[str, ...]] = {
    "findings": ("finding",),
    "rebalances": ("rebalance",),
    "groups": ("group",),
    "commits": ("commits",),
    "lag": ("lag",),
    "impact": ("rebalance_impact", "group_impact"),
    "timing": ("timing",),
    "all": ("rebalance", "group", "commits", "lag", "rebalance_impact", "group_impact", "timing", "finding"),
}
