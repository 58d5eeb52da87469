"""The pages of a process about itself: `/-/healthy`, `/-/ready` and `/metrics`, served in a separate thread.

The exporter, which serves more, has these pages in its own application. TLS and passwords are configured alike for all
processes (`web/config.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from rebalance_contract.api import READY_PATH
from rebalance_contract.settings import authority
from rebalance_exporters.metrics.formats import Style, choose_style
from rebalance_exporters.web.auth import BasicAuth
from rebalance_exporters.web.headers import SafeHeaders
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import Signals, listen, serve

HEALTHY_PATH = "/-/healthy"
#: Paths that supervisors of a process request; the last two are customary in Kubernetes.
HEALTH_PATHS = (HEALTHY_PATH, READY_PATH, "/healthz", "/readyz")

_JOIN_SECONDS = 10.0


class Health(Protocol):
    """The health of a process; called from several threads."""

    def unhealthy(self) -> str | None:
        """Return why the process must be restarted, or null while it works."""

    def unready(self) -> str | None:
        """Return what the process waits for, or null while it does all of its work."""


@dataclass(frozen=True, slots=True)
class Web:
    """Where and how a process serves its pages, from the settings of its `section`."""

    section: str
    host: str
    port: int
    web_config_file: str = ""
    health_without_password: bool = False

    @property
    def free_paths(self) -> tuple[str, ...]:
        """The paths that are served without a password."""
        return HEALTH_PATHS if self.health_without_password else ()


@contextmanager
def serving_pages(
    web: Web, health: Health, registry: CollectorRegistry, clock_ms: Callable[[], int], reload: threading.Event
) -> Iterator[str]:
    """Serve while the block runs; yields the address, without a path. Setting `reload` reloads TLS and passwords.

    Raises ExporterError if the port cannot be bound or a file cannot be used.
    """
    settings = Settings("", web.web_config_file, clock_ms)
    app = make_pages(health, registry, settings, web)
    signals, listening = Signals(reload=reload), threading.Event()
    with closing(listen(web.host, web.port, web.section)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(
            target=serve, args=(app, listener, settings, signals, lambda *_: listening.set()), name="pages", daemon=True
        )
        thread.start()
        try:
            listening.wait(_JOIN_SECONDS)
            yield f"{'http' if settings.tls is None else 'https'}://{authority(web.host, port)}"
        finally:
            signals.stop.set()
            thread.join(_JOIN_SECONDS)


def make_pages(health: Health, registry: CollectorRegistry, settings: Settings, web: Web) -> Starlette:
    """Return the application of a process that serves nothing else."""

    # Not in Starlette's thread pool, which requests for metrics may fill: health is read from memory at once.
    async def serve_healthy(_: Request) -> Response:
        return _answer(health.unhealthy(), "healthy")

    async def serve_ready(_: Request) -> Response:
        return _answer(health.unready(), "ready")

    def serve_metrics(request: Request) -> Response:
        # The library's own choice raises an error for a version that is no number.
        style = choose_style(request.headers.get("accept"))
        encode = generate_openmetrics if style is Style.OPENMETRICS else generate_latest
        return Response(encode(registry), headers={"content-type": style.value})

    pages = dict(zip(HEALTH_PATHS, (serve_healthy, serve_ready) * 2, strict=True))
    return Starlette(
        routes=[Route("/metrics", serve_metrics), *(Route(path, page) for path, page in pages.items())],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(BasicAuth, read_check=settings.read_passwords, free_paths=web.free_paths),
        ],
    )


def _answer(problem: str | None, otherwise: str) -> Response:
    if problem is None:
        return PlainTextResponse(f"{otherwise}\n")
    return PlainTextResponse(f"{' '.join(problem.split())}\n", HTTPStatus.SERVICE_UNAVAILABLE)
