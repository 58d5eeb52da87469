"""Settings of the log output of the processes."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_contract.settings import setting

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Log settings of `stream`, `probe`, `export` and `up`.

    `record`, `replay` and `jars` use them only with `format = "json"`.
    """

    format: str = setting("text", "`text`, or `json`: one object per line, with the figures of progress.")
    level: str = setting("info", "Lowest level that is logged: `debug`, `info`, `warning` or `error`.")

    def validate(self) -> list[str]:
        """Return every problem found, each as one sentence that names the key; empty when all is well."""
        problems = []
        if self.format not in FORMATS:
            problems.append(f"log.format is {self.format!r}: use one of {', '.join(FORMATS)}")
        if self.level not in LEVELS:
            problems.append(f"log.level is {self.level!r}: use one of {', '.join(LEVELS)}")
        return problems
