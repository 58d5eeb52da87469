"""The HTTP server: combines reader, view and exposition and serves them until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from importlib import metadata

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from rebalance_contract.api import Readiness
from rebalance_contract.openapi import OPERATIONS
from rebalance_exporters.api.routes import AnswerSources, make_routes
from rebalance_exporters.api.silences import Refusal, WriteSilence, refuse_silence, silence_routes
from rebalance_exporters.api.stream_events import EventSource
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.kafka.readers import Readers
from rebalance_exporters.metrics.formats import Style, accepts_gzip, choose_style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.metrics.scraping import SharedScrapes
from rebalance_exporters.page import page_routes
from rebalance_exporters.state.health import Judge, ReadProgress
from rebalance_exporters.state.view import View
from rebalance_exporters.web.auth import BasicAuth
from rebalance_exporters.web.connections import connection_limit
from rebalance_exporters.web.headers import SafeHeaders
from rebalance_exporters.web.own_pages import HEALTH_PATHS
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.responses import RequestError, error_response, json_response
from rebalance_exporters.web.server import Signals, listen, serve
from rebalance_kafka.clock import epoch_ms

#: Page and API also show groups beyond the export limit; these bounds keep invented ones from filling the memory.
_GROUPS_PER_EXPORTED, _LEAST_MAX_GROUPS = 5, 1_000
#: Paths proposed for an unknown path; paths with a group have hints of their own.
_PATHS = (
    "/",
    "/metrics",
    *HEALTH_PATHS,
    *dict.fromkeys(each.path for each in OPERATIONS if "{" not in each.path and each.path not in HEALTH_PATHS),
)


def collect_rarely() -> None:
    """Run the cyclic garbage collector less often: the state of groups is many long-lived objects without cycles.

    A full collection during a scrape doubles its cost (`rebalance-monitor bench exposition`).
    """
    gc.set_threshold(100_000, 50, 100)


def read_version() -> str:
    """Return the installed version, or `unknown` for a source tree that was never installed."""
    try:
        return metadata.version("rebalance-monitor")
    except metadata.PackageNotFoundError:
        return "unknown"


def make_app(
    config: ExportConfig,
    view: View,
    read_progress: Callable[[], ReadProgress],
    clock_ms: Callable[[], int] = epoch_ms,
    *,
    settings: Settings | None = None,
    stop: threading.Event | None = None,
    write_silence: WriteSilence = refuse_silence,
    silence_refusal: Refusal = lambda _: None,
) -> Starlette:
    """Return the application; the reader and the writer of Kafka are outside it and passed as functions.

    Raises ExporterError if a file that the settings name cannot be used.
    """
    version, stopping = read_version(), stop or threading.Event()
    settings = settings or Settings(config.owners_file, config.web_config_file, clock_ms)
    exposition = Exposition(
        limit_groups=config.limit_groups,
        limit_members_per_group=config.limit_members_per_group,
        version=version,
        collect_partitions=config.collect_partitions,
        collect_members=config.collect_members,
    )

    judging = Judge(config.stale_after_seconds)

    def judge() -> Readiness:
        return judging.judge(view.fleet(), read_progress(), clock_ms())

    def render(style: Style) -> bytes:
        owners, reloads = settings.read_owners(), settings.reloads
        return exposition.render(
            view.fleet(), read_progress(), judge(), clock_ms(), style, owners=owners, reloads=reloads
        )

    free_paths = HEALTH_PATHS if config.health_without_password else ()
    # Each follower keeps a connection, and scrapes need some.
    limit = connection_limit() // 2
    followers = EventSource(view, judge, clock_ms, settings.read_owners, version, stopping.is_set, limit)
    sources = AnswerSources(view, judge, clock_ms, settings.read_owners, followers, version)
    return Starlette(
        routes=[
            *page_routes(),
            _make_metrics_page(SharedScrapes(render)),
            *_make_health_pages(judge, read_progress),
            *make_routes(sources),
            *silence_routes(view, clock_ms, write_silence, silence_refusal),
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(BasicAuth, read_check=settings.read_passwords, free_paths=free_paths),
        ],
        exception_handlers={HTTPException: _answer_http_error, RequestError: _answer_request_error},
    )


def _make_metrics_page(scrapes: SharedScrapes) -> Route:
    async def serve_metrics(request: Request) -> Response:
        style = choose_style(request.headers.get("accept"))
        gzip = accepts_gzip(request.headers.get("accept-encoding"))
        headers = {"content-type": style.value, "vary": "Accept, Accept-Encoding"}
        if gzip:
            headers["content-encoding"] = "gzip"
        return Response(await scrapes.body(style, gzip=gzip), headers=headers)

    return Route("/metrics", serve_metrics)


def _make_health_pages(judge: Callable[[], Readiness], read_progress: Callable[[], ReadProgress]) -> list[Route]:
    judging = ThreadPoolExecutor(1, thread_name_prefix="readiness")

    # Not in Starlette's thread pool, which other requests may fill: supervisors restart the process by these pages.
    async def serve_healthy(_: Request) -> Response:
        failure = read_progress().failure
        if failure is not None:
            return PlainTextResponse(f"the reader stopped: {failure}\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return PlainTextResponse("healthy\n")

    async def serve_ready(request: Request) -> Response:
        # In a thread, so that taking a snapshot does not block the event loop.
        verdict = await asyncio.get_running_loop().run_in_executor(judging, judge)
        # If one cluster is away, a load balancer must still send requests for the others here.
        status_code = 200 if verdict.ready or verdict.partly else HTTPStatus.SERVICE_UNAVAILABLE
        if "application/json" in request.headers.get("accept", ""):
            return json_response(verdict, status_code)
        return PlainTextResponse(f"{verdict.text}\n", status_code)

    return [Route(path, page) for path, page in zip(HEALTH_PATHS, (serve_healthy, serve_ready) * 2, strict=True)]


def run(
    config: ExportConfig,
    *,
    stop: threading.Event | None = None,
    reload: threading.Event | None = None,
    on_listening: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; `on_listening` gets the bound host and port once requests are accepted.

    SIGHUP, or setting `reload`, reloads the owner file and the web config file. If brokers do not answer, it waits for
    them and is not ready. Raises ExporterError for invalid settings, a port that cannot be bound, or brokers that do
    not accept the client.
    """
    problems = config.validate()
    if problems:
        raise ExporterError("; ".join(problems))
    collect_rarely()
    settings = Settings(config.owners_file, config.web_config_file, epoch_ms)
    signals = Signals(stop or threading.Event(), reload or threading.Event())
    view = make_view(config)
    with contextlib.closing(listen(config.listen_host, config.listen_port, "export")) as listener:
        readers = Readers(config, view, epoch_ms)
        try:
            readers.start(signals.stop)
            app = make_app(
                config,
                view,
                lambda: readers.progress,
                settings=settings,
                stop=signals.stop,
                write_silence=readers.write_silence,
                silence_refusal=readers.refusal,
            )
            serve(app, listener, settings, signals, on_listening)
        finally:
            readers.stop()
    if (refused := readers.refused) is not None:
        raise ExporterError(refused)


def make_view(config: ExportConfig) -> View:
    """Return an empty view with the limits of the settings."""
    return View(
        group_expiry_seconds=config.group_expiry_seconds,
        keep_rebalances=config.keep_rebalances,
        stale_after_seconds=config.stale_after_seconds,
        max_groups=max(_LEAST_MAX_GROUPS, _GROUPS_PER_EXPORTED * config.limit_groups),
    )


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for this class only"
    paths = difflib.get_close_matches(request.url.path, _PATHS)
    return error_response(error.status_code, f"{request.url.path}: {error.detail}", paths)


def _answer_request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError), "registered for this class only"
    return error.answer()
