"""An exporter of 1,000 groups that is killed, and that hostile clients keep busy."""

from __future__ import annotations

import os
import random
import select
import selectors
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.rig import READY_SECONDS, Rig, samples
from faults.observing import COUNTED_BY_EXPORTERS, await_judgement, resident_bytes
from faults.reporting import Figures
from faults.written_log import WrittenLog, running_log
from rebalance_contract.api import STREAM_PATH
from rebalance_deploy.counts import fetch
from rebalance_deploy.ports import find_free_port
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

_GROUPS = [f"group-{number:04d}" for number in range(1_000)]
_READY_SECONDS = 10.0
#: Ranges of the random times of a kill: after the exporter is ready, and while it starts.
_SOME_SCRAPES_SECONDS, _START_SECONDS = 2.0, 4.0
_STRANGERS = 2_000
_MINUTE_SECONDS = 60.0
_ANSWERED_SHARE, _LOG_BYTES_A_MINUTE = 0.99, 10_000
_HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
_FOLLOWED = b"HTTP/1.1 200 "
_FOLLOWERS, _ROUNDS_FOLLOWED = 500, 3
#: Rounds until the limit of kept rebalances is reached, and until followers have their full backlogs.
_FILLING_ROUNDS, _FIRST_ROUNDS_FOLLOWED = 6, 2
_GROWTH_BYTES = 10_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    """A log of 1,000 groups and a monitor watching it, whose exporter has the same port at each of its starts."""
    port = f"export.listen_port={find_free_port()}"
    with running_log(tmp_path_factory.mktemp("exporter"), port) as running:
        for _ in range(2):
            running.write(running.generation(group) for group in _GROUPS)
            running.await_generations(*_GROUPS)
        await_judgement(running.rig)
        yield running


