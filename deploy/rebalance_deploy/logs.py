"""What the processes print: a line per event on standard error, as text or as JSON, with time and level.

    2026-11-23T05:12:00.123Z INFO stream: caught up with the log
    {"time": "2026-11-23T05:12:00.123Z", "level": "info", "process": "stream", "logger": "rebalance", "message": …}

How far long work is has figures for programs beside its sentence: `"progress": {"step", "share", "share_rate",
"seconds_left", "done", "wanted", "unit", "rate"}`, rates per second, null where one is not known.

The monitor's own sentences and the records of its libraries take the same way; libraries are heard from warnings on.
The values of secret settings are replaced wherever they would appear.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from rebalance_exporters.terminal.escaping import safe
from rebalance_kafka.checks import SECRET_WORDS

if TYPE_CHECKING:
    # Failures are reported by commands that need no library, too.
    from rebalance_deploy.log_settings import LogConfig

#: Loggers that are heard from the level of the settings on; `spark` has what the JVM and its Python workers print.
_OWN = ("rebalance", "rebalance_kafka", "rebalance_streaming", "rebalance_exporters", "rebalance_deploy", "spark")
#: It warns of each request that is none, which strangers would fill a disk with.
_SILENT = ("uvicorn",)
_HIDDEN = "(hidden)"
_PROGRESS = "progress"
#: Shorter values are in every text.
_SHORTEST_SECRET = 4

Say = Callable[[str], None]

_log = logging.getLogger("rebalance")


@dataclass(frozen=True, slots=True)
class Log:
    """Where a process says things: what happens, and what a person should look at."""

    say: Say
    warn: Say


class _Lines(logging.Formatter):
    """Makes a line of a record."""

    def __init__(self, process: str, secrets: Iterable[str]) -> None:
        super().__init__()
        self._process = process
        # The longest first: one may be part of another.
        self._secrets = sorted({each for each in secrets if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    def format(self, record: logging.LogRecord) -> str:
        message = self.hide(record.getMessage())
        trace = self.hide(self.formatException(record.exc_info)) if record.exc_info else None
        more = {"trace": trace, _PROGRESS: getattr(record, _PROGRESS, None)}
        present = {name: value for name, value in more.items() if value is not None}
        return self.line(_time(record.created), record.levelname, record.name, message, present)

    def line(self, time: str, level: str, name: str, message: str, more: Mapping[str, object]) -> str:
        """Return the line; of text, one more for each of a trace. Figures are for programs."""
        trace = [safe(each) for each in str(more.get("trace") or "").splitlines()]
        of = self._process if name == _log.name else f"{self._process} ({name})"
        # A message of several lines would look like several events, and names in it are of whoever connects to Kafka.
        return "\n".join([f"{time} {level} {of}: {safe(' '.join(message.splitlines()))}", *trace])


class _JsonLines(_Lines):
    def line(self, time: str, level: str, name: str, message: str, more: Mapping[str, object]) -> str:
        """Return the line."""
        fields = {"time": time, "level": level.lower(), "process": self._process, "logger": name, "message": message}
        text = json.dumps({**fields, **more}, ensure_ascii=False)
        if text.isprintable():
            return text
        # Of what a terminal obeys JSON escapes a part only.
        return json.dumps({**fields, **more}).replace("\x7f", "\\u007f")


def configure(config: LogConfig, process: str, *kafka: Mapping[str, str]) -> Log:
    """Send everything that this process logs to standard error; `kafka` are its client properties, of each cluster.

    What `say` and `warn` get may begin with the name of the process, which every line has.
    """
    secrets = [secret for each in kafka for secret in secrets_of(each)]
    formatter = (_JsonLines if config.format == "json" else _Lines)(process, secrets)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    level = logging.getLevelNamesMapping()[config.level.upper()]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))
    for name in _OWN:
        logging.getLogger(name).setLevel(level)
    for name in _SILENT:
        logging.getLogger(name).setLevel(max(level, logging.ERROR))
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread
    prefix = f"{process}: "
    return Log(
        lambda line: _log.info("%s", line.removeprefix(prefix)),
        lambda line: _log.warning("%s", line.removeprefix(prefix)),
    )


def logs_json() -> bool:
    """Whether a program reads what this process prints."""
    return any(isinstance(handler.formatter, _JsonLines) for handler in logging.getLogger().handlers)


def say_line(text: str) -> None:
    """Say what happens, before or without a log of its own: as an object where a program reads it."""
    if logs_json():
        _log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - for the person who waits


def say_progress(text: str, figures: Mapping[str, object]) -> None:
    """Log how far long work is: a sentence, and its figures for programs."""
    _log.info("%s", text, extra={_PROGRESS: dict(figures)})


def report_failure(error: Exception) -> bool:
    """Log why the process ends, if it logs JSON; false where a person is to be informed in another way."""
    if not logs_json():
        return False
    _log.error("%s", error)
    return True


def hide_secrets(text: str) -> str:
    """Return a text without the secrets of this process, once its log is configured."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Lines):
            text = handler.formatter.hide(text)
    return text


def secrets_of(kafka: Mapping[str, str]) -> list[str]:
    """Return the values of client properties that nobody may read, and the lines of those that have several."""
    values = [value for name, value in kafka.items() if any(word in name.lower() for word in SECRET_WORDS)]
    return [part for value in values for part in (value, *(line.strip() for line in value.splitlines()))]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("%s", kind.__name__, exc_info=(kind, error, trace))


def _log_uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        _log_uncaught(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
