"""Real servers for tests of alerts, and a receiver that keeps what Alertmanager sends it."""

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
    """One request: where it was sent, and the JSON it carried."""

    path: str
    body: Any


@dataclass(slots=True)
class Inbox:
    """What came so far, oldest first. `url` has no trailing slash."""

    url: str
    _received: list[Received]

    def bodies(self, path: str) -> list[Any]:
        """Return the bodies sent to `path`."""
        return [each.body for each in [*self._received] if each.path == path]

    def await_body(self, path: str, text: str, *, seconds: float = 120) -> Any:
        """Return the first body sent to `path` whose JSON has `text`; fail with what came instead."""

        def find() -> Any:
            return next((body for body in self.bodies(path) if text in json.dumps(body, ensure_ascii=False)), None)

        return wait_for(find, lambda: f"{text!r} at {path}; there came {self._received}", seconds)


@contextmanager
def webhook_receiver() -> Iterator[Inbox]:
    """Serve on loopback and keep every JSON that is posted, until the block ends."""
    received: list[Received] = []
    with receiving(lambda path, body: received.append(Received(path, body))) as url:
        yield Inbox(url, received)


def without_repeats(reported: Iterable[T]) -> list[T]:
    """Return what was notified, once where the same came again: Alertmanager repeats what was not answered in time."""
    return [each for each, _ in groupby(reported)]


def run_tool(name: str, *arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool or amtool to its end, with `text` as its input; its exit code is for the test to judge.

    Go collects garbage whenever the heap has doubled, and promtool has 30 MB of it: a quarter of its time.
    """
    command = [str(find_tool(name)), *map(str, arguments)]
    # The timeout of the test comes first, unless it runs beside others that have all of the processor.
    environment = {**os.environ, "GOGC": "400"}
    return subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, timeout=1_000, check=False
    )


def post_alerts(url: str, *alerts: Mapping[str, Any]) -> None:
    """Post alerts to an Alertmanager; each has `labels` and, as they like, `annotations`, `startsAt` and `endsAt`."""
    body = json.dumps([{"startsAt": now(), **alert} for alert in alerts]).encode()
    request = Request(f"{url}/api/v2/alerts", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def ask(url: str) -> Any:
    """Return the JSON behind a URL."""
    with urlopen(url, timeout=60) as answer:
        return json.load(answer)


def now() -> str:
    """Return the present moment as Alertmanager reads it."""
    return datetime.now(UTC).isoformat()