def counters(rig: Rig) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the counters of groups on /metrics, except those that begin with the exporter."""
    endings = ("_total", "_count", "_sum", "_bucket")
    return {
        (name, tuple(sorted(labels.items()))): value
        for name, labels, value in samples(rig.monitor.url)
        if "group" in labels and name.endswith(endings) and name not in COUNTED_BY_EXPORTERS
    }


def start_exporter(rig: Rig) -> float:
    """Start the exporter again; return the seconds until it is ready."""
    began = time.monotonic()
    rig.monitor.export.start()
    rig.monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
    return time.monotonic() - began


def kill_exporter(rig: Rig) -> None:
    """Kill the exporter and clean up its handles."""
    child = rig.monitor.export.process
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(60) != 0
    child.kill()


@pytest.mark.faults(4, fast=0, full=20)
def test_an_exporter_that_is_killed_counts_as_before(log: WrittenLog, rounds: int, figures: Figures):
    """While it serves and while it starts: no counter of a group decreases or disappears, and later events count.

    The time in states and the number of findings are counted by the exporter itself, and start from 0.
    """
    rig, chance, never = log.rig, random.Random(4), threading.Event()
    for number in range(rounds):
        before = counters(rig)
        # Between two scrapes, or while a start reads its topics.
        never.wait(chance.uniform(0, _SOME_SCRAPES_SECONDS))
        kill_exporter(rig)
        if number % 2:
            rig.monitor.export.start()
            never.wait(chance.uniform(0, _START_SECONDS))
            kill_exporter(rig)
            log.write_generations(chance.choice(_GROUPS))
        seconds = start_exporter(rig)
        figures.note("ready", seconds, "s")
        after = counters(rig)
        fallen = {
            series: (value, after.get(series)) for series, value in before.items() if value > after.get(series, -1)
        }
        assert not fallen, list(fallen.items())[:5]
        log.await_generations(*_GROUPS)
        assert seconds <= _READY_SECONDS
    figures.note("counters of groups", len(before), "")
    rig.monitor.check()


class HalfRequests:
    """Connections that send half a request and nothing more; closed ones are reopened each second."""

    def __init__(self, port: int) -> None:
        self.opened = 0
        self._port = port
        self._sockets: set[socket.socket] = set()

    def keep_at_it(self, stop: threading.Event) -> None:
        """Continue until told to stop."""
        while not stop.wait(1):
            self._drop_closed()
            while len(self._sockets) < _STRANGERS and not stop.is_set():
                self._open()
        for each in self._sockets:
            each.close()

    def _open(self) -> None:
        try:
            opened = socket.create_connection(("127.0.0.1", self._port), timeout=10)
            opened.sendall(_HALF)
        except OSError:
            return
        self._sockets.add(opened)
        self.opened += 1

    def _drop_closed(self) -> None:
        looked_at = select.poll()
        by_number = {each.fileno(): each for each in self._sockets}
        for number in by_number:
            looked_at.register(number, select.POLLIN)
        for number, _ in looked_at.poll(0):
            self._sockets.discard(by_number[number])
            by_number[number].close()


@contextmanager
def half_requests(url: str) -> Iterator[HalfRequests]:
    """Keep 2,000 half requests open while the block runs."""
    found, stop = HalfRequests(port_of(url)), threading.Event()
    thread = threading.Thread(target=found.keep_at_it, args=(stop,), name="half_requests")
    thread.start()
    try:
        wait_for(lambda: found.opened >= _STRANGERS, lambda: f"{_STRANGERS} half requests, not {found.opened}")
        yield found
    finally:
        stop.set()
        thread.join(60)


def port_of(url: str) -> int:
    """Return the port of an address."""
    return int(url.rpartition(":")[2])


@pytest.mark.faults(31, fast=0, full=1)
def test_half_requests_hold_up_no_scrape(log: WrittenLog, figures: Figures):
    """2,000 for a minute: scrapes of all groups are answered, and few lines are logged."""
    rig, answers = log.rig, Counter[bool]()
    kept = rig.directory / "export.log"
    with half_requests(rig.monitor.url) as going_on:
        size, began = kept.stat().st_size, time.monotonic()
        while (passed := time.monotonic() - began) < _MINUTE_SECONDS:
            status, text = fetch(f"{rig.monitor.url}/metrics", timeout_seconds=10)
            answers[status == 200 and _GROUPS[-1] in text] += 1
            figures.note("slowest scrape", time.monotonic() - began - passed, "s")
        said = (kept.stat().st_size - size) / (passed / 60)
    share = answers[True] / answers.total()
    figures.note("half requests", going_on.opened, "")
    figures.note("scrapes", answers.total(), "")
    figures.note("not answered", 100 * (1 - share), "%")
    figures.note("log", said / 1_000, "kB a minute")
    assert share >= _ANSWERED_SHARE, answers
    assert said <= _LOG_BYTES_A_MINUTE, kept.read_text()[size:][:2_000]
    rig.monitor.check()


class Followers:
    """Clients that follow changes; every second one reads nothing after the response headers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reading = selectors.DefaultSelector()
        self._silent = list[socket.socket]()
        self.read_bytes = 0

    @property
    def count(self) -> int:
        """The number of followers."""
        return len(self._silent) + len(self._reading.get_map())

    def open(self) -> None:
        """Try to follow once more; a rejected client closes its connection."""
        opened = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        opened.sendall(f"GET {STREAM_PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        if opened.recv(len(_FOLLOWED), socket.MSG_WAITALL) != _FOLLOWED:
            opened.close()
        elif self.count % 2:
            self._silent.append(opened)
        else:
            opened.setblocking(False)
            self._reading.register(opened, selectors.EVENT_READ)

    def read(self, stop: threading.Event) -> None:
        """Read until told to stop, as a reading follower."""
        while not stop.is_set():
            for key, _ in self._reading.select(0.5):
                assert isinstance(key.fileobj, socket.socket)
                found = key.fileobj.recv(1 << 20)
                self.read_bytes += len(found)
                if not found:
                    self._reading.unregister(key.fileobj)
                    key.fileobj.close()

    def close(self) -> None:
        """Close all connections."""
        for each in (*self._silent, *(key.fileobj for key in list(self._reading.get_map().values()))):
            assert isinstance(each, socket.socket)
            each.close()
        self._reading.close()


@contextmanager
def followers(url: str) -> Iterator[Followers]:
    """Let 2,000 clients try to follow; the accepted ones do while the block runs."""
    found, stop = Followers(port_of(url)), threading.Event()
    for _ in range(_STRANGERS):
        found.open()
    thread = threading.Thread(target=found.read, args=(stop,), name="followers")
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(60)
        found.close()


@pytest.mark.faults(32, fast=0, full=1)
def test_followers_that_do_not_read_fill_no_memory(log: WrittenLog, figures: Figures):
    """2,000 try to follow: those above the limit are rejected, and rebalances of all groups do not increase the memory.

    The exporter keeps a bounded number of rebalances; this bound is reached first, and also checked without followers.
    """
    rig = log.rig
    exporter = rig.monitor.export.process.pid

    def rebalance_all() -> int:
        log.write(log.generation(group) for group in _GROUPS)
        log.await_generations(*_GROUPS)
        return resident_bytes(exporter)

    filling = [rebalance_all() for _ in range(_FILLING_ROUNDS)]
    alone = [filling[-1], *(rebalance_all() for _ in range(_ROUNDS_FOLLOWED))]
    with followers(rig.monitor.url) as following:
        assert following.count == _FOLLOWERS
        first = [rebalance_all() for _ in range(_FIRST_ROUNDS_FOLLOWED)][-1]
        grown = [rebalance_all() for _ in range(_ROUNDS_FOLLOWED)]
        assert following.read_bytes > _FOLLOWERS // 2 * len(_GROUPS)
    of_rebalances = (alone[-1] - alone[0]) / _ROUNDS_FOLLOWED
    with_followers = (grown[-1] - first) / _ROUNDS_FOLLOWED
    figures.note("1,000 rebalances added, alone", of_rebalances / 1e6, "MB")
    figures.note("500 followers added", (first - alone[-1]) / 1e6, "MB")
    figures.note("1,000 rebalances added, with followers", with_followers / 1e6, "MB")
    assert max(of_rebalances, with_followers) <= _GROWTH_BYTES, (filling, alone, first, grown)
    rig.monitor.check()
