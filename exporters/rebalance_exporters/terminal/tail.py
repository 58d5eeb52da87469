"""`tail`: events as they happen, one line each.

Receives the exporter's event stream, over as many connections as needed; passes lines to a writer. An object is sent
again whenever it changes; a line is written only if its text would be new.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rebalance_contract import ContractError, Finding, decode
from rebalance_contract.api import EventName, Gone, OverviewRow, RebalanceRow, StatusNow
from rebalance_exporters.terminal.client import Api, ApiError, UnreachableError
from rebalance_exporters.terminal.escaping import safe, safe_json
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.sse import ServerEvent, read_events
from rebalance_exporters.terminal.words import describe, headline

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 15.0
#: More objects than change at once; older ones may be reported again if they change.
_REMEMBERED = 20_000

_MISSED = "some events were missed: the exporter no longer had them; `rebalance-monitor top` shows the present"


@dataclass(slots=True)
class EventNarrator:
    """Turns events into lines; returns none if nothing is new."""

    clock: Clock
    _shown: OrderedDict[Hashable, Hashable] = field(default_factory=OrderedDict)

    def learn(self, rows: Iterable[OverviewRow]) -> None:
        """Note the current states without reporting them; the first state of an unknown group is not a change."""
        for row in rows:
            self._note(("group", row.cluster, row.group), row.state)

    def describe(self, event: ServerEvent) -> str | None:
        """Return the line for an event, null if it has no news. Raises ContractError."""
        if event.event == EventName.RESET:
            return _MISSED
        known = self._kinds().get(event.event)
        return None if known is None else known(event.data.encode())

    def _kinds(self) -> Mapping[str, Callable[[bytes], str | None]]:
        return {
            EventName.REBALANCE: lambda data: self._describe_rebalance(decode(data, RebalanceRow)),
            EventName.FINDING: lambda data: self._describe_finding(decode(data, Finding)),
            EventName.GROUP: lambda data: self._describe_group(decode(data, OverviewRow)),
            EventName.GONE: lambda data: _describe_gone(decode(data, Gone)),
            EventName.STATUS: lambda data: self._describe_status(decode(data, StatusNow)),
        }

    def _describe_rebalance(self, rebalance: RebalanceRow) -> str | None:
        key = ("rebalance", rebalance.cluster, rebalance.group, rebalance.rebalance_id)
        news = self._note(key, (rebalance.outcome, rebalance.generation_to))
        return describe(rebalance, self.clock, rebalance.deploys) if news else None

    def _describe_finding(self, finding: Finding) -> str | None:
        known = (finding.state, finding.severity, finding.rule, finding.primary)
        if not self._note(("finding", finding.finding_id), known):
            return None
        return safe(f"{headline(finding, self.clock)}: {finding.summary}")

    def _describe_group(self, row: OverviewRow) -> str | None:
        """Return the line for a state change, null if there was none."""
        key = ("group", row.cluster, row.group)
        before = self._shown.get(key)
        if not self._note(key, row.state) or before is None or row.state is None:
            return None
        at = " " * 8 if row.state_since_ms is None else self.clock.time(row.state_since_ms)
        generation = "" if row.generation is None else f", generation {row.generation}"
        return safe(f"{at}  {row.group}  {before} -> {row.state} ({row.members or 0} members{generation})")

    def _describe_status(self, status: StatusNow) -> str | None:
        before = self._shown.get("status")
        if not self._note("status", status.ready) or (before is None and status.ready):
            return None
        what = "up to date again" if status.ready else f"NOT UP TO DATE: {status.ready_text}"
        return safe(f"{self.clock.time(status.at_ms)}  {what}")

    def _note(self, key: Hashable, value: Hashable) -> bool:
        """Remember the last reported value of a key; return whether it is new."""
        new = self._shown.get(key, _NOTHING) != value
        self._shown[key] = value
        self._shown.move_to_end(key)
        if len(self._shown) > _REMEMBERED:
            self._shown.popitem(last=False)
        return new


_NOTHING = object()


def _describe_gone(gone: Gone) -> str:
    return safe(f"{'':8}  {gone.group}  is gone: deleted or expired (cluster {gone.cluster})")


def as_json(event: ServerEvent) -> str:
    """Return an event as one line of JSON, its data as the exporter sent it."""
    try:
        data: Any = msgspec.json.decode(event.data)
    except msgspec.DecodeError as error:
        raise ContractError(f"not JSON: {error}") from error
    return safe_json({"event": event.event, "id": event.id, "data": data})


@dataclass(frozen=True, slots=True)
class Following:
    """What to follow, and where the lines go; `print_remark` is for lines that are not events."""

    cluster: str | None
    group: str | None
    say: Callable[[str], None]
    print_remark: Callable[[str], None]


def follow(api: Api, following: Following, write: Callable[[ServerEvent], str | None], stop: threading.Event) -> None:
    """Write events until stopped. Reconnects after a lost connection, and resumes after the last event.

    Raises ApiError if the first connection fails, or the exporter refuses one.
    """
    last_id, pause_seconds, connected = None, _FIRST_PAUSE_SECONDS, False
    while not stop.is_set():
        try:
            for event in _events(api, following, last_id):
                if not connected and last_id is not None:
                    following.print_remark("connected again")
                connected, last_id, pause_seconds = True, event.id or last_id, _FIRST_PAUSE_SECONDS
                _say(event, write, following)
                if stop.is_set():
                    return
            reason = "the exporter ended the stream"
        except UnreachableError as error:
            if not connected and last_id is None:
                raise
            reason = str(error)
        following.print_remark(f"connection lost, trying again in {pause_seconds:.0f} s: {reason}")
        connected = False
        _pause(stop, pause_seconds)
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def _pause(stop: threading.Event, seconds: float) -> None:
    stop.wait(seconds)


def _events(api: Api, following: Following, last_id: str | None) -> Iterator[ServerEvent]:
    with api.stream(following.cluster, following.group, last_id) as chunks:
        yield from read_events(chunks)


def _say(event: ServerEvent, write: Callable[[ServerEvent], str | None], following: Following) -> None:
    try:
        line = write(event)
    except ContractError as error:
        raise ApiError(
            f"the exporter sent an event that this version cannot read ({safe(str(error))}): "
            "compare its version with `rebalance-monitor --version`"
        ) from error
    if line is not None:
        following.say(line)
