"""Groups the lines of a log into events: a line and its continuation lines, such as a stack trace.

Receives the lines in order; decides for each whether it continues the event of the previous lines.
"""

from __future__ import annotations

import re

from rebalance_exporters.messages.times import is_dated, read_time

_FRAMES = ("at ", "... ")
#: Prefixes of trace lines that are not indented: those of Java, logback and Python.
_BELOW = (
    *_FRAMES,
    "Caused by:",
    "Suppressed:",
    "Wrapped by:",
    "Traceback (most recent call last):",
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# Prefixes that container runtimes, Compose and syslog put in front of each line, also of the lines of a trace.
_SHIPPED = re.compile(
    r"\d{4}-\d\d-\d\dT\S{1,40} std(?:out|err) [FP] "
    r"|[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d \S{1,255} [^\s:]{1,255}: "
    r"|[\w.-]{1,100} {1,40}\| "
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.$]{0,199}(?:Exception|Error)(?=[:\s]|$)")


class Continuation:
    """Follows a log line by line. `head` is the first line of the current event, null before the first line."""

    def __init__(self) -> None:
        self.head: str | None = None
        self._is_timed: bool | None = None
        self._after_frame = False

    def is_continued_by(self, line: str) -> bool:
        """Return whether a line continues the current event; if not, it begins the next one.

        Frames and causes always continue it. Names of exceptions, and lines that are empty or begin with a blank, do so
        only if the first line of the event has a time: in such a log the time marks the first line of each event. The
        name of an exception right after a frame does not continue the event; it begins a second trace.
        """
        own = strip_shipped(line)
        if self.head is None or not self._goes_on(own):
            self.head, self._is_timed, self._after_frame = line, None, False
            return False
        self._after_frame = own.lstrip().startswith(_FRAMES)
        return True

    def _goes_on(self, line: str) -> bool:
        if line.lstrip().startswith(_FRAMES) or line.startswith(_BELOW):
            return True
        if not line or line[0].isspace():
            return self._has_time() and not is_dated(line)
        return not self._after_frame and _EXCEPTION.match(line) is not None and self._has_time()

    def _has_time(self) -> bool:
        if self._is_timed is None:
            self._is_timed = read_time(self.head or "") is not None
        return self._is_timed


def strip_shipped(line: str) -> str:
    """Return a line as its program wrote it, without the prefix of a log shipper."""
    found = _SHIPPED.match(line)
    return line if found is None else line[found.end() :]


def is_wrapped(line: str) -> bool:
    """Return whether a continuation line may be the rest of a message that contains line breaks."""
    return line[:1].isspace() and not line.lstrip().startswith(_FRAMES)
