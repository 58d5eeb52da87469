"""The live page at `/`: serves its files, which contain no data; the page itself gets everything from the API.

Does not depend on groups. The files are read once, when the routes are made, and served with headers that keep a
browser from running or loading anything from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rebalance_exporters.metrics.formats import accepts_gzip, compress

_FOLDER = Path(__file__).parent / "static"
_INDEX = "index.html"

#: Media types of the files, by suffix.
_MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

#: With trusted types the browser refuses every way of turning text into markup, should the page ever try one.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

# A browser revalidates the files every time, so that after an upgrade no old script uses a new API.
_HEADERS: Mapping[str, str] = {
    "cache-control": "no-cache",
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One served file: its content, the same as gzip, and a tag that changes with the content."""

    media_type: str
    body: bytes
    packed: bytes
    tag: str

    def answer(self, request: Request) -> Response:
        """Return a response with the file, or with status 304 if the client has it already."""
        gzip = accepts_gzip(request.headers.get("accept-encoding"))
        # The two encodings are two representations, and a strong ETag identifies only one.
        etag = f'"{self.tag}{"-gzip" if gzip else ""}"'
        headers = {**_HEADERS, "etag": etag}
        if _is_known(etag, request.headers.get("if-none-match")):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers["content-type"] = self.media_type
        if gzip:
            headers["content-encoding"] = "gzip"
        return Response(self.packed if gzip else self.body, headers=headers)


def page_routes() -> list[Route]:
    """Return the routes of the page: `/`, and `/page/NAME` for its files."""
    assets = load_assets()

    async def serve_page(request: Request) -> Response:
        return assets[_INDEX].answer(request)

    async def serve_asset(request: Request) -> Response:
        asset = assets.get(request.path_params["name"])
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return asset.answer(request)

    return [Route("/", serve_page), Route("/page/{name}", serve_asset)]


def load_assets() -> dict[str, Asset]:
    """Return the files of the page by name."""
    files = sorted(path for path in _FOLDER.iterdir() if path.suffix in _MEDIA_TYPES)
    return {path.name: _make_asset(path.read_bytes(), _MEDIA_TYPES[path.suffix]) for path in files}


def _make_asset(body: bytes, media_type: str) -> Asset:
    return Asset(media_type, body, compress(body), hashlib.sha256(body).hexdigest()[:32])


def _is_known(etag: str, if_none_match: str | None) -> bool:
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in tags or "*" in tags
