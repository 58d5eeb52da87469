"""Why a record of a client metric topic could not be decoded: a value of a metric's label and a message for people."""

from __future__ import annotations

import enum

from rebalance_streaming.wire.errors import DecodeError


class Reason(enum.StrEnum):
    """The closed set of reasons. `producer` and `no_values` are not errors: the record has no consumer metrics."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY_POINTS = "too_many_points"
    MALFORMED = "malformed"
    MISSING_FIELD = "missing_field"
    UNKNOWN_FORMAT = "unknown_format"
    UNKNOWN_VERSION = "unknown_version"
    NO_VALUES = "no_values"
    PRODUCER = "producer"
    CONFLUENT = "confluent"
    METRICBEAT = "metricbeat"


class UndecodableError(DecodeError):
    """The record has no known form; the text is one sentence, with a remedy where there is one."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason

    def __reduce__(self) -> tuple[type[UndecodableError], tuple[Reason, str]]:
        # Workers pickle exceptions, and BaseException would call the constructor with the text alone.
        return type(self), (self.reason, str(self))
