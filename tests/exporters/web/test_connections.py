"""What unauthenticated clients can do to the ports, while scrapes are answered."""

import asyncio
import logging
import select
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.server import ServerState

from exporters.contract_rows import NOW_MS, group_row, make_view, stream_rows
from exporters.serving import DEADLINE_SECONDS, Served, make_certificate, serving, serving_app
from rebalance_exporters import server
from rebalance_exporters.web import connections
from rebalance_exporters.web import server as web_server
from rebalance_exporters.web.connections import STALL_SECONDS, BoundedListener, Connections, Reading, connection_limit
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import Signals, _Config, _Protocol
from waiting import wait_for

LIMIT = 20
MUCH = 30_000_000
HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that allows few connections, and closes none because this machine is slow to send a request."""
    for module in (server, web_server):
        monkeypatch.setattr(module, "connection_limit", lambda: LIMIT)
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 600.0)


def connect(stack: ExitStack, served: Served, say: bytes = b"") -> socket.socket:
    """Open a connection, send something and leave it open."""
    opened = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=DEADLINE_SECONDS))
    opened.sendall(say)
    return opened


def is_closed(opened: socket.socket) -> bool:
    """Whether the other side has closed a connection; earlier data are ignored."""
    opened.settimeout(0.01)
    try:
        return not opened.recv(65_536)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def scrape(served: Served, path: str = "/metrics") -> int:
    """Send a request over a separate connection."""
    return httpx.get(f"http://127.0.0.1:{served.port}{path}", timeout=DEADLINE_SECONDS, verify=False).status_code


@pytest.mark.waits
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("say", [b"", HALF], ids=["silent", "half"])
def test_scrapes_are_answered_beside_half_requests(say: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Ten times as many idle connections as allowed: the oldest are closed, nothing is logged."""
    with serving(make_view(group_row(), *stream_rows())) as served, ExitStack() as stack:
        opened = []
        for _ in range(10 * LIMIT):
            opened.append(connect(stack, served, say))
            if len(opened) % LIMIT == 0:
                assert scrape(served) == 200
        wait_for(lambda: is_closed(opened[0]), "the first to give way")
        assert not is_closed(opened[-1])
    assert [each for each in caplog.records if each.levelno >= logging.WARNING and "gave way" not in each.message] == []


class _WithoutSocket(asyncio.Transport):
    """A TLS connection between its end and the event loop's notification of the protocol."""

    aborted = False

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True


def test_a_connection_that_has_just_ended_is_looked_at() -> None:
    """It has no socket any more: this breaks neither the check of all connections nor the server."""

    async def look() -> bool:
        loop = asyncio.get_running_loop()
        config = _Config(Starlette(), Connections(LIMIT), None)
        ended = _Protocol(config, ServerState(), {}, loop)
        ended.transport = transport = _WithoutSocket()
        ended.look()
        ended.give_up()
        return transport.aborted

    assert asyncio.run(look())


def test_a_tls_connection_that_was_closed_twice_is_looked_at() -> None:
    """uvicorn does so if a response ends after its connection was given up: asyncio then forgets its socket."""

    async def look() -> bool:
        loop = asyncio.get_running_loop()
        ended = _Protocol(_Config(Starlette(), Connections(LIMIT), None), ServerState(), {}, loop)
        tls = SSLProtocol(loop, ended, ssl.create_default_context(), None)
        ended.transport = tls._get_app_transport()
        for _ in range(2):
            ended.transport.close()
        ended.look()
        ended.give_up()
        return ended.transport.is_closing()

    assert asyncio.run(look())


@pytest.mark.tools
@pytest.mark.usefixtures("few")
def test_half_handshakes_give_way_too(tmp_path: Path) -> None:
    """Before the TLS handshake there is no request, and no password either."""
    make_certificate(tmp_path, "server")
    file = tmp_path / "web.yml"
    file.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
    with serving(make_view(*stream_rows()), web_config_file=str(file)) as served, ExitStack() as stack:
        opened = [connect(stack, served) for _ in range(5 * LIMIT)]
        url = f"https://localhost:{served.port}/-/ready"
        assert httpx.get(url, verify=trusted, timeout=DEADLINE_SECONDS).status_code == 200
        wait_for(lambda: is_closed(opened[0]), "the first to give way")


