"""Outcomes of a line of a broker's log, or of a record without lines: values of a metric's label."""

from __future__ import annotations

import enum

from rebalance_streaming.wire.errors import DecodeError


class LineOutcome(enum.StrEnum):
    """The closed set. Each line has one; a record without any recognisable line has one as a whole.

    `decoded`: an event of a group. `other`: a line that is not a group coordinator's, like most lines of a broker, or
    that is no event, for example further lines of a stack trace. The others deserve attention: `unknown_text`, a
    coordinator's line with unknown text; `future`, a time far ahead of the record's, as a result of a wrong time zone;
    `no_text`, JSON in which no field of a known shipper or layout contains the line.
    """

    DECODED = "decoded"
    OTHER = "other"
    UNKNOWN_TEXT = "unknown_text"
    FUTURE = "future"
    TOO_LONG = "too_long"
    TOO_LARGE = "too_large"
    TOO_MANY_LINES = "too_many_lines"
    EMPTY = "empty"
    NO_TEXT = "no_text"
    MALFORMED = "malformed"
    OTLP_PROTOBUF = "otlp_protobuf"
    FAILED = "failed"


class UnreadableError(DecodeError):
    """A record without any recognisable line; the text is one sentence, with a remedy where there is one."""

    def __init__(self, outcome: LineOutcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[LineOutcome, str]]:
        # Workers pickle exceptions, and BaseException would call the constructor with the text alone.
        return type(self), (self.outcome, str(self))
