"""Server-sent events: changes, pushed to followers as they happen.

Receives changes from the view; yields events as bytes. A follower that is slow or was disconnected gets the present
state of each changed item once, not every step in between; one that was away for too long is told to reload everything.
Ids are valid for one run of the exporter: another run, or a replica, numbers its changes differently.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import rebalance_contract as contract
from rebalance_contract.api import EventName, Gone, Hello, Readiness, Reset, StatusNow
from rebalance_exporters.api.overview import data_age_ms, make_row
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.changes import ChangedItem
from rebalance_exporters.state.fleet import FleetSnapshot
from rebalance_exporters.state.view import View

#: Poll interval for changes: too short for a person to notice. Changes in between are reported together.
LOOK_SECONDS = 0.5
#: Maximum interval between statuses; a follower that gets none for longer may consider the connection dead.
STATUS_SECONDS = 5.0
#: A version before the first one, which the change log does not cover.
_UNKNOWN = -1
#: Maximum digits of a version, not reached even with a million changes per second.
_ID_DIGITS = 18
#: Maximum number of changes encoded for a follower at a time: one that reads slowly, or not at all, occupies no more
#: memory, and an item that changes again meanwhile is reported to it once.
_MOST_AT_ONCE = 200
#: Maximum bytes of encoded events kept for other followers: enough for some thousand groups.
_KEPT_BYTES = 8 * 1024 * 1024
#: Bytes that a kept event takes in addition to its text.
_ENTRY_BYTES = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """The changes that a follower wants; null means all."""

    cluster: str | None = None
    group: str | None = None

    def wants(self, item: ChangedItem) -> bool:
        """Return whether to report a change."""
        return self.cluster in {None, item.cluster} and self.group in {None, item.group}


class _PolledEvents(NamedTuple):
    """Result of one poll of the view: the version reached, whether there is more, the events, and the status."""

    version: int
    is_more: bool
    events: list[bytes]
    readiness: Readiness
    status: bytes


def write_event(event: EventName, data: bytes, event_id: str | None = None) -> bytes:
    """Return one event. Line breaks in JSON stand only between tokens, so they are replaced by spaces."""
    line = data.replace(b"\r", b" ").replace(b"\n", b" ")
    identity = b"" if event_id is None else b"id: %s\n" % event_id.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (identity, event.encode(), line)


class KeptTexts:
    """A cache of the latest event of each item with its version; the oldest are dropped first when it is full.

    With it, many followers cost little more than one. Thread-safe.
    """

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._texts: dict[ChangedItem, tuple[int, bytes]] = {}
        self._bytes = 0

    def get(self, version: int, item: ChangedItem) -> bytes | None:
        """Return the event of an item at a version, or null if it is not kept."""
        known = self._texts.get(item)
        return known[1] if known is not None and known[0] == version else None

    def put(self, version: int, item: ChangedItem, text: bytes) -> None:
        """Keep an event."""
        with self._lock:
            self._drop(item)
            self._texts[item] = (version, text)
            self._bytes += len(text) + _ENTRY_BYTES
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._texts)))

    def _drop(self, item: ChangedItem) -> None:
        known = self._texts.pop(item, None)
        self._bytes -= 0 if known is None else len(known[1]) + _ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class EventSource:
    """What all followers of one exporter share: where the events come from, their cache, and their limit."""

    view: View
    judge: Callable[[], Readiness]
    clock_ms: Callable[[], int]
    read_owners: Callable[[], Owners]
    version: str
    is_stopping: Callable[[], bool] = lambda: False
    #: Maximum number of followers. Each costs two polls per second and a connection.
    limit: int = 500
    run_id: str = field(default_factory=lambda: secrets.token_hex(4))
    _texts: KeptTexts = field(default_factory=KeptTexts)
    _following: set[object] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        """Whether the limit of followers is reached."""
        return len(self._following) >= self.limit

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count a follower while the block runs."""
        follower = object()
        self._following.add(follower)
        try:
            yield
        finally:
            self._following.discard(follower)

    async def follow(self, wanted: Filter, last_event_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield events until the exporter stops, starting after `last_event_id`, or now if it is null."""
        known = self.view.version if last_event_id is None else self._read_id(last_event_id)
        hello = Hello(self.clock_ms(), self.version)
        yield write_event(EventName.HELLO, contract.encode(hello), None if known is None else self._id(known))
        said, said_at = None, 0.0
        while not self.is_stopping():
            # In a thread: a batch may hold the view's lock, which must not block the event loop.
            found = await asyncio.to_thread(self._poll_events, known, wanted)
            known = found.version
            for each in found.events:
                yield each
            now = asyncio.get_running_loop().time()
            if found.readiness != said or now - said_at >= STATUS_SECONDS - LOOK_SECONDS:
                said, said_at = found.readiness, now
                yield found.status
            await asyncio.sleep(0 if found.is_more else LOOK_SECONDS)

    def _poll_events(self, since: int | None, wanted: Filter) -> _PolledEvents:
        """Return what is new after a version; a null version, of another run, leads to a reset."""
        changes = self.view.changes(_UNKNOWN if since is None else since)
        fleet, readiness, now_ms = self.view.fleet(), self.judge().of(wanted.cluster), self.clock_ms()
        status = StatusNow(now_ms, readiness.ready, readiness.text, data_age_ms(fleet, now_ms, wanted.cluster))
        version, is_more = changes.version, False
        if changes.items is None:
            events = [write_event(EventName.RESET, contract.encode(Reset()), self._id(version))]
        else:
            chosen = [(changed, item) for changed, item in changes.items if wanted.wants(item)]
            if is_more := len(chosen) > _MOST_AT_ONCE:
                chosen = chosen[:_MOST_AT_ONCE]
                version, _ = chosen[-1]
            events = [text for changed, item in chosen if (text := self._write(changed, item, fleet))]
        return _PolledEvents(
            version, is_more, events, readiness, write_event(EventName.STATUS, contract.encode(status))
        )

    def _write(self, version: int, item: ChangedItem, fleet: FleetSnapshot) -> bytes:
        """Return the event of a changed item; empty if it was forgotten meanwhile."""
        text = self._texts.get(version, item)
        if text is None:
            text = self._encode(version, item, fleet)
            self._texts.put(version, item, text)
        return text

    def _encode(self, version: int, item: ChangedItem, fleet: FleetSnapshot) -> bytes:
        key, event_id = (item.cluster, item.group), self._id(version)
        if item.kind == "rebalance":
            kept = self.view.rebalance(key, item.name)
            return write_event(EventName.REBALANCE, fleet.document(kept), event_id) if kept else b""
        if item.kind == "finding":
            finding = self.view.finding(item)
            return write_event(EventName.FINDING, contract.encode(finding), event_id) if finding else b""
        if key in fleet.groups:
            row = make_row(key, fleet, self.clock_ms(), self.read_owners())
            return write_event(EventName.GROUP, contract.encode(row), event_id)
        # A rebalance or a lag row may be read before its group.
        return write_event(EventName.GONE, contract.encode(Gone(*key)), event_id) if self.view.is_gone(key) else b""

    def _id(self, version: int) -> str:
        return f"{self.run_id}-{version}"

    def _read_id(self, text: str) -> int | None:
        """Return the version of an event id, or null if the id is of another run."""
        run_id, _, version = text.partition("-")
        is_number = version.isascii() and version.isdigit() and len(version) <= _ID_DIGITS
        return int(version) if run_id == self.run_id and is_number else None