def is_answered(opened: socket.socket) -> bool:
    """Whether a part of a response has arrived; it stays unread."""
    return bool(select.select([opened], [], [], 0)[0])


@pytest.mark.waits
def test_who_does_not_ask_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a request, and one after a response, byte by byte, have the time limit of a whole one; a follower stays."""
    with serving(make_view(group_row(), *stream_rows())) as served, ExitStack() as stack:
        half = connect(stack, served, HALF)
        second = connect(stack, served, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + HALF)
        body = connect(stack, served, b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
        follower = connect(stack, served, b"GET /api/v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        # Its request was complete in time, even on a slow machine.
        wait_for(lambda: is_answered(follower), "the follower's first event")
        monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
        going_on = {"half": half, "second": second, "body": body}

        def trickle() -> bool:
            for name, each in list(going_on.items()):
                try:
                    each.sendall(b"x")
                    has_ended = is_closed(each)
                except ConnectionError:
                    has_ended = True
                if has_ended:
                    del going_on[name]
            return not going_on

        wait_for(trickle, lambda: sorted(going_on))
        assert not is_closed(follower)


@contextmanager
def serving_much() -> Iterator[Served]:
    """A server whose every response is larger than the kernel's buffers."""
    answer = Response(bytes(MUCH), headers={"connection": "close"})
    settings, signals = Settings("", "", lambda: NOW_MS), Signals()
    with serving_app(Starlette(routes=[Route("/metrics", lambda _: answer)]), settings, signals) as served:
        yield served


def ask_and_read_nothing(stack: ExitStack, served: Served) -> socket.socket:
    """Send a request over a connection with a small receive buffer."""
    deaf = stack.enter_context(socket.socket())
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    deaf.connect(("127.0.0.1", served.port))
    deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    return deaf


def is_reset(opened: socket.socket) -> bool:
    """Whether the other side has reset the connection since the last call."""
    return opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


@pytest.mark.waits
def test_who_reads_nothing_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads nothing is disconnected after a while, and the kernel's buffer is freed."""
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.5)
    with serving_much() as served, ExitStack() as stack:
        deaf = ask_and_read_nothing(stack, served)
        wait_for(lambda: is_reset(deaf), "the server to give up")


@pytest.mark.waits
def test_an_answer_may_take_longer_to_read_than_a_request_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit of requests does not apply until the response was read to its end, however long that takes."""
    monkeypatch.setattr(connections, "STALL_SECONDS", 600.0)
    looks: list[None] = []

    class Watched(Connections):
        def end_expired(self) -> None:
            super().end_expired()
            looks.append(None)

    monkeypatch.setattr(web_server, "Connections", Watched)
    with serving_much() as served, ExitStack() as stack:
        slow = ask_and_read_nothing(stack, served)
        wait_for(lambda: is_answered(slow), "the answer's beginning")
        monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.0)
        until, read = len(looks) + 3, 0

        def has_been_looked_at() -> bool:
            nonlocal read
            read += len(slow.recv(1_000))
            return len(looks) > until

        wait_for(has_been_looked_at, "looks at the connections")
        while part := slow.recv(1_000_000):
            read += len(part)
        assert read > MUCH


def test_who_reads_slowly_is_kept() -> None:
    """A link that takes an hour for a scrape is slow, not dead: any progress counts."""
    now, reading = 0.0, Reading(lambda: now)
    for unread in range(1_000, 0, -1):
        now += 0.9 * STALL_SECONDS
        assert not reading.has_stalled(unread)
    assert not reading.has_stalled(0)
    now += 100 * STALL_SECONDS
    assert not reading.has_stalled(0), "everything was read"
    assert not reading.has_stalled(5)
    now += STALL_SECONDS
    assert reading.has_stalled(5)


@pytest.mark.waits
def test_unread_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they use no more memory than one limit: connections above it are reset at once.

    The latest one is answered, although it has read nothing yet either.
    """
    monkeypatch.setattr(web_server, "MAX_UNREAD_BYTES", 70_000_000)
    monkeypatch.setattr(connections, "STALL_SECONDS", 600.0)
    with serving_much() as served, ExitStack() as stack:
        deaf = [ask_and_read_nothing(stack, served) for _ in range(5)]
        given_up: set[socket.socket] = set()

        def have_been_given_up() -> bool:
            given_up.update(filter(is_reset, deaf))
            return len(given_up) == 3

        wait_for(have_been_given_up, lambda: len(given_up))
        assert scrape(served) == 200


