"""Reports the monitor's progress until it is ready, for the user of `up`.

Reads the exporter's readiness page and returns lines of text, with figures for programs. It starts and ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from rebalance_contract.api import Readiness
from rebalance_contract.settings import authority
from rebalance_deploy.counts import fetch
from rebalance_deploy.progress import Pace, StepProgress, figures_of, time_left
from rebalance_exporters.config import ExportConfig

#: Interval of the reports, and time-out of a request for the page.
_SAY_SECONDS, _ANSWER_SECONDS = 5.0, 1.0
#: Address at which to reach a server that listens on all interfaces.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104

SayProgress = Callable[[str, Mapping[str, object]], None]


@dataclass(slots=True)
class CatchUpReport:
    """Reports the progress until the monitor is ready: a line every few seconds, with figures for programs.

    It is not a bar, because three other processes write to the same terminal. `url` is the readiness page; with None
    nothing is reported.
    """

    url: str | None
    _pace: Pace = field(default_factory=Pace)
    _next_seconds: float = 0.0

    def report(self, say: SayProgress, now_seconds: float) -> None:
        """Request the page once, and report its answer if the interval has passed or the monitor is ready."""
        if self.url is None:
            return
        _, text = fetch(self.url, accept="application/json", timeout_seconds=_ANSWER_SECONDS)
        verdict = _verdict(text)
        if verdict is None:
            return
        if verdict.ready:
            say(verdict.text, figures_of(StepProgress("ready", 0, "", share=1.0), Pace()))
            self.url = None
        elif verdict.share is not None:
            step = verdict.text.partition(":")[0]
            reading = StepProgress(step, 0, "", share=verdict.share)
            self._pace.take(reading, now_seconds)
            if now_seconds >= self._next_seconds:
                self._next_seconds = now_seconds + _SAY_SECONDS
                say(f"{verdict.text}{_at_pace(self._pace)}", figures_of(reading, self._pace))


def _verdict(text: str) -> Readiness | None:
    """Return the answer of the readiness page, or None if it is not valid."""
    try:
        return msgspec.json.decode(text, type=Readiness)
    except msgspec.MsgspecError:
        return None


def _at_pace(pace: Pace) -> str:
    rate, left = pace.share_rate, time_left(pace)
    return f", {100 * rate:.2g} % a second, {left}" if rate is not None and left else ""


def ready_url(export: ExportConfig) -> str | None:
    """Return the URL of the readiness page of an exporter on this machine.

    None if its port is chosen at the start, or if it needs TLS or a password.
    """
    if export.listen_port == 0 or export.web_config_file:
        return None
    host = _LOOPBACK.get(export.listen_host, export.listen_host)
    return f"http://{authority(host, export.listen_port)}/-/ready"
