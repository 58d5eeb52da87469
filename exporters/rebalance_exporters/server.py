"""The HTTP side: puts reader, view and exposition together and serves them until it is told to stop."""

from __future__ import annotations

import contextlib
import difflib
import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from importlib import metadata

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from rebalance_exporters.api import error_response, make_routes
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.consumer import TopicReader
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.health import Readiness, ReadProgress, judge_readiness
from rebalance_exporters.render import Exposition, accepts_gzip, choose_style, compress
from rebalance_exporters.view import View

_log = logging.getLogger(__name__)

_UNAVAILABLE = 503
_SHUTDOWN_SECONDS = 5
_PATHS = ("/", "/metrics", "/-/healthy", "/-/ready", "/healthz", "/readyz", "/api/v1/groups")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>rebalance-monitor</title></head>
<body>
<h1>rebalance-monitor</h1>
<p>Version {version}. What Kafka consumer groups do when they rebalance.</p>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li><a href="/-/ready">/-/ready</a>: whether the metrics are complete and fresh, and if not, what is awaited</li>
<li><a href="/-/healthy">/-/healthy</a>: whether the process works</li>
<li><a href="/api/v1/groups">/api/v1/groups</a>: every group as JSON</li>
</ul>
</body>
</html>
"""


def read_version() -> str:
    """Return the installed version; a source tree that was never installed has none."""
    try:
        return metadata.version("rebalance-monitor")
    except metadata.PackageNotFoundError:
        return "unknown"


def now_ms() -> int:
    """Return the time as epoch milliseconds."""
    return time.time_ns() // 1_000_000


def make_app(
    config: ExportConfig, view: View, read_progress: Callable[[], ReadProgress], clock_ms: Callable[[], int] = now_ms
) -> Starlette:
    """Make the application; whoever reads Kafka stays outside and is asked for its progress."""
    version = read_version()
    exposition = Exposition(
        limit_groups=config.limit_groups,
        version=version,
        collect_partitions=config.collect_partitions,
        collect_members=config.collect_members,
    )

    def judge() -> Readiness:
        return judge_readiness(view.picture(), read_progress(), clock_ms(), config.stale_after_seconds)

    # Plain functions run in Starlette's thread pool, so that a large exposition holds up no health check.
    def serve_metrics(request: Request) -> Response:
        style = choose_style(request.headers.get("accept"))
        body = exposition.render(view.picture(), read_progress(), judge(), clock_ms(), style)
        headers = {"content-type": style.value, "vary": "Accept, Accept-Encoding"}
        if accepts_gzip(request.headers.get("accept-encoding")):
            body = compress(body)
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    def serve_healthy(_: Request) -> Response:
        failure = read_progress().failure
        if failure is not None:
            return PlainTextResponse(f"the reader stopped: {failure}\n", _UNAVAILABLE)
        return PlainTextResponse("healthy\n")

    def serve_ready(_: Request) -> Response:
        verdict = judge()
        return PlainTextResponse(f"{verdict.text}\n", 200 if verdict.ready else _UNAVAILABLE)

    def serve_page(_: Request) -> Response:
        return HTMLResponse(_PAGE.format(version=version))

    routes = [
        Route("/", serve_page),
        Route("/metrics", serve_metrics),
        Route("/-/healthy", serve_healthy),
        Route("/healthz", serve_healthy),
        Route("/-/ready", serve_ready),
        Route("/readyz", serve_ready),
        *make_routes(view),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _answer_error})


def run(
    config: ExportConfig,
    *,
    stop: threading.Event | None = None,
    on_listening: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; the bound host and port go to `on_listening` once requests are taken.

    Raises ExporterError for wrong settings, a port that cannot be had, or brokers that do not answer.
    """
    problems = config.validate()
    if problems:
        raise ExporterError("; ".join(problems))
    reads_committed = re.compile(config.read_committed_groups) if config.read_committed_groups else None
    view = View(
        group_expiry_seconds=config.group_expiry_seconds,
        keep_rebalances=config.keep_rebalances,
        reads_committed=lambda group: reads_committed is not None and reads_committed.fullmatch(group) is not None,
    )
    with contextlib.closing(_listen(config)) as listener:
        reader = TopicReader(config, view, now_ms)
        try:
            reader.check_reachable()
            reader.start()
            _serve(make_app(config, view, lambda: reader.progress), listener, stop or threading.Event(), on_listening)
        finally:
            reader.stop()


class _Server(uvicorn.Server):
    """uvicorn's server that looks at an event instead of signals, which it would raise again after its end."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._announce = started

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def on_tick(self, counter: int) -> bool:
        return self._stop.is_set() or await super().on_tick(counter)


def _serve(
    app: Starlette,
    listener: socket.socket,
    stop: threading.Event,
    on_listening: Callable[[str, int], None] | None,
) -> None:
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        _log.info("serving on http://%s:%d/", host, port)
        if on_listening is not None:
            on_listening(host, port)

    settings = uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=_SHUTDOWN_SECONDS
    )
    with _stopping_on_signals(stop):
        _Server(settings, stop, announce).run(sockets=[listener])


def _listen(config: ExportConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.listen_host else socket.AF_INET
    try:
        return socket.create_server((config.listen_host, config.listen_port), family=family)
    except OSError as error:
        raise ExporterError(
            f"cannot listen on {config.listen_host} port {config.listen_port} ({error.strerror}): "
            "stop what uses it, or choose another listen_port"
        ) from error


@contextlib.contextmanager
def _stopping_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop`. Python allows handlers in the main thread only; elsewhere nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for this class only"
    paths = difflib.get_close_matches(request.url.path, _PATHS)
    return error_response(error.status_code, f"{request.url.path}: {error.detail}", paths)
