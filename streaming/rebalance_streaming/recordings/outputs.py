"""The outputs of a replay, in a separate module so that the command line's help does not import numpy."""

from __future__ import annotations

#: The kinds of rows of each output, by its name.
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