@pytest.mark.usefixtures("few")
def test_followers_are_limited() -> None:
    """Half of the connections, to leave some for scrapes: later ones get a retry time, and succeed when one left."""
    with serving(make_view(*stream_rows())) as served, ExitStack() as stack:
        url = f"http://127.0.0.1:{served.port}/api/v1/stream"
        client = stack.enter_context(httpx.Client(timeout=DEADLINE_SECONDS, verify=False))
        following = [stack.enter_context(client.stream("GET", url)) for _ in range(LIMIT // 2)]
        assert [each.status_code for each in following] == [200] * (LIMIT // 2)
        refused = client.get(url)
        assert (refused.status_code, refused.json()["error"]) == (503, f"{LIMIT // 2} follow already: try again later")
        assert scrape(served) == 200
        following[0].close()

        def follows() -> bool:
            with client.stream("GET", url) as answer:
                return answer.status_code == 200

        wait_for(follows, "room for one more")


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """Otherwise its body would follow 40 ms after its headers on every kept-alive connection."""
    sends_at_once: list[int] = []

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted = transport.get_extra_info("socket")
            sends_at_once.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def connect_once() -> None:
        listener = BoundedListener.of(socket.create_server(("127.0.0.1", 0)), Connections(1))
        async with await asyncio.get_running_loop().create_server(Noting, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            await reader.read()
            writer.close()

    asyncio.run(connect_once())
    assert sends_at_once == [1]


def test_nothing_is_revealed_about_the_server() -> None:
    """The name of the server helps only attackers."""
    with serving(make_view(*stream_rows())) as served:
        answer = httpx.get(f"http://127.0.0.1:{served.port}/-/healthy", timeout=DEADLINE_SECONDS, verify=False)
        assert "server" not in answer.headers


@pytest.mark.waits
def test_a_heads_length_is_limited() -> None:
    """Endless headers are rejected, not collected."""
    with serving(make_view(*stream_rows())) as served, ExitStack() as stack:
        long = connect(stack, served, b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):
            long.sendall(b"x" * 100_000_000)


def test_connections_leave_files_to_kafkas_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most half of the files that the process may open, and no more than a thousand."""
    for files, limit in ((256, 128), (20_000, 1_000), (4, 16), (-1, 1_000)):
        monkeypatch.setattr("resource.getrlimit", lambda _, files=files: (files, files))
        assert connection_limit() == limit


def test_a_descriptor_that_is_used_again_is_another_connection() -> None:
    """The state of the earlier one, whose close was not noticed, does not count."""
    now, known = 0.0, Connections(2, lambda: now)
    first, second = socket.socketpair()
    number = first.fileno()
    with second:
        assert known.admit(first)
        known.note_asked(number)
        # As if it had been closed and its descriptor reused by the next one, before any other thread could.
        with socket.socket(fileno=first.detach()) as again:
            assert known.admit(again)
            second.setblocking(False)
            with pytest.raises(BlockingIOError):
                second.recv(1)
            now = 11.0
            known.end_expired()
            known.note_waiting(number)
            assert second.recv(1) == b"", "it was ended"
