"""Fixed colours for names from closed sets, the same in every panel; the values are names of Grafana's palette.

Colours that the live page also uses are in the contract (`rebalance_contract/colours.py`). Colours are unique within a
set. External names (groups, topics, brokers) have no fixed colours: they get those of the palette in turn.
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

#: Outcomes of decoding records of the log.
DECODING: Mapping[str, str] = {"decoded": "green", "tombstone": "blue", "unsupported": "orange", "corrupt": "red"}

#: Outcomes of decoding client metrics; blue ones have no data about consumers and are no errors.
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

#: Events with a wrong time.
LATE: Mapping[str, str] = {"late": "orange", "future": "red"}

DIAGNOSED: Mapping[str, str] = {
    "known": "blue",
    "committing": "green",
    "with_lag": "purple",
    "awaiting_ends": "orange",
}

EXPORTED: Mapping[str, str] = {"exported": "green", "dropped": "red"}
