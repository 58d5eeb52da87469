"""Real servers for tests of alerts, and a receiver that records the notifications of Alertmanager."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

from rebalance_deploy.observability import Server, alertmanager, find_tool, prometheus, receiving
from waiting import wait_for

__all__ = [
    "Inbox",
    "Server",
    "alertmanager",
    "ask",
    "post_alerts",
    "prometheus",
    "run_tool",
    "webhook_receiver",
    "without_repeats",
]

T = TypeVar("T")
DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules"


@dataclass(frozen=True, slots=True)
class Received:
    """One request: its path, and its JSON body."""

    path: str
    body: Any


@dataclass(slots=True)
class Inbox:
    """The requests so far, oldest first. `url` has no trailing slash."""

    url: str
    _received: list[Received]

    def bodies(self, path: str) -> list[Any]:
        """Return the bodies sent to `path`."""
        return [each.body for each in [*self._received] if each.path == path]

    def await_body(self, path: str, *texts: str, seconds: float = 120) -> Any:
        """Return the first body sent to `path` whose JSON contains all `texts`; fail with the received bodies."""

        def find() -> Any:
            bodies = ((json.dumps(body, ensure_ascii=False), body) for body in self.bodies(path))
            return next((body for shown, body in bodies if all(text in shown for text in texts)), None)

        return wait_for(find, lambda: f"{texts} at {path}; there came {self._received}", seconds)


@contextmanager
def webhook_receiver() -> Iterator[Inbox]:
    """Serve on loopback and record every posted JSON document, until the block ends."""
    received: list[Received] = []
    with receiving(lambda path, body: received.append(Received(path, body))) as url:
        yield Inbox(url, received)


def without_repeats(reported: Iterable[T]) -> list[T]:
    """Return the notifications without repetitions: Alertmanager repeats those that were not acknowledged in time."""
    return [each for each, _ in groupby(reported)]


def run_tool(name: str, *arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool or amtool to its end, with `text` as its input; the test checks its exit code.

    Go collects garbage whenever the heap has doubled, and promtool's heap is 30 MB: this takes a quarter of its time.
    """
    command = [str(find_tool(name)), *map(str, arguments)]
    # The time-out of the test is shorter, unless the test runs beside others that use all of the processor.
    environment = {**os.environ, "GOGC": "400"}
    return subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, timeout=1_000, check=False
    )


def post_alerts(url: str, *alerts: Mapping[str, Any]) -> None:
    """Post alerts to an Alertmanager; each has `labels` and optionally `annotations`, `startsAt` and `endsAt`."""
    body = json.dumps([{"startsAt": now(), **alert} for alert in alerts]).encode()
    request = Request(f"{url}/api/v2/alerts", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def ask(url: str) -> Any:
    """Return the JSON at a URL."""
    with urlopen(url, timeout=60) as answer:
        return json.load(answer)


def now() -> str:
    """Return the current time in Alertmanager's format."""
    return datetime.now(UTC).isoformat()
