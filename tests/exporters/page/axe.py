"""axe-core, which finds what keeps people from using a page: fetched once, pinned by checksum, kept in the cache."""

from __future__ import annotations

import functools
import hashlib
import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from exporters.page.browser import Browser
from rebalance_deploy.jars import cache_directory

_VERSION = "4.10.3"
_URL = f"https://registry.npmjs.org/axe-core/-/axe-core-{_VERSION}.tgz"
_SHA256 = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
#: WCAG 2.2 up to level AA, and what axe holds for good practice.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@functools.cache
def script() -> str:
    """Return the checker's script. Skips the test where it is not in the cache and the registry cannot be reached."""
    kept = cache_directory() / "tools" / f"axe-{_VERSION}.min.js"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
            file.write(_fetch())
        Path(file.name).replace(kept)
    raw = kept.read_bytes()
    assert hashlib.sha256(raw).hexdigest() == _SHA256, f"{kept} is not axe-core {_VERSION}: delete it"
    return raw.decode()


def violations(browser: Browser) -> list[str]:
    """Return what axe objects to on the page as it is: rule, what is wrong, and where."""
    if not browser.run("return typeof axe === 'object'"):
        browser.run(script())
    found: list[dict[str, Any]] = browser.driver.execute_async_script(
        "const done = arguments[1]; axe.run(document, {runOnly: arguments[0]}).then((r) => done(r.violations))", _TAGS
    )  # type: ignore[no-untyped-call]
    return [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def _fetch() -> bytes:
    try:
        with urlopen(_URL, timeout=30) as answer:
            packed = answer.read()
    except (URLError, TimeoutError) as error:
        pytest.skip(f"axe-core is neither in the cache nor at {_URL}: {error}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read()
