"""How far the monitor is until it is ready, for whoever waits beside `up`.

Asks the exporter's readiness page; hands on lines, with figures for programs. It starts and ends nothing.
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

#: How often the progress is reported, and how long the page is waited for meanwhile.
_SAY_SECONDS, _ANSWER_SECONDS = 5.0, 1.0
#: Where a server answers that listens on every interface.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104

SayProgress = Callable[[str, Mapping[str, object]], None]


@dataclass(slots=True)
class CatchUpReport:
    """Reports how far the monitor is, until it is ready: a line every few seconds, with figures for programs.

    It is no bar, as three other processes write to the same terminal. `url` is the readiness page; null: says nothing.
    """

    url: str | None
    _pace: Pace = field(default_factory=Pace)
    _next_seconds: float = 0.0

    def report(self, say: SayProgress, now_seconds: float) -> None:
        """Ask the page once, and say what it answers when it is time to."""
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
    """Return what the readiness page answered; null when it did not."""
    try:
        return msgspec.json.decode(text, type=Readiness)
    except msgspec.MsgspecError:
        return None


def _at_pace(pace: Pace) -> str:
    rate, left = pace.share_rate, time_left(pace)
    return f", {100 * rate:.2g} % a second, {left}" if rate is not None and left else ""


def ready_url(export: ExportConfig) -> str | None:
    """Return where an exporter on this machine says whether it is ready; null where that cannot be known, or asked."""
    if export.listen_port == 0 or export.web_config_file:
        return None
    host = _LOOPBACK.get(export.listen_host, export.listen_host)
    return f"http://{authority(host, export.listen_port)}/-/ready"
