"""Log output of the processes: a line per event on standard error, as text or as JSON, with time and level.

    2026-11-23T05:12:00.123Z INFO stream: caught up with the log
    {"time": "2026-11-23T05:12:00.123Z", "level": "info", "process": "stream", "logger": "rebalance", "message": …}

Progress of long work has figures for programs in addition to the message: `"progress": {"step", "share", "share_rate",
"seconds_left", "done", "wanted", "unit", "rate"}`; rates are per second, unknown figures are null.

The monitor's own messages and those of libraries share one handler; libraries log from level warning.
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
    # Not imported at run time: commands that need no library report failures with this module, too.
    from rebalance_deploy.log_settings import LogConfig

#: Loggers that use the level of the settings; `spark` has the output of the JVM and its Python workers.
_OWN = ("rebalance", "rebalance_kafka", "rebalance_streaming", "rebalance_exporters", "rebalance_deploy", "spark")
#: Logs from level error only: it warns of each invalid request, so that strangers could fill the disk.
_SILENT = ("uvicorn",)
_HIDDEN = "(hidden)"
_PROGRESS = "progress"
#: Minimum length of a secret to hide: shorter values occur in any text.
_SHORTEST_SECRET = 4

Say = Callable[[str], None]

_log = logging.getLogger("rebalance")


@dataclass(frozen=True, slots=True)
class Log:
    """Functions that log a message: `say` at level info, `warn` at level warning."""

    say: Say
    warn: Say


class _Lines(logging.Formatter):
    """Formats a log record as a line of text, without secrets."""

    def __init__(self, process: str, secrets: Iterable[str]) -> None:
        super().__init__()
        self._process = process
        # The longest first, because one secret may contain another.
        self._secrets = sorted({each for each in secrets if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return a text with the secrets replaced."""
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
        """Return the line, followed by the lines of the stack trace. Progress figures are left out."""
        trace = [safe(each) for each in str(more.get("trace") or "").splitlines()]
        of = self._process if name == _log.name else f"{self._process} ({name})"
        # A message of several lines would look like several events, and names in it come from untrusted clients.
        return "\n".join([f"{time} {level} {of}: {safe(' '.join(message.splitlines()))}", *trace])


class _JsonLines(_Lines):
    def line(self, time: str, level: str, name: str, message: str, more: Mapping[str, object]) -> str:
        """Return the line as a JSON object."""
        fields = {"time": time, "level": level.lower(), "process": self._process, "logger": name, "message": message}
        text = json.dumps({**fields, **more}, ensure_ascii=False)
        if text.isprintable():
            return text
        # JSON escapes only some of the control characters that a terminal interprets.
        return json.dumps({**fields, **more}).replace("\x7f", "\\u007f")


def configure(config: LogConfig, process: str, *kafka: Mapping[str, str]) -> Log:
    """Send all log output of this process to standard error; `kafka` are its client properties, one per cluster.

    A process name at the start of a message to `say` or `warn` is removed, because every line has it.
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
    """Return whether this process logs as JSON."""
    return any(isinstance(handler.formatter, _JsonLines) for handler in logging.getLogger().handlers)


def say_line(text: str) -> None:
    """Print a message to standard error, or log it if this process logs as JSON; needs no configured log."""
    if logs_json():
        _log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - for the person who waits


def say_progress(text: str, figures: Mapping[str, object]) -> None:
    """Log the progress of long work: a sentence, and its figures for programs."""
    _log.info("%s", text, extra={_PROGRESS: dict(figures)})


def report_failure(error: Exception) -> bool:
    """Log why the process ends, if it logs as JSON. Returns false if it does not: the caller must report the error."""
    if not logs_json():
        return False
    _log.error("%s", error)
    return True


def hide_secrets(text: str) -> str:
    """Return a text with the secrets of this process replaced, if its log is configured."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Lines):
            text = handler.formatter.hide(text)
    return text


def secrets_of(kafka: Mapping[str, str]) -> list[str]:
    """Return the values of secret client properties, and each line of multi-line values."""
    values = [value for name, value in kafka.items() if any(word in name.lower() for word in SECRET_WORDS)]
    return [part for value in values for part in (value, *(line.strip() for line in value.splitlines()))]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("%s", kind.__name__, exc_info=(kind, error, trace))


def _log_uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        _log_uncaught(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
