"""The colour of each value of the closed sets, for the dashboards and the page.

A colour is a name of Grafana's palette, whose value depends on a light or dark background, or a fixed value. Within a
set no two values share a colour. Groups, topics and brokers have no colours.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_contract.sets import GroupState, RebalanceReason, Severity

_SHADES = ("super-light", "light", "", "semi-dark", "dark")
#: Shades of each hue from light to dark on a dark background; on a light background each shade is the next darker one.
_HUES: Mapping[str, tuple[str, ...]] = {
    "red": ("#FFA6B0", "#FF7383", "#F2495C", "#E02F44", "#C4162A", "#AD0317"),
    "orange": ("#FFCB7D", "#FFB357", "#FF9830", "#FF780A", "#FA6400", "#E55400"),
    "yellow": ("#FFF899", "#FFEE52", "#FADE2A", "#F2CC0C", "#E0B400", "#CC9D00"),
    "green": ("#C8F2C2", "#96D98D", "#73BF69", "#56A64B", "#37872D", "#19730E"),
    "blue": ("#C0D8FF", "#8AB8FF", "#5794F2", "#3274D9", "#1F60C4", "#1250B0"),
    "purple": ("#DEB6F2", "#CA95E5", "#B877D9", "#A352CC", "#8F3BB8", "#7C2EA3"),
}

#: Arrivals are blue, losses red, replacements orange, rebalances requested by a client purple.
REASONS: Mapping[str, str] = {
    RebalanceReason.FIRST_JOIN: "light-blue",
    RebalanceReason.JOIN: "blue",
    RebalanceReason.DEPARTURE: "red",
    RebalanceReason.GROUP_EMPTIED: "dark-red",
    RebalanceReason.REPLACEMENT: "orange",
    RebalanceReason.SWAP: "light-orange",
    RebalanceReason.SUBSCRIPTION_CHANGE: "purple",
    RebalanceReason.TOPIC_METADATA_CHANGE: "light-purple",
    RebalanceReason.LEADER_REJOIN: "dark-purple",
    RebalanceReason.COOPERATIVE_FOLLOWUP: "green",
    RebalanceReason.RACK_CHANGE: "yellow",
    RebalanceReason.STREAMS_INTERNAL: "dark-yellow",
    RebalanceReason.CONNECT_INTERNAL: "dark-green",
    RebalanceReason.OTHER: "#8e8e8e",
}

STATES: Mapping[str, str] = {
    GroupState.STABLE: "green",
    GroupState.EMPTY: "semi-dark-blue",
    GroupState.PREPARING_REBALANCE: "orange",
    GroupState.COMPLETING_REBALANCE: "yellow",
    GroupState.ASSIGNING: "light-orange",
    GroupState.RECONCILING: "purple",
    GroupState.NOT_READY: "red",
    GroupState.DELETED: "#8e8e8e",
    GroupState.DEAD: "#6e6e6e",
}

SEVERITIES: Mapping[str, str] = {Severity.PAGE: "red", Severity.TICKET: "orange", Severity.INFO: "blue"}


def value_of(colour: str, *, dark: bool) -> str:
    """Return a colour as `#rrggbb` on a dark or a light background. Raises KeyError for an unknown name."""
    if colour.startswith("#"):
        return colour
    shade, _, hue = colour.rpartition("-")
    return _HUES[hue][_SHADES.index(shade) + (0 if dark else 1)]
