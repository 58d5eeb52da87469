"""Describes the events of a story's clients in plain words, if they are worth reading.

Takes the events of one play in the order of their arrival; returns a line for those that are news to the reader. It
uses neither the monitor nor a clock: times are those of the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from rebalance_devtools.stories.script import JAVA, ClientSpec, Event

#: A pause between reads of at least this is reported, once per client; further reads without a pause are not.
_PAUSE_MS = 5_000
#: Shorter work is not reported.
_LONG_WORK_MS = 2_000
#: Work is reported again if it is longer than the last reported work by this factor.
_LONGER = 1.5
#: A healthy join takes a heartbeat interval of 3 s and the coordinator's initial delay of 3 s.
_LONG_JOIN_MS = 10_000
_UNSET = "not set"
_JAVA_NAME = "Java's kafka-clients"

#: Text of events that need no state; the placeholders are fields of the event.
_PLAIN = MappingProxyType(
    {
        "started": "starts",
        "lost": "learns that it was put out of the group",
        "commit_failed": "wants to commit and is refused: {error}",
        "stops_polling": "stops polling; its process lives on, and so do its heartbeats",
        "traffic_ends": "nobody writes to the topic any more",
        "gave_up": "gives up: {error}",
    }
)


@dataclass(slots=True)
class _Client:
    """State of one process of a client; times in epoch milliseconds, None if it has not happened yet."""

    started_ms: int
    member_id: str | None = None
    in_at_ms: int | None = None
    owned: int | None = None
    read_at_ms: int | None = None
    paused: bool = False
    worked_ms: float = _LONG_WORK_MS / _LONGER


@dataclass(slots=True)
class Narrator:
    """Remembers what was reported of every client, to report only what is new.

    `handed_out` counts the records that all clients received, including those not worth a line.
    """

    handed_out: int = 0
    _clients: dict[str, _Client] = field(default_factory=dict)
    _read: set[tuple[str, int, int]] = field(default_factory=set)

    def hear(self, event: Event) -> str | None:
        """Return a line for an event, or None if it is not worth one."""
        client = self._clients.setdefault(event["process"], _Client(event["t_ms"]))
        words = self._words(event, client)
        if words is None:
            return None
        return "  ".join((at(event["t_ms"]), f"{event['name']} {words}".strip()))

    def _words(self, event: Event, client: _Client) -> str | None:
        match event["event"]:
            case "assigned" | "in":
                return _describe_assigned(event, client)
            case "records":
                return self._describe_records(event, client)
            case "processed":
                return _describe_work(event, client)
            case name:
                return _PLAIN[name].format_map(event) if name in _PLAIN else None

    def _describe_records(self, event: Event, client: _Client) -> str | None:
        """Return a line for a client's first read, for the first read after a pause, and for records read again."""
        places = {
            (topic, partition, offset)
            for topic, partition, first, last in event["ranges"]
            for offset in range(first, last + 1)
        }
        again = len(places & self._read)
        self._read |= places
        self.handed_out += event["count"]
        before, client.read_at_ms = client.read_at_ms, event["t_ms"]
        if before is not None and event["t_ms"] - before < _PAUSE_MS:
            return None
        records = count(event["count"], "record")
        if again:
            which = "which was" if event["count"] == 1 else f"{again} of which were"
            return f"gets {records}, {which} handed out before"
        if before is None:
            return f"gets its first {records.removeprefix('1 ')}"
        was_paused, client.paused = client.paused, True
        return None if was_paused else f"gets {records}"


def _describe_assigned(event: Event, client: _Client) -> str | None:
    """Return how many partitions a client has now, and why; None if that has not changed."""
    owned, owned_before = len(event["partitions"]), client.owned
    member_id, before = event.get("member_id"), client.member_id
    client.member_id, client.owned = member_id or before, owned
    has = f"{count(owned, 'partition')}"
    if client.in_at_ms is None:
        client.in_at_ms = event["t_ms"]
        waited_ms = event["t_ms"] - client.started_ms
        at_last = " at last" if waited_ms >= _LONG_JOIN_MS else ""
        return f"is in the group{at_last}, {waited_ms / 1000:.0f} s after its start, with {has}"
    if before is not None and member_id not in {before, None}:
        return f"had been put out and is back under another member id, with {has}"
    return None if owned == owned_before else f"has {has} now"


def _describe_work(event: Event, client: _Client) -> str | None:
    """Return how long a client worked without polling, or None if that was short or reported similarly before."""
    if client.read_at_ms is None:
        return None
    worked_ms = event["t_ms"] - client.read_at_ms
    if worked_ms < _LONGER * client.worked_ms:
        return None
    client.worked_ms = worked_ms
    return f"is done with {count(event['count'], 'record')} after {worked_ms / 1000:.1f} s of work"


def describe_change(sick: ClientSpec, cured: ClientSpec) -> list[str]:
    """Return the differences between the libraries and settings of two forms, as `name: before -> after`.

    Differences in what their programs do are left out, because they use internal terms of the stories.
    """
    library = [] if sick.library == cured.library else [f"{sick.library} -> {cured.library}"]
    return [*library, *_differences(sick.settings, cured.settings)]


def describe_form(form: ClientSpec) -> str:
    """Return a client's library and settings."""
    library = _JAVA_NAME if form.library == JAVA else form.library
    return "  ".join((library, *(f"{name}={value}" for name, value in form.settings.items())))


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{number} {noun}{'s' * (number != 1)}"


def at(time_ms: int) -> str:
    """Return a time of day (UTC) in the form used for rebalances and findings."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%H:%M:%S")


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    names = dict.fromkeys((*before, *after))
    return [
        f"{name}: {before.get(name, _UNSET)} -> {after.get(name, _UNSET)}"
        for name in names
        if before.get(name, _UNSET) != after.get(name, _UNSET)
    ]
