"""A TCP proxy on loopback between clients and one broker that can simulate network faults for single clients.

The broker advertises the proxy's address on a separate listener, so that clients that connect through the proxy stay on
it. A client is identified by the client id of its first request; its connection to the broker has the source address
assigned to the client, which the broker records as its host. Bytes are never lost or reordered, as with TCP: they are
delayed, or the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rebalance_deploy.ports import find_free_ports

#: Suffix that this project's reporter adds to the id of the client on which it reports.
_REPORTER = "-rebalance-reporter"
_LISTENER = "NETWORK"
_FIRST_BYTES = 4 + 2 + 2 + 4 + 2
_CHUNK = 65_536
_START_SECONDS = 60.0
#: Delay of a lost segment: Linux retransmits it after this time, which doubles with each retry.
_RETRANSMIT_SECONDS = 0.2
_MOST_RETRANSMITS = 6


class Fault(StrEnum):
    """Network faults of a client: `SILENT` delivers nothing, `CUT` closes connections and refuses new ones.

    `FORGOTTEN` permanently blocks open connections without closing them, as a firewall that lost its state does; new
    connections work.
    """

    NONE = "none"
    SILENT = "silent"
    CUT = "cut"
    DELAY = "delay"
    LOSS = "loss"
    FORGOTTEN = "forgotten"


@dataclass(slots=True)
class Route:
    """One client's route to the broker. `delay_seconds` is for `DELAY` (each way), `loss` (0 to 1) for `LOSS`.

    `forgotten` counts how often the fault `FORGOTTEN` was set.
    """

    host: str
    fault: Fault = Fault.NONE
    delay_seconds: float = 0.0
    loss: float = 0.0
    forgotten: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Network:
    """A proxy in a separate thread. The broker needs the settings in `listener`."""

    def __init__(self, seed: int) -> None:
        """Choose ports; nothing listens yet. `seed` determines the lost segments."""
        self._port, self._broker_port = find_free_ports(2)
        self._random = random.Random(seed)  # noqa: S311 - to be repeatable is the point
        self._routes: dict[str, Route] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="network")

    @property
    def bootstrap(self) -> str:
        """The address that clients of this network use."""
        return f"127.0.0.1:{self._port}"

    @property
    def listener(self) -> dict[str, str]:
        """Settings of the broker behind this network."""
        return {
            "listeners": f"{_LISTENER}://127.0.0.1:{self._broker_port}",
            "advertised.listeners": f"{_LISTENER}://{self.bootstrap}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{_LISTENER}:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def place(self, client_id: str, host: str) -> None:
        """Assign a client a host, a loopback address such as 127.0.1.5, from which it connects to the broker."""
        self._call(lambda: self._routes.setdefault(client_id, Route(host)))

    def move(self, client_id: str, host: str) -> None:
        """Assign another host to a client of `place`, for its new connections."""

        def change() -> None:
            self._routes[client_id].host = host

        self._call(change)

    def set_fault(self, client_id: str, fault: Fault, *, delay_seconds: float = 0.0, loss: float = 0.0) -> None:
        """Set the fault of a client of `place`, with immediate effect."""

        def change() -> None:
            route = self._routes[client_id]
            route.fault, route.delay_seconds, route.loss = fault, delay_seconds, loss
            route.forgotten += fault == Fault.FORGOTTEN
            route.changed.set()
            route.changed = asyncio.Event()

        self._call(change)

    # --- The proxy, in its own thread ---

    def start(self) -> None:
        """Start the proxy; returns when it listens."""
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise RuntimeError("the proxy did not start")

    def stop(self) -> None:
        """Stop the proxy and close all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _call(self, action: Callable[[], object]) -> None:
        async def act() -> None:
            action()

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(_START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self._port))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head, client_id = await _read_client_id(reader)
            route = self._routes.get(client_id.removesuffix(_REPORTER)) or Route("127.0.0.1")
            if route.fault != Fault.CUT:
                await self._join(route, head, reader, writer)
        writer.close()

    async def _join(
        self, route: Route, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward bytes both ways until one side ends or the connection is cut."""
        there, back = await asyncio.open_connection("127.0.0.1", self._broker_port, local_addr=(route.host, 0))
        try:
            await _first_of(
                self._carry(route, reader, back, head), self._carry(route, there, writer, b""), _until_cut(route)
            )
        finally:
            back.close()

    async def _carry(
        self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes
    ) -> None:
        """Forward one direction, starting with `data`: delayed bytes keep their order, so later ones wait for them."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        opened = route.forgotten

        async def deliver() -> None:
            while True:
                at, chunk = await late.get()
                await asyncio.sleep(at - self._loop.time())
                await _while_silent(route, opened)
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()

        async def take() -> None:
            chunk, last = data, 0.0
            while True:
                if chunk:
                    last = max(last, self._loop.time() + self._lateness(route))
                    late.put_nowait((last, chunk))
                if not (chunk := await reader.read(_CHUNK)):
                    late.put_nowait((self._loop.time(), b""))
                    await asyncio.Event().wait()

        await _first_of(deliver(), take())

    def _lateness(self, route: Route) -> float:
        if route.fault == Fault.DELAY:
            return route.delay_seconds
        if route.fault != Fault.LOSS:
            return 0.0
        seconds = 0.0
        for turn in range(_MOST_RETRANSMITS):
            if self._random.random() >= route.loss:
                break
            seconds += _RETRANSMIT_SECONDS * 2**turn
        return seconds


async def _read_client_id(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Return the first bytes of a connection's first request, and its client id (request header, since version 1)."""
    head = await reader.readexactly(_FIRST_BYTES)
    (length,) = struct.unpack(">h", head[-2:])
    name = await reader.readexactly(max(0, length))
    return head + name, name.decode(errors="replace")


async def _while_silent(route: Route, opened: int) -> None:
    """Wait while the route delivers nothing; `opened` is the value of `forgotten` when the connection was opened."""
    while route.fault == Fault.SILENT or route.forgotten > opened:
        await route.changed.wait()


async def _until_cut(route: Route) -> None:
    while route.fault != Fault.CUT:
        await route.changed.wait()


async def _first_of(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Wait for the first coroutine to finish, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def open_network(seed: int) -> Iterator[Network]:
    """Start a network; it is stopped at the end of the context."""
    network = Network(seed)
    network.start()
    try:
        yield network
    finally:
        network.stop()
