"""How the page's files are served: the security policy, and caching."""

import asyncio
import gzip
import re
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from rebalance_exporters import page
from rebalance_exporters.page import CONTENT_SECURITY_POLICY, colours, load_assets, page_routes
from rebalance_exporters.page.sets import render

STATIC = Path(page.__file__).parent / "static"
NAMES = sorted(path.name for path in STATIC.iterdir())
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


def get(path: str, **headers: str) -> httpx.Response:
    """Request the page's routes; names of headers are written with underscores."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=list(page_routes())))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return await client.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()})

    return asyncio.run(ask())


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_as_what_it_is(name: str) -> None:
    """Each file of the folder has its own type, is sent plain or as gzip, with the policy."""
    for encoding in ("identity", "gzip"):
        answer = get("/" if name == "index.html" else f"/page/{name}", accept_encoding=encoding)
        assert answer.status_code == 200
        assert answer.content == (STATIC / name).read_bytes()
        assert answer.headers.get("content-encoding", "identity") == encoding
        assert answer.headers["content-type"] == TYPES.get(name.rpartition(".")[2], "image/svg+xml")
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    """Scripts and styles come from files of this server only, and text can never become markup."""
    rules = dict(rule.split(" ", 1) for rule in CONTENT_SECURITY_POLICY.split("; "))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("require-trusted-types-for") == "'script'"
    assert set(rules.values()) == {"'self'", "'none'"}
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"


def test_a_browser_that_has_a_file_gets_not_modified() -> None:
    """A request with the current tag gets an empty response; other bytes or another encoding have another tag."""
    first = get("/page/page.js", accept_encoding="gzip")
    tag = first.headers["etag"]
    for known in (tag, f'"old", W/{tag}', "*"):
        again = get("/page/page.js", accept_encoding="gzip", if_none_match=known)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert get("/page/page.js", accept_encoding="gzip", if_none_match='"old"').status_code == 200
    assert get("/page/page.js", accept_encoding="identity", if_none_match=tag).status_code == 200
    tags = [asset.tag for asset in load_assets().values()]
    assert len(set(tags)) == len(tags) == len(NAMES)
    assert gzip.decompress(load_assets()["page.js"].packed) == load_assets()["page.js"].body
    assert (first.headers["cache-control"], first.headers["vary"]) == ("no-cache", "Accept-Encoding")


@pytest.mark.parametrize(
    "path", ["/page/none.js", "/page/..%2F__init__.py", "/page/%2Fetc%2Fpasswd", "/page/", "/page"]
)
def test_nothing_else_is_served(path: str) -> None:
    """Only the files of the folder are available, whatever the path."""
    assert get(path).status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_no_other_server(name: str) -> None:
    """No file contains the address of another server, so the page works without internet access."""
    text = (STATIC / name).read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?:https?:|wss?:)?//[a-z0-9]", text, re.IGNORECASE)
    assert "@import" not in text


@pytest.mark.parametrize("name", NAMES)
def test_no_text_can_become_markup(name: str) -> None:
    """No script parses markup or code from text, and no markup has inline script or style."""
    text = (STATIC / name).read_text()
    if name.endswith(".js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|Function\(", text
        )
    if name.endswith((".html", ".svg")):
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".js")])
def test_no_name_of_kafka_meets_what_objects_inherit(name: str) -> None:
    """A script fills no object that inherits, as `{}` does: it has a `constructor` before any topic of that name."""
    assert not re.search(r"[^=]=\s*\{\s*\};", (STATIC / name).read_text())


def test_every_file_is_used_and_every_used_file_is_there() -> None:
    """The files used by the page and its scripts are exactly the existing ones."""
    named = set(re.findall(r'"page/([^"]+)"', (STATIC / "index.html").read_text()))
    for script in STATIC.glob("*.js"):
        named |= set(re.findall(r'from "\./([^"]+)"', script.read_text()))
    assert named | {"index.html"} == set(NAMES)


def test_the_sets_of_the_page_are_those_of_the_contract() -> None:
    """After a change of a set, or of a colour shared by page and dashboards, run `make docs`."""
    assert (STATIC / "sets.js").read_text() == render()
    assert (STATIC / "colours.css").read_text() == colours.render()
