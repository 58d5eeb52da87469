"""What becomes of a line of a broker's log, or of a record that holds none: words for a metric's label."""

from __future__ import annotations

import enum

from rebalance_streaming.wire.errors import DecodeError


class LineOutcome(enum.StrEnum):
    """The closed set. Each line ends in one; a record in which no line can be found ends in one as a whole.

    `decoded`: it is an event of a group. `other`: nothing of a group's coordinator, which most lines of a broker are,
    or what is no event, among them the further lines of a stack trace. The rest is worth a look: `unknown_text`, words
    of a coordinator that are not known here; `future`, a time far ahead of the record's, as a wrong time zone makes
    it; `no_text`, JSON in which no field of a known shipper or layout holds the line.
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
    """A record in which no line can be found; the text is one sentence that says what to do where that is known."""

    def __init__(self, outcome: LineOutcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[LineOutcome, str]]:
        # Workers hand exceptions to each other, and BaseException would call with the text alone.
        return type(self), (self.outcome, str(self))
