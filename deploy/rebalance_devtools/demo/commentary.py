"""Prints what a group's clients report and what the monitor finds, as it happens.

Takes the clients' events from its caller and everything else from the monitor's API; passes lines to `say`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from http import HTTPStatus
from typing import Self

import msgspec

from rebalance_contract import Finding, Rebalance, Severity
from rebalance_deploy.counts import fetch
from rebalance_deploy.logs import Say
from rebalance_devtools.demo.narration import Narrator, at, count
from rebalance_devtools.stories.script import Event
from rebalance_exporters.terminal.words import describe, describe_finding, headline

_ASK_SECONDS = 0.5
_QUIET_STEP_SECONDS = 15.0


class _FindingsPage(msgspec.Struct):
    findings: list[Finding]


class _RebalancesPage(msgspec.Struct):
    rebalances: list[Rebalance]


def read_findings(url: str) -> list[Finding]:
    """Return the current findings of the API under `url`, newest first; empty if it does not answer."""
    status, text = fetch(f"{url}/api/v1/findings")
    return msgspec.json.decode(text, type=_FindingsPage).findings if status == HTTPStatus.OK else []


def read_rebalances(url: str, group: str) -> list[Rebalance]:
    """Return a group's rebalances, newest first; empty for a group that is unknown to the API under `url`."""
    status, text = fetch(f"{url}/api/v1/groups/{group}/rebalances")
    return msgspec.json.decode(text, type=_RebalancesPage).rebalances if status == HTTPStatus.OK else []


class Commentary:
    """Reports on a group from the start of the block until its end or `hush`.

    It prints findings above severity info, and all findings of `rules`. `say` is called from two threads, but never
    concurrently.
    """

    def __init__(self, url: str, group: str, rules: Collection[str], say: Say) -> None:
        self._url = url
        self._group = group
        self._rules = rules
        self._speak = say
        self._speaking = threading.Lock()
        self._narrator = Narrator()
        self._said: set[tuple[str, ...]] = set()
        self._apart = False
        self._news_at = time.monotonic()
        self._handed_out = 0
        self._quiet_seconds = 0.0
        self._hushed = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hush()

    def hear(self, event: Event) -> None:
        """Print a client's event in plain words."""
        line = None if self._hushed.is_set() else self._narrator.hear(event)
        if line is not None:
            self._say(line)

    def hush(self) -> None:
        """Print nothing more."""
        self._hushed.set()
        self._thread.join()

    def _say(self, text: str) -> None:
        """Print a line, or a text of several lines with an empty line before and after."""
        with self._speaking:
            self._news_at, self._quiet_seconds = time.monotonic(), 0.0
            self._handed_out = self._narrator.handed_out
            block = "\n" in text
            before, after = "\n" * (block and not self._apart), "\n" * block
            self._speak(f"{before}{text}{after}")
            self._apart = block

    def _follow(self) -> None:
        while not self._hushed.wait(_ASK_SECONDS):
            self._say_news()
            self._say_quiet()

    def _say_news(self) -> None:
        for key, text in (*self._rebalances(), *self._findings()):
            if key not in self._said:
                self._said.add(key)
                self._say(text)

    def _say_quiet(self) -> None:
        """Print a line every `_QUIET_STEP_SECONDS` without news, to show that the demo is still running."""
        with self._speaking:
            quiet_seconds = time.monotonic() - self._news_at
            if quiet_seconds >= self._quiet_seconds + _QUIET_STEP_SECONDS:
                self._quiet_seconds = quiet_seconds // _QUIET_STEP_SECONDS * _QUIET_STEP_SECONDS
                now = at(int(time.time() * 1000))
                read = count(self._narrator.handed_out - self._handed_out, "record")
                self._speak(f"{now}  ... no news for {self._quiet_seconds:.0f} s, {read} read meanwhile")
                self._apart = False

    def _rebalances(self) -> Iterator[tuple[tuple[str, ...], str]]:
        for each in reversed(read_rebalances(self._url, self._group)):
            if each.completed_at_ms is not None:
                yield (each.rebalance_id, str(each.generation_to)), describe(each)

    def _findings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the findings worth reporting, each with a key; a finding reported before is shortened."""
        for each in reversed(read_findings(self._url)):
            matters = each.severity != Severity.INFO or each.rule in self._rules
            if each.group == self._group and matters:
                known = any(key[0] == each.finding_id for key in self._said)
                words = headline(each) if known else f"the monitor finds:\n{describe_finding(each)}"
                yield (each.finding_id, each.severity, each.state, str(each.primary)), words
