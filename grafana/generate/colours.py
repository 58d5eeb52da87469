"""Fixed colours of names from closed sets, the same in every panel; names are those of Grafana's palette.

Those that the page has too are the contract's (`rebalance_contract/colours.py`). Within a set no two names share a
colour. What came from outside has none here: groups, topics and brokers take the palette's colours in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_contract import RebalanceOutcome
from rebalance_contract import colours as shared
from rebalance_streaming.activity.clients import DECODED, DROPPED, FAILED, TOO_SLOW
from rebalance_streaming.wire.metrics.errors import Reason

REASONS, STATES, SEVERITIES = shared.REASONS, shared.STATES, shared.SEVERITIES

CHANGES: Mapping[str, str] = {
    "joined": "blue",
    "left": "orange",
    "replaced": "green",
    "expired": "red",
    "poll_timeout": "purple",
}

GENERATIONS: Mapping[str, str] = {RebalanceOutcome.COMPLETED: "green", RebalanceOutcome.ABORTED: "red"}

#: How decoding of the log's records ended.
DECODING: Mapping[str, str] = {"decoded": "green", "tombstone": "blue", "unsupported": "orange", "corrupt": "red"}

#: How decoding of client metrics ended: what is blue says nothing about consumers, and is no fault.
CLIENT_METRICS: Mapping[str, str] = {
    DECODED: "green",
    Reason.NO_VALUES: "blue",
    Reason.PRODUCER: "light-blue",
    Reason.EMPTY: "dark-blue",
    Reason.MALFORMED: "red",
    Reason.MISSING_FIELD: "dark-red",
    Reason.UNKNOWN_FORMAT: "purple",
    Reason.UNKNOWN_VERSION: "light-purple",
    Reason.TOO_LARGE: "orange",
    Reason.TOO_DEEP: "dark-orange",
    Reason.TOO_MANY_POINTS: "light-orange",
    Reason.CONFLUENT: "light-yellow",
    Reason.METRICBEAT: "dark-yellow",
    TOO_SLOW: "dark-purple",
    FAILED: "light-red",
    DROPPED: "#8e8e8e",
}

#: Events whose time is wrong.
LATE: Mapping[str, str] = {"late": "orange", "future": "red"}

DIAGNOSED: Mapping[str, str] = {
    "known": "blue",
    "committing": "green",
    "with_lag": "purple",
    "awaiting_ends": "orange",
}

EXPORTED: Mapping[str, str] = {"exported": "green", "dropped": "red"}
