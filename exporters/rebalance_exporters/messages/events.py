"""Which lines of a log are one event: a line, and what stands below it because of it, as a stack trace.

Receives the lines of a log one after the other; says of each whether it goes on with the event of the lines before.
"""

from __future__ import annotations

import re

from rebalance_exporters.messages.times import is_dated, read_time

_FRAMES = ("at ", "... ")
#: How lines of a trace begin that stand without blanks in front: those of Java, of logback, and of Python.
_BELOW = (
    *_FRAMES,
    "Caused by:",
    "Suppressed:",
    "Wrapped by:",
    "Traceback (most recent call last):",
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# What runtimes of containers, Compose and syslog put in front of each line, also of those of one trace.
_SHIPPED = re.compile(
    r"\d{4}-\d\d-\d\dT\S{1,40} std(?:out|err) [FP] "
    r"|[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d \S{1,255} [^\s:]{1,255}: "
    r"|[\w.-]{1,100} {1,40}\| "
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.$]{0,199}(?:Exception|Error)(?=[:\s]|$)")


class Continuation:
    """Follows a log, line by line; remembers the first line of the event that goes on, null before the first."""

    def __init__(self) -> None:
        self.head: str | None = None
        self._is_timed: bool | None = None
        self._after_frame = False

    def is_continued_by(self, line: str) -> bool:
        """Return whether a line belongs to the event before; where it does not, it begins the next one.

        Frames and causes always do. A name of an exception, and a line that is empty or begins with a blank, only do
        below a line that has a time, where the log shows by it which lines begin an event; and a name of an exception
        not below frames, where it begins a second trace.
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
    """Return a line as its program wrote it, without what a shipper of logs put in front."""
    found = _SHIPPED.match(line)
    return line if found is None else line[found.end() :]


def is_wrapped(line: str) -> bool:
    """Return whether a line that goes on with an event may be the rest of a message that has line breaks in it."""
    return line[:1].isspace() and not line.lstrip().startswith(_FRAMES)
