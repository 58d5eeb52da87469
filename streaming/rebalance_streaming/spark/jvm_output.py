"""Logs the output of the JVM and of Spark's Python workers with Python's logging, so that the format is uniform."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: A line in the format of `log4j2.properties`.
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ([A-Z]+) (\S+?): (.*)")
_LEVELS = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}
#: Harmless messages: printed at every start and by every worker at any log level, and by the JDK
#: (jdk.internal.misc.CDS) when a first start has written its archive of classes.
_CHATTER = (
    "TransformWithStateInPandas Python worker",
    "Using incubator modules",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "To adjust logging level use",
    "Dynamic dump to file",
)

_log = logging.getLogger("spark")


@contextmanager
def logging_pipe() -> Iterator[int]:
    """Yield the write end of a pipe whose lines are logged; a process started in the block may keep writing to it."""
    reader, writer = os.pipe()
    threading.Thread(target=_log_lines, args=(reader,), name="jvm-output", daemon=True).start()
    try:
        yield writer
    finally:
        os.close(writer)


def _log_lines(reader: int) -> None:
    with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            log_line(line)


def log_line(line: str) -> None:
    """Log one line; harmless messages at level debug, others without a level as warnings."""
    text = line.rstrip()
    logged = _LOGGED.fullmatch(text)
    if logged is not None:
        _log.log(_LEVELS.get(logged[1], logging.DEBUG), "%s: %s", logged[2], logged[3])
    elif text:
        is_chatter = any(words in text for words in _CHATTER)
        _log.log(logging.DEBUG if is_chatter else logging.WARNING, "%s", text)
